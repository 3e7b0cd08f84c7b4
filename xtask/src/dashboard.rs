//! The dashboards in the tree, loaded by Grafana's own library: it must know all that is in them.

use crate::python;
use crate::shell::{command, exec, root};
use anyhow::{Context, Result};

/// The release of Grafana's library that the check was made with.
const VERSION: &str = "1769699998!10.1.0";

/// Loads every dashboard, and compares what is loaded with what is in the file.
pub fn check() -> Result<()> {
    let Some(environment) = python::environment("grafana-foundation-sdk", VERSION)? else { return Ok(()) };
    let mut load = command(&environment.join("bin/python").to_string_lossy(), &["xtask/dashboard.py"]);
    let folder = root().join("docs/monitoring");
    for file in std::fs::read_dir(&folder).with_context(|| format!("can't read {}", folder.display()))? {
        let path = file?.path();
        // The catalogue of messages is no dashboard.
        if path.extension().is_some_and(|kind| kind == "json") && !path.ends_with("messages.json") {
            load.arg(path);
        }
    }
    exec(load.current_dir(root()))
}
