//! Requests made up from the description of the API, against a real daemon: no answer may be a server error, or one that
//! the description does not tell of. The requests are schemathesis's, installed under `target/`.

use crate::python;
use crate::shell::{command, root, target_dir, test_binaries};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The release that the checks were made with.
const VERSION: &str = "4.32.5";

/// What an answer must be.
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// How much is tried.
#[derive(clap::Args)]
pub struct Args {
    /// Made-up requests for each operation, beside those that cover its description
    #[arg(long, default_value_t = 50)]
    examples: u32,
    /// Replays a run
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Starts an array in a folder that goes away, and asks it everything.
pub fn run(args: &Args) -> Result<()> {
    let Some(environment) = python::environment("schemathesis", VERSION)? else { return Ok(()) };
    let program = environment.join("bin/schemathesis");
    let array = Running::start(&test_binaries()?)?;
    let access: Value = serde_json::from_slice(&std::fs::read(array.data.join("api.json"))?)?;
    let field = |name: &str| access[name].as_str().with_context(|| format!("api.json has no {name}"));
    let (url, token) = (field("url")?, field("token")?);
    let mut fuzz = command(&program.to_string_lossy(), &["run", "--no-color", "--checks", CHECKS]);
    fuzz.arg(format!("{url}/api/v1/openapi.json"))
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--max-examples", &args.examples.to_string(), "--seed", &args.seed.to_string()])
        .args(["--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all"])
        // It has no end.
        .args(["--exclude-path", "/api/v1/stream", "--request-timeout", "30"])
        .current_dir(&array.data);
    let status = fuzz.status().context("schemathesis can't be started")?;
    if !status.success() {
        bail!("schemathesis found answers that there must not be; see above, and {}", array.data.display());
    }
    array.end()
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<()> {
    run(&Args { examples: 3, seed: 1 })
}

/// A daemon with drives in a folder; killed when it is dropped.
struct Running {
    child: Child,
    data: PathBuf,
}

impl Running {
    fn start(programs: &Path) -> Result<Self> {
        let data = target_dir().join("schemathesis/array");
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        let mut daemon = command(&programs.join("ashlard").to_string_lossy(), &["--data"]);
        daemon.arg(&data).args(["--drives", "4", "--drive-size", "256MiB", "--threads", "1"]);
        daemon.args(["--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0"]).env("RUST_LOG", "error");
        let child =
            daemon.current_dir(root()).stdout(Stdio::piped()).spawn().context("ashlard can't be started")?;
        let mut array = Self { child, data };
        let mut line = String::new();
        let out = array.child.stdout.take().context("the daemon's output")?;
        BufReader::new(out).read_line(&mut line)?;
        if line.is_empty() {
            bail!("ashlard ended before it was ready");
        }
        Ok(array)
    }

    /// It must still be there, and goes with its folder.
    fn end(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("ashlard ended meanwhile: {status}");
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(std::fs::remove_dir_all(&self.data)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already when all is well.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
