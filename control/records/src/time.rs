//! Conversion between times and text (RFC 3339), from 1970 to the end of the year 9999.

use jiff::Span;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::Pieces;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// The last second that RFC 3339 can express: 9999-12-31T23:59:59Z.
const MAX_SECONDS: u64 = 253_402_300_799;

/// Formats seconds since 1970 as RFC 3339 in UTC; later times become the last second of the year 9999.
pub fn utc(seconds: u64) -> String {
    let since = Span::new().seconds(seconds.min(MAX_SECONDS) as i64);
    let time = EPOCH.checked_add(since).unwrap_or(DateTime::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Parses an RFC 3339 time with date, time and offset to seconds since 1970; `None` if the text is invalid, or before
/// 1970. Fractions of a second are dropped.
///
/// The offset is subtracted here, because an instant of the time library needs room for it at both ends of the
/// calendar, which a civil time lacks.
pub fn seconds(text: &str) -> Option<u64> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = i64::from(pieces.to_numeric_offset()?.seconds());
    let since = pieces.date().to_datetime(pieces.time()?).duration_since(EPOCH).as_secs();
    u64::try_from(since.checked_sub(offset)?).ok().filter(|seconds| *seconds <= MAX_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_that_rfc_3339_can_write_is_a_time() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-28T12:00:00Z", 1_795_867_200),
            ("9999-12-30T22:00:01Z", 253_402_207_201),
            ("9999-12-31T23:59:59Z", MAX_SECONDS),
        ] {
            assert_eq!((seconds(text), utc(expected).as_str()), (Some(expected), text));
        }
        assert_eq!(seconds("2026-11-28T13:00:00.75+01:00"), Some(1_795_867_200));
        assert_eq!(seconds("9999-12-31T23:59:59-00:01"), None, "a minute after the last one");
        assert_eq!(utc(u64::MAX), "9999-12-31T23:59:59Z");
        for wrong in
            ["", "soon", "2026-11-28", "2026-11-28T12:00:00", "1969-12-31T23:59:59Z", "9999-12-32T00:00:00Z"]
        {
            assert_eq!(seconds(wrong), None, "{wrong:?}");
        }
    }
}
