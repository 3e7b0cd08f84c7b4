//! Log messages with performance and capacity: the sum of a minute, for log products without a collector of metrics.

use crate::events::catalogue::{self, CAPACITY_PARAMETERS, PERFORMANCE_PARAMETERS, Parameter};
use crate::service::metering;
use engine::SpaceReport;
use export::Operation;
use history::{Cell, Sample};
use notify::{LogClass, LogMessage};

/// Length of the period of a message, in milliseconds.
const PERIOD_MILLIS: u64 = 60_000;
const NANOS_PER_MICRO: f64 = 1_000.0;
const MILLIS_PER_SECOND: u128 = 1_000;

/// What was done since the last message.
#[derive(Debug, Default)]
pub(crate) struct Statistics(Sample);

impl Statistics {
    /// Adds what was measured. Returns the sum once it covers a period, and begins again.
    pub fn add(&mut self, sample: &Sample) -> Option<Sample> {
        self.0.add(sample);
        (self.0.millis >= PERIOD_MILLIS).then(|| std::mem::take(&mut self.0))
    }
}

fn named(parameters: &[Parameter], values: &[u64]) -> Vec<(&'static str, u64)> {
    parameters.iter().map(|parameter| parameter.name).zip(values.iter().copied()).collect()
}

/// The message with the performance of a period that ended at `time`, in seconds since 1970.
pub(crate) fn performance(array: (&str, &str), time: u64, sample: &Sample) -> LogMessage {
    let of = |operation| sample.sum(|kind, _| metering::kind(kind) == Some(operation));
    let (read, write, all) = (of(Operation::Read), of(Operation::Write), sample.sum(|_, _| true));
    let per_second = |amount: u64| {
        let whole = u128::from(amount) * MILLIS_PER_SECOND / u128::from(sample.millis.max(1));
        u64::try_from(whole).unwrap_or(u64::MAX)
    };
    let latency =
        |cell: &Cell| cell.latency.mean().map_or(0, |nanos| (nanos / NANOS_PER_MICRO).round() as u64);
    let count = |operation| of(operation).latency.count();
    let values = [
        sample.millis / 1_000,
        per_second(read.latency.count()),
        per_second(write.latency.count()),
        per_second(read.bytes),
        per_second(write.bytes),
        latency(&read),
        latency(&write),
        count(Operation::CompareAndWrite),
        count(Operation::Copy),
        count(Operation::TokenCopy),
        count(Operation::WriteSame),
        count(Operation::Unmap),
        sample.shared,
        sample.moved,
        all.failures,
    ];
    let text = format!("{} reads/s and {} writes/s in the last {} s", values[1], values[2], values[0]);
    let what = (LogClass::Performance, catalogue::PERFORMANCE, time);
    LogMessage::of_values(array, what, named(PERFORMANCE_PARAMETERS, &values), text)
}

/// The message with the use of space at a time, in seconds since 1970.
pub(crate) fn capacity(array: (&str, &str), time: u64, space: &SpaceReport) -> LogMessage {
    let used = space.total.saturating_sub(space.free);
    let percent = u128::from(used) * 100 / u128::from(space.total.max(1));
    let percent = u64::try_from(percent).unwrap_or(u64::MAX);
    let values = [
        space.total,
        space.free,
        space.physical,
        space.metadata,
        space.provisioned,
        space.logical(),
        percent,
        space.ratios().data.map_or(0, |ratio| (ratio * 100.0).round() as u64),
    ];
    let text = format!("{percent} % of the space is used, {} bytes are free", space.free);
    let what = (LogClass::Capacity, catalogue::CAPACITY, time);
    LogMessage::of_values(array, what, named(CAPACITY_PARAMETERS, &values), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Latencies;

    fn cell(bytes: u64, count: u64, nanos: u64) -> Cell {
        Cell { bytes, failures: 1, latency: Latencies::new([(nanos, count)], nanos * count) }
    }

    #[test]
    fn values_of_a_minute_have_the_names_of_the_catalogue() {
        // By number, as in files: read, write, compare and write, copy, write same, unmap.
        let cells = [(0, 6_000, 120), (1, 3_000, 60), (2, 7, 1), (3, 5, 1), (4, 3, 1), (5, 2, 1), (7, 4, 1)];
        let cells =
            cells.map(|(kind, count, micros)| ((kind, 12), cell(count * 4096, count, micros * 1_000)));
        let second = Sample { millis: 30_000, cells: cells.into(), shared: 10, moved: 20 };
        let mut statistics = Statistics::default();
        assert_eq!(statistics.add(&second), None);
        let minute = statistics.add(&second).expect("a minute");
        assert_eq!(statistics.add(&second), None, "the next minute begins");
        let made = performance(("lab", "00000000005e71a1"), 7, &minute);
        let expected = [60, 200, 100, 819_200, 409_600, 120, 60, 14, 10, 8, 6, 4, 20, 40, 14];
        let expected: Vec<_> = PERFORMANCE_PARAMETERS.iter().zip(expected).collect();
        let found: Vec<_> = made.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected: Vec<_> = expected.iter().map(|(it, value)| format!("{}={value}", it.name)).collect();
        assert_eq!(found, expected);
        assert!(made.text.contains("200 reads/s"), "{}", made.text);
    }

    #[test]
    fn an_idle_array_and_an_empty_one_have_values() {
        let idle = performance(("lab", "1"), 7, &Sample { millis: 60_000, ..Sample::default() });
        assert_eq!(idle.parameters.len(), PERFORMANCE_PARAMETERS.len());
        assert!(idle.parameters[1..].iter().all(|(_, value)| value == "0"), "{idle:?}");
        let empty = capacity(("lab", "1"), 7, &SpaceReport::default());
        assert_eq!(empty.parameters.len(), CAPACITY_PARAMETERS.len());
        let space =
            SpaceReport { total: 1000, free: 250, physical: 500, unique: 1500, ..SpaceReport::default() };
        let made = capacity(("lab", "1"), 7, &space);
        let value =
            |name| made.parameters.iter().find(|(it, _)| *it == name).map(|(_, value)| value.as_str());
        assert_eq!((value("used_percent"), value("reduction_percent")), (Some("75"), Some("300")));
    }
}
