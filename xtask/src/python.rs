//! Python packages that checks use, each in an environment of its own under `target/`.

use crate::shell::{capture, command, exec, target_dir};
use anyhow::Result;
use std::path::PathBuf;

/// The environment of a package, installed when it is not there; `None` if there is no Python to install it with.
pub fn environment(package: &str, version: &str) -> Result<Option<PathBuf>> {
    let folder = target_dir().join(package).join(version);
    let installed = folder.join("installed");
    if installed.exists() {
        return Ok(Some(folder));
    }
    if capture(&mut command("python3", &["-c", "import ensurepip, venv"])).is_err() {
        println!("{package}: not run, install python3-venv to have it");
        return Ok(None);
    }
    exec(command("python3", &["-m", "venv"]).arg(&folder))?;
    let mut pip = command(&folder.join("bin/pip").to_string_lossy(), &["install", "--quiet"]);
    exec(pip.arg(format!("{package}=={version}")))?;
    std::fs::write(installed, "")?;
    Ok(Some(folder))
}
