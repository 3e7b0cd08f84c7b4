//! The server for existing clients of other arrays: its own tests, and those clients, unmodified, against real daemons.

use super::{cinder, folder, go, left_out};
use crate::python;
use crate::shell::command;
use crate::test::Tally;
use anyhow::{Context, Result};
use std::path::Path;

/// The clients: of FlashArray, and, with what Cinder's own tests import, of K2 arrays and the release of Cinder whose drivers use
/// both.
const CLIENT: (&str, &str) = ("py-pure-client", "1.96.0");
const MORE: &[&str] = &["krest==1.3.8", "cinder==29.0.0"];

const SHORT: &[&str] =
    &["client_tests.test_k2.KrestTest", "client_tests.test_k2.DriverTest", "client_tests.test_flash"];
const LONG: &[&str] = &["client_tests.test_k2", "client_tests.test_flash"];

/// All tests. Installs the clients.
pub fn long(programs: &Path) -> Result<Tally> {
    let more: Vec<_> = MORE.iter().chain(cinder::MORE).copied().collect();
    let Some(environment) = python::environment_with(CLIENT.0, CLIENT.1, &more)? else {
        return Ok(left_out("dialect", "python3-venv is not installed"));
    };
    with_clients(programs, &environment, LONG)
}

/// Without replication, whose tests take most of a minute, and without clients that were not installed before.
pub fn short(programs: &Path) -> Result<Tally> {
    match python::existing(CLIENT.0, CLIENT.1) {
        Some(environment) => with_clients(programs, &environment, SHORT),
        None => {
            let mut all = go::dialect(programs)?;
            all.add(&left_out("dialect", "`cargo xtask integrations dialect` installs clients for it"));
            Ok(all)
        }
    }
}

fn with_clients(programs: &Path, environment: &Path, suites: &[&str]) -> Result<Tally> {
    let mut all = go::dialect(programs)?;
    let server = go::build_dialect()?;
    let python = environment.join("bin/python");
    let mut tests = command(&python.to_string_lossy(), &["-W", "ignore", "-m", "unittest"]);
    let path = std::env::join_paths([folder("dialect"), folder("cinder")]).context("the path of packages")?;
    tests.args(suites).current_dir(cinder::packages(environment)?).env("PYTHONPATH", path);
    tests.env("ASHLAR_DIALECT", server);
    all.add(&cinder::tested(&mut tests, programs, suites)?);
    Ok(all)
}
