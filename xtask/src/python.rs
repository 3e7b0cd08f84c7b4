//! Python packages that checks use, each in an environment of its own under `target/`.

use crate::shell::{capture, command, exec, target_dir};
use anyhow::Result;
use std::path::PathBuf;

/// The environment of a package, installed when it is not there; `None` if there is no Python to install it with.
pub fn environment(package: &str, version: &str) -> Result<Option<PathBuf>> {
    environment_with(package, version, &[])
}

/// The environment of a package if it has been installed.
pub fn existing(package: &str, version: &str) -> Option<PathBuf> {
    let folder = target_dir().join(package).join(version);
    folder.join("installed").exists().then_some(folder)
}

/// The same as [`environment`] with further packages beside it.
pub fn environment_with(package: &str, version: &str, more: &[&str]) -> Result<Option<PathBuf>> {
    if let Some(folder) = existing(package, version) {
        return Ok(Some(folder));
    }
    let folder = target_dir().join(package).join(version);
    if capture(&mut command("python3", &["-c", "import ensurepip, venv"])).is_err() {
        println!("{package}: not run, install python3-venv to have it");
        return Ok(None);
    }
    exec(command("python3", &["-m", "venv"]).arg(&folder))?;
    let mut pip = command(&folder.join("bin/pip").to_string_lossy(), &["install", "--quiet"]);
    exec(pip.arg(format!("{package}=={version}")).args(more))?;
    std::fs::write(folder.join("installed"), "")?;
    Ok(Some(folder))
}
