//! What is generated from the code and checked in: the description of the API, its Go client, the reference of the command
//! line, the catalogue of log messages, and the table of who offers which operation.

use crate::integrations::go;
use crate::parity;
use crate::python;
use crate::shell::{capture, cargo, command, exec, root, some_test_binaries, target_dir};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Check or write.
#[derive(clap::Args)]
pub struct Args {
    /// Write the description instead of comparing
    #[arg(long)]
    write: bool,
}

pub const DESCRIPTION: &str = "openapi/array.json";
const REFERENCE: &str = "docs/cli.md";
/// The catalogue of log messages, for people and for programs.
const MESSAGES: &str = "docs/monitoring/messages.md";
const MESSAGES_JSON: &str = "docs/monitoring/messages.json";

/// Compares what the programs print and generate with what is checked in, or writes it.
pub fn run(args: &Args) -> Result<()> {
    if args.write {
        // The client is made of the description, and the command line may call what only the new one has.
        exec(&mut cargo(&["build", "--workspace", "--bin", "ashlard"]))?;
        settle(true, DESCRIPTION, &output(&target_dir().join("debug"), "ashlard", &["--openapi"])?)?;
    }
    let binaries = some_test_binaries(&["ashlard", "ashlar"])?;
    settle(false, DESCRIPTION, &output(&binaries, "ashlard", &["--openapi"])?)?;
    settle(args.write, REFERENCE, &output(&binaries, "ashlar", &["manual", "--reference"])?)?;
    settle(args.write, MESSAGES, &output(&binaries, "ashlard", &["messages"])?)?;
    settle(args.write, MESSAGES_JSON, &output(&binaries, "ashlard", &["messages", "--json"])?)?;
    if !args.write {
        return Ok(());
    }
    parity::write()?;
    if !go::can_generate() {
        eprintln!("the Go client is not written without Go: `cargo xtask integrations --write` writes it");
        return Ok(());
    }
    go::generate()
}

/// What a program prints.
fn output(binaries: &Path, name: &str, arguments: &[&str]) -> Result<String> {
    capture(&mut command(&binaries.join(name).to_string_lossy(), arguments))
}

/// Writes a file, or compares it.
fn settle(write: bool, path: &str, now: &str) -> Result<()> {
    let whole = root().join(path);
    if write {
        return std::fs::write(&whole, now).with_context(|| format!("can't write {path}"));
    }
    let golden = std::fs::read_to_string(&whole).with_context(|| format!("can't read {path}"))?;
    if golden != now {
        bail!("{path} is out of date: `cargo xtask openapi --write` and review the difference");
    }
    Ok(())
}

/// The release of a generator of clients that is not ours, with which the description is tried.
const GENERATOR: (&str, &str) = ("openapi-python-client", "0.29.1");

/// Generates a client from the description with a program that others use for theirs, which must not warn of anything.
pub fn generate_python_client() -> Result<()> {
    let (name, version) = GENERATOR;
    let Some(environment) = python::environment(name, version)? else { return Ok(()) };
    let out = target_dir().join(name).join("array");
    let bin = environment.join("bin");
    let mut generate = command(&bin.join(name).to_string_lossy(), &["generate"]);
    generate.args(["--fail-on-warning", "--overwrite", "--meta", "none", "--path", DESCRIPTION]);
    // It formats what it has generated with a program beside it.
    let others = std::env::var("PATH").unwrap_or_default();
    generate.env("PATH", format!("{}:{others}", bin.display()));
    exec(generate.arg("--output-path").arg(out).current_dir(root()))
}

/// What `cargo xtask test` runs.
pub fn check() -> Result<()> {
    run(&Args { write: false })
}
