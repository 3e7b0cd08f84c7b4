//! Everything that must pass, in one go, with a count at the end.

use crate::shell::{cargo, exec, target_dir};
use crate::{
    conformance, crash, dashboard, demo, fuzz, guest, openapi, parity, schemathesis, setup, sim, web,
};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Which steps.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Only the steps that need no array: formatting, lints, tests
    #[arg(long)]
    quick: bool,
}

/// Tests that passed, failed and were left out.
#[derive(Default)]
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
    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

struct Step {
    name: &'static str,
    quick: bool,
    run: fn() -> Result<Tally>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", quick: true, run: || one(exec(&mut cargo(&["fmt", "--all", "--check"]))) },
    // Early, so that the daemon is built with it once.
    Step { name: "web", quick: false, run: web::check },
    Step { name: "clippy", quick: true, run: clippy },
    Step { name: "cargo test", quick: true, run: cargo_test },
    Step { name: "openapi", quick: true, run: || one(openapi::check()) },
    Step { name: "parity", quick: true, run: || one(parity::check()) },
    Step { name: "schemathesis", quick: false, run: || one(schemathesis::short()) },
    Step { name: "dashboard", quick: false, run: || one(dashboard::check()) },
    Step { name: "sim", quick: false, run: || one(sim::short()) },
    Step { name: "conformance", quick: false, run: conformance::whole },
    Step { name: "demo", quick: false, run: || one(demo::check()) },
    Step { name: "crash", quick: false, run: || one(crash::short()) },
    Step { name: "guest", quick: false, run: guest::short },
    Step {
        name: "lab",
        quick: false,
        run: || one(lab::command::short(&target_dir(), conformance::programs)),
    },
    Step { name: "fuzz", quick: false, run: || one(fuzz::short()) },
];

/// Runs every step even when one fails, so that one run tells all; fails at the end when any did.
pub fn run(args: &Args) -> Result<()> {
    if !args.quick {
        setup::need_for_test()?;
    }
    let mut total = Tally::default();
    let mut report = Vec::new();
    for step in STEPS.iter().filter(|step| step.quick || !args.quick) {
        eprintln!("\n== {}", step.name);
        let start = Instant::now();
        let tally = (step.run)().unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", step.name);
            Tally { failed: 1, failures: vec![format!("{error:#}")], ..Tally::default() }
        });
        total.add(&tally);
        report.push((step.name, tally, start.elapsed()));
    }
    // At the end, where whoever looks at a long log looks first.
    for (step, tally, _) in &report {
        tally.failures.iter().for_each(|it| println!("\nFAILED in {step}: {it}"));
    }
    print_report(&report);
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    match total.failed {
        0 => Ok(()),
        failed => bail!("{failed} failed"),
    }
}

fn print_report(report: &[(&str, Tally, Duration)]) {
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
    one(exec(&mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])))
}

/// `cargo test` of the whole workspace, its output passed on and its summaries added up.
fn cargo_test() -> Result<Tally> {
    let mut child = cargo(&["test", "--workspace", "--no-fail-fast"]).stdout(Stdio::piped()).spawn()?;
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
    fn a_summary_line_is_counted() {
        let tally =
            summary("test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out");
        let tally = tally.expect("a summary");
        assert_eq!((tally.passed, tally.failed, tally.skipped), (12, 3, 1));
        assert!(summary("test foo ... ok").is_none());
    }
}
