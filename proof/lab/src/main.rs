//! `ashlar-lab`: the workload lab as a stand-alone program, for any iSCSI array.

use anyhow::{Context, Result};
use clap::Parser;
use lab::array::Programs;
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
    match Cli::parse().verb.perform(&std::env::temp_dir(), beside_this_program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ashlar-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The array's programs are in the folder of this one.
fn beside_this_program() -> Result<Programs> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("this program lies in no folder")?;
    Ok(Programs { ashlard: folder.join("ashlard"), ashlar: folder.join("ashlar") })
}
