//! Sizes and durations as operators write them: one parser for the command line, the daemon's options and the API's filters, so
//! that a unit means the same everywhere. docs/glossary.md has the rules.

use bytesize::ByteSize;

/// Bytes in `10GiB` (1024³ each), `10GB` (1000³ each), `10G` (as GiB), or a number without a unit.
///
/// # Errors
/// When it is none of these. The text says what to write.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    // A single letter is the binary unit, as everywhere on hosts (lvcreate, truncate, zfs).
    let binary = match text.char_indices().last() {
        Some((at, 'k' | 'K' | 'm' | 'M' | 'g' | 'G' | 't' | 'T' | 'p' | 'P')) => at > 0,
        _ => false,
    };
    let whole = if binary { format!("{text}iB") } else { text.to_owned() };
    let size = whole.parse::<ByteSize>().map(|size| size.as_u64()).map_err(|_| {
        "write bytes, or a number with a unit: KiB, MiB, GiB, TiB, PiB (1024 each), or KB, MB, GB, TB, PB (1000 each)"
    })?;
    match size {
        // What does not fit would be cut to this.
        u64::MAX => Err("it is more than can be counted: write less than 16 EiB".into()),
        0 if text.contains(|digit| matches!(digit, '1'..='9')) => {
            Err("it is less than one byte: write whole bytes, or a larger number".into())
        }
        size => Ok(size),
    }
}

/// Seconds in a duration: `90s`, `15m`, `12h`, `7d`, `4w`.
///
/// # Errors
/// When it is none. The text says what to write.
pub fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 7 * 86_400)];
    let (number, each) =
        units.iter().find_map(|(unit, each)| Some((text.strip_suffix(unit)?, *each))).unwrap_or(("", 1));
    let number = number.parse::<u64>().ok().filter(|_| !number.starts_with('+'));
    let seconds = number.and_then(|number| number.checked_mul(each));
    seconds.ok_or_else(|| "write a number with a unit: s, m, h, d or w, such as 12h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The web interface has the same table.
    #[test]
    fn a_unit_means_the_same_everywhere() {
        for (text, bytes) in [
            ("1B", 1),
            ("1KB", 1_000),
            ("1kB", 1_000),
            ("1KiB", 1 << 10),
            ("1MB", 1_000_000),
            ("1MiB", 1 << 20),
            ("1GB", 1_000_000_000),
            ("1GiB", 1 << 30),
            ("1TB", 1_000_000_000_000),
            ("1TiB", 1 << 40),
            ("1PB", 1_000_000_000_000_000),
            ("1PiB", 1 << 50),
            ("1K", 1 << 10),
            ("1m", 1 << 20),
            ("10G", 10 << 30),
            ("2T", 2 << 40),
            ("2 tib", 2 << 40),
            ("1.5TiB", 3 << 39),
            ("1.5TB", 1_500_000_000_000),
            ("15.5EiB", 31 << 59),
            ("0", 0),
            ("0GiB", 0),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["T", "1X", "1TiT", "1iB", "", "-1T", "NaN", "inf", "infGiB", "1e3GiB", "1 2GiB", "1,5GiB"]
        {
            assert!(size(bad).is_err(), "{bad}");
        }
        // What can't be counted is neither the largest number nor nothing.
        for bad in ["16EiB", "16384PiB", "99999999999999999999", "18446744073709551615", "0.4", "0.0001KiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!((seconds("90s"), seconds("7d"), seconds("2w")), (Ok(90), Ok(604_800), Ok(1_209_600)));
        for bad in ["", "7", "d", "-1h", "1.5h", "1y", "+1h", "18446744073709551615w", "1 h", "NaNs"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
