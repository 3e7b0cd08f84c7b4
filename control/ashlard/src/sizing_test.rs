//! `docs/operating/sizing.md` says what the constants say.

use crate::limits;
use array::maxima;
use machine::memory;
use raid::geometry::{MAX_COLUMNS, MAX_DRIVES, Profile};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/sizing.md");
    std::fs::read_to_string(path).expect("the page is there")
}

fn assert_row(page: &str, what: &str, value: impl std::fmt::Display) {
    let row = format!("\n| {what} | {value} |\n");
    assert!(page.contains(&row), "the page does not have the row{row}");
}

#[test]
fn the_table_of_maxima_has_the_constants() {
    let page = page();
    assert_row(&page, "size of a volume", format!("{} PiB", maxima::MAX_VOLUME >> 50));
    assert_row(&page, "volumes and snapshots, numbers in the format", engine::MAX_VOLUMES);
    assert_row(&page, "LUN", maxima::MAX_LUN);
    assert_row(&page, "volumes of a host over NVMe/TCP", nvmf::MAX_NAMESPACES);
    assert_row(&page, "initiator names of a host", maxima::MAX_INITIATORS);
    assert_row(&page, "volumes of one request", maxima::MAX_NEW_VOLUMES);
    assert_row(&page, "volumes of a replicated group", maxima::MAX_REPLICATED_VOLUMES);
    assert_row(&page, "replications", maxima::MAX_REPLICATIONS);
    assert_row(&page, "remote arrays", maxima::MAX_REMOTE_ARRAYS);
    assert_row(&page, "persistent reservation registrants of a volume", export::reservation::MAX_REGISTRANTS);
    assert_row(&page, "portals", maxima::MAX_PORTS);
    assert_row(&page, "drives", MAX_DRIVES);
    assert_row(&page, "columns of a stripe", MAX_COLUMNS);
    assert_row(&page, "controllers", cluster::MAX_MEMBERS);
}

#[test]
fn the_usable_part_is_what_parity_and_the_reserve_leave() {
    let page = page();
    for drives in [3, 4, 5, 6, 8, 10, 12, 16, 20, 24] {
        let profile = Profile::of(drives);
        let data = f64::from(profile.data) / profile.width() as f64;
        let reserved = 1.0 / f64::from(engine::RESERVE_DIVISOR);
        assert_row(&page, &drives.to_string(), format!("{:.1} %", data * (1.0 - reserved) * 100.0));
    }
}

#[test]
fn connections_are_those_that_memory_allows() {
    let page = page();
    for gib in [4, 8, 16, 32, 64, 128] {
        assert_row(&page, &format!("{gib} GiB"), limits::host_connections(gib << 30));
    }
    assert!(page.contains(&format!("guarantee {} KiB each", iscsi::SESSION_MAX_GUARANTEED_BYTES >> 10)));
    assert_eq!(memory::index(1_000_000_000_000, u64::MAX), 20_000_000_000);
    assert_eq!(engine::INDEX_ENTRY_BYTES, 24);
}
