//! Two arrays that replicate, under kills of either and over a network that fails: `lab::replication`; and what a synchronous write
//! takes.

use crate::conformance::programs;
use crate::setup;
use crate::shell::target_dir;
use anyhow::Result;
use lab::check::Amount;
use lab::replication::synchronous::{self, Latency};
use lab::{crash, replication};
use std::time::{Duration, Instant};

/// Round trips between both arrays, besides that of the machine itself.
const ROUND_TRIPS_MS: [u64; 3] = [0, 1, 5];

/// How many cycles.
#[derive(clap::Args)]
pub struct Args {
    /// Also verify the media of both arrays in the end
    #[arg(long)]
    check: bool,
    /// Cycles: each writes, transfers a point while something fails, and compares it
    #[arg(long, default_value_t = 100, conflicts_with = "sync")]
    cycles: u64,
    /// Instead: a synchronous replication; the latency of writes with 0, 1 and 5 ms of round trip, and that none is lost with the source
    #[arg(long)]
    sync: bool,
    /// With --sync: how many writes are measured for each round trip
    #[arg(long, default_value_t = 300, requires = "sync")]
    writes: u64,
    /// Replays a run, as far as the arrays' timing allows; without it the clock is used
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the cycles; the first fault ends them.
pub fn run(args: &Args) -> Result<()> {
    setup::need(&["libiscsi-bin"])?;
    let seed = args.seed.unwrap_or_else(crash::new_seed);
    if args.sync {
        return measure(args, seed);
    }
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

/// Measures writes in sync, beside max(source, target + round trip).
fn measure(args: &Args, seed: u64) -> Result<()> {
    println!(
        "synchronous replication: {} writes of 4 KiB for each line, one at a time, seed {seed}",
        args.writes
    );
    let round_trips = ROUND_TRIPS_MS.map(Duration::from_millis);
    let sizes = (seed, args.writes);
    let found = synchronous::run(&programs()?, &target_dir(), sizes, &round_trips, args.check)?;
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let line = |what: &str, latency: Latency| {
        println!("{what:24} median {:7.3} ms, 99 % {:7.3} ms", ms(latency.median), ms(latency.p99));
    };
    line("source alone", found.source);
    line("target alone", found.target);
    for (round_trip, latency) in found.in_sync {
        line(&format!("in sync, {} ms", round_trip.as_millis()), latency);
        let least = found.source.median.max(found.target.median + round_trip);
        println!(
            "{:24} max(source, target + round trip) is {:.3} ms: {:+.3} ms, {:.2} times",
            "",
            ms(least),
            ms(latency.median) - ms(least),
            latency.median.as_secs_f64() / least.as_secs_f64()
        );
    }
    println!("{} writes were acknowledged in all: the promoted target had every one", found.acknowledged);
    let amount = Amount { seed, rounds: 2, answers: 10 * args.writes, reservations: false, plant: false };
    let report = synchronous::check(&programs()?, &target_dir(), amount)?;
    println!("block checker, the source killed, the target promoted: {report}");
    Ok(())
}
