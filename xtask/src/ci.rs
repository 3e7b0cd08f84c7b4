//! What the continuous integration runs.

use crate::{setup, sim, test};
use anyhow::Result;

/// What changes from day to day.
#[derive(clap::Args)]
pub struct Args {
    /// The day whose seeds the simulation takes, such as 2026-11-21
    #[arg(long, value_name = "DATE", default_value = "today")]
    day: String,
}

/// Installs what is missing, then everything that must pass, then worlds that no day before has seen.
pub fn run(args: &Args) -> Result<()> {
    setup::need_for_test()?;
    test::run(&test::Args::default())?;
    sim::fresh(&args.day)
}
