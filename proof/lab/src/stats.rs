//! What is made of measurements: latencies in a histogram, medians with their spread, and a verdict on two builds.
//! Nothing here knows a clock.

use crate::seed::Seed;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Latencies, kept to three digits up to ten minutes.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

const LONGEST_NS: u64 = 600_000_000_000;

impl Default for Latencies {
    fn default() -> Self {
        // Bounds that are known to be good.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        Self(histogram.unwrap_or_else(|_| unreachable!("three digits up to ten minutes are in its range")))
    }
}

impl Latencies {
    /// Takes one more.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS).max(1));
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency in µs below which this part of them is; 0 when there is none.
    pub fn at(&self, part: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(part) as f64 / 1e3 }
    }

    /// The arithmetic mean in µs.
    pub fn mean(&self) -> f64 {
        self.0.mean() / 1e3
    }

    /// Takes all of another's.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so that nothing is out of range.
        let _ = self.0.add(&other.0);
    }
}

/// The middle of repeated runs, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Middle {
    /// The median.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

/// The middle of these values; none of nothing.
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

/// What two builds are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first has the greater figure.
    More,
    /// The first has the smaller figure.
    Less,
    /// They differ by less than matters.
    Same,
    /// The runs lie too far apart to say.
    Unclear,
}

/// The first build's figure as a multiple of the second's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The mean ratio, geometrically.
    pub ratio: f64,
    /// 95 of 100 resamplings lie between this
    pub low: f64,
    /// and this.
    pub high: f64,
    /// What that means.
    pub verdict: Verdict,
    /// How sure the verdict is, 0 to 1: the part of the resamplings that agree with it.
    pub confidence: f64,
}

/// Ratios nearer to 1 than this are no difference.
const MATTERS: f64 = 0.03;
const RESAMPLINGS: usize = 4000;

/// Compares runs that were made in pairs, one directly after the other, so that what the machine did besides befell
/// both. The pairs' ratios are resampled (bootstrap), which asks nothing of their distribution. None without pairs.
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
    let part = |agrees: &dyn Fn(f64) -> bool| {
        means.iter().filter(|log| agrees(log.exp())).count() as f64 / RESAMPLINGS as f64
    };
    let (verdict, confidence) = if low > 1.0 && ratio > 1.0 + MATTERS {
        (Verdict::More, part(&|ratio| ratio > 1.0))
    } else if high < 1.0 && ratio < 1.0 - MATTERS {
        (Verdict::Less, part(&|ratio| ratio < 1.0))
    } else if low > 1.0 - MATTERS && high < 1.0 + MATTERS {
        (Verdict::Same, part(&|ratio| (ratio - 1.0).abs() < MATTERS))
    } else {
        (Verdict::Unclear, 0.0)
    };
    Some(Comparison { ratio, low, high, verdict, confidence })
}

#[cfg(test)]
#[path = "stats_test.rs"]
mod tests;
