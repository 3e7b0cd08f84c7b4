//! `ashlard reduction-report`: predicts the space of files or devices on an array, with the reduction code of the data path.

use crate::args::{Output, ReductionReport};
use anyhow::{Context, Result};
use bytesize::ByteSize;
use engine::{Amounts, COMPARED_POLICIES, Compression, Estimate, Estimator, Ratios};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes reduced together, as the array flushes them.
const STEP: usize = 2 << 20;

/// Bytes of the index for each block of 4 KiB: enough that none is forgotten.
const INDEX_PER_BLOCK: u64 = 64;

/// Reads everything once and prints the report.
pub fn run(report: &ReductionReport) -> Result<()> {
    let mut files = Vec::with_capacity(report.paths.len());
    let mut total = 0;
    for path in &report.paths {
        let mut file = File::open(path).with_context(|| format!("{} can't be opened", path.display()))?;
        // A block device has no length but this.
        let bytes = file.seek(SeekFrom::End(0)).and_then(|end| file.rewind().map(|()| end));
        total += bytes.with_context(|| format!("the size of {} can't be read", path.display()))?;
        files.push((path, file));
    }
    let needed = (total / 4096 * INDEX_PER_BLOCK).max(1 << 20);
    let index = report.index_memory.unwrap_or_else(|| needed.min(machine::memory::limit().bytes / 4));
    let mut estimator = Estimator::new(&COMPARED_POLICIES, usize::try_from(index).unwrap_or(usize::MAX));
    for (volume, (path, file)) in (1..).zip(&mut files) {
        feed(&mut estimator, volume, file).with_context(|| format!("{} can't be read", path.display()))?;
    }
    let mut out = std::io::stdout().lock();
    match report.output {
        Output::Json => {
            let paths: Vec<_> = files.iter().map(|(path, _)| path.as_path()).collect();
            writeln!(out, "{}", to_json(&paths, &estimator))?;
        }
        Output::Table => print(&mut out, &estimator)?,
    }
    Ok(())
}

fn feed(estimator: &mut Estimator, volume: u32, file: &mut File) -> std::io::Result<()> {
    let mut step = Vec::with_capacity(STEP);
    let mut block = 0;
    loop {
        step.clear();
        Read::by_ref(file).take(STEP as u64).read_to_end(&mut step)?;
        if step.is_empty() {
            return Ok(());
        }
        estimator.feed(volume, block, &step);
        block += (STEP / 4096) as u64;
    }
}

/// As the array would show them when it held what was read, and nothing else. Zeros count in the total alone.
fn ratios(estimator: &Estimator, estimate: &Estimate) -> Ratios {
    Amounts {
        provisioned: estimator.bytes(),
        logical: estimator.bytes() - estimator.zeros(),
        unique: estimate.unique,
        physical: estimate.stored,
    }
    .ratios()
}

fn name(compression: Compression) -> &'static str {
    match compression {
        Compression::Adaptive => "adaptive",
        Compression::Off => "off",
        Compression::Fast => "fast",
        Compression::High => "high",
    }
}

fn to_json(paths: &[&Path], estimator: &Estimator) -> Value {
    let policy = |estimate: Estimate| {
        let Ratios { data, deduplication, compression, total, .. } = ratios(estimator, &estimate);
        json!({
            "dedup": estimate.policy.dedup,
            "compression": name(estimate.policy.compression),
            "unique": estimate.unique,
            "stored": estimate.stored,
            "ratios": { "dedup": deduplication, "compression": compression, "data": data, "total": total },
        })
    };
    json!({
        "paths": paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "bytes": estimator.bytes(),
        "zeros": estimator.zeros(),
        "policies": estimator.estimates().map(policy).collect::<Vec<_>>(),
    })
}

fn print(out: &mut impl Write, estimator: &Estimator) -> std::io::Result<()> {
    let (bytes, zeros) = (estimator.bytes(), estimator.zeros());
    writeln!(out, "{} read, {} of it zeros", ByteSize(bytes), ByteSize(zeros))?;
    writeln!(
        out,
        "{:<6} {:<12} {:>10} {:>10} {:>8} {:>12} {:>8}",
        "DEDUP", "COMPRESSION", "UNIQUE", "STORED", "DEDUP", "COMPRESSION", "TOTAL"
    )?;
    let show = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}:1"));
    for estimate in estimator.estimates() {
        let Ratios { deduplication, compression, total, .. } = ratios(estimator, &estimate);
        writeln!(
            out,
            "{:<6} {:<12} {:>10} {:>10} {:>8} {:>12} {:>8}",
            if estimate.policy.dedup { "on" } else { "off" },
            name(estimate.policy.compression),
            ByteSize(estimate.unique).to_string(),
            ByteSize(estimate.stored).to_string(),
            show(deduplication),
            show(compression),
            show(total),
        )?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "reduction_test.rs"]
mod tests;
