//! The PowerShell scripts for hosts with Windows: parsed, and what they send compared with the description of the API. There
//! is no Windows to run them on.

use super::{folder, left_out, number_after};
use crate::python;
use crate::shell::{capture, command, root};
use crate::test::Tally;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The grammar that they are parsed by, its version, and the program that reads it.
const GRAMMAR: (&str, &str) = ("tree-sitter-powershell", "0.26.4");
const PARSER: &str = "tree-sitter==0.26.1";

/// Installs the grammar.
pub fn long(_: &Path) -> Result<Tally> {
    check(install_grammar()?)
}

/// Only where the grammar was installed before.
pub fn short(_: &Path) -> Result<Tally> {
    check(grammar())
}

/// A Python environment with the grammar of PowerShell, installed if it is not there.
pub fn install_grammar() -> Result<Option<PathBuf>> {
    python::environment_with(GRAMMAR.0, GRAMMAR.1, &[PARSER])
}

/// The same if it was installed before.
pub fn grammar() -> Option<PathBuf> {
    python::existing(GRAMMAR.0, GRAMMAR.1)
}

fn check(environment: Option<PathBuf>) -> Result<Tally> {
    let Some(environment) = environment else {
        return Ok(left_out("windows", &format!("{} is not installed", GRAMMAR.0)));
    };
    let scripts = folder("windows");
    let python = environment.join("bin/python");
    let mut check = command(&python.to_string_lossy(), &[]);
    check.arg(scripts.join("check.py")).arg(root().join("openapi/array.json"));
    for entry in std::fs::read_dir(&scripts)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "ps1" || kind == "psm1") {
            check.arg(path);
        }
    }
    let said = capture(&mut check).context("the scripts for Windows")?;
    print!("{said}");
    Ok(Tally { passed: number_after(&said, "Checked ")?, ..Tally::default() })
}
