//! The array and tgt side by side on the same disk, as ratios: absolute figures say more about the machine. And the
//! engine by itself, on drives in memory: `proof/bench`.

use crate::conformance::programs;
use crate::setup;
use crate::shell::{command, exec, release_binary, target_dir};
use anyhow::{Context, Result, bail};
use lab::bench::{self, Options, Row};
use lab::load::{Content, Order};
use std::time::Duration;

/// How to measure.
#[derive(clap::Args)]
pub struct Args {
    /// `engine`: the engine alone, without network, on drives in memory; without it the array against tgt
    #[arg(value_enum)]
    what: Option<What>,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Seconds of each run
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Runs of each load on each target; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// What is written
    #[arg(long, value_enum, default_value = "half")]
    data: Data,
    /// MiB of the volume that are used
    #[arg(long, default_value_t = 1024)]
    span: u64,
    /// Fail when a promise in docs/benchmarks.md is not kept
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// The engine alone
    Engine,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Data {
    /// Compresses to half, no duplicates
    Half,
    /// Does not compress
    Random,
    /// 64 different blocks
    Duplicate,
}

/// Random operations at depth per processor second, as a multiple of tgt's; docs/benchmarks.md says what is aimed at.
const RATIO_MIN: f64 = 1.0;

/// Measures and prints the table of docs/benchmarks.md.
pub fn run(args: &Args) -> Result<()> {
    if let Some(What::Engine) = args.what {
        return engine(args);
    }
    setup::need(&["tgt", "libiscsi-bin"])?;
    let content = match args.data {
        Data::Half => Content::Half,
        Data::Random => Content::Random,
        Data::Duplicate => Content::Duplicate,
    };
    let options = Options {
        time: Duration::from_secs(args.seconds),
        rounds: args.rounds,
        content,
        span: args.span << 20,
        target_core: 0,
        client_core: 1,
    };
    let rows = bench::run(&programs()?, &target_dir(), options, &args.only)?;
    print(&rows);
    if args.check {
        return check(&rows);
    }
    Ok(())
}

fn engine(args: &Args) -> Result<()> {
    let binary = release_binary("bench", "bench")?;
    let mut words = vec!["--only", &args.only];
    if args.check {
        words.push("--check");
    }
    exec(&mut command(binary.to_str().context("a path that is text")?, &words))
}

fn print(rows: &[Row]) {
    println!(
        "| load | IOPS, × tgt | I/O per CPU second, × tgt | CPU µs per I/O | tgt's | p50, × tgt | p99, × tgt |"
    );
    println!("|---|---|---|---|---|---|---|");
    // Not every client tells latencies.
    let ratio = |a: f64, b: f64| if (a / b).is_nan() { "–".to_owned() } else { format!("{:.2}", a / b) };
    for Row { name, ours, peer, .. } in rows {
        println!(
            "| {name} | {} | {} | {:.1} | {:.1} | {} | {} |",
            ratio(ours.iops, peer.iops),
            ratio(peer.cpu_us, ours.cpu_us),
            ours.cpu_us,
            peer.cpu_us,
            ratio(ours.p50_us, peer.p50_us),
            ratio(ours.p99_us, peer.p99_us)
        );
    }
}

/// Only what does not depend on the machine's disk is promised.
fn check(rows: &[Row]) -> Result<()> {
    for Row { name, load, ours, peer } in rows {
        let promised = load.order == Order::Random && load.depth > 1;
        let ratio = peer.cpu_us / ours.cpu_us;
        if promised && ratio < RATIO_MIN {
            bail!("{name}: {ratio:.2} times tgt's I/O per CPU second, {RATIO_MIN} are promised");
        }
    }
    Ok(())
}
