//! Seeded worlds of crashing drives around the real engine and store: `proof/sim`.

use crate::coverage;
use crate::shell::{command, exec, release_binary, test_binaries};
use anyhow::{Context, Result};

/// Which worlds.
#[derive(clap::Args)]
pub struct Args {
    /// The first seed
    #[arg(long, default_value_t = 0, conflicts_with = "day")]
    from: u64,
    /// Begin at the seeds of this day instead, such as 2026-11-21 or `today` (UTC): other seeds every day, and
    /// still the same ones for everybody who names that day
    #[arg(long, value_name = "DATE", value_parser = seeds_of_day)]
    day: Option<u64>,
    /// How many seeds from there on
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// One world: shelf, array, out-of-space, bit-rot, drive-failures, retention, lost-writes, drive-changes,
    /// rados, cluster, shared-drives, large-writes, encrypted, replication, synchronous, repair, management, takeover or upgrade; all without one. Older names (full, rot,
    /// dead, kept, lies) are accepted
    #[arg(long)]
    world: Option<String>,
    /// How internal limits are chosen: `drawn` by each seed, or `measured`, those of the product, with which older seeds
    /// were found
    #[arg(long, value_name = "HOW")]
    bounds: Option<String>,
    /// Built for speed, without overflow checks: for many seeds
    #[arg(long)]
    release: bool,
    /// Instead: which code of the engine and the drives' layer no seed of any world runs
    #[arg(long, conflicts_with_all = ["world", "bounds", "release", "jobs"])]
    coverage: bool,
    /// Threads, each with worlds of its own; as many as there are processors without a number
    #[arg(long)]
    jobs: Option<u64>,
}

/// Seeds from which one day's end and the next day's begin.
const SEEDS_A_DAY: u64 = 1_000_000;

/// Runs the worlds.
pub fn run(args: &Args) -> Result<()> {
    if args.coverage {
        return coverage::run(args.day.unwrap_or(args.from), args.seeds);
    }
    let binary = if args.release { release_binary("sim", "sim")? } else { test_binaries()?.join("sim") };
    let binary = binary.to_str().context("a path that is text")?;
    let (from, seeds) = (args.day.unwrap_or(args.from).to_string(), args.seeds.to_string());
    let mut words = vec!["--from", &from, "--seeds", &seeds];
    if let Some(world) = &args.world {
        words.extend(["--world", world]);
    }
    if let Some(bounds) = &args.bounds {
        words.extend(["--bounds", bounds]);
    }
    let jobs = args.jobs.map(|jobs| jobs.to_string());
    if let Some(jobs) = &jobs {
        words.extend(["--jobs", jobs]);
    }
    exec(&mut command(binary, &words))
}

/// What `cargo xtask test` runs: the same seeds every time.
pub fn short() -> Result<()> {
    run(&Args {
        from: 0,
        day: None,
        seeds: 50,
        world: None,
        bounds: None,
        release: false,
        coverage: false,
        jobs: None,
    })
}

/// What `cargo xtask ci` runs besides: seeds that no day before had.
pub fn fresh(day: &str) -> Result<()> {
    let day = seeds_of_day(day).map_err(anyhow::Error::msg)?;
    run(&Args {
        from: 0,
        day: Some(day),
        seeds: 300,
        world: None,
        bounds: None,
        release: false,
        coverage: false,
        jobs: None,
    })
}

/// What `cargo xtask soak` repeats.
pub fn soak(from: u64, seeds: u64) -> Result<()> {
    run(&Args {
        from,
        day: None,
        seeds,
        world: None,
        bounds: None,
        release: true,
        coverage: false,
        jobs: None,
    })
}

/// The first seed of a day given as YYYY-MM-DD, or of today.
fn seeds_of_day(day: &str) -> Result<u64, String> {
    if day == "today" {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        return Ok(now.unwrap_or_default().as_secs() / 86400 * SEEDS_A_DAY);
    }
    let parts: Vec<u64> = day.split('-').filter_map(|part| part.parse().ok()).collect();
    let [year @ 1970..=9999, month @ 1..=12, date @ 1..=31] = parts[..] else {
        return Err(format!("{day} is not a day such as 2026-11-21"));
    };
    // Days since 1970-01-01 in the Gregorian calendar, years counted from March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + date;
    Ok((days - 719_469) * SEEDS_A_DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_its_own_seeds() {
        assert_eq!(seeds_of_day("1970-01-01"), Ok(0));
        assert_eq!(seeds_of_day("2026-11-21"), Ok(20_778 * SEEDS_A_DAY));
        assert_eq!(seeds_of_day("2024-03-01"), Ok(19_783 * SEEDS_A_DAY));
        assert!(seeds_of_day("tomorrow").is_err());
        assert!(seeds_of_day("2026-13-01").is_err());
    }
}
