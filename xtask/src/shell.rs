//! Running other programs, and counting what passed.

use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lines of [`exec_keeping_output`].
const KEPT_LINES: usize = 60;

/// The top folder of the work tree: where `cargo xtask` was asked for. What was compiled in is where it was built first,
/// and a checkout may have moved since.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let own = own.filter(|folder| folder.join("../xtask/Cargo.toml").exists());
        let own = own.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        own.parent().unwrap_or(Path::new(".")).to_owned()
    })
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// A command that runs in the top folder.
pub fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Cargo, the one that runs this program. Cargo's own variable is left out: the build of `api` looks at it, and everything
/// from there on would be compiled again whenever another program asks for a build.
pub fn cargo(args: &[&str]) -> Command {
    let mut cargo = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), args);
    cargo.env_remove("CARGO_MANIFEST_DIR");
    if LINTED.load(Ordering::Relaxed) {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    }
    cargo
}

/// Whether [`cargo`] compiles the workspace with lints.
static LINTED: AtomicBool = AtomicBool::new(false);

/// From now on [`cargo`] compiles the packages of the workspace by Clippy's compiler, which prints the warnings of all lints.
/// What it compiles is kept apart from what is compiled without lints, and less optimized: it is for tests.
pub fn lint_what_is_compiled() {
    LINTED.store(true, Ordering::Relaxed);
}

/// Says what it runs, runs it with this terminal, and fails when it fails.
pub fn exec(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", line(command));
    let status = command.status().with_context(|| format!("can't start {}", line(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", line(command));
    }
    Ok(())
}

/// The same for what says much: the end of its standard output is repeated in the error.
pub fn exec_keeping_output(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", line(command));
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("can't start {}", line(command)))?;
    let mut end = VecDeque::new();
    for said in BufReader::new(child.stdout.take().context("its standard output")?).lines() {
        let said = said?;
        println!("{said}");
        end.push_back(said);
        if end.len() > KEPT_LINES {
            end.pop_front();
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} ended with {status}; it said last:\n{}", line(command), Vec::from(end).join("\n"));
    }
    Ok(())
}

/// Runs it without a word unless it fails.
pub fn exec_quietly(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("can't start {}", line(command)))?;
    if !output.status.success() {
        let said =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned()).concat();
        bail!("{} ended with {}; it said:\n{said}", line(command), output.status);
    }
    Ok(())
}

/// Runs it and returns its standard output; fails when it fails.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("can't start {}", line(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", line(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds the programs of the workspace as the tests use them, with overflow checks and assertions, and returns the
/// folder that has them. It is the build of `cargo test --workspace`: nothing is compiled twice.
pub fn test_binaries() -> Result<PathBuf> {
    exec(&mut cargo(&["build", "--workspace", "--bins", "--examples"]))?;
    Ok(target_dir().join("debug"))
}

/// Some programs of that build alone. Examples take part in it for the features that they give to dependencies, without
/// which these would be compiled once more.
pub fn some_test_binaries(names: &[&str]) -> Result<PathBuf> {
    let named = names.iter().flat_map(|name| ["--bin", name]);
    exec(cargo(&["build", "--workspace", "--examples"]).args(named))?;
    Ok(target_dir().join("debug"))
}

/// Builds the binaries of these packages, and returns their folder.
pub fn binaries(packages: &[&str]) -> Result<PathBuf> {
    let named = packages.iter().flat_map(|package| ["-p", package]);
    exec(cargo(&["build", "--bins"]).args(named))?;
    Ok(target_dir().join("debug"))
}

/// Builds a binary of the workspace for measuring, and returns its path.
pub fn release_binary(package: &str, binary: &str) -> Result<PathBuf> {
    exec(&mut cargo(&["build", "--release", "-p", package, "--bin", binary]))?;
    Ok(target_dir().join("release").join(binary))
}

/// True when a program of this name is on the search path.
pub fn installed(program: &str) -> bool {
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(sbin).any(|dir| dir.join(program).is_file())
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
