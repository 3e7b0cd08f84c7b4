//! Fuzzing of every parser of outside bytes: the targets of `proof/fuzz` under libFuzzer and the address sanitizer. It is
//! not part of `test`, where the same targets run over their corpus and variations of it (`proof/fuzz/tests`), since it
//! compiles everything again.
//!
//! The flags are those of `cargo fuzz`, which therefore need not be installed, but for one: a crate is compiled in
//! several units, as that takes a third of the time.

use crate::setup;
use crate::shell::{cargo, exec, exec_quietly, root, target_dir};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What to fuzz, and how long.
#[derive(clap::Args)]
pub struct Args {
    /// Targets by name; all without one
    target: Vec<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

const PLATFORM: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Cdebug-assertions";

/// Builds the targets and runs them one after the other; the first crash ends it.
pub fn run(args: &Args) -> Result<()> {
    let known = targets()?;
    if let Some(name) = args.target.iter().find(|name| !known.contains(name)) {
        bail!("no target {name}; there are {}", known.join(", "));
    }
    let wanted = if args.target.is_empty() { known } else { args.target.clone() };
    all(&wanted, |_| vec![format!("-max_total_time={}", args.seconds)])
}

/// How much [`soak`] did.
pub struct Soaked {
    /// Targets.
    pub targets: usize,
    /// Seconds for each.
    pub seconds: u64,
}

/// Divides a time among all targets.
pub fn soak(time: Duration) -> Result<Soaked> {
    let known = targets()?;
    let seconds = (time.as_secs() / known.len().max(1) as u64).max(1);
    all(&known, |_| vec![format!("-max_total_time={seconds}")])?;
    Ok(Soaked { targets: known.len(), seconds })
}

fn all(targets: &[String], limits: impl Fn(&str) -> Vec<String>) -> Result<()> {
    setup::need(&["g++"])?;
    let built = target_dir().join("fuzz");
    // Sanitizers are unstable options; this way the compiler of the project takes them.
    let mut build = cargo(&["build", "--release", "--quiet", "--bins", "--target", PLATFORM]);
    build
        .arg("--manifest-path")
        .arg(root().join("proof/fuzz/libfuzzer/Cargo.toml"))
        .arg("--target-dir")
        .arg(&built);
    exec(build.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS))?;
    for name in targets {
        let limits = limits(name);
        fuzz(&built, name, &limits).with_context(|| format!("fuzz target {name}"))?;
        println!("fuzz: {name}: no crash with {}", limits.join(" "));
    }
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let folder = root().join("proof/fuzz/libfuzzer/fuzz_targets");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// What is found goes to the build folder; the corpus in the tree is only read, so that it stays small.
fn fuzz(built: &Path, name: &str, limits: &[String]) -> Result<()> {
    let found = built.join("corpus").join(name);
    let artifacts = root().join("proof/fuzz/artifacts").join(name);
    std::fs::create_dir_all(&found)?;
    std::fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(built.join(PLATFORM).join("release").join(name));
    command.arg(&found);
    let corpus = root().join("proof/fuzz/corpus").join(name);
    if corpus.is_dir() {
        command.arg(corpus);
    }
    command.args(limits).arg(format!("-artifact_prefix={}/", artifacts.display()));
    exec_quietly(command.args(["-timeout=10", "-rss_limit_mb=2048", "-verbosity=0"]))
}
