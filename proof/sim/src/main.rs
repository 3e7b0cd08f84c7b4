//! Runs worlds on all cores: `sim [--world NAME] [--from SEED] [--seeds N] [--jobs N] [--bounds
//! drawn|drawn-engine|measured]`.

use engine::SpaceRefusals;
use sim::{Bounds, Report, World, replay, run_with};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

struct Options {
    worlds: Vec<World>,
    from: u64,
    seeds: u64,
    jobs: u64,
    bounds: Bounds,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(word) => {
            eprintln!(
                "not understood: {word}\nsim [--world NAME] [--from SEED] [--seeds N] [--jobs N] [--bounds drawn|drawn-engine|measured]; worlds:"
            );
            World::all().for_each(|world| eprintln!("  {:15} {}", world.name(), world.gloss()));
            return ExitCode::from(2);
        }
    };
    let mut failed = Vec::new();
    for world in &options.worlds {
        let (sum, mut wrong) = perform(*world, &options);
        println!(
            "{}: {} seeds from {}: {} operations, {} drive requests, {} lost or misdirected writes, {} crashes, {} failed",
            world.name(),
            options.seeds,
            options.from,
            sum.operations,
            sum.requests,
            sum.write_faults,
            sum.crashes,
            wrong.len()
        );
        if sum.refusals != SpaceRefusals::default() {
            println!("    {:?}", sum.refusals);
        }
        if sum.drives_added + sum.drives_failed + sum.slow_drives > 0 {
            println!(
                "    {} drives added, {} evacuations, {} drives failed, {} found slow",
                sum.drives_added, sum.evacuations, sum.drives_failed, sum.slow_drives
            );
        }
        if sum.key_changes > 0 {
            println!("    {} changes of the key", sum.key_changes);
        }
        if sum.images > 0 {
            println!("    {} images", sum.images);
        }
        if sum.repairs > 0 {
            println!("    {} repairs, {} of them with lost blocks", sum.repairs, sum.losses);
        }
        if sum.takeovers > 0 {
            println!(
                "    {} takeovers, the longest {} ms; {} changes by operators",
                sum.takeovers, sum.longest_takeover_ms, sum.settled
            );
        }
        if sum.promotions + sum.consents > 0 {
            println!(
                "    a witness let {} targets go on, and {} times a source alone",
                sum.promotions, sum.consents
            );
        }
        if sum.resolved + sum.unresolved > 0 {
            println!("    {} recipes resolved, {} not any more", sum.resolved, sum.unresolved);
        }
        wrong.sort_unstable();
        failed.extend(wrong.into_iter().map(|seed| format!("{} {seed}", world.name())));
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let worlds = World::all().collect();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut options = Options { worlds, from: 0, seeds: 100, jobs, bounds: Bounds::Drawn };
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        let known = match word.as_str() {
            "--world" => World::by_name(&value).map(|world| options.worlds = vec![world]),
            "--bounds" => Bounds::by_name(&value).map(|bounds| options.bounds = bounds),
            "--from" => value.parse().ok().map(|value| options.from = value),
            "--seeds" => value.parse().ok().map(|value| options.seeds = value),
            "--jobs" => value.parse().ok().map(|value| options.jobs = value),
            _ => None,
        };
        known.ok_or_else(|| format!("{word} {value}"))?;
    }
    Ok(options)
}

/// Runs all seeds of a world, each on one thread; returns the failed seeds.
fn perform(world: World, options: &Options) -> (Report, Vec<u64>) {
    let (next, result) = (AtomicU64::new(0), Mutex::new((Report::default(), Vec::new())));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= options.seeds {
                        return;
                    }
                    let seed = options.from + index;
                    let outcome = catch_unwind(AssertUnwindSafe(|| run_with(world, seed, options.bounds)));
                    let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(Ok(report)) => result.0.add(&report),
                        Ok(Err(failure)) => {
                            eprintln!("{failure}");
                            result.1.push(seed);
                        }
                        Err(_) => {
                            let (name, replay) = (world.name(), replay(world, seed, options.bounds));
                            eprintln!("world {name}, seed {seed}: panicked\nreplay: {replay}");
                            result.1.push(seed);
                        }
                    }
                }
            });
        }
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}
