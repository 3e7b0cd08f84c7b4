//! Runs worlds: `sim [--world NAME] [--from SEED] [--seeds N]`.

use sim::{World, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut worlds: Vec<World> = World::ALL.iter().map(|(_, world)| *world).collect();
    let (mut from, mut seeds) = (0, 100);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        let known = match word.as_str() {
            "--world" => World::by_name(&value).map(|world| worlds = vec![world]),
            "--from" => value.parse().ok().map(|value| from = value),
            "--seeds" => value.parse().ok().map(|value| seeds = value),
            _ => None,
        };
        if known.is_none() {
            let names = World::ALL.map(|(name, _)| name).join(", ");
            eprintln!(
                "not understood: {word} {value}\nsim [--world NAME] [--from SEED] [--seeds N]; worlds: {names}"
            );
            return ExitCode::from(2);
        }
    }
    let mut failed = 0;
    for world in worlds {
        let name = World::ALL.iter().find(|(_, known)| *known == world).map_or("", |(name, _)| name);
        let mut sum = sim::Report::default();
        for seed in from..from + seeds {
            match run(world, seed) {
                Ok(report) => {
                    sum.operations += report.operations;
                    sum.requests += report.requests;
                    sum.crashes += report.crashes;
                }
                Err(failure) => {
                    failed += 1;
                    eprintln!("{failure}");
                }
            }
        }
        println!(
            "{name}: {seeds} seeds from {from}: {} operations, {} drive requests, {} crashes",
            sum.operations, sum.requests, sum.crashes
        );
    }
    if failed > 0 {
        eprintln!("{failed} seeds failed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
