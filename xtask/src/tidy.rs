//! Rules that the compiler can't hold. They are tests, so that `cargo test` holds them; `cargo xtask tidy` runs
//! them alone and adds the check for published advisories, which needs the network.

#[cfg(test)]
mod boundaries;
#[cfg(test)]
mod circles;
#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod licences;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod walks;
#[cfg(test)]
mod words;

use crate::shell::{cargo, command, exec, installed};
use anyhow::Result;

/// Runs the rules alone, then checks advisories where possible.
pub fn run() -> Result<()> {
    exec(&mut cargo(&["test", "--quiet", "-p", "xtask", "tidy::"]))?;
    advisories()
}

/// Advisories come from a database on the network. Licences, bans and sources do not need it: tests hold them.
fn advisories() -> Result<()> {
    if !installed("cargo-deny") {
        println!("advisories: not checked, `cargo install cargo-deny` to check them");
        return Ok(());
    }
    let fetched = command("cargo-deny", &["fetch", "db"]).status()?.success();
    if !fetched {
        println!("advisories: not checked, the database can't be reached");
        return Ok(());
    }
    exec(&mut command("cargo-deny", &["check", "--disable-fetch", "advisories"]))
}

/// The output of `cargo metadata` for the workspace and its dependencies on its platform.
#[cfg(test)]
fn metadata() -> serde_json::Value {
    let arguments = ["metadata", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"];
    let text = crate::shell::capture(&mut cargo(&arguments)).expect("cargo metadata");
    serde_json::from_str(&text).expect("cargo metadata prints JSON")
}

/// The packages of the workspace in [`metadata`].
#[cfg(test)]
fn members(metadata: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().filter(|package| package["source"].is_null())
}
