//! CPU cost of the engine alone: no network, drives in memory, one thread for foreground and background.
//!
//! The figures are processor time, so they hold on a machine that does other things as well.

mod aging;
mod allocator;
mod data;
mod drives;
mod recover;
mod reduction;
mod rig;
mod rows;
mod shards;
mod snapshots;

use clap::Parser;
use rows::{Bound, Measure, Row};
use std::process::ExitCode;

/// Measures the engine on drives in memory and prints a table
#[derive(Parser)]
struct Args {
    /// Fail when a row misses its aim
    #[arg(long)]
    check: bool,
    /// Measure data reduction by kind of data instead of CPU cost
    #[arg(long)]
    reduction: bool,
    /// Size of these data sets in MiB
    #[arg(long, default_value_t = 128)]
    mib: usize,
    /// Clones of the desktop image
    #[arg(long, default_value_t = 1000)]
    clones: u64,
    /// The repository whose history is one of the data sets
    #[arg(long, default_value = ".")]
    repository: std::path::PathBuf,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Open the drives in this folder and print the time to the first responses; for the rows of recovery
    #[arg(long, hide = true)]
    recover: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(folder) = &args.recover {
        recover::print_first_responses(folder);
        return ExitCode::SUCCESS;
    }
    let rows: Box<dyn Iterator<Item = Row>> = if args.reduction {
        let sizes = reduction::Sizes { mib: args.mib, clones: args.clones, versions: 20 };
        match reduction::measure(&sizes, &args.repository) {
            Ok(rows) => Box::new(rows.into_iter()),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        let selected = rows::ALL
            .iter()
            .chain(aging::ALL)
            .chain(shards::ALL)
            .chain(snapshots::ALL)
            .chain(drives::ALL)
            .filter(|measure| measure.name.contains(&args.only));
        Box::new(selected.flat_map(Measure::rows))
    };
    println!("| what | aim | result | |");
    println!("|---|---|---|---|");
    let mut missed = 0;
    for row in rows {
        let met = row.is_met();
        let Row { name, bound, result, unit, note } = row;
        let aim = match bound {
            Bound::AtMost(max) => format!("≤ {max} {unit}"),
            Bound::AtLeast(min) => format!("≥ {min} {unit}"),
            Bound::None => "–".to_owned(),
        };
        missed += u32::from(!met);
        println!("| {name} | {aim} | {result:.2} {unit} | {}{note} |", if met { "" } else { "missed; " });
    }
    if args.check && missed > 0 {
        eprintln!("{missed} rows missed their aims");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
