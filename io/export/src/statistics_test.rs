use super::*;

#[test]
fn sizes_are_classes_up_to_their_limit() {
    assert_eq!(SizeClass::of(0), SizeClass::of(4096));
    assert_ne!(SizeClass::of(4096), SizeClass::of(4097));
    assert_eq!(SizeClass::of(4096).limit(), Some(4096));
    assert_eq!(SizeClass::of(1 << 30).limit(), None);
    assert!(SizeClass::all().is_sorted());
    assert!(
        SizeClass::all()
            .filter_map(SizeClass::limit)
            .all(|limit| SizeClass::of(limit).limit() == Some(limit))
    );
}

#[test]
fn a_table_has_what_happened() {
    let recorder = Recorder::default();
    assert_eq!(recorder.counters(), IoCounters::default());
    recorder.record(Operation::Read, 4096, Some(3000));
    recorder.record(Operation::Read, 65_536, Some(5000));
    recorder.record(Operation::Read, 4096, None);
    recorder.record(Operation::Unmap, 1 << 30, Some(7000));
    recorder.copied(100, 5);
    let mut counters = recorder.counters();
    assert_eq!(counters.counts.len(), 3);
    let reads = counters.of(Operation::Read);
    assert_eq!((reads.operations(), reads.bytes, reads.failures), (2, 4096 + 65_536, 1));
    assert_eq!(recorder.latencies(Operation::Read), (2, 8000));
    assert_eq!(recorder.latencies(Operation::Write), (0, 0));
    assert_eq!(counters.of(Operation::Write), OperationCounts::default());
    counters.add(&recorder.counters());
    assert_eq!(counters.of(Operation::Unmap).bytes, 2 << 30);
    assert_eq!((counters.copied_by_sharing, counters.copied_by_moving), (200, 10));
}
