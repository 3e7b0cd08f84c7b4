//! Rules that the compiler can't hold, as tests.

use crate::shell::{cargo, exec};
use anyhow::Result;

/// Runs the rules alone; `cargo test` runs them too.
pub fn run() -> Result<()> {
    exec(&mut cargo(&["test", "--quiet", "-p", "xtask", "tidy"]))
}
