//! Mutants: faults that `cargo-mutants` plants in the sources, one at a time. One that no test finds shows a gap in the
//! tests.
//!
//! It is not part of `test`: each mutant is built and tested, which takes a minute in the larger crates. A mutant runs
//! against the tests of its crate first. Survivors of the data path run against the simulated worlds of `proof/sim`.

use crate::setup::{CargoTool, cargo_tool};
use crate::shell::{capture, command, target_dir};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to plant.
#[derive(clap::Args)]
pub struct Args {
    /// Areas by name; all without one
    area: Vec<String>,
    /// Number of mutants over all areas
    #[arg(long, default_value_t = 300)]
    sample: usize,
    /// Number of the sample: each plants other mutants
    #[arg(long, default_value_t = 0)]
    seed: usize,
}

const MUTANTS: CargoTool = CargoTool { name: "cargo-mutants", version: "27.1.0" };
/// Share of the mutants that tests have to find, in percent.
const MIN_FOUND_PERCENT: usize = 90;

/// Sources whose faults lose data, or carry out a command for the wrong host.
struct Area {
    name: &'static str,
    package: &'static str,
    /// Files and folders below the sources of the package.
    sources: &'static [&'static str],
    /// Whether the simulated worlds run it.
    simulated: bool,
}

const AREAS: &[Area] = &[
    Area {
        name: "engine",
        package: "io/engine",
        sources: &["commit.rs", "journal.rs", "apply.rs", "recover.rs", "checkpoint.rs", "cleaner.rs"],
        simulated: true,
    },
    Area {
        name: "raid",
        package: "io/raid",
        sources: &["allocator.rs", "striping.rs", "journal.rs", "segment_map.rs", "drive_shelf/**"],
        simulated: true,
    },
    Area {
        name: "scsi",
        package: "io/scsi",
        sources: &[
            "unit/reservation.rs",
            "commands/persistent_reserve.rs",
            "unit/task.rs",
            "encoding/task_set.rs",
            "server/task_management.rs",
        ],
        simulated: false,
    },
    Area {
        name: "nvmf",
        package: "io/nvmf",
        sources: &["queue.rs", "commands.rs", "transfers.rs", "fused.rs", "reservation.rs"],
        simulated: false,
    },
    Area { name: "forward", package: "io/forward", sources: &["**"], simulated: true },
    Area {
        name: "replication",
        package: "control/replication",
        sources: &["apply.rs", "known.rs", "mirror.rs", "turns.rs", "witness.rs", "source/**", "target/**"],
        simulated: true,
    },
];

/// Mutants by what became of them.
#[derive(Default)]
struct Outcome {
    found: usize,
    survivors: BTreeSet<String>,
}

/// Plants a sample in each area, and fails if tests find too few of them.
pub fn run(args: &Args) -> Result<()> {
    let is_wanted = |area: &&Area| args.area.is_empty() || args.area.iter().any(|name| name == area.name);
    let areas: Vec<_> = AREAS.iter().filter(is_wanted).collect();
    if let Some(name) = args.area.iter().find(|name| areas.iter().all(|area| area.name != **name)) {
        let known: Vec<_> = AREAS.iter().map(|area| area.name).collect();
        bail!("no area {name}; there are {}", known.join(", "));
    }
    let tool = cargo_tool(&MUTANTS)?;
    let mut report = String::new();
    let (mut found, mut all) = (0, 0);
    for area in &areas {
        let outcome = plant(&tool, area, args.sample.div_ceil(areas.len()), args.seed)?;
        let total = outcome.found + outcome.survivors.len();
        writeln!(report, "{}: {} of {total} found", area.name, outcome.found)?;
        for survivor in &outcome.survivors {
            writeln!(report, "    {survivor}")?;
        }
        (found, all) = (found + outcome.found, all + total);
    }
    let path = target_dir().join("mutants/report.txt");
    std::fs::write(&path, &report).with_context(|| format!("can't write {}", path.display()))?;
    println!("{report}{found} of {all} found");
    ensure!(
        found * 100 >= all * MIN_FOUND_PERCENT,
        "tests find {found} of {all} mutants, less than {MIN_FOUND_PERCENT} %: add tests for the survivors in {}",
        path.display()
    );
    Ok(())
}

/// Plants about `sample` mutants of an area.
fn plant(tool: &Path, area: &Area, sample: usize, seed: usize) -> Result<Outcome> {
    let listed = capture(mutants(tool, area).arg("--list"))?.lines().count();
    let shards = listed.div_ceil(sample.max(1)).max(1);
    let folder = target_dir().join("mutants").join(area.name);
    let mut first = mutants(tool, area);
    first.args(["--sharding", "round-robin", "--shard", &format!("{}/{shards}", seed % shards)]);
    let mut outcome = tried(first, &folder)?;
    if area.simulated && !outcome.survivors.is_empty() {
        let mut again = mutants(tool, area);
        again.args(["--test-package", "sim"]);
        for survivor in &outcome.survivors {
            again.args(["--re", &format!("^{}$", escaped(survivor))]);
        }
        let simulated = tried(again, &folder.join("simulated"))?;
        outcome = Outcome { found: outcome.found + simulated.found, survivors: simulated.survivors };
    }
    Ok(outcome)
}

/// The tool for the sources of an area.
fn mutants(tool: &Path, area: &Area) -> Command {
    let mut mutants = command(&tool.to_string_lossy(), &["mutants", "--no-times", "--colors", "never"]);
    mutants.args(["--package", area.package.rsplit('/').next().unwrap_or(area.package)]);
    for source in area.sources {
        mutants.args(["--file", &format!("{}/src/{source}", area.package)]);
    }
    mutants.args(["--exclude", "**/*_test.rs"]);
    mutants
}

/// Runs the tool, and reads which mutants tests found. One that hangs a test is found.
fn tried(mut mutants: Command, folder: &Path) -> Result<Outcome> {
    std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    let status = mutants.arg("--output").arg(folder).status().context("can't start cargo-mutants")?;
    // 2: some survive; 3: some time out.
    let is_complete = matches!(status.code(), Some(0 | 2 | 3));
    ensure!(is_complete, "cargo-mutants ended with {status}: see {}/mutants.out/log", folder.display());
    let found = lines(folder, "caught.txt")?.len() + lines(folder, "timeout.txt")?.len();
    Ok(Outcome { found, survivors: lines(folder, "missed.txt")? })
}

fn lines(folder: &Path, name: &str) -> Result<BTreeSet<String>> {
    let path: PathBuf = folder.join("mutants.out").join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// A text as a regular expression that matches it alone.
fn escaped(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || letter == ' ';
    text.chars().flat_map(|letter| (!is_plain(letter)).then_some('\\').into_iter().chain([letter])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::root;

    #[test]
    fn every_area_has_its_sources() {
        for area in AREAS {
            for source in area.sources {
                let path = root().join(area.package).join("src").join(source.trim_end_matches("**"));
                assert!(path.exists(), "{}: no {}", area.name, path.display());
            }
        }
    }
}
