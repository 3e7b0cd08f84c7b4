//! Reservations of both kinds, from the hosts' side.

mod host;

use host::{Array, BLOCK, End, Host, long, number, pattern};
use scsi::{ManagementFunction, Status, UnitConfig};
use std::sync::Arc;

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
    host.send(&[0x5F, action, kind, 0, 0, 0, 0, 0, list.len() as u8, 0], list)
}

fn order(host: &Host, action: u8, kind: u8, key: u64, new: u64) -> End {
    out(host, action, kind, &list(key, new, 0))
}

fn register(host: &Host, key: u64) {
    order(host, IGNORE, 0, 0, key).good();
}

fn keys(host: &Host) -> Vec<u64> {
    let data = host.ask(&[0x5E, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]).good();
    data[8..].chunks(8).map(number).collect()
}

/// Key and type of the reservation.
fn reservation(host: &Host) -> Option<(u64, u8)> {
    let data = host.ask(&[0x5E, 1, 0, 0, 0, 0, 0, 0x10, 0, 0]).good();
    let key = data.get(8..16)?;
    Some((number(key), data[21]))
}

fn transport_id(name: &str, isid: &str) -> Vec<u8> {
    let mut text = format!("{name},i,0x{isid}").into_bytes();
    text.resize((text.len() / 4 + 1) * 4, 0);
    [&[0x45, 0, 0, text.len() as u8][..], &text].concat()
}

#[test]
fn a_simple_reservation_keeps_others_out_but_lets_them_look() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    a.ask(&[0x16, 0, 0, 0, 0, 0]).good();
    a.read(0, 1).good();
    b.ask(&[0; 6]).conflicts();
    b.read(0, 1).conflicts();
    b.ask(&[0x16, 0, 0, 0, 0, 0]).conflicts();
    b.ask(&[0x12, 0, 0, 0, 36, 0]).good();
    b.ask(&[0x03, 0, 0, 0, 18, 0]).good();
    b.ask(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]).good();
    // A release by another does nothing, and says that it is fine.
    b.ask(&[0x17, 0, 0, 0, 0, 0]).good();
    b.read(0, 1).conflicts();
    a.ask(&[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0]).good();
    b.read(0, 1).good();
}

#[test]
fn the_old_commands_are_refused_where_anybody_is_registered() {
    let (_array, _disk, a) = Array::with_host();
    register(&a, 7);
    a.ask(&[0x16, 0, 0, 0, 0, 0]).conflicts();
    a.ask(&[0x17, 0, 0, 0, 0, 0]).conflicts();
    order(&a, REGISTER, 0, 7, 0).good();
    a.ask(&[0x16, 0, 0, 0, 0, 0]).good();
}

#[test]
fn each_type_admits_whom_it_says() {
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
            host.ask(&[0; 6]).good();
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
    let data = a.ask(&[0x5E, 0, 0, 0, 0, 0, 0, 0, 4, 0]).good();
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
    a.ask(&[0x5E, 4, 0, 0, 0, 0, 0, 0, 8, 0]).fails(5, 0x24, 0);
}

#[test]
fn release_tells_registrants_where_they_had_rights() {
    let array = Array::new();
    array.disk(1);
    let (a, b, c) = (array.host("a", 1), array.host("b", 1), array.host("c", 1));
    register(&a, 1);
    register(&b, 2);
    order(&a, RESERVE, WRITE_EXCLUSIVE_REGISTRANTS, 1, 0).good();
    order(&a, RELEASE, WRITE_EXCLUSIVE_REGISTRANTS, 1, 0).good();
    assert_eq!((a.settle(), b.settle(), c.settle()), (vec![], vec![RELEASED], vec![]));
    order(&a, RESERVE, EXCLUSIVE, 1, 0).good();
    // Unregistering the holder ends the reservation.
    order(&a, REGISTER, 0, 1, 0).good();
    assert_eq!((reservation(&b), b.settle()), (None, vec![]));
}

#[test]
fn clear_takes_everything_away_and_tells_whom_it_hits() {
    let array = Array::new();
    array.disk(1);
    let (a, b) = (array.host("a", 1), array.host("b", 1));
    register(&a, 1);
    register(&b, 2);
    order(&a, RESERVE, EXCLUSIVE, 1, 0).good();
    order(&b, CLEAR, 0, 2, 0).good();
    assert_eq!((keys(&b), reservation(&b)), (vec![], None));
    assert_eq!((a.settle(), b.settle()), (vec![PREEMPTED], vec![]));
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
    assert_eq!(a.settle(), [UNREGISTERED]);
    assert_eq!(c.settle(), [RELEASED], "its rights changed with the type");
    // A registration can be taken without touching the reservation.
    order(&b, PREEMPT, EXCLUSIVE, 2, 3).good();
    assert_eq!((keys(&b), c.settle()), (vec![2], vec![UNREGISTERED]));
}

#[test]
fn key_zero_preempts_everybody_who_shares_a_reservation() {
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
    let hanging = host::Task::begin(a.start(0, &long(0x8A, 0, 0, 1), &pattern(1, 1)));
    order(&b, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1).good();
    disk.release();
    assert!(hanging.end().is_none());
    assert_eq!(b.read(0, 1).good(), vec![0; BLOCK]);
    assert_eq!(a.settle(), [UNREGISTERED]);
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
    let full = a.ask(&[0x5E, 3, 0, 0, 0, 0, 0, 0x10, 0, 0]).good();
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
    assert_eq!(a.ask(&[0x5E, 2, 0, 0, 0, 0, 0, 0, 8, 0]).good()[3] & 1, 1, "PTPL_A");
    let restarted = Array::new();
    restarted.target.add_unit(UnitConfig { disk: Arc::new(disk.clone()) });
    let (a, b) = (restarted.host("a", 1), restarted.host("b", 1));
    assert_eq!((keys(&b), reservation(&b)), (vec![3], Some((3, EXCLUSIVE))));
    b.read(0, 1).conflicts();
    a.read(0, 1).good();
    // Without APTPL nothing is kept.
    out(&a, REGISTER, 0, &list(3, 3, 0)).good();
    let restarted = Array::new();
    restarted.target.add_unit(UnitConfig { disk: Arc::new(disk) });
    assert_eq!(keys(&restarted.host("b", 1)), []);
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
