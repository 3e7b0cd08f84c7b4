//! Files that operators name.

use anyhow::{Context, Result};
use std::path::Path;

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}
