//! Long runs with new inputs: simulated worlds, kills of the running array, and fuzzing, for a given time. `test` has the short forms with fixed inputs.

use crate::{crash, fuzz, sim};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Duration and first seed.
#[derive(clap::Args)]
pub struct Args {
    /// Minutes in all: half for simulated worlds, a quarter each for kills and for fuzzing
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// First seed of the simulated worlds; without it the clock chooses
    #[arg(long)]
    from: Option<u64>,
}

/// Seeds of each world per round.
const SEEDS_PER_ROUND: u64 = 20;
/// Kills per round.
const KILLS_PER_ROUND: u64 = 10;
/// Kills during changes of the configuration, after the kills under load.
const CONFIGURATION_KILLS: u64 = 50;

/// Runs until the time is over; the first failure ends it.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.minutes > 0, "--minutes must be at least 1");
    let total = Duration::from_secs(args.minutes * 60);
    let from = args.from.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() * 1000
    });
    println!("soak: {} minutes, simulated worlds from seed {from}", args.minutes);

    let mut seeds = 0;
    until(total / 2, || {
        sim::soak(from + seeds, SEEDS_PER_ROUND)?;
        seeds += SEEDS_PER_ROUND;
        Ok(())
    })?;
    let mut kills = 0;
    until(total / 4, || {
        crash::soak(KILLS_PER_ROUND)?;
        kills += KILLS_PER_ROUND;
        Ok(())
    })?;
    crash::configuration(CONFIGURATION_KILLS)?;
    let fuzzed = fuzz::soak(total / 4)?;
    println!(
        "soak: {seeds} seeds of each world, {kills} kills under load, {CONFIGURATION_KILLS} kills during changes of the \
         configuration, {} s of each of {} fuzz targets: no failure",
        fuzzed.seconds, fuzzed.targets
    );
    Ok(())
}

/// Repeats a round until the time is over; at least once.
fn until(time: Duration, mut round: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        round()?;
        if start.elapsed() >= time {
            return Ok(());
        }
    }
}
