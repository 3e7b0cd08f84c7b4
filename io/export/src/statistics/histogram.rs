//! Latency histogram with logarithmic buckets: eight per power of two, so quantiles are at most an eighth too high.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per doubling, as a power of two.
const FINE_BITS: u32 = 3;

/// The first bucket contains all values below 2^10 ns, about a microsecond.
const FIRST_BITS: u32 = 10;

/// The last bucket contains all values from 2^36 ns, about 69 seconds.
const LAST_BITS: u32 = 36;

const BUCKETS: usize = 2 + ((LAST_BITS - FIRST_BITS) << FINE_BITS) as usize;

/// Counters that may be written while they are read.
pub(crate) struct Buckets {
    total: AtomicU64,
    counts: [AtomicU64; BUCKETS],
}

impl Default for Buckets {
    fn default() -> Self {
        Self { total: AtomicU64::new(0), counts: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

impl Buckets {
    pub(crate) fn record(&self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)].fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Number of values, and their sum.
    pub(crate) fn sums(&self) -> (u64, u64) {
        let count = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        (count, self.total.load(Ordering::Relaxed))
    }

    pub(crate) fn histogram(&self) -> Histogram {
        let loaded = (0u16..).zip(&self.counts).map(|(index, count)| (index, count.load(Ordering::Relaxed)));
        Histogram {
            counts: loaded.filter(|(_, count)| *count > 0).collect(),
            total: self.total.load(Ordering::Relaxed),
        }
    }
}

/// The bucket of a value.
fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < 1 << FIRST_BITS {
        return 0;
    }
    let doubling = nanoseconds.ilog2();
    let fine = (nanoseconds >> (doubling - FINE_BITS)) as usize & ((1 << FINE_BITS) - 1);
    (1 + (((doubling - FIRST_BITS) as usize) << FINE_BITS) + fine).min(BUCKETS - 1)
}

/// The exclusive upper bound of a bucket in nanoseconds.
fn end(bucket: u16) -> u64 {
    let (doubling, fine) = (u32::from(bucket) >> FINE_BITS, u64::from(bucket) & ((1 << FINE_BITS) - 1));
    (1 << (FIRST_BITS + doubling)) + (fine << (FIRST_BITS + doubling - FINE_BITS))
}

/// Numbers of commands by latency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: BTreeMap<u16, u64>,
    /// Sum in nanoseconds.
    total: u64,
}

impl Histogram {
    /// Number of commands.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Sum of the latencies.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total)
    }

    /// Mean latency; `None` if there are no commands.
    pub fn mean(&self) -> Option<Duration> {
        self.total.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// The quantile `q` (0.99 for the 99th percentile, 1 for the maximum), at most an eighth too high; `None` if
    /// there are no commands.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut cumulative = 0;
        let reached = |(_, count): &(Duration, u64)| {
            cumulative += count;
            cumulative >= rank
        };
        self.buckets().find(reached).map(|(end, _)| end)
    }

    /// The non-empty buckets in ascending order: exclusive upper bound and number of commands.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.counts.iter().map(|(bucket, count)| (Duration::from_nanos(end(*bucket)), *count))
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Histogram) {
        for (bucket, count) in &other.counts {
            *self.counts.entry(*bucket).or_default() += count;
        }
        self.total += other.total;
    }

    /// The difference to an earlier state of the same counters.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let before = |bucket| earlier.counts.get(bucket).copied().unwrap_or(0);
        let differences =
            self.counts.iter().map(|(bucket, count)| (*bucket, count.saturating_sub(before(bucket))));
        Histogram {
            counts: differences.filter(|(_, count)| *count > 0).collect(),
            total: self.total.saturating_sub(earlier.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_at_most_an_eighth_above_it() {
        let samples = (0..64).flat_map(|bit| [0, 1, 3, 7].map(|low| (1u64 << bit) | (low << bit >> 3)));
        for value in samples {
            let end = end(bucket(value) as u16);
            if value >= 1 << LAST_BITS {
                assert_eq!(bucket(value), BUCKETS - 1);
                continue;
            }
            assert!(end > value, "{value} is not below {end}");
            assert!(value < 1 << FIRST_BITS || end - value <= value / 8, "{value} is far below {end}");
        }
        assert!((1..BUCKETS as u16).all(|index| bucket(end(index - 1)) == usize::from(index)));
    }

    #[test]
    fn quantiles_and_differences_have_the_resolution_of_buckets() {
        let buckets = Buckets::default();
        (1..=100u64).for_each(|micros| buckets.record(micros * 1000));
        let all = buckets.histogram();
        assert_eq!((all.count(), all.mean()), (100, Some(Duration::from_nanos(50_500))));
        let near = |part, micros: u64| {
            let value = all.quantile(part).expect("not empty").as_nanos() as u64;
            assert!((micros * 1000..=micros * 1130).contains(&value), "{value} for {micros} us");
        };
        near(0.5, 50);
        near(0.99, 99);
        near(1.0, 100);
        assert_eq!(buckets.sums(), (100, 5_050_000));
        near(0.0, 1);
        buckets.record(5_000_000);
        let later = buckets.histogram().since(&all);
        assert_eq!((later.count(), later.total()), (1, Duration::from_millis(5)));
        assert_eq!(Histogram::default().quantile(0.5), None);
        let mut sum = later.clone();
        sum.add(&all);
        assert_eq!(sum, buckets.histogram());
    }
}
