//! Fuzzes every parser of outside bytes: the targets in `proof/fuzz/fuzz_targets`, with libFuzzer and the address
//! sanitizer. The flags are those of `cargo fuzz`, which therefore need not be installed.

use crate::setup;
use crate::shell::{cargo, exec, root, target_dir};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

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
const FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Cdebug-assertions";

/// Builds the targets and runs them one after the other; the first crash ends it.
pub fn run(args: &Args) -> Result<()> {
    setup::need(&["g++"])?;
    let targets = targets()?;
    if let Some(name) = args.target.iter().find(|name| !targets.contains(name)) {
        bail!("no target {name}; there are {}", targets.join(", "));
    }
    let built = target_dir().join("fuzz");
    // Sanitizers are unstable options; this way the compiler of the project takes them.
    let mut build = cargo(&["build", "--release", "--quiet", "--bins", "--target", PLATFORM]);
    build.arg("--manifest-path").arg(root().join("proof/fuzz/Cargo.toml")).arg("--target-dir").arg(&built);
    exec(build.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS))?;
    for name in targets.iter().filter(|name| args.target.is_empty() || args.target.contains(name)) {
        fuzz(&built, name, args.seconds).with_context(|| format!("fuzz target {name}"))?;
        println!("fuzz: {name}: {} s without a crash", args.seconds);
    }
    Ok(())
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<()> {
    run(&Args { target: Vec::new(), seconds: 10 })
}

fn targets() -> Result<Vec<String>> {
    let folder = root().join("proof/fuzz/fuzz_targets");
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
fn fuzz(built: &Path, name: &str, seconds: u64) -> Result<()> {
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
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()));
    exec(command.args(["-timeout=10", "-rss_limit_mb=2048", "-verbosity=0"]))
}
