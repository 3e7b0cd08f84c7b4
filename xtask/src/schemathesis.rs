//! Requests made up from the description of the API, against a real daemon: no answer may be a server error, or one that
//! the description does not tell of. The requests are schemathesis's, installed under `target/`.

use crate::python;
use crate::running::Running;
use crate::shell::{command, test_binaries};
use anyhow::{Context, Result, bail};

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
    let array = Running::start(&test_binaries()?, "schemathesis/array")?;
    let (url, token) = array.access()?;
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
