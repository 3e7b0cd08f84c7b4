//! The web interface: made by its own tools from `web/`, embedded in the daemon by the build of `api`.

use crate::setup;
use crate::shell::{command, exec, exec_keeping_output, installed, root, test_binaries};
use crate::test::Tally;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Build it, or test it too.
#[derive(clap::Args)]
pub struct Args {
    /// Also check types and style, run its tests, and try every page in Debian's chromium when that is installed
    #[arg(long)]
    check: bool,
}

/// What the build reads.
const SOURCES: &[&str] = &[
    "openapi/array.json",
    "web/src",
    "web/public",
    "web/index.html",
    "web/plugin",
    "web/plugin.html",
    "web/package-lock.json",
    "web/vite.config.ts",
    "web/vite.plugin.config.ts",
    "web/tsconfig.json",
];
/// What the browser is called in Debian.
const BROWSER: &str = "chromium";
/// What it makes last: the interface, and the pages of the plug-in for the vSphere Client.
const MADE: &[&str] = &["web/dist/index.html", "integrations/go/vsphere/plugin/pages/plugin.html"];

/// Builds the web interface, or all of its checks as well.
pub fn run(args: &Args) -> Result<()> {
    if args.check { check().and_then(|_| pages()).map(|_| ()) } else { build() }
}

/// Builds it unless it is newer than what it is made from.
pub fn build() -> Result<()> {
    let sources = SOURCES.iter().map(|path| newest(&root().join(path))).max().flatten();
    let made = MADE.iter().map(|path| changed(&root().join(path))).min().flatten();
    if made.is_some() && made > sources {
        return Ok(());
    }
    packages()?;
    exec(&mut npm(&["run", "--silent", "build"]))
}

/// Types, style, unit tests, and the build.
pub fn check() -> Result<Tally> {
    packages()?;
    exec(&mut npm(&["run", "--silent", "check"]))?;
    build()?;
    Ok(Tally { passed: 1, ..Tally::default() })
}

/// Every page of a real array in a browser when there is one.
pub fn pages() -> Result<Tally> {
    if !installed(BROWSER) {
        eprintln!("no page was tried in a browser, as there is none: `apt-get install chromium` brings one");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    packages()?;
    build()?;
    let programs = test_binaries()?;
    let mut tests = npm(&["run", "--silent", "e2e"]);
    exec_keeping_output(tests.env("ASHLARD", programs.join("ashlard")))?;
    Ok(Tally { passed: 1, ..Tally::default() })
}

/// The folder with the tests of pages if there is a browser for them. The pages are built.
pub fn browser_tests() -> Result<Option<PathBuf>> {
    build()?;
    packages()?;
    Ok(installed(BROWSER).then(|| root().join("web")))
}

/// Installs the packages of the lock file when they are not.
fn packages() -> Result<()> {
    setup::need(&["nodejs", "npm"])?;
    let lock = changed(&root().join("web/package-lock.json")).context("web/package-lock.json is missing")?;
    let installed = changed(&root().join("web/node_modules/.package-lock.json"));
    if installed.is_some_and(|installed| installed >= lock) {
        return Ok(());
    }
    exec(&mut npm(&["ci", "--no-progress", "--prefer-offline"]))
}

fn npm(args: &[&str]) -> Command {
    let mut command = command("npm", args);
    command.current_dir(root().join("web"));
    command
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// When the file, or anything below the folder, was changed last.
fn newest(path: &Path) -> Option<SystemTime> {
    let below = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| newest(&entry.path()));
    below.chain([changed(path)]).flatten().max()
}
