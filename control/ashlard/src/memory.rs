//! Memory limits derived from the machine's memory: deduplication index, map pages, connections of hosts.

/// Bytes of memory of this machine; 4 GiB if the system does not report it.
pub fn total() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse(&text));
    meminfo.unwrap_or(4 << 30)
}

fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes for the deduplication index by default: 2 % of the capacity, which is an entry for
/// every block even if all data compress to a third, but at most a quarter of the machine's memory.
pub fn index(capacity: u64, memory: u64) -> u64 {
    (capacity / 50).min(memory / 4)
}

/// Bytes of memory for each map page that there may be.
const MAP_PAGE_BYTES: u64 = 40;

/// Map pages that there may be: a thirty-second of the machine's memory is for their directory, and a terabyte can
/// always be mapped.
pub fn map_pages(memory: u64) -> u64 {
    (memory / 32 / MAP_PAGE_BYTES).max(1 << 19)
}

/// Bytes that all connections of hosts together may hold: 1 GiB, but at most an eighth of the machine's memory.
pub fn sessions(memory: u64) -> u64 {
    (1 << 30).min(memory / 8).max(64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_map_pages_takes_its_part_of_memory() {
        assert_eq!(map_pages(32 << 30), (1u64 << 30) / 40);
        assert_eq!(map_pages(256 << 20), 1 << 19);
    }

    #[test]
    fn the_index_is_bounded_by_drives_and_by_memory() {
        assert_eq!(index(50 << 30, 64 << 30), 1 << 30);
        assert_eq!(index(50 << 40, 64 << 30), 16 << 30);
    }

    #[test]
    fn sessions_leave_memory_to_the_engine() {
        assert_eq!(sessions(64 << 30), 1 << 30);
        assert_eq!(sessions(4 << 30), 512 << 20);
        assert_eq!(sessions(128 << 20), 64 << 20);
    }

    #[test]
    fn the_memory_of_the_system_is_read() {
        let text = "MemTotal:       24627200 kB\nMemFree:        21040916 kB\n";
        assert_eq!(parse(text), Some(24_627_200 * 1024));
        assert_eq!(parse("MemTotal: many"), None);
        assert!(total() > 0);
    }
}
