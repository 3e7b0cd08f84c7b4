//! Hosts that try to make the target hold or do more than they are charged, counted: nothing here depends on time.

use crate::lab_test::*;

/// Compare of one block, as the first half of a fused operation.
fn first_half(in_capsule: bool) -> Cmd {
    Cmd::new(0x05, 1).run_of(0, 1).out(vec![0; 512], in_capsule).fuse(1)
}

/// More than there are tags.
const MANY: u32 = 66_000;

#[test]
fn a_first_half_that_is_superseded_leaves_nothing() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let (before, mut r2ts) = (world.budget.used(), Vec::new());
    for number in 0..MANY {
        io.submit(&first_half(false));
        while let Some(came) = io.next() {
            match came.kind {
                9 => r2ts.push(came),
                _ => assert_eq!(came.kind, 5, "the half before it is refused"),
            }
        }
        // Data for halves that were superseded are discarded as they come.
        if number % 1000 == 0 && r2ts.len() > 1 {
            let late = r2ts.swap_remove(r2ts.len() - 2);
            io.data(&late, &[9; 512], 0, true);
        }
        r2ts.drain(..r2ts.len().saturating_sub(4));
        let held = io.connection.audit();
        assert_eq!((held.commands, held.charge), (1, 1024 + 2 * 512), "the last half alone");
        assert!(held.requests <= 1 + 128, "{} R2Ts", held.requests);
    }
    assert_eq!(io.connection.ended(), None);
    assert_eq!(io.run(read(1, 0, 1)).status, 0);
    assert_eq!(world.budget.used(), before);
}

#[test]
fn data_for_a_command_that_ended_long_ago_end_the_connection() {
    let world = World::new();
    let (mut admin, mut io) = world.connected(HOST);
    let mut oldest = None;
    for cid in 1..=130 {
        io.submit(&write(1, 0, vec![1; 512], false).cid(cid));
        let r2t = io.next().expect("an R2T");
        admin.submit(&Cmd::new(0x08, 0).dword(10, u32::from(cid) << 16 | 1));
        assert_eq!(io.completion().map(|end| end.status), Some(0x007));
        assert_eq!(admin.completion().map(|end| end.result), Some(0));
        oldest = oldest.or(Some(r2t));
    }
    let held = io.connection.audit();
    assert_eq!((held.commands, held.requests, held.charge), (0, 128, 0));
    io.data(&oldest.unwrap(), &[9; 512], 0, true);
    assert!(io.connection.ended().is_some(), "no R2T with this tag");
}

#[test]
fn data_in_tiny_pieces_are_charged_what_they_take() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    let data: Vec<u8> = (0..8192_u32).map(|index| (index / 7) as u8).collect();
    io.submit(&write(1, 0, data.clone(), false));
    let r2t = io.next().expect("an R2T");
    for (offset, byte) in data.iter().enumerate() {
        io.data(&r2t, &[*byte], offset as u32, offset + 1 == data.len());
    }
    assert_eq!(io.completion().map(|end| end.status), Some(0));
    assert_eq!(io.run(read(1, 0, 16)).data, data);
}

#[test]
fn a_capsule_is_charged_all_that_it_brings() {
    let world = World::new();
    let (_admin, mut io) = world.connected(HOST);
    // The SGL names 512 bytes of the 8192 that come.
    let mut half = first_half(true);
    half.data = vec![0; 8192];
    io.submit(&half);
    let charge = io.connection.audit().charge;
    assert!(charge >= 1024 + 8192, "{charge}");
}

#[test]
fn a_reset_ends_the_event_requests_of_the_time_before() {
    let world = World::new();
    let (mut admin, _io) = world.connected(HOST);
    for _ in 0..3 {
        (0..8).for_each(|_| {
            admin.submit(&Cmd::new(0x0C, 0));
        });
        assert_eq!(admin.completion(), None, "they wait");
        assert_eq!(admin.connection.audit().commands, 8);
        assert_eq!(admin.run(property_set(0x14, 0)).status, 0);
        assert_eq!(admin.connection.audit().commands, 0);
        assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
    }
}
