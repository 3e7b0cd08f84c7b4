//! Reservations of both kinds, from the hosts' side.

use crate::host::{Array, BLOCK, End, Host, long, number, pattern};
use block::mem::MemDisk;
use block::{Disk, DiskId, Op};
use scsi::{ManagementFunction, Status};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;
const IGNORE: u8 = 6;
const MOVE: u8 = 7;

const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE: u8 = 3;
const WRITE_EXCLUSIVE_REGISTRANTS: u8 = 5;
const EXCLUSIVE_ALL: u8 = 8;

const PREEMPTED: (u8, u8) = (0x2A, 0x03);
const RELEASED: (u8, u8) = (0x2A, 0x04);
const UNREGISTERED: (u8, u8) = (0x2A, 0x05);

fn list(key: u64, new: u64, flags: u8) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), new.to_be_bytes()].concat();
    list.extend_from_slice(&[0, 0, 0, 0, flags, 0, 0, 0]);
    list
}

fn out(host: &Host, action: u8, kind: u8, list: &[u8]) -> End {
    let [high, low] = (list.len() as u16).to_be_bytes();
    host.send(&[0x5F, action, kind, 0, 0, 0, 0, high, low, 0], list)
}

fn order(host: &Host, action: u8, kind: u8, key: u64, new: u64) -> End {
    out(host, action, kind, &list(key, new, 0))
}

fn register(host: &Host, key: u64) {
    order(host, IGNORE, 0, 0, key).good();
}

fn keys(host: &Host) -> Vec<u64> {
    let data = host.command(&[0x5E, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]).good();
    data[8..].chunks(8).map(number).collect()
}

/// Key and type of the reservation.
fn reservation(host: &Host) -> Option<(u64, u8)> {
    let data = host.command(&[0x5E, 1, 0, 0, 0, 0, 0, 0x10, 0, 0]).good();
    let key = data.get(8..16)?;
    Some((number(key), data[21]))
}

fn transport_id(name: &str, isid: &str) -> Vec<u8> {
    let mut text = format!("{name},i,0x{isid}").into_bytes();
    text.resize((text.len() / 4 + 1) * 4, 0);
    let [high, low] = (text.len() as u16).to_be_bytes();
    [&[0x45, 0, high, low][..], &text].concat()
}

#[test]
fn a_simple_reservation_keeps_others_out_but_lets_them_look() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    a.command(&[0x16, 0, 0, 0, 0, 0]).good();
    a.read(0, 1).good();
    b.command(&[0; 6]).conflicts();
    b.read(0, 1).conflicts();
    b.command(&[0x16, 0, 0, 0, 0, 0]).conflicts();
    b.command(&[0x12, 0, 0, 0, 36, 0]).good();
    b.command(&[0x03, 0, 0, 0, 18, 0]).good();
    b.command(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]).good();
    // A release by another does nothing, and says that it is fine.
    b.command(&[0x17, 0, 0, 0, 0, 0]).good();
    b.read(0, 1).conflicts();
    a.command(&[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0]).good();
    b.read(0, 1).good();
}

#[test]
fn the_old_commands_are_refused_where_anybody_is_registered() {
    let (_array, _disk, a) = Array::with_host();
    register(&a, 7);
    a.command(&[0x16, 0, 0, 0, 0, 0]).conflicts();
    a.command(&[0x17, 0, 0, 0, 0, 0]).conflicts();
    order(&a, REGISTER, 0, 7, 0).good();
    a.command(&[0x16, 0, 0, 0, 0, 0]).good();
}

#[test]
fn each_reservation_type_admits_the_initiators_of_the_standard() {
    // Type, and whether an unregistered host may read and write, and whether a registered one may.
    let cases = [
        (1, (true, false), (true, false)),
        (3, (false, false), (false, false)),
        (5, (true, false), (true, true)),
        (6, (false, false), (true, true)),
        (7, (true, false), (true, true)),
        (8, (false, false), (true, true)),
    ];
    for (kind, stranger, registrant) in cases {
        let array = Array::new();
        array.disk(1);
        let (holder, member, other) = (array.host("a", 1), array.host("b", 1), array.host("c", 1));
        register(&holder, 1);
        register(&member, 2);
        order(&holder, RESERVE, kind, 1, 0).good();
        for (host, (read, write)) in [(&holder, (true, true)), (&member, registrant), (&other, stranger)] {
            let status = |allowed| if allowed { Status::Good } else { Status::ReservationConflict };
            assert_eq!(host.read(0, 1).status, status(read), "type {kind}");
            assert_eq!(host.write(0, &pattern(1, 0)).status, status(write), "type {kind}");
            host.command(&[0; 6]).good();
        }
        let key = if kind >= 7 { 0 } else { 1 };
        assert_eq!(reservation(&other), Some((key, kind)));
    }
}

#[test]
fn keys_are_checked_and_generations_counted() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    order(&a, REGISTER, 0, 5, 6).conflicts();
    order(&a, REGISTER, 0, 0, 6).good();
    order(&a, REGISTER, 0, 0, 7).conflicts();
    order(&a, REGISTER, 0, 6, 7).good();
    order(&b, RESERVE, EXCLUSIVE, 7, 0).conflicts();
    register(&b, 9);
    order(&a, RESERVE, EXCLUSIVE, 7, 0).good();
    order(&a, RESERVE, EXCLUSIVE, 7, 0).good();
    order(&a, RESERVE, WRITE_EXCLUSIVE, 7, 0).conflicts();
    order(&b, RESERVE, EXCLUSIVE, 9, 0).conflicts();
    order(&b, RELEASE, EXCLUSIVE, 9, 0).good();
    order(&a, RELEASE, WRITE_EXCLUSIVE, 7, 0).fails(5, 0x26, 0x04);
    assert_eq!(keys(&a), [7, 9]);
    let data = a.command(&[0x5E, 0, 0, 0, 0, 0, 0, 0, 4, 0]).good();
    assert_eq!(&data[..], [0, 0, 0, 3], "three registrations; reserving is not counted");
}

#[test]
fn the_list_has_to_have_its_length_and_the_scope_is_the_unit() {
    let (_array, _disk, a) = Array::with_host();
    out(&a, REGISTER, 0, &list(0, 1, 0)[..23]).fails(5, 0x1A, 0);
    order(&a, REGISTER, 0, 0, 1).good();
    order(&a, RESERVE, 0x10 | EXCLUSIVE, 1, 0).fails(5, 0x24, 0);
    order(&a, RESERVE, 2, 1, 0).fails(5, 0x24, 0);
    order(&a, 8, 0, 1, 0).fails(5, 0x24, 0);
    a.command(&[0x5E, 4, 0, 0, 0, 0, 0, 0, 8, 0]).fails(5, 0x24, 0);
}

#[test]
fn release_notifies_registrants_that_had_access() {
    let array = Array::new();
    array.disk(1);
    let (a, b, c) = (array.host("a", 1), array.host("b", 1), array.host("c", 1));
    register(&a, 1);
    register(&b, 2);
    order(&a, RESERVE, WRITE_EXCLUSIVE_REGISTRANTS, 1, 0).good();
    order(&a, RELEASE, WRITE_EXCLUSIVE_REGISTRANTS, 1, 0).good();
    assert_eq!(
        (a.take_unit_attentions(), b.take_unit_attentions(), c.take_unit_attentions()),
        (vec![], vec![RELEASED], vec![])
    );
    order(&a, RESERVE, EXCLUSIVE, 1, 0).good();
    // Unregistering the holder ends the reservation.
    order(&a, REGISTER, 0, 1, 0).good();
    assert_eq!((reservation(&b), b.take_unit_attentions()), (None, vec![]));
}

#[test]
fn clear_removes_everything_and_notifies_registrants() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    register(&a, 1);
    register(&b, 2);
    order(&a, RESERVE, EXCLUSIVE, 1, 0).good();
    order(&b, CLEAR, 0, 2, 0).good();
    assert_eq!((keys(&b), reservation(&b)), (vec![], None));
    assert_eq!((a.take_unit_attentions(), b.take_unit_attentions()), (vec![PREEMPTED], vec![]));
}

#[test]
fn preempt_takes_over_what_the_victim_held() {
    let array = Array::new();
    array.disk(1);
    let (a, b, c) = (array.host("a", 1), array.host("b", 1), array.host("c", 1));
    [(&a, 1), (&b, 2), (&c, 3)].into_iter().for_each(|(host, key)| register(host, key));
    order(&a, RESERVE, WRITE_EXCLUSIVE_REGISTRANTS, 1, 0).good();
    order(&b, PREEMPT, EXCLUSIVE, 2, 4).conflicts();
    order(&b, PREEMPT, EXCLUSIVE, 2, 0).fails(5, 0x26, 0);
    order(&b, PREEMPT, EXCLUSIVE, 2, 1).good();
    assert_eq!(reservation(&b), Some((2, EXCLUSIVE)));
    assert_eq!(keys(&b), [2, 3]);
    assert_eq!(a.take_unit_attentions(), [UNREGISTERED]);
    assert_eq!(c.take_unit_attentions(), [RELEASED], "its rights changed with the type");
    // A registration can be taken without touching the reservation.
    order(&b, PREEMPT, EXCLUSIVE, 2, 3).good();
    assert_eq!((keys(&b), c.take_unit_attentions()), (vec![2], vec![UNREGISTERED]));
}

#[test]
fn key_zero_preempts_all_holders_of_a_shared_reservation() {
    let array = Array::new();
    array.disk(1);
    let (a, b, c) = (array.host("a", 1), array.host("b", 1), array.host("c", 1));
    [(&a, 1), (&b, 2), (&c, 3)].into_iter().for_each(|(host, key)| register(host, key));
    order(&a, RESERVE, EXCLUSIVE_ALL, 1, 0).good();
    order(&c, PREEMPT, WRITE_EXCLUSIVE, 3, 0).good();
    assert_eq!((keys(&c), reservation(&c)), (vec![3], Some((3, WRITE_EXCLUSIVE))));
}

#[test]
fn preempt_and_abort_does_not_wait_for_a_task_that_hangs() {
    let (array, disk) = Array::with_held_disk();
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    register(&a, 1);
    register(&b, 2);
    order(&a, RESERVE, WRITE_EXCLUSIVE, 1, 0).good();
    let hanging = crate::host::Task::begin(a.start(0, &long(0x8A, 0, 0, 1), &pattern(1, 1)));
    order(&b, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1).good();
    disk.release();
    assert!(hanging.end().is_none());
    assert_eq!(b.read(0, 1).good(), vec![0; BLOCK]);
    assert_eq!(a.take_unit_attentions(), [UNREGISTERED]);
    a.write(0, &pattern(1, 1)).conflicts();
}

#[test]
fn a_registration_moves_with_its_reservation() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 2));
    register(&a, 1);
    order(&a, RESERVE, EXCLUSIVE, 1, 0).good();
    let id = transport_id("b", "00023d000002");
    let mut list = [1u64.to_be_bytes(), 5u64.to_be_bytes()].concat();
    list.extend_from_slice(&[0, 0x02, 0, 2, 0, 0, 0, id.len() as u8]);
    list.extend_from_slice(&id);
    out(&b, MOVE, 0, &list).conflicts();
    out(&a, MOVE, 0, &list).good();
    assert_eq!((keys(&b), reservation(&b)), (vec![5], Some((5, EXCLUSIVE))));
    a.read(0, 1).conflicts();
    b.read(0, 1).good();
}

#[test]
fn others_can_be_registered_by_name_and_on_all_ports() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 2));
    let id = transport_id("b", "00023d000002");
    let mut list = list(0, 9, 0x08 | 0x04);
    list.extend_from_slice(&(id.len() as u32).to_be_bytes());
    list.extend_from_slice(&id);
    out(&a, REGISTER, 0, &list).good();
    assert_eq!(keys(&a), [9; 4], "two initiators on two ports");
    order(&b, RESERVE, EXCLUSIVE, 9, 0).good();
    let full = a.command(&[0x5E, 3, 0, 0, 0, 0, 0, 0x10, 0, 0]).good();
    let first = &full[8..];
    assert_eq!(&first[..8], 9u64.to_be_bytes());
    assert_eq!((first[12], &first[18..20]), (0x02, &[0, 1][..]), "ALL_TG_PT, not a holder, port 1");
    assert_eq!(&first[24..46], b"\x45\0\0\x14a,i,0x00023d000001");
    // SPEC_I_PT is for those who are not registered yet.
    let mut again = list.clone();
    again[..8].copy_from_slice(&9u64.to_be_bytes());
    out(&a, REGISTER, 0, &again).fails(5, 0x26, 0);
}

#[test]
fn a_key_that_another_has_already_is_not_changed_by_naming_it() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 2));
    register(&b, 4);
    let id = transport_id("B", "00023D000002");
    let mut list = list(0, 9, 0x08 | 0x04);
    list.extend_from_slice(&(id.len() as u32).to_be_bytes());
    list.extend_from_slice(&id);
    out(&a, REGISTER, 0, &list).good();
    let mut found = keys(&a);
    found.sort_unstable();
    assert_eq!(found, [4, 9, 9, 9], "b through port 2 keeps its own");
}

#[test]
fn a_registration_for_all_ports_includes_those_of_other_controllers() {
    let array = Array::new();
    array.disk(1);
    let group = |id, ports| scsi::PortGroup { id, ports, is_active: true };
    array.target.set_port_groups(vec![group(1, vec![1]), group(2, vec![33, 34])]);
    let a = array.host("a", 1);
    out(&a, REGISTER, 0, &list(0, 9, 0x04)).good();
    assert_eq!(keys(&a), [9; 3]);
}

#[test]
fn a_registration_for_all_ports_ends_through_all_ports() {
    let array = Array::new();
    array.disk(1);
    let a = array.host("a", 1);
    out(&a, REGISTER, 0, &list(0, 9, 0x04)).good();
    assert_eq!(keys(&a), [9; 2]);
    out(&a, REGISTER, 0, &list(9, 0, 0x04)).good();
    assert_eq!(keys(&a), []);
}

#[test]
fn names_without_end_are_refused_early() {
    let array = Array::new();
    array.disk(1);
    let a = array.host("a", 1);
    let send = |ids: &[u8]| {
        let mut list = list(0, 9, 0x08);
        list.extend_from_slice(&(ids.len() as u32).to_be_bytes());
        list.extend_from_slice(ids);
        let length = (list.len() as u32).to_be_bytes();
        let [l0, l1, l2, l3] = length;
        a.send(&[0x5F, REGISTER, 0, 0, 0, l0, l1, l2, l3, 0], &list)
    };
    let many: Vec<u8> = (0..20_000).flat_map(|n| transport_id(&format!("n{n}"), "1")).collect();
    send(&many).fails(5, 0x55, 4);
    send(&transport_id(&"x".repeat(224), "1")).fails(5, 0x26, 0);
    send(&transport_id("x", "+1")).fails(5, 0x26, 0);
    assert_eq!(keys(&a), []);
}

#[test]
fn without_a_reservation_there_is_nothing_to_move() {
    let array = Array::new();
    array.disk(1);
    let a = array.host("a", 1);
    register(&a, 1);
    let id = transport_id("b", "00023d000002");
    let mut list = [1u64.to_be_bytes(), 5u64.to_be_bytes()].concat();
    list.extend_from_slice(&[0, 0, 0, 2, 0, 0, 0, id.len() as u8]);
    list.extend_from_slice(&id);
    out(&a, MOVE, 0, &list).fails(5, 0x24, 0);
}

#[test]
fn what_aptpl_asks_for_outlives_the_target() {
    let array = Array::new();
    let disk = array.disk(1);
    let a = array.host("a", 1);
    out(&a, REGISTER, 0, &list(0, 3, 1)).good();
    order(&a, RESERVE, EXCLUSIVE, 3, 0).good();
    assert_eq!(a.command(&[0x5E, 2, 0, 0, 0, 0, 0, 0, 8, 0]).good()[3] & 1, 1, "PTPL_A");
    let restarted = Array::new();
    restarted.exports.add_volume(Arc::new(disk.clone()));
    let (a, b) = (restarted.host("a", 1), restarted.host("b", 1));
    assert_eq!((keys(&b), reservation(&b)), (vec![3], Some((3, EXCLUSIVE))));
    b.read(0, 1).conflicts();
    a.read(0, 1).good();
    // Without APTPL nothing is kept.
    out(&a, REGISTER, 0, &list(3, 3, 0)).good();
    let restarted = Array::new();
    restarted.exports.add_volume(Arc::new(disk));
    assert_eq!(keys(&restarted.host("b", 1)), []);
}

/// The end of what memory does at once.
fn run<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// A target that is started again on the same disk.
fn restarted(disk: &MemDisk) -> Array {
    let restarted = Array::new();
    restarted.exports.add_volume(Arc::new(disk.clone()));
    restarted
}

/// A parameter list of REGISTER, with APTPL, that names further initiator ports.
fn naming(key: u64, new: u64, ids: &[u8]) -> Vec<u8> {
    let mut list = list(key, new, 0x08 | 0x01);
    list.extend_from_slice(&(ids.len() as u32).to_be_bytes());
    list.extend_from_slice(ids);
    list
}

#[test]
fn a_name_that_grows_in_lower_case_is_refused_and_takes_no_reservation_along() {
    let array = Array::new();
    let disk = array.disk(1);
    let a = array.host("a", 1);
    out(&a, REGISTER, 0, &list(0, 3, 1)).good();
    order(&a, RESERVE, EXCLUSIVE, 3, 0).good();
    // 222 bytes, and 333 in lower case.
    let grown = "\u{130}".repeat(111);
    let b = array.host("b", 1);
    out(&b, REGISTER, 0, &naming(0, 4, &transport_id(&grown, "1"))).fails(5, 0x26, 0);
    out(&b, REGISTER, 0, &list(0, 4, 1)).good();
    let restarted = restarted(&disk);
    let (a, b) = (restarted.host("a", 1), restarted.host("b", 1));
    assert_eq!((keys(&a), reservation(&a)), (vec![3, 4], Some((3, EXCLUSIVE))));
    b.write(0, &pattern(1, 1)).conflicts();
}

#[test]
fn whatever_is_accepted_is_the_same_after_a_restart() {
    let letters =
        ["a", "I", "Z", ":", ".", "-", "_", ",", " ", "\0", "\u{130}", "\u{df}", "\u{1e9e}", "\u{7f}"];
    let mut seed = 1u64;
    let mut below = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..400 {
        let array = Array::new();
        let disk = array.disk(1);
        let a = array.host("a", 1);
        let strange = below(3) == 0;
        let kinds = if strange { letters.len() as u64 } else { 7 };
        let name: String = (0..1 + below(260)).map(|_| letters[below(kinds) as usize]).collect();
        let id = transport_id(&name, "00023D000002");
        let end = match below(2) {
            0 => out(&a, REGISTER, 0, &naming(0, 3, &id)),
            _ => {
                out(&a, REGISTER, 0, &list(0, 3, 1)).good();
                order(&a, RESERVE, 1 + 2 * below(2) as u8, 3, 0).good();
                let mut list = [3u64.to_be_bytes(), 5u64.to_be_bytes()].concat();
                list.extend_from_slice(&[0, 1, 0, 2]);
                list.extend_from_slice(&(id.len() as u32).to_be_bytes());
                list.extend_from_slice(&id);
                out(&a, MOVE, 0, &list)
            }
        };
        *if end.status == Status::Good { &mut taken } else { &mut refused } += 1;
        let full = |host: &Host| host.command(&[0x5E, 3, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0]).good();
        let restarted = restarted(&disk);
        assert_eq!(restarted.exports.unreadable_states(), []);
        let again = restarted.host("a", 1);
        assert_eq!((full(&again), reservation(&again)), (full(&a), reservation(&a)), "{name:?}");
    }
    assert!(taken > 50 && refused > 50, "{taken} taken, {refused} refused");
}

#[test]
fn a_state_that_is_not_understood_keeps_everybody_from_writing_until_it_is_cleared() {
    let array = Array::new();
    let disk = array.disk(1);
    let a = array.host("a", 1);
    a.write(0, &pattern(1, 1)).good();
    out(&a, REGISTER, 0, &list(0, 3, 1)).good();
    order(&a, RESERVE, WRITE_EXCLUSIVE, 3, 0).good();
    let saved = disk.state();
    let damaged = saved.slice(..saved.len() - 1);
    run(disk.execute(Op::SaveState(damaged.clone()))).unwrap();
    let restarted = restarted(&disk);
    restarted.disk(2);
    for host in [restarted.host("a", 1), restarted.host("b", 1)] {
        host.take_unit_attentions();
        assert_eq!(host.read(0, 1).good(), pattern(1, 1));
        host.write(0, &pattern(1, 2)).conflicts();
        host.command(&long(0x93, 0x09, 0, 8)).conflicts();
        host.command(&[0x16, 0, 0, 0, 0, 0]).conflicts();
        out(&host, REGISTER, 0, &list(0, 3, 1)).conflicts();
        out(&host, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, &list(3, 3, 0)).conflicts();
        host.send(&[0x15, 0x11, 0, 0, 4, 0], &[0; 4]).conflicts();
        host.manage(ManagementFunction::LogicalUnitReset);
        host.take_unit_attentions();
        host.write(0, &pattern(1, 2)).conflicts();
    }
    assert_eq!(disk.state(), damaged, "what was saved is kept as it is");
    assert_eq!(restarted.exports.unreadable_states(), [DiskId(1)]);
    assert!(!run(restarted.exports.clear_unreadable_state(DiskId(2))).unwrap(), "that one is understood");
    let a = restarted.host("a", 1);
    assert!(run(restarted.exports.clear_unreadable_state(DiskId(1))).unwrap());
    assert_eq!(restarted.exports.unreadable_states(), []);
    assert_eq!(a.take_unit_attentions(), [(0x2A, 0x03)]);
    a.write(0, &pattern(1, 3)).good();
    assert_eq!(keys(&a), []);
    assert!(!run(restarted.exports.clear_unreadable_state(DiskId(1))).unwrap());
}

#[test]
fn saved_mode_pages_that_do_not_fit_fence_the_unit() {
    let array = Array::new();
    let disk = array.disk(1);
    // Version 1 with a page that does not exist, and version 2 with the same.
    for saved in [&[1, 3, 0, 0x3E, 1, 0, 0][..], &[2, 1, 0, 3, 0, 0, 0, 0x3E, 1, 0]] {
        run(disk.execute(Op::SaveState(saved.to_vec().into()))).unwrap();
        let restarted = restarted(&disk);
        assert_eq!(restarted.exports.unreadable_states(), [DiskId(1)]);
        restarted.host("a", 1).write(0, &pattern(1, 1)).conflicts();
    }
}

#[test]
fn records_of_a_later_release_are_kept() {
    let array = Array::new();
    let disk = array.disk(1);
    let later = [2, 0x34, 0x12, 2, 0, 0, 0, 7, 8];
    run(disk.execute(Op::SaveState(later.to_vec().into()))).unwrap();
    let a = restarted(&disk).host("a", 1);
    out(&a, REGISTER, 0, &list(0, 3, 1)).good();
    assert!(disk.state().ends_with(&later[1..]));
    let again = restarted(&disk).host("a", 1);
    assert_eq!(keys(&again), [3]);
}

#[test]
fn an_initiator_of_another_transport_can_not_be_registered() {
    let array = Array::new();
    array.disk(1);
    let a = array.host("a", 1);
    let mut fibre_channel = vec![0; 24];
    fibre_channel[8..16].copy_from_slice(&0x2100_0024_FF00_0001u64.to_be_bytes());
    out(&a, REGISTER, 0, &naming(0, 9, &fibre_channel)).fails(5, 0x26, 0);
    assert_eq!(keys(&a), []);
}

#[test]
fn a_copy_does_not_write_to_a_fenced_unit() {
    let array = Array::new();
    let disk = array.disk(1);
    run(disk.execute(Op::SaveState(vec![9].into()))).unwrap();
    let restarted = restarted(&disk);
    restarted.disk(2);
    restarted.map_luns("a", &[(0, 2), (1, 1)]);
    let a = restarted.connect("a", 1);
    a.take_unit_attentions();
    a.command_lun(1, &[0; 6]).fails(6, 0x29, 0);
    let name = scsi::naa(DiskId(1));
    let name = u128::from_str_radix(&name["naa.".len()..], 16).unwrap().to_be_bytes();
    let mut copy = vec![1, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0, 0xE4, 0, 0, 0, 1, 3, 0, 16];
    copy.extend_from_slice(&name);
    copy.extend_from_slice(&[0, 0, 0, 0, 0, 0, 2, 0]);
    copy.extend_from_slice(&[2, 0, 0, 24, 0xFF, 0xFF, 0, 0, 0, 0, 0, 8]);
    copy.extend_from_slice(&[0; 16]);
    let end = a.send(&long(0x83, 0, 0, copy.len() as u32), &copy);
    end.fails(0x0A, 0x0D, 1);
}

#[test]
fn registrations_outlive_sessions_and_resets() {
    let array = Array::new();
    array.disk(1);
    let a = array.host("a", 1);
    register(&a, 1);
    order(&a, RESERVE, EXCLUSIVE, 1, 0).good();
    a.manage(ManagementFunction::LogicalUnitReset);
    drop(a);
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    b.read(0, 1).conflicts();
    a.read(0, 1).good();
}
