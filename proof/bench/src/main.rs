//! What the engine costs by itself: no network, drives in memory, one thread that does the foreground and the
//! background. The figures are processor time, so they hold on a machine that does other things as well.

mod data;
mod drives;
mod rig;
mod rows;

use clap::Parser;
use rows::{Bound, Row};
use std::process::ExitCode;

/// Measures the engine on drives in memory and prints a table
#[derive(Parser)]
struct Args {
    /// Fail when a row misses its aim
    #[arg(long)]
    check: bool,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    println!("| what | aim | result | |");
    println!("|---|---|---|---|");
    let mut missed = 0;
    for measure in rows::ALL.iter().chain(drives::ALL) {
        if !measure.name.contains(&args.only) {
            continue;
        }
        for Row { name, bound, result, unit, note } in (measure.run)(measure.name) {
            let (aim, kept) = match bound {
                Bound::AtMost(most) => (format!("≤ {most} {unit}"), result <= most),
                Bound::AtLeast(least) => (format!("≥ {least} {unit}"), result >= least),
                Bound::None => ("–".to_owned(), true),
            };
            missed += u32::from(!kept);
            println!(
                "| {name} | {aim} | {result:.2} {unit} | {}{note} |",
                if kept { "" } else { "missed; " }
            );
        }
    }
    if args.check && missed > 0 {
        eprintln!("{missed} rows missed their aims");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
