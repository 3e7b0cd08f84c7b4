//! The verbs of the lab, the same for `cargo xtask lab` and for `ashlar-lab`.

use crate::ideal::{self, TOLERANCE};
use anyhow::{Result, ensure};

/// What the lab can do.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// The host model against an ideal array in memory, in virtual time: what is found must be what was calculated
    Calibrate,
}

impl Verb {
    /// Does it.
    pub fn perform(&self) -> Result<()> {
        match self {
            Verb::Calibrate => calibrate(),
        }
    }
}

/// Prints every check, and fails when one is further off than [`TOLERANCE`].
fn calibrate() -> Result<()> {
    let checks = ideal::calibrate();
    println!("{:<60}{:>14}{:>14}{:>11}  unit", "check", "expected", "measured", "deviation");
    for check in &checks {
        println!(
            "{:<60}{:>14.3}{:>14.3}{:>+10.2}%  {}",
            check.name,
            check.expected,
            check.found,
            check.deviation() * 100.0,
            check.unit
        );
    }
    let missed = checks.iter().filter(|check| check.misses()).count();
    println!("{} checks, {missed} further off than {:.0} %", checks.len(), TOLERANCE * 100.0);
    ensure!(missed == 0, "{missed} checks missed what was calculated");
    Ok(())
}
