//! The recorded run of a suite as a limit: what a later run may not be worse than.

use super::record::{Figure, number};

/// How much worse a figure may be: two runs of one build can differ by a third.
const MARGIN: f64 = 1.5;

/// A figure that is worse than recorded.
#[derive(Debug, PartialEq)]
pub struct Worse {
    /// Its name.
    pub name: String,
    /// Beside the peer: processor time for each operation, or operations a second.
    pub found: f64,
    /// The same as recorded.
    pub recorded: f64,
}

/// The figures of a run that are worse than recorded by more than the margin. All are taken as multiples of the peer's, which ran
/// on the same machine. Latencies do not count: other work of the machine changes them most.
pub fn worse(recorded: &[Figure], found: &[Figure]) -> Vec<Worse> {
    let pair = |figure: &Figure| {
        let before = recorded.iter().find(|it| it.name == figure.name)?;
        Some((ratio(figure)?, ratio(before)?))
    };
    let is_worse = |figure: &Figure| {
        let (found, recorded) = pair(figure)?;
        let is_worse = if figure.name.contains(": CPU per ") {
            found > recorded * MARGIN
        } else {
            figure.name.contains(": IOPS") && found * MARGIN < recorded
        };
        is_worse.then(|| Worse { name: figure.name.clone(), found, recorded })
    };
    found.iter().filter_map(is_worse).collect()
}

fn ratio(figure: &Figure) -> Option<f64> {
    Some(number(&figure.array)? / number(&figure.peer)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::figure;

    #[test]
    fn what_is_worse_beyond_the_margin_is_found() {
        let recorded = [
            figure("read: IOPS, × tgt", "3.00", "1"),
            figure("read: CPU per I/O", "10.0 µs", "20.0 µs"),
            figure("read: p50 latency, × tgt", "0.1", "1"),
        ];
        let same = [
            figure("read: IOPS, × tgt", "2.10", "1"),
            figure("read: CPU per I/O", "28.0 µs", "40.0 µs"),
            figure("read: p50 latency, × tgt", "5", "1"),
            figure("new: IOPS, × tgt", "0.1", "1"),
        ];
        assert_eq!(worse(&recorded, &same), []);
        let changed =
            [figure("read: IOPS, × tgt", "1.90", "1"), figure("read: CPU per I/O", "16.0 µs", "20.0 µs")];
        let names: Vec<_> = worse(&recorded, &changed).into_iter().map(|worse| worse.name).collect();
        assert_eq!(names, ["read: IOPS, × tgt", "read: CPU per I/O"]);
    }
}
