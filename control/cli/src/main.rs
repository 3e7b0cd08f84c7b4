//! `ashlar`: the array's operator actions on a command line. A client of the API, and of nothing else.
//!
//! Exit status: 0 done, 1 the array refused or could not be reached, 2 wrong usage.

mod client;
mod command;
mod show;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = command::Cli::parse();
    match cli.run() {
        Ok(text) => {
            use std::io::Write;
            // A reader that went away (`| head`) is no error of ours.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ashlar: {error:#}");
            ExitCode::FAILURE
        }
    }
}
