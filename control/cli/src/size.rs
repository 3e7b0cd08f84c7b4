//! Parser of sizes with units; docs/glossary.md has the rules.

use bytesize::ByteSize;

/// Bytes in `10GiB` (1024³ each), `10GB` (1000³ each), `10G` (as GiB), or a number without a unit.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    // A single letter is the binary unit, as everywhere on hosts (lvcreate, truncate, zfs).
    let binary = match text.char_indices().last() {
        Some((at, 'k' | 'K' | 'm' | 'M' | 'g' | 'G' | 't' | 'T' | 'p' | 'P')) => at > 0,
        _ => false,
    };
    let whole = if binary { format!("{text}iB") } else { text.to_owned() };
    whole.parse::<ByteSize>().map(|size| size.as_u64()).map_err(|_| {
        "write bytes, or a number with a unit: KiB, MiB, GiB, TiB, PiB (1024 each), or KB, MB, GB, TB, PB (1000 each)"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The web interface and the daemon have the same table.
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
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["T", "1X", "1TiT", "1iB", "", "-1T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
