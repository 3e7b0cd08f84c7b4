//! Everything that must pass, in one go, with a count at the end.
//!
//! Steps that leave a processor idle run beside those that compile: as further processes of this program, so that their
//! output can be kept and printed in one piece.

use crate::shell::{capture, cargo, command, exec, lint_what_is_compiled, root, target_dir};
use crate::{
    conformance, crash, dashboard, demo, guest, integrations, openapi, parity, rados, schemathesis, setup,
    sim, strangers, web,
};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Which steps.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Only what starts no array and no simulation: formatting, lints, tests of the crates
    #[arg(long)]
    quick: bool,
    /// Only this step, such as `conformance`; prints nothing at the end
    #[arg(long, conflicts_with = "quick")]
    step: Option<String>,
}

/// Tests that passed, failed and were left out.
#[derive(Default, Serialize, Deserialize)]
pub struct Tally {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Not run, for a stated reason.
    pub skipped: usize,
    /// Those that failed by name, as far as the step knows names, and errors.
    pub failures: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

struct Step {
    name: &'static str,
    run: fn() -> Result<Tally>,
}

/// Steps that are run at the same time as others.
struct Phase {
    /// One after the other, with this terminal.
    main: &'static [Step],
    /// One after the other beside them; their output is printed when they end.
    beside: &'static [Step],
}

const PHASES: &[Phase] = &[
    Phase {
        main: &[FMT, Step { name: "clippy", run: clippy }],
        // Before the daemon is built, which has the interface in it.
        beside: &[Step { name: "web", run: web::check }],
    },
    Phase {
        main: &[Step { name: "cargo test", run: cargo_test }],
        beside: &[Step { name: "guest image", run: guest::image }],
    },
    Phase {
        main: &[
            Step { name: "openapi", run: || one(openapi::check()) },
            Step { name: "parity", run: || one(parity::check()) },
            Step { name: "python client", run: || one(openapi::generate_python_client()) },
            Step { name: "schemathesis", run: || one(schemathesis::short()) },
            Step { name: "dashboard", run: || one(dashboard::check()) },
            Step { name: "integrations", run: integrations::short },
            Step { name: "pages", run: web::pages },
            Step { name: "demo", run: || one(demo::check()) },
            Step { name: "crash", run: || one(crash::short()) },
            Step { name: "strangers", run: || one(strangers::short()) },
            Step { name: "rados", run: rados::short },
        ],
        beside: &[
            Step { name: "guest", run: guest::short },
            Step { name: "sim", run: || one(sim::short()) },
            Step { name: "lab", run: || one(lab::command::short(&target_dir(), conformance::programs)) },
            Step { name: "conformance", run: conformance::whole },
        ],
    },
];

/// The steps of `--quick`.
const QUICK: &[Phase] = &[Phase {
    main: &[
        FMT,
        Step { name: "linted tests", run: linted_tests },
        Step { name: "openapi", run: || one(openapi::check()) },
        Step { name: "parity", run: || one(parity::check()) },
    ],
    beside: &[],
}];

const FMT: Step = Step { name: "fmt", run: || one(exec(&mut cargo(&["fmt", "--all", "--check"]))) };

/// The test program that `--quick` leaves out beside those of `proof`: it starts arrays.
const STARTS_ARRAYS: &str = "daemon";

/// What came of a step, and how long it took.
type Outcome = (&'static str, Tally, Duration);

/// Runs every step even when one fails, so that one run shows everything; fails at the end when any did.
pub fn run(args: &Args) -> Result<()> {
    if let Some(name) = &args.step {
        return run_alone(name);
    }
    if !args.quick {
        setup::need_for_test()?;
    }
    let start = Instant::now();
    let mut report = Vec::new();
    for phase in if args.quick { QUICK } else { PHASES } {
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| phase.beside.iter().map(beside).collect::<Vec<_>>());
            report.extend(phase.main.iter().map(live));
            report.extend(beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        });
    }
    let mut total = Tally::default();
    report.iter().for_each(|(_, tally, _)| total.add(tally));
    // At the end, where a reader of a long log looks first.
    for (step, tally, _) in &report {
        tally.failures.iter().for_each(|it| println!("\nFAILED in {step}: {it}"));
    }
    print_report(&report);
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    println!("{} minutes", start.elapsed().as_secs().div_ceil(60));
    match total.failed {
        0 => Ok(()),
        failed => bail!("{failed} failed"),
    }
}

/// Runs a step with this terminal.
fn live(step: &Step) -> Outcome {
    eprintln!("\n== {}", step.name);
    let start = Instant::now();
    (step.name, tally(step.name, (step.run)()), start.elapsed())
}

/// Runs a step as a process of its own and prints what it said when it has ended.
fn beside(step: &Step) -> Outcome {
    eprintln!("\n== {} (in the background)", step.name);
    let start = Instant::now();
    let result = Beside::start(step.name).and_then(Beside::end);
    let outcome = (step.name, tally(step.name, result), start.elapsed());
    let log = std::fs::read(log_of(step.name)).unwrap_or_default();
    eprintln!(
        "\n== {} has ended after {} s:\n{}",
        step.name,
        outcome.2.as_secs(),
        String::from_utf8_lossy(&log)
    );
    outcome
}

fn tally(name: &str, result: Result<Tally>) -> Tally {
    result.unwrap_or_else(|error| {
        eprintln!("{name}: {error:#}");
        Tally { failed: 1, failures: vec![format!("{error:#}")], ..Tally::default() }
    })
}

/// A step that runs as a process of its own.
struct Beside {
    child: Child,
    tally: PathBuf,
}

impl Beside {
    fn start(name: &str) -> Result<Self> {
        let (log, tally) = (log_of(name), tally_of(name));
        std::fs::create_dir_all(log.parent().context("a folder for logs")?)?;
        // What an earlier run left there does not count.
        if tally.exists() {
            std::fs::remove_file(&tally)?;
        }
        let output = File::create(&log).with_context(|| format!("can't write {}", log.display()))?;
        // Not by its path: `cargo test` puts another file there.
        let mut step = command("/proc/self/exe", &["test", "--step", name]);
        step.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(Self { child: step.spawn().context("can't start a step")?, tally })
    }

    fn end(mut self) -> Result<Tally> {
        let status = self.child.wait()?;
        let tally = std::fs::read(&self.tally).with_context(|| format!("the step ended with {status}"))?;
        Ok(serde_json::from_slice(&tally)?)
    }
}

fn log_of(step: &str) -> PathBuf {
    target_dir().join("test-steps").join(format!("{step}.log"))
}

fn tally_of(step: &str) -> PathBuf {
    target_dir().join("test-steps").join(format!("{step}.json"))
}

/// What [`Beside`] starts: one step, whose tally goes into a file.
fn run_alone(name: &str) -> Result<()> {
    let mut steps = PHASES.iter().flat_map(|phase| phase.main.iter().chain(phase.beside));
    let step = steps.find(|step| step.name == name).with_context(|| format!("no step {name}"))?;
    let tally = tally(step.name, (step.run)());
    let path = tally_of(name);
    std::fs::create_dir_all(path.parent().context("a folder for tallies")?)?;
    std::fs::write(&path, serde_json::to_vec(&tally)?)?;
    match tally.failed {
        0 => Ok(()),
        failed => bail!("{failed} failed"),
    }
}

fn print_report(report: &[Outcome]) {
    println!("\n{:<14}{:>8}{:>8}{:>9}{:>9}", "step", "passed", "failed", "skipped", "seconds");
    for (name, tally, time) in report {
        let Tally { passed, failed, skipped, .. } = tally;
        println!("{name:<14}{passed:>8}{failed:>8}{skipped:>9}{:>9}", time.as_secs());
    }
}

fn one(result: Result<()>) -> Result<Tally> {
    result.map(|()| Tally { passed: 1, ..Tally::default() })
}

fn clippy() -> Result<Tally> {
    one(exec(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])))
}

/// `cargo test` of the whole workspace.
fn cargo_test() -> Result<Tally> {
    run_tests(cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"]))
}

/// Runs a `cargo test`, passes its output on, and adds its summaries up.
fn run_tests(mut cargo_test: Command) -> Result<Tally> {
    let mut child = cargo_test.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("the output of cargo test")?;
    let mut total = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        total.add(&summary(&line).unwrap_or_default());
        total.failures.extend(line.strip_suffix(" ... FAILED").map(str::to_owned));
    }
    if !child.wait()?.success() && total.failed == 0 {
        bail!("cargo test failed before it ran every test");
    }
    Ok(total)
}

/// Compiles tests and what they need with the lints, so that nothing is compiled once for these and once for the tests; runs
/// the tests of what is neither in `proof` nor starts arrays.
fn linted_tests() -> Result<Tally> {
    lint_what_is_compiled();
    let metadata = capture(&mut cargo(&["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).context("the output of cargo metadata")?;
    let selection = selection(&metadata, &root().join("proof"));
    let test = [vec!["test".to_owned(), "--workspace".to_owned()], selection].concat();
    let with = |option: &str| {
        let mut cargo = cargo(&[]);
        cargo.args(&test).arg(option);
        cargo
    };
    let warnings = count_warnings(with("--no-run"))?;
    let mut tally = run_tests(with("--no-fail-fast"))?;
    if warnings > 0 {
        tally.failed += 1;
        tally.failures.push(format!("{warnings} targets have warnings, which are above"));
    }
    Ok(tally)
}

/// Options that name the targets of the packages outside a folder, without [`STARTS_ARRAYS`].
fn selection(metadata: &serde_json::Value, without: &Path) -> Vec<String> {
    let mut options: Vec<String> = ["--lib", "--bins", "--examples"].map(str::to_owned).into();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if Path::new(&text(&package["manifest_path"])).starts_with(without) {
            options.extend(["--exclude".to_owned(), text(&package["name"])]);
            continue;
        }
        let targets = package["targets"].as_array().into_iter().flatten();
        let tests = targets.filter(|target| target["kind"][0] == "test").map(|target| text(&target["name"]));
        let tests = tests.filter(|name| name != STARTS_ARRAYS);
        options.extend(tests.flat_map(|name| ["--test".to_owned(), name]));
    }
    options
}

/// Runs a build, passes on what it prints, and counts the targets that have warnings.
fn count_warnings(mut build: Command) -> Result<usize> {
    let mut child = build.stderr(Stdio::piped()).spawn()?;
    let output = child.stderr.take().context("the output of cargo")?;
    let mut warnings = 0;
    for line in BufReader::new(output).lines() {
        let line = line?;
        eprintln!("{line}");
        warnings += usize::from(is_count_of_warnings(&line));
    }
    if !child.wait()?.success() {
        bail!("it does not compile");
    }
    Ok(warnings)
}

/// True for ``warning: `engine` (lib) generated 2 warnings``.
fn is_count_of_warnings(line: &str) -> bool {
    line.starts_with("warning: `") && line.contains("` (") && line.contains(") generated ")
}

/// The counts in `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn summary(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| -> Option<usize> {
        counts.split("; ").find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
    };
    let [passed, failed, skipped] = [count("passed")?, count("failed")?, count("ignored")?];
    Some(Tally { passed, failed, skipped, ..Tally::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_tests_are_those_outside_proof_that_start_no_array() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "sim", "manifest_path": "/top/proof/sim/Cargo.toml",
              "targets": [{ "kind": ["test"], "name": "seeds" }] },
            { "name": "ashlard", "manifest_path": "/top/control/ashlard/Cargo.toml",
              "targets": [{ "kind": ["bin"], "name": "ashlard" }, { "kind": ["test"], "name": "daemon" }] },
            { "name": "scsi", "manifest_path": "/top/io/scsi/Cargo.toml",
              "targets": [{ "kind": ["lib"], "name": "scsi" }, { "kind": ["test"], "name": "scsi" }] },
        ]});
        let options = selection(&metadata, Path::new("/top/proof")).join(" ");
        assert_eq!(options, "--lib --bins --examples --exclude sim --test scsi");
    }

    #[test]
    fn a_target_with_warnings_is_counted_once() {
        assert!(is_count_of_warnings(
            "warning: `engine` (lib) generated 2 warnings (run `cargo clippy --fix`)"
        ));
        assert!(is_count_of_warnings("warning: `scsi` (test \"scsi\") generated 1 warning"));
        assert!(!is_count_of_warnings("warning: unused variable: `x`"));
    }

    #[test]
    fn a_summary_line_is_counted() {
        let tally =
            summary("test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out");
        let tally = tally.expect("a summary");
        assert_eq!((tally.passed, tally.failed, tally.skipped), (12, 3, 1));
        assert!(summary("test foo ... ok").is_none());
    }
}
