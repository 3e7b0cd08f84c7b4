//! Two builds of the array side by side: the same loads in turn, and a verdict on each with how sure it is.

use crate::array::{Array, Drives, Programs};
use crate::bench::{Client, Options, fill, loads, pin};
use crate::load::{self, INITIATOR, LOGICAL_BLOCK, Measure, Until};
use crate::scratch::Scratch;
use crate::stats::{self, Comparison};
use crate::target::{Shape, Target};
use anyhow::{Context, Result};
use std::path::Path;

/// A load on both builds: the new one's figures as multiples of the old one's, where more is better.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// Operations a second.
    pub rate: Comparison,
    /// Operations for each second of the processor.
    pub thrift: Comparison,
}

/// Measures the loads whose names contain `only` on both builds, in a folder below `parent`.
pub fn run(
    builds: [&Programs; 2],
    parent: &Path,
    options: Options,
    only: &str,
    mut tell: impl FnMut(&Row),
) -> Result<()> {
    pin(options.client_core)?;
    let scratch = Scratch::new(parent, "compare")?;
    let shape = Shape { bytes: options.span, block_bytes: LOGICAL_BLOCK };
    let mut arrays = Vec::new();
    for (programs, name) in builds.into_iter().zip(["new", "old"]) {
        let folder = scratch.path().join(name);
        std::fs::create_dir_all(&folder)?;
        let drives = Drives { count: 4, bytes: 8 << 30 };
        let mut array = Array::start(programs, &folder, drives, Some(options.target_core))
            .with_context(|| format!("the {name} build"))?;
        let lun = *array.fresh(&[shape], &[INITIATOR])?.first().context("a LUN")?;
        fill(&array, lun, options)?;
        arrays.push((array, lun));
    }
    let loads = loads(options).into_iter();
    for (name, load, _) in loads.filter(|(name, _, client)| *client == Client::Ours && name.contains(only)) {
        let mut pairs = Vec::new();
        for round in 0..options.rounds {
            let mut pair = [None; 2];
            // Who goes first changes: the second of a pair may find the machine otherwise.
            for index in [round % 2, 1 - round % 2] {
                let (array, lun) = &arrays[index];
                let measure = load::run(array, *lun, load, Until::Time(options.time));
                pair[index] = Some(measure.with_context(|| name.clone())?);
            }
            if let [Some(new), Some(old)] = pair {
                pairs.push((new, old));
            }
        }
        tell(&row(name, &pairs)?);
    }
    Ok(())
}

pub(crate) fn row(name: String, pairs: &[(Measure, Measure)]) -> Result<Row> {
    let compare = |value: fn(&Measure) -> f64| {
        let pairs: Vec<_> = pairs.iter().map(|(new, old)| (value(new), value(old))).collect();
        stats::compare(&pairs).with_context(|| format!("{name}: runs too short to be compared"))
    };
    let (rate, thrift) = (compare(|it| it.iops)?, compare(|it| 1.0 / it.cpu_us)?);
    Ok(Row { name, rate, thrift })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Verdict;

    #[test]
    fn less_processor_time_is_more_thrift() -> Result<()> {
        let measure = |iops, cpu_us| Measure { iops, cpu_us, p50_us: 1.0, p99_us: 1.0 };
        let pairs = vec![(measure(100.0, 5.0), measure(100.0, 10.0)); 10];
        let row = row("load".into(), &pairs)?;
        assert_eq!((row.rate.verdict, row.thrift.verdict), (Verdict::Same, Verdict::More));
        assert!((row.thrift.ratio - 2.0).abs() < 1e-9);
        let none = vec![(measure(100.0, 0.0), measure(100.0, 0.0)); 5];
        assert!(super::row("load".into(), &none).is_err());
        Ok(())
    }
}
