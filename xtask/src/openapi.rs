//! The checked-in description of the API, `openapi/array.json`, against what the code says.

use crate::shell::{capture, command, root, test_binaries};
use anyhow::{Context, Result, bail};

/// Check or write.
#[derive(clap::Args)]
pub struct Args {
    /// Write the description instead of comparing
    #[arg(long)]
    write: bool,
}

/// Compares the description that `ashlard --openapi` prints with the checked-in one, or writes it.
pub fn run(args: &Args) -> Result<()> {
    let path = root().join("openapi/array.json");
    let daemon = test_binaries()?.join("ashlard");
    let now = capture(&mut command(&daemon.to_string_lossy(), &["--openapi"]))?;
    if args.write {
        return std::fs::write(&path, now).with_context(|| format!("can't write {}", path.display()));
    }
    let golden = std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    if golden != now {
        bail!("the API changed: `cargo xtask openapi --write` and review the difference");
    }
    Ok(())
}

/// What `cargo xtask test` runs.
pub fn check() -> Result<()> {
    run(&Args { write: false })
}
