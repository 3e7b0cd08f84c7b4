//! The demonstration: an array in a folder, a file system image on it, a kill, the image read back.

use anyhow::{Result, bail};

/// How to show it.
#[derive(clap::Args)]
pub struct Args {
    /// Run to the end unattended and fail when anything differs
    #[arg(long)]
    check: bool,
}

/// Shows the array at work.
pub fn run(args: &Args) -> Result<()> {
    let _ = args.check;
    bail!("the array can't be shown yet")
}

/// What `cargo xtask test` runs.
pub fn check() -> Result<()> {
    run(&Args { check: true })
}
