//! What the continuous integration runs.

use crate::{setup, test};
use anyhow::Result;

/// Installs what is missing, then everything that must pass.
pub fn run() -> Result<()> {
    setup::need_for_test()?;
    test::run(&test::Args::default())
}
