//! Comparison of two builds of the array: the same loads alternately, with a verdict and its confidence for each.

use crate::array::{Array, Programs};
use crate::bench::{Client, Options, array, fill, loads, pin};
use crate::load::{self, INITIATOR, LOGICAL_BLOCK_BYTES, Measure, Until};
use crate::scratch::Scratch;
use crate::stats::{self, Comparison};
use crate::target::{Shape, Target};
use anyhow::{Context, Result};
use std::path::Path;

/// A load on both builds: ratios of the new build's figures to the old one's; more is better.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the load.
    pub name: String,
    /// Operations per second.
    pub rate: Comparison,
    /// Operations per second of processor time.
    pub efficiency: Comparison,
}

/// Measures the loads whose names contain `only` on both builds, in a folder below `parent`.
pub fn run(
    builds: [&Programs; 2],
    parent: &Path,
    options: Options,
    only: &str,
    mut report: impl FnMut(&Row),
) -> Result<()> {
    pin(options.client_core)?;
    let scratch = Scratch::new(parent, "compare")?;
    let mut arrays = Vec::new();
    for (programs, name) in builds.into_iter().zip(["new", "old"]) {
        let folder = scratch.path().join(name);
        std::fs::create_dir_all(&folder)?;
        arrays.push(filled(programs, &folder, options).with_context(|| format!("the {name} build"))?);
    }
    let loads = loads(options).into_iter();
    for (name, load, _) in loads.filter(|(name, _, client)| *client == Client::Ours && name.contains(only)) {
        let pairs = pairs(options.rounds, |index| {
            let (array, lun) = &arrays[index];
            load::run(array, *lun, load, Until::Time(options.time)).with_context(|| name.clone())
        })?;
        report(&row(name, &pairs)?);
    }
    Ok(())
}

/// An array in a folder with one volume, whose used part has been written.
pub(crate) fn filled(programs: &Programs, folder: &Path, options: Options) -> Result<(Array, u16)> {
    let mut array = array(programs, folder, Some(options.target_core))?;
    let shape = Shape { bytes: options.span, block_bytes: LOGICAL_BLOCK_BYTES };
    let lun = *array.fresh(&[shape], &[INITIATOR])?.first().context("a LUN")?;
    fill(&array, lun, options)?;
    Ok((array, lun))
}

/// Measures both builds, given by index, in `rounds` rounds.
pub(crate) fn pairs(
    rounds: usize,
    mut measure: impl FnMut(usize) -> Result<Measure>,
) -> Result<Vec<(Measure, Measure)>> {
    let pair = |round: usize| {
        // The order alternates, since the first run of a pair may change conditions for the second.
        if round.is_multiple_of(2) {
            return Ok((measure(0)?, measure(1)?));
        }
        let second = measure(1)?;
        Ok((measure(0)?, second))
    };
    (0..rounds).map(pair).collect()
}

pub(crate) fn row(name: String, pairs: &[(Measure, Measure)]) -> Result<Row> {
    let compare = |value: fn(&Measure) -> f64| {
        let pairs: Vec<_> = pairs.iter().map(|(new, old)| (value(new), value(old))).collect();
        stats::compare(&pairs).with_context(|| format!("{name}: runs too short to be compared"))
    };
    let (rate, efficiency) = (compare(|it| it.iops)?, compare(|it| 1.0 / it.cpu_us)?);
    Ok(Row { name, rate, efficiency })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Verdict;

    #[test]
    fn the_order_of_a_pair_alternates_and_figures_keep_their_build() -> Result<()> {
        let mut order = Vec::new();
        let pairs = pairs(3, |index| {
            order.push(index);
            Ok(Measure { count: 1.0, iops: index as f64, cpu_us: 1.0, p50_us: 1.0, p99_us: 1.0, max_us: 1.0 })
        })?;
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
        assert!(pairs.iter().all(|(first, second)| (first.iops, second.iops) == (0.0, 1.0)), "{pairs:?}");
        Ok(())
    }

    #[test]
    fn less_processor_time_is_more_efficiency() -> Result<()> {
        let measure =
            |iops, cpu_us| Measure { count: 1.0, iops, cpu_us, p50_us: 1.0, p99_us: 1.0, max_us: 1.0 };
        let pairs = vec![(measure(100.0, 5.0), measure(100.0, 10.0)); 10];
        let row = row("load".into(), &pairs)?;
        assert_eq!((row.rate.verdict, row.efficiency.verdict), (Verdict::Same, Verdict::More));
        assert!((row.efficiency.ratio - 2.0).abs() < 1e-9);
        let none = vec![(measure(100.0, 0.0), measure(100.0, 0.0)); 5];
        assert!(super::row("load".into(), &none).is_err());
        Ok(())
    }
}
