//! A performance sample: counters and latency histograms for a period. Samples add up without loss: a percentile of an
//! hour is computed from the histograms of its seconds, not as a mean of percentiles.

use std::collections::BTreeMap;

/// A latency histogram. The caller chooses the buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Counts by the upper bound of the bucket in nanoseconds (exclusive).
    buckets: BTreeMap<u64, u64>,
    /// Sum of all latencies in nanoseconds.
    total: u64,
}

impl Latencies {
    /// A histogram from bucket bounds in nanoseconds with counts, and the sum of all latencies in nanoseconds.
    pub fn new(buckets: impl IntoIterator<Item = (u64, u64)>, total: u64) -> Self {
        Self { buckets: buckets.into_iter().collect(), total }
    }

    /// Number of commands.
    pub fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// Sum of all latencies in nanoseconds.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Mean in nanoseconds; `None` if there are no commands.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.total as f64 / count as f64)
    }

    /// The quantile `q` in nanoseconds, rounded up to a bucket bound; 1 is the maximum.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut cumulative = 0;
        let reached = |(_, count): &(&u64, &u64)| {
            cumulative += **count;
            cumulative >= rank
        };
        self.buckets.iter().find(reached).map(|(end, _)| *end)
    }

    /// Upper bounds in nanoseconds with counts, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().map(|(end, count)| (*end, *count))
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Latencies) {
        for (end, count) in &other.buckets {
            *self.buckets.entry(*end).or_default() += count;
        }
        self.total += other.total;
    }
}

/// Commands of one kind and size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Bytes of successful commands.
    pub bytes: u64,
    /// Commands that failed.
    pub failures: u64,
    /// Latencies of successful commands.
    pub latency: Latencies,
}

impl Cell {
    /// Adds another cell.
    pub fn add(&mut self, other: &Cell) {
        self.bytes += other.bytes;
        self.failures += other.failures;
        self.latency.add(&other.latency);
    }
}

/// Counters of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Length of the period in milliseconds.
    pub millis: u64,
    /// Counters by kind and size class, which the caller defines. Cells without commands are absent.
    pub cells: BTreeMap<(u8, u8), Cell>,
    /// Bytes copied by sharing stored blocks.
    pub shared: u64,
    /// Bytes copied by reading and writing.
    pub moved: u64,
}

impl Sample {
    /// True if there were no commands.
    pub fn is_idle(&self) -> bool {
        self.cells.is_empty() && self.shared == 0 && self.moved == 0
    }

    /// Adds the counters of another sample without its length.
    pub fn add_work(&mut self, other: &Sample) {
        for (key, cell) in &other.cells {
            self.cells.entry(*key).or_default().add(cell);
        }
        self.shared += other.shared;
        self.moved += other.moved;
    }

    /// Adds the counters and the length of another period.
    pub fn add(&mut self, other: &Sample) {
        self.add_work(other);
        self.millis += other.millis;
    }

    /// The sum of the selected cells.
    pub fn sum(&self, selects: impl Fn(u8, u8) -> bool) -> Cell {
        let mut sum = Cell::default();
        self.cells
            .iter()
            .filter(|((kind, size), _)| selects(*kind, *size))
            .for_each(|(_, cell)| sum.add(cell));
        sum
    }
}

/// Unit of stored bucket bounds; others are rounded up.
const BOUND_UNIT_NS: u64 = 128;

/// Appends a sample that begins `offset` steps after its row. A row is a sequence of such samples.
pub(crate) fn encode(into: &mut Vec<u8>, offset: u64, sample: &Sample) {
    for value in [offset, sample.millis, sample.shared, sample.moved, sample.cells.len() as u64] {
        put(into, value);
    }
    for ((kind, size), cell) in &sample.cells {
        into.extend([*kind, *size]);
        for value in [cell.bytes, cell.failures, cell.latency.total, cell.latency.buckets.len() as u64] {
            put(into, value);
        }
        let mut before = 0;
        for (end, count) in &cell.latency.buckets {
            let end = end.div_ceil(BOUND_UNIT_NS);
            put(into, end - before);
            put(into, *count);
            before = end;
        }
    }
}

/// The samples of a row with their offsets, up to the first damaged one.
pub(crate) fn decode(mut row: &[u8]) -> Vec<(u64, Sample)> {
    let mut samples = Vec::new();
    while !row.is_empty() {
        match take_sample(&mut row) {
            Some(sample) => samples.push(sample),
            None => break,
        }
    }
    samples
}

fn take_sample(row: &mut &[u8]) -> Option<(u64, Sample)> {
    let offset = take(row)?;
    let mut sample =
        Sample { millis: take(row)?, shared: take(row)?, moved: take(row)?, cells: BTreeMap::new() };
    for _ in 0..take(row)? {
        let (key, rest) = row.split_first_chunk::<2>()?;
        *row = rest;
        let (bytes, failures, total) = (take(row)?, take(row)?, take(row)?);
        let (mut latency, mut end) = (Latencies { buckets: BTreeMap::new(), total }, 0u64);
        for _ in 0..take(row)? {
            end = end.checked_add(take(row)?)?;
            let count = latency.buckets.entry(end.checked_mul(BOUND_UNIT_NS)?).or_default();
            *count = count.saturating_add(take(row)?);
        }
        sample.cells.insert((key[0], key[1]), Cell { bytes, failures, latency });
    }
    Some((offset, sample))
}

/// Variable-length integer: seven bits a byte, the lowest first (LEB128).
fn put(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn take(row: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = row.split_first()?;
        *row = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
#[path = "sample_test.rs"]
mod tests;
