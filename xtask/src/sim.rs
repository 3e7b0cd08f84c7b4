//! Seeded worlds of crashing drives around the real engine and shelf: `proof/sim`.

use anyhow::{Result, bail};

/// Which worlds.
#[derive(clap::Args)]
pub struct Args {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds from there on
    #[arg(long, default_value_t = 1000)]
    count: u64,
}

/// Runs the worlds.
pub fn run(args: &Args) -> Result<()> {
    bail!("no worlds yet to run {} seeds from {} in", args.count, args.seed)
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<()> {
    run(&Args { seed: 0, count: 50 })
}
