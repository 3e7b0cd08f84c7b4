//! Kill -9 cycles of the running array under writes whose acknowledgements are recorded: `lab::crash`.

use crate::conformance::programs;
use crate::setup;
use crate::shell::{cargo, exec, target_dir};
use anyhow::Result;
use lab::check::{self, Amount};
use lab::crash::{self, Options};
use std::time::Instant;

/// Commands before each kill of the block checker, at most.
const CHECKED_COMMANDS: u64 = 4000;

/// How many kills.
#[derive(clap::Args)]
pub struct Args {
    /// Kills
    #[arg(long, default_value_t = 200)]
    cycles: u64,
    /// Replays a run, as far as the array's timing allows; without it the clock is used
    #[arg(long)]
    seed: Option<u64>,
    /// Then: this number of kills under the commands of several hosts by iSCSI and NVMe/TCP, by the block checker
    #[arg(long, value_name = "KILLS", default_value_t = 20)]
    hosts: u64,
    /// Instead: this number of kills during changes of the configuration
    #[arg(long, value_name = "KILLS", conflicts_with_all = ["cycles", "seed"])]
    configuration: Option<u64>,
}

/// Runs the cycles; the first fault ends them.
pub fn run(args: &Args) -> Result<()> {
    if let Some(kills) = args.configuration {
        return configuration(kills);
    }
    setup::need(&["libiscsi-bin"])?;
    let seed = args.seed.unwrap_or_else(crash::new_seed);
    println!("crash: {} cycles, seed {seed}", args.cycles);
    let start = Instant::now();
    let report = crash::run(&programs()?, &target_dir(), Options::new(args.cycles, seed))?;
    println!(
        "{} kills in {} s ({} with starved processors, {} of an idle array): {} operations acknowledged, {} \
         unanswered, {} snapshot commands, {} blocks compared; 0 lost, 0 torn; slowest start {} ms",
        report.cycles,
        start.elapsed().as_secs(),
        report.starved,
        report.idle,
        report.acknowledged,
        report.unanswered,
        report.chores,
        report.verified,
        report.slowest_start.as_millis()
    );
    check(args.hosts, seed)
}

/// Kills under the commands of several hosts: one order has to explain what they saw.
fn check(kills: u64, seed: u64) -> Result<()> {
    let amount = Amount { seed, rounds: kills, answers: CHECKED_COMMANDS, reservations: true, plant: false };
    let report = check::on_own(&programs()?, &target_dir(), amount, true)?;
    println!("block checker, {kills} kills: {report}");
    Ok(())
}

/// Runs the daemon's test with this number of kills; `cargo test` runs it with few.
pub fn configuration(kills: u64) -> Result<()> {
    let mut test = cargo(&["test", "--quiet", "--workspace", "--test", "daemon", "--", "--nocapture"]);
    exec(test.arg("killed_in_the_middle_of_changes").env("ASHLAR_KILLS", kills.to_string()))
}

/// What `cargo xtask soak` repeats.
pub fn soak(cycles: u64) -> Result<()> {
    run(&Args { cycles, seed: None, hosts: cycles.div_ceil(10), configuration: None })
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<()> {
    run(&Args { cycles: 10, seed: None, hosts: 2, configuration: None })
}
