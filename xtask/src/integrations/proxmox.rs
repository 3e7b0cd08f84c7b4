//! The Proxmox VE plug-in: contract tests against a stub of the plug-in base, a model of a node and the real daemon.

use super::{folder, number_after};
use crate::shell::command;
use crate::test::Tally;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Runs `prove`.
pub fn test(programs: &Path) -> Result<Tally> {
    let mut prove = command("prove", &["-j2", "-Ilib", "-It/lib", "t"]);
    let output = prove.current_dir(folder("proxmox")).env("ASHLARD", programs.join("ashlard")).output();
    let output = output.context("prove can't be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("tests of the plug-in failed; see above");
    }
    Ok(Tally { passed: number_after(&said, "Tests=")?, ..Tally::default() })
}
