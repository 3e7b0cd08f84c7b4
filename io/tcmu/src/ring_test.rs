use super::*;
use crate::model::Kernel;

const RING: u32 = 4096;
const TEST_UNIT_READY: [u8; 6] = [0; 6];

fn rig() -> (Kernel, Ring) {
    let kernel = Kernel::new(RING, 16);
    let ring = Ring::open(kernel.area()).unwrap();
    (kernel, ring)
}

fn good() -> RingResponse<'static> {
    RingResponse { status: 0, sense: &[], data_in: 0 }
}

fn take(ring: &mut Ring) -> (u16, Bytes, Vectors) {
    match ring.take().unwrap() {
        Some(Entry::Command { id, cdb, data }) => (id, cdb, data),
        other => panic!("{other:?} is no command"),
    }
}

#[test]
fn commands_complete_in_any_order_with_their_own_responses() {
    let (mut kernel, mut ring) = rig();
    let ids = [1_u8, 2, 3].map(|n| kernel.command(&[n, 0, 0, 0, 0, 0], &[]).unwrap());
    for n in [1, 2, 3] {
        assert_eq!(take(&mut ring).1[..6], [n, 0, 0, 0, 0, 0]);
    }
    assert_eq!(ring.take(), Ok(None));
    let sense = [0x70, 0, 5];
    ring.respond(ids[2], &RingResponse { status: 2, sense: &sense, data_in: 0 }).unwrap();
    ring.respond(ids[0], &good()).unwrap();
    assert!(ring.take_moved() && !ring.take_moved());
    let done = kernel.completed();
    assert_eq!(done.iter().map(|(id, it)| (*id, it.status)).collect::<Vec<_>>(), [(ids[2], 2), (ids[0], 0)]);
    assert_eq!((&done[0].1.sense[..3], &done[1].1.sense[..3]), (&sense[..], &[0; 3][..]));
    assert_eq!(kernel.outstanding(), 1);
    // The slot of the second command is reused harmlessly: its response still reaches it.
    ring.respond(ids[1], &good()).unwrap();
    assert_eq!(kernel.completed()[0].0, ids[1]);
    assert!(kernel.is_idle());
}

#[test]
fn data_goes_both_ways_through_pages_that_are_not_in_order() {
    let (mut kernel, mut ring) = rig();
    let bytes: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
    kernel.command(&[0x2A; 10], &[]).unwrap();
    let id = kernel.command(&[0x8A; 16], &bytes).unwrap();
    take(&mut ring);
    let (_, _, data) = take(&mut ring);
    assert_eq!(data.bytes(), bytes.len());
    assert_eq!(ring.gather(&data, usize::MAX).unwrap(), bytes);
    assert_eq!(ring.gather(&data, 5000).unwrap(), bytes[..5000]);
    let parts = [vec![1; 4095], vec![2; 2], vec![3; 10]].map(Bytes::from);
    assert_eq!(ring.scatter(&data, parts.into_iter()), Ok(4107));
    ring.respond(id, &RingResponse { status: 0, sense: &[], data_in: 4107 }).unwrap();
    let (_, done) = kernel.completed().remove(0);
    assert_eq!(done.length, Some(4107));
    assert_eq!(done.data[4090..4110], [&[1; 5][..], &[2; 2], &[3; 10], &[0; 3]].concat());
    assert!(done.data[4110..].iter().all(|byte| *byte == 0), "nothing of earlier data is left");
}

#[test]
fn more_data_in_than_there_is_room_for_is_cut_off() {
    let (mut kernel, mut ring) = rig();
    kernel.command(&[0x12; 6], &[9; 5]).unwrap();
    let (_, _, data) = take(&mut ring);
    assert_eq!(ring.scatter(&data, [Bytes::from(vec![1; 8])].into_iter()), Ok(5));
    assert_eq!(ring.scatter(&Vectors::default(), [Bytes::from(vec![1; 8])].into_iter()), Ok(0));
}

#[test]
fn the_ring_goes_round_over_fillers_and_management_entries() {
    let (mut kernel, mut ring) = rig();
    let mut waiting = VecDeque::new();
    let (mut managed, mut sent) = (0, 0);
    while sent < 1000 {
        if sent % 7 == 0 && kernel.manage(5, &[1, 2, 3]) {
            managed += 1;
        }
        if kernel.command(&TEST_UNIT_READY, &vec![0; sent * 37 % 9000]).is_some() {
            sent += 1;
        }
        while let Some(entry) = ring.take().unwrap() {
            match entry {
                Entry::Command { id, .. } => waiting.push_back(id),
                Entry::Management { function, aborted } => {
                    assert_eq!((function, aborted), (5, vec![1, 2, 3]));
                    managed -= 1;
                }
            }
        }
        assert_eq!(managed, 0);
        while waiting.len() > sent % 3 {
            // The newest or the oldest command.
            let id = if sent % 2 == 0 { waiting.pop_back() } else { waiting.pop_front() };
            ring.respond(id.unwrap(), &good()).unwrap();
        }
        kernel.completed();
    }
    waiting.into_iter().for_each(|id| ring.respond(id, &good()).unwrap());
    kernel.completed();
    assert!(kernel.is_idle());
}

#[test]
fn a_management_entry_alone_is_passed_over_at_once() {
    let (mut kernel, mut ring) = rig();
    assert!(kernel.manage(1, &[7]));
    assert!(matches!(ring.take(), Ok(Some(Entry::Management { function: 1, .. }))));
    assert!(ring.take_moved());
    kernel.completed();
    assert!(kernel.is_idle());
}

/// Changes bytes of the area after a command was appended, and expects a refusal.
fn refused(change: impl Fn(&Area)) -> RingError {
    let (mut kernel, mut ring) = rig();
    kernel.command(&[0x88; 16], &[0; 8192]).unwrap();
    change(&kernel.area());
    ring.take().unwrap_err()
}

#[test]
fn entries_that_can_not_be_are_errors() {
    let begin = 128;
    let put = |at: u64, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        move |area: &Area| area.write(at, &bytes).unwrap()
    };
    assert_eq!(refused(put(12, &[0xFF; 4])), RingError::Position(u32::MAX));
    assert_eq!(refused(put(12, &[9, 0, 0, 0])), RingError::Position(9));
    let what = |error| match error {
        RingError::Entry { what, .. } => what,
        other => panic!("{other}"),
    };
    let cases: [(u64, &[u8], &str); 8] = [
        (begin, &[1, 0, 0, 0], "it does not end before the head"),
        (begin, &[1, 0x10, 0, 0], "it does not end before the head"),
        (begin, &[9, 0, 0, 0], "a command without room for its response"),
        (begin + 8, &[0xFF; 4], "more data vectors than it has room for"),
        (begin + 12, &[0xFF; 4], "more data vectors than it has room for"),
        (begin + 24, &[0xFF; 8], "the CDB is not in it"),
        (begin + 48, &[0; 8], "a data vector outside of the data area"),
        (begin + 56, &[0xFF; 8], "a data vector outside of the data area"),
    ];
    for (at, bytes, expected) in cases {
        assert_eq!(what(refused(put(at, bytes))), expected);
    }
}

#[test]
fn management_entries_that_can_not_be_are_errors() {
    let (mut kernel, mut ring) = rig();
    assert!(kernel.manage(1, &[7]));
    kernel.area().write(128 + 12, &[0xFF; 4]).unwrap();
    assert!(matches!(ring.take(), Err(RingError::Entry { .. })));
}

#[test]
fn an_operation_that_is_not_known_is_marked_and_passed_over() {
    let (mut kernel, mut ring) = rig();
    let id = kernel.command(&TEST_UNIT_READY, &[]).unwrap();
    kernel.command(&TEST_UNIT_READY, &[]).unwrap();
    let area = kernel.area();
    let word = area.load(128).unwrap();
    area.store(128, word & !7 | 5).unwrap();
    assert_ne!(take(&mut ring).0, id);
    let mut flags = [0];
    area.read(128 + 7, &mut flags).unwrap();
    assert_eq!(flags, [UNKNOWN_OPERATION]);
    assert!(ring.take_moved());
}

#[test]
fn only_a_mailbox_of_this_version_is_a_ring() {
    let with = |at: u64, bytes: &[u8]| {
        let kernel = Kernel::new(RING, 1);
        kernel.area().write(at, bytes).unwrap();
        Ring::open(kernel.area()).err()
    };
    assert_eq!(with(0, &[]), None);
    assert_eq!(with(0, &[1, 0]), Some(RingError::Mailbox { version: 1, flags: 15 }));
    assert_eq!(with(2, &[0xFE, 0]), Some(RingError::Mailbox { version: 2, flags: 0xFE }));
    for (at, value) in [(4, 0_u32), (4, 132), (4, u32::MAX - 7), (8, 0), (8, 4100), (8, u32::MAX - 7)] {
        let error = with(at, &value.to_le_bytes());
        assert!(matches!(error, Some(RingError::Ring { .. })), "{at} {value}: {error:?}");
    }
    assert_eq!(with(64, &[0, 0x10]), Some(RingError::Position(4096)));
    let small = Area::in_memory(8);
    small.write(0, &[2, 0, 7, 0]).unwrap();
    assert!(matches!(Ring::open(small), Err(RingError::Outside(_))));
}
