//! Seeded worlds of crashing drives around the real engine and shelf: `proof/sim`.

use crate::shell::{command, exec, release_binary};
use anyhow::{Context, Result};

/// Which worlds.
#[derive(clap::Args)]
pub struct Args {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many seeds from there on
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// One world: shelf, array, full, rot or dead; all without one
    #[arg(long)]
    world: Option<String>,
}

/// Runs the worlds.
pub fn run(args: &Args) -> Result<()> {
    let binary = release_binary("sim", "sim")?;
    let binary = binary.to_str().context("a path that is text")?;
    let (from, seeds) = (args.from.to_string(), args.seeds.to_string());
    let mut words = vec!["--from", &from, "--seeds", &seeds];
    if let Some(world) = &args.world {
        words.extend(["--world", world]);
    }
    exec(&mut command(binary, &words))
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<()> {
    run(&Args { from: 0, seeds: 50, world: None })
}
