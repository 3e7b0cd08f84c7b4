//! Statistics of measurements: latency histograms, medians with their range, and the comparison of two builds. It uses
//! no clock.

use crate::seed::Seed;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Latencies with three significant digits, up to ten minutes.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

const MAX_LATENCY_NS: u64 = 600_000_000_000;

impl Default for Latencies {
    fn default() -> Self {
        // These bounds are valid.
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3);
        Self(histogram.unwrap_or_else(|_| unreachable!("three digits up to ten minutes are in its range")))
    }
}

impl Latencies {
    /// Records a latency.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(MAX_LATENCY_NS).max(1));
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The quantile `part` in µs; 0 if there are no latencies.
    pub fn at(&self, part: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(part) as f64 / 1e3 }
    }

    /// The arithmetic mean in µs.
    pub fn mean(&self) -> f64 {
        self.0.mean() / 1e3
    }

    /// Adds all latencies of another histogram.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so no value is out of range.
        let _ = self.0.add(&other.0);
    }
}

/// Median and range of repeated runs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Middle {
    /// The median.
    pub median: f64,
    /// Minimum.
    pub low: f64,
    /// Maximum.
    pub high: f64,
}

/// Median and range of the values; `None` if there are none.
pub fn middle(values: impl IntoIterator<Item = f64>) -> Option<Middle> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    let half = values.len() / 2;
    let median = match values.len() % 2 {
        0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    };
    Some(Middle { median, low, high })
}

/// The relation of two builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first has the greater figure.
    More,
    /// The first has the smaller figure.
    Less,
    /// The difference is insignificant.
    Same,
    /// The runs vary too much for a verdict.
    Unclear,
}

/// The first build's figure as a multiple of the second's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// Lower bound of the 95 % confidence interval.
    pub low: f64,
    /// Upper bound of the 95 % confidence interval.
    pub high: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Confidence in the verdict, 0 to 1.
    pub confidence: f64,
}

/// Ratios nearer to 1 than this are insignificant.
const MIN_DIFFERENCE: f64 = 0.03;
const RESAMPLINGS: usize = 4000;
/// Confidence required for a difference: a comparison has some twenty figures, of which none should be a false alarm.
const MIN_CONFIDENCE: f64 = 0.995;

/// Sign-flip permutation test: the probability of a mean at least as far from 0 if the sign of each value were random.
/// Exact for up to 12 values; for more of them signs are sampled.
fn p_value(logs: &[f64]) -> f64 {
    let mean = logs.iter().sum::<f64>().abs();
    let ways = if logs.len() <= 12 { 1 << logs.len() } else { RESAMPLINGS as u64 };
    let mut seed = Seed::new(1);
    let as_far = |way: u64| {
        let signs = if logs.len() <= 12 { way } else { seed.bits() };
        let flipped =
            logs.iter().enumerate().map(|(n, log)| if signs >> (n % 64) & 1 == 0 { *log } else { -log });
        // Tolerates rounding that depends on the order of addition.
        flipped.sum::<f64>().abs() >= mean * (1.0 - 1e-9)
    };
    let count = (0..ways).map(as_far).filter(|far| *far).count().max(1);
    count as f64 / ways as f64
}

/// Compares runs that were made in pairs, one directly after the other, so that other load of the machine affects both.
/// The interval is a bootstrap of the pairs' ratios, and the difference is decided by a sign-flip test; neither assumes a
/// distribution. Fewer than 9 pairs can't show a difference. `None` without pairs.
pub fn compare(pairs: &[(f64, f64)]) -> Option<Comparison> {
    let logs: Vec<f64> = pairs.iter().map(|(ours, theirs)| (ours / theirs).ln()).collect();
    if logs.is_empty() || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / logs.len() as f64;
    let mut seed = Seed::new(logs.len() as u64);
    let mut means: Vec<f64> = (0..RESAMPLINGS)
        .map(|_| mean(&mut (0..logs.len()).map(|_| logs[seed.range(0, logs.len() as u64) as usize])))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let ratio = mean(&mut logs.iter().copied()).exp();
    let (low, high) = (means[RESAMPLINGS / 40].exp(), means[RESAMPLINGS - 1 - RESAMPLINGS / 40].exp());
    let differ = 1.0 - p_value(&logs);
    let same = means.iter().filter(|log| (log.exp() - 1.0).abs() < MIN_DIFFERENCE).count() as f64
        / RESAMPLINGS as f64;
    let (verdict, confidence) = if differ >= MIN_CONFIDENCE && ratio > 1.0 + MIN_DIFFERENCE {
        (Verdict::More, differ)
    } else if differ >= MIN_CONFIDENCE && ratio < 1.0 - MIN_DIFFERENCE {
        (Verdict::Less, differ)
    } else if low > 1.0 - MIN_DIFFERENCE && high < 1.0 + MIN_DIFFERENCE {
        (Verdict::Same, same)
    } else {
        (Verdict::Unclear, 0.0)
    };
    Some(Comparison { ratio, low, high, verdict, confidence })
}

#[cfg(test)]
#[path = "stats_test.rs"]
mod tests;
