use super::*;
use array::Latencies;

#[test]
fn a_table_has_as_many_cells_in_each_row() {
    let latency = Latencies::new([(1024, 1)], 1024);
    let cell = Cell { bytes: 4096, failures: 0, latency };
    let columns = |second: Option<(&Cell, u64)>| {
        let mut work = WorkColumns::default();
        work.push(second);
        work.push(None);
        work
    };
    let performance = Performance {
        resolution_seconds: 1,
        times: vec![0, 1],
        read: columns(Some((&cell, 1000))),
        write: columns(None),
        offload: columns(None),
    };
    let (header, rows) = performance.table();
    assert_eq!([header.len(), rows[0].len(), rows[1].len()], [28; 3]);
    assert_eq!(rows[0][..5], ["1970-01-01T00:00:00Z", "1", "4096", "0", "1.024"]);
    assert!(rows[1][1..].iter().all(String::is_empty));
}
