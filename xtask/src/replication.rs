//! Two arrays that replicate, under kills of either and over a network that fails: `lab::replication`.

use crate::conformance::programs;
use crate::setup;
use crate::shell::target_dir;
use anyhow::Result;
use lab::{crash, replication};
use std::time::Instant;

/// How many cycles.
#[derive(clap::Args)]
pub struct Args {
    /// Also verify the media of both arrays in the end
    #[arg(long)]
    check: bool,
    /// Cycles: each writes, transfers a point while something fails, and compares it
    #[arg(long, default_value_t = 100)]
    cycles: u64,
    /// Replays a run, as far as the arrays' timing allows; without it the clock is used
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the cycles; the first fault ends them.
pub fn run(args: &Args) -> Result<()> {
    setup::need(&["libiscsi-bin"])?;
    let seed = args.seed.unwrap_or_else(crash::new_seed);
    println!("replication: {} cycles, seed {seed}", args.cycles);
    let start = Instant::now();
    let report = replication::run(&programs()?, &target_dir(), args.cycles, seed, args.check)?;
    let [source, target] = report.kills;
    println!(
        "{} writes acknowledged, {} points compared in {} s; {source} kills of the source, {target} of the target, {} \
         connections disturbed, direction reversed {} times: every point was a prefix of the writes",
        report.acknowledged,
        report.points,
        start.elapsed().as_secs(),
        report.disturbed,
        report.reversed
    );
    Ok(())
}
