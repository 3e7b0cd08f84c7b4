//! The Cinder driver: its own tests, and Cinder's compliance and functional suites with it, against the real daemon.

use super::{folder, left_out, number_after};
use crate::shell::{capture, command, exec, root};
use crate::test::Tally;
use crate::{openapi, python};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release whose suites are run, and what they import that Cinder itself does not need.
const VERSION: &str = "29.0.0";
pub(super) const MORE: &[&str] = &["ddt", "fixtures", "oslotest", "stestr", "testscenarios", "testtools"];

const SHORT: &[&str] = &["tests.test_live", "tests.test_compliance"];
const LONG: &[&str] = &["tests.test_live", "tests.test_compliance", "tests.test_functional"];

/// All suites. Installs Cinder.
pub fn long(programs: &Path) -> Result<Tally> {
    match python::environment_with("cinder", VERSION, MORE)? {
        Some(environment) => run(&environment, programs, LONG),
        None => Ok(left_out("cinder", "python3-venv is not installed")),
    }
}

/// Without the functional suite, which takes minutes.
pub fn short(programs: &Path) -> Result<Tally> {
    match python::existing("cinder", VERSION) {
        Some(environment) => run(&environment, programs, SHORT),
        None => Ok(left_out("cinder", "`cargo xtask integrations cinder` installs Cinder for it")),
    }
}

/// Puts os-brick, and what uses it as Nova does, into a folder for a node.
pub fn on_node(node: &Path) -> Result<()> {
    // Links take no time and no space; the environment is on the same file system.
    exec(command("cp", &["-rl"]).arg(packages(&environment()?)?).arg(node))?;
    exec(command("cp", &[]).arg(folder("cinder").join("tests/node.py")).arg(node))
}

/// One call of the driver for an array that listens on a port of this machine; `words` are those of `tests/brick.py`.
pub fn call(port: &str, token: &str, certificate: &Path, words: &[&str]) -> Result<String> {
    let python = environment()?.join("bin/python");
    let mut call = command(&python.to_string_lossy(), &["-W", "ignore", "-m", "tests.brick", port, token]);
    call.arg(certificate).args(words).current_dir(folder("cinder")).env("PYTHONDONTWRITEBYTECODE", "1");
    capture(&mut call)
}

fn environment() -> Result<PathBuf> {
    python::environment_with("cinder", VERSION, MORE)?.context("python3-venv is not installed")
}

fn run(environment: &Path, programs: &Path, suites: &[&str]) -> Result<Tally> {
    let packages = packages(environment)?;
    // The functional suite looks for this beside the packages; the wheel has it beside their environment.
    let etc = packages.join("etc");
    if !etc.exists() {
        std::os::unix::fs::symlink(environment.join("etc"), &etc).context("a link to Cinder's etc")?;
    }
    let python = environment.join("bin/python");
    let mut tests = command(&python.to_string_lossy(), &["-W", "ignore", "-m", "unittest"]);
    // Cinder's list of drivers is made by walking the working directory.
    tests.args(suites).current_dir(&packages).env("PYTHONPATH", folder("cinder"));
    tests.env("ASHLAR_OPENAPI", root().join(openapi::DESCRIPTION));
    tested(&mut tests, programs, suites)
}

/// Runs tests of Python's unittest that start daemons, and counts them.
pub(super) fn tested(tests: &mut Command, programs: &Path, suites: &[&str]) -> Result<Tally> {
    tests.env("PYTHONDONTWRITEBYTECODE", "1").env("ASHLARD", programs.join("ashlard"));
    let output = tests.output().context("the tests can't be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{said}");
        bail!("tests of the driver failed; see above");
    }
    println!("{}: {} passed", suites.join(", "), number_after(&said, "Ran ")?);
    let skipped = number_after(&said, "skipped=").unwrap_or_default();
    Ok(Tally { passed: number_after(&said, "Ran ")? - skipped, skipped, ..Tally::default() })
}

/// The folder that packages are installed in.
pub(super) fn packages(environment: &Path) -> Result<PathBuf> {
    let versions = std::fs::read_dir(environment.join("lib"))?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("site-packages")));
    folders.filter(|path| path.exists()).max().context("the environment has no packages")
}
