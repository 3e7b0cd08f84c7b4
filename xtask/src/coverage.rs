//! Coverage of the engine and the drives' layer by the simulated worlds: which code no seed has run.
//!
//! The compiler's own instrumentation is used (`-C instrument-coverage`); its data are read by the `llvm-profdata` and
//! `llvm-cov` of the same toolchain, as the format changes with every release.

use crate::shell::{capture, cargo, command, exec, root, target_dir};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Folders whose sources are reported.
const REPORTED: &[&str] = &["io/engine/src/", "io/raid/src/", "io/shelf/src/"];

/// What no seed can run: files and block devices of the system, which `cargo xtask crash` and the tests of `raid` run, and
/// implementations for tests of other crates.
const NOT_SIMULATED: &[&str] = &[
    "io/engine/src/media",
    "io/raid/src/device",
    "io/raid/src/mem_drive.rs",
    "io/shelf/src/conformance.rs",
    "io/shelf/src/model.rs",
];

/// A stretch of a file that no seed has run: first and last line.
type Missed = (u64, u64);

/// Coverage of a file.
#[derive(Default)]
struct FileCoverage {
    regions: u64,
    missed_regions: u64,
    missed: Vec<Missed>,
}

/// Builds the simulator with counters, runs the seeds of every world, and writes which code was not run.
pub fn run(from: u64, seeds: u64) -> Result<()> {
    let tools = tools()?;
    let folder = target_dir().join("coverage");
    let build = || {
        let mut build = cargo(&["build", "-p", "sim", "--bin", "sim"]);
        build.arg("--target-dir").arg(&folder).env("RUSTFLAGS", "-C instrument-coverage");
        build.env("LLVM_PROFILE_FILE", folder.join("build-%p.profraw"));
        build
    };
    exec(&mut build())?;
    let (binary, raw) = (folder.join("debug/sim"), folder.join("sim.profraw"));
    let words = ["--from", &from.to_string(), "--seeds", &seeds.to_string()];
    exec(command(text(&binary)?, &words).env("LLVM_PROFILE_FILE", &raw))?;
    let merged = folder.join("sim.profdata");
    exec(&mut command(
        text(&tools.join("llvm-profdata"))?,
        &["merge", "-sparse", text(&raw)?, "-o", text(&merged)?],
    ))?;
    let export = ["export", "-skip-expansions", "-instr-profile", text(&merged)?, text(&binary)?];
    let export = capture(&mut command(text(&tools.join("llvm-cov"))?, &export))?;
    let files = read(&serde_json::from_str(&export).context("the output of llvm-cov")?)?;
    let report = folder.join("missed.txt");
    std::fs::write(&report, list(&files)?).with_context(|| format!("can't write {}", report.display()))?;
    summary(&files);
    println!("\nnever run, by line: {}", report.display());
    Ok(())
}

/// The folder of the LLVM programs that belong to the compiler.
fn tools() -> Result<PathBuf> {
    let rustc = |words: &[&str]| capture(&mut command("rustc", words)).map(|output| output.trim().to_owned());
    let host = rustc(&["--print", "host-tuple"])?;
    let folder = Path::new(&rustc(&["--print", "sysroot"])?).join("lib/rustlib").join(host).join("bin");
    if !folder.join("llvm-cov").exists() {
        bail!("llvm-cov of this compiler is missing: `rustup component add llvm-tools` installs it");
    }
    Ok(folder)
}

/// The regions of all functions, by file and span. A generic function has an instance for each use; a region counts as
/// run if one of them has run it.
fn read(export: &Value) -> Result<BTreeMap<String, FileCoverage>> {
    const CODE: u64 = 0;
    let functions =
        export["data"][0]["functions"].as_array().context("no functions in the output of llvm-cov")?;
    let mut counts: BTreeMap<String, BTreeMap<[u64; 4], u64>> = BTreeMap::new();
    for function in functions {
        let Some(name) = function["filenames"][0].as_str().and_then(reported) else { continue };
        let file = counts.entry(name).or_default();
        for region in function["regions"].as_array().into_iter().flatten() {
            let number = |index: usize| region[index].as_u64().unwrap_or(0);
            if number(7) == CODE && number(5) == 0 {
                let span = [number(0), number(1), number(2), number(3)];
                *file.entry(span).or_default() += number(4);
            }
        }
    }
    counts
        .into_iter()
        .map(|(name, regions)| {
            let source =
                std::fs::read_to_string(root().join(&name)).with_context(|| format!("can't read {name}"))?;
            let coverage = file(&regions, &source.lines().collect::<Vec<_>>());
            Ok((name, coverage))
        })
        .collect()
}

/// The `?` of a fallible call is a region of its own, for the error that is passed on. Those are left out: every device
/// operation has one, and the compiler generates their code.
fn is_propagation(lines: &[&str], [first, column, last, end]: [u64; 4]) -> bool {
    let line = lines.get((first as usize).saturating_sub(1)).copied().unwrap_or_default();
    first == last && end == column + 1 && line.get(column as usize - 1..end as usize - 1) == Some("?")
}

fn file(regions: &BTreeMap<[u64; 4], u64>, lines: &[&str]) -> FileCoverage {
    let mut coverage = FileCoverage::default();
    for (span @ [first, _, last, _], count) in regions {
        if is_propagation(lines, *span) {
            continue;
        }
        coverage.regions += 1;
        if *count > 0 {
            continue;
        }
        coverage.missed_regions += 1;
        match coverage.missed.last_mut() {
            Some(before) if *first <= before.1 + 1 => before.1 = before.1.max(*last),
            _ => coverage.missed.push((*first, *last)),
        }
    }
    coverage
}

/// The path inside the tree if the file is reported: tests beside the sources are not.
fn reported(path: &str) -> Option<String> {
    let inside = path.strip_prefix(root().to_str()?)?.trim_start_matches('/');
    let is_in = |places: &[&str]| places.iter().any(|place| inside.starts_with(place));
    (is_in(REPORTED) && !is_in(NOT_SIMULATED) && !inside.ends_with("_test.rs")).then(|| inside.to_owned())
}

/// Every stretch with its source lines.
fn list(files: &BTreeMap<String, FileCoverage>) -> Result<String> {
    let mut out = String::new();
    for (name, coverage) in files {
        let source =
            std::fs::read_to_string(root().join(name)).with_context(|| format!("can't read {name}"))?;
        let lines: Vec<&str> = source.lines().collect();
        for (first, last) in &coverage.missed {
            writeln!(out, "{name}:{first}")?;
            let range = (*first as usize).saturating_sub(1)..(*last as usize).min(lines.len());
            for line in lines.get(range).unwrap_or_default() {
                writeln!(out, "    {line}")?;
            }
        }
    }
    Ok(out)
}

fn summary(files: &BTreeMap<String, FileCoverage>) {
    println!("\n{:<44}{:>9}{:>9}{:>8}", "file", "regions", "missed", "run");
    let (mut regions, mut missed) = (0, 0);
    for (name, file) in files {
        println!(
            "{name:<44}{:>9}{:>9}{:>7}%",
            file.regions,
            file.missed_regions,
            percent(file.regions, file.missed_regions)
        );
        regions += file.regions;
        missed += file.missed_regions;
    }
    println!("{:<44}{regions:>9}{missed:>9}{:>7}%", "all", percent(regions, missed));
}

fn percent(regions: u64, missed: u64) -> u64 {
    (regions - missed) * 100 / regions.max(1)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_counts_as_run_if_one_instance_has_run_it() {
        let path = root().join("io/engine/src/map.rs");
        let region = |line: u64, count: u64| serde_json::json!([line, 1, line + 1, 9, count, 0, 0, 0]);
        let function = |regions: Vec<Value>| serde_json::json!({"filenames": [path], "regions": regions});
        let functions =
            vec![function(vec![region(3, 0), region(7, 0)]), function(vec![region(3, 2), region(8, 0)])];
        let files = read(&serde_json::json!({"data": [{"functions": functions}]})).expect("read");
        let file = &files["io/engine/src/map.rs"];
        assert_eq!((file.regions, file.missed_regions, &file.missed[..]), (3, 2, &[(7, 9)][..]));
    }
}
