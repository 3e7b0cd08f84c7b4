//! Strangers at every listener of the array: `lab::strangers`.

use crate::conformance::programs;
use crate::shell::target_dir;
use anyhow::Result;
use lab::strangers::{Options, run as run_rows};
use std::time::Duration;

/// Which attacks at which listeners.
#[derive(clap::Args)]
pub struct Args {
    /// Only rows whose name, such as "API / idle", contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Each attack once, without measuring what a host waits
    #[arg(long, conflicts_with = "seconds")]
    short: bool,
    /// How long each attack is repeated while a host is measured
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Replays what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the rows; the first fault ends them.
pub fn run(args: &Args) -> Result<()> {
    let time = (!args.short).then(|| Duration::from_secs(args.seconds));
    let options = Options { only: args.only.clone(), time, seed: args.seed };
    run_rows(&programs()?, &target_dir(), &options)
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<()> {
    run(&Args { only: String::new(), short: true, seconds: 0, seed: 1 })
}
