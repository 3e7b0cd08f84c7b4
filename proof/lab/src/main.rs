//! `ashlar-lab`: the workload lab as a program of its own, against any array that speaks iSCSI.

use clap::Parser;
use lab::command::Verb;
use std::process::ExitCode;

/// Workloads that arrays are judged by, through the model of a hypervisor host.
#[derive(Parser)]
#[command(name = "ashlar-lab", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

fn main() -> ExitCode {
    match Cli::parse().verb.perform() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ashlar-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
