//! The server for existing clients of other arrays: its own tests, and those clients, unmodified, against real daemons.

use super::{cinder, folder, go, left_out};
use crate::python;
use crate::shell::command;
use crate::test::Tally;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The clients: of FlashArray, and, with what Cinder's own tests import, of K2 arrays and the release of Cinder whose drivers use
/// both.
const CLIENT: (&str, &str) = ("py-pure-client", "1.96.0");
const MORE: &[&str] = &["krest==1.3.8", "cinder==29.0.0"];

/// The last release of Ansible whose collection for FlashArray gets along with the version of the interface that is served, and what
/// the collection needs.
const ANSIBLE: (&str, &str) = ("ansible", "11.12.0");
const ANSIBLE_MORE: &[&str] = &["distro", "netaddr", "pycountry", "pytz", "urllib3"];

const SHORT: &[&str] = &[
    "client_tests.test_k2.KrestTest",
    "client_tests.test_k2.DriverTest",
    "client_tests.test_k2.FibreChannelTest",
    "client_tests.test_flash",
];
const LONG: &[&str] = &["client_tests.test_k2", "client_tests.test_flash"];
const PLAYBOOKS: &[&str] = &["client_tests.test_ansible"];

/// All tests. Installs the clients.
pub fn long(programs: &Path) -> Result<Tally> {
    let more: Vec<_> = MORE.iter().chain(cinder::MORE).copied().collect();
    let Some(environment) = python::environment_with(CLIENT.0, CLIENT.1, &more)? else {
        return Ok(left_out("dialect", "python3-venv is not installed"));
    };
    let client = format!("{}=={}", CLIENT.0, CLIENT.1);
    let more: Vec<_> = ANSIBLE_MORE.iter().copied().chain([client.as_str()]).collect();
    let ansible = python::environment_with(ANSIBLE.0, ANSIBLE.1, &more)?.context("python3-venv")?;
    let mut all = with_clients(programs, &environment, LONG)?;
    let mut tests = client_tests(&environment, PLAYBOOKS)?;
    all.add(&cinder::tested(tests.env("ANSIBLE", ansible), programs, PLAYBOOKS)?);
    Ok(all)
}

/// Without replication and playbooks, whose tests take a minute each, and without clients that were not installed before.
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
    all.add(&cinder::tested(&mut client_tests(environment, suites)?, programs, suites)?);
    Ok(all)
}

/// Tests in Python of a server that is built for them.
fn client_tests(environment: &Path, suites: &[&str]) -> Result<Command> {
    let server = go::build_dialect()?;
    let python = environment.join("bin/python");
    let mut tests = command(&python.to_string_lossy(), &["-W", "ignore", "-m", "unittest"]);
    let path = std::env::join_paths([folder("dialect"), folder("cinder")]).context("the path of packages")?;
    tests.args(suites).current_dir(cinder::packages(environment)?).env("PYTHONPATH", path);
    tests.env("ASHLAR_DIALECT", server);
    Ok(tests)
}
