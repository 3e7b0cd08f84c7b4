//! The server for existing clients of other arrays: its own tests, and those clients, unmodified, against real daemons.

use super::{cinder, folder, go, left_out};
use crate::python;
use crate::shell::command;
use crate::test::Tally;
use anyhow::{Context, Result};
use std::path::Path;

/// The client of K2 arrays, and the release of Cinder whose driver uses it, with what Cinder's own tests import.
const KREST: (&str, &str) = ("krest", "1.3.8");
const CINDER: &str = "cinder==29.0.0";

const SHORT: &[&str] = &["k2_tests.test_k2.KrestTest", "k2_tests.test_k2.DriverTest"];
const LONG: &[&str] = &["k2_tests.test_k2"];

/// All tests. Installs the clients.
pub fn long(programs: &Path) -> Result<Tally> {
    let more: Vec<_> = std::iter::once(CINDER).chain(cinder::MORE.iter().copied()).collect();
    let Some(environment) = python::environment_with(KREST.0, KREST.1, &more)? else {
        return Ok(left_out("dialect", "python3-venv is not installed"));
    };
    with_clients(programs, &environment, LONG)
}

/// Without replication, whose tests take most of a minute, and without clients that were not installed before.
pub fn short(programs: &Path) -> Result<Tally> {
    match python::existing(KREST.0, KREST.1) {
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
