//! Memory that connections can make the target hold, by the account of their budget.

use crate::connection::ConnectionConfig;
use crate::lab_test::*;
use crate::memory_admission::{LOGIN_GUARANTEE_BYTES, SESSION_GUARANTEE, SESSION_GUARANTEE_BYTES};
use crate::pdu::{FINAL, Header, NO_TAG, opcode};
use std::sync::Arc;
use transport::Budget;

const MIB: usize = 1 << 20;
const SIMPLE: u8 = FINAL | 1;
const EXPECTS_READ: u8 = SIMPLE | 0x40;
const EXPECTS_WRITE: u8 = SIMPLE | 0x20;
/// Unsolicited data follow.
const MORE: u8 = 0x21;

const FIRST_BURST: (&str, &str) = ("FirstBurstLength", "262144");

/// A configuration whose budget leaves a pool of this many MiB beyond the guarantees of some sessions.
fn setup_with(pool_mib: u64, sessions: u64) -> ConnectionConfig {
    let mut setup = setup(target_config());
    let bytes = (pool_mib << 20) + sessions * SESSION_GUARANTEE.total_bytes;
    setup.budget = Arc::new(Budget::new(bytes * 8 / 7 + 8));
    setup.limits.commands = 64;
    setup
}

fn nop(lab: &Lab) -> Header {
    Header::new(opcode::NOP_OUT | 0x40, FINAL).with_itt(5).with_ttt(NO_TAG).put_u32(24, lab.cmd_sn)
}

/// R2Ts that a connection has sent: tag, offset, bytes, and the command.
fn r2ts(lab: &mut Lab) -> Vec<(u32, usize, usize, u32)> {
    let answers = lab.answers();
    let asked = answers.iter().filter(|pdu| pdu.header.opcode() == opcode::R2T);
    asked
        .map(|pdu| {
            let header = &pdu.header;
            let [offset, bytes] = [header.u32::<40>(), header.u32::<44>()].map(|value| value as usize);
            (header.ttt(), offset, bytes, header.itt())
        })
        .collect()
}

/// Sends the data for every R2T until the command ends.
fn finish_writes(lab: &mut Lab) {
    loop {
        lab.settle();
        let asked = r2ts(lab);
        if asked.is_empty() {
            return;
        }
        for (ttt, offset, bytes, itt) in asked {
            lab.itt = itt;
            lab.data_out(ttt, 0, offset, &vec![7; bytes], true);
        }
    }
}

#[test]
fn a_write_is_asked_for_only_when_there_is_room_for_all_of_it() {
    let setup = setup_with(4, 3);
    let budget = setup.budget.clone();
    let mut labs = [(); 3].map(|()| Lab::session_with(setup.clone(), &[("ImmediateData", "No")]));
    let total = budget.used() + (4 << 20);
    for lab in &mut labs {
        for _ in 0..64 {
            let header = lab.header(EXPECTS_WRITE, WRITE, 255, 130_560);
            lab.send(header, &[]);
        }
        assert!(budget.used() <= total, "{} of {total}", budget.used());
    }
    for _ in 0..40 {
        for lab in &mut labs {
            lab.settle();
            finish_writes(lab);
            assert!(budget.used() <= total);
        }
    }
    for lab in &mut labs {
        assert_eq!(lab.executed().len(), 64, "every write has had its turn");
        lab.connection.tick();
    }
    assert_eq!(budget.used(), total - (4 << 20));
}

#[test]
fn commands_held_after_an_ordered_one_are_charged() {
    let setup = setup_with(8, 1);
    let budget = setup.budget.clone();
    let mut lab = Lab::session_with(setup, &[FIRST_BURST]);
    let before = budget.used();
    // An ordered command that stays incomplete.
    let ordered = lab.header(FINAL | 0x22, WRITE, 2, 1024);
    lab.send(ordered, &[0; 512]);
    assert_eq!(r2ts(&mut lab).len(), 1);
    let mut refused = 0;
    for _ in 0..60 {
        let header = lab.header(EXPECTS_WRITE, WRITE, 255, 130_560);
        lab.send(header, &pattern(130_560));
        refused += lab.answers().iter().filter(|pdu| outcome(pdu).0 == 0x28).count();
        assert!(lab.connection.wants_input(), "what was asked for may still come");
    }
    assert!(lab.executed().is_empty());
    // Half of the pool, and the session's guarantee.
    let held = ((4 << 20) + SESSION_GUARANTEE_BYTES as usize) / 131_584;
    assert!((58 - held..=62 - held).contains(&refused), "{refused} TASK SET FULL, {held} held");
    assert!(budget.used() - before <= 4 << 20);
    // The others continue when it is complete, and no memory is held any more.
    lab.manage(1, 0, ordered.itt(), ordered.cmd_sn());
    lab.settle();
    assert_eq!(lab.executed().len(), 60 - refused);
    lab.answers();
    lab.connection.tick();
    assert_eq!(budget.used(), before);
}

#[test]
fn an_abort_frees_memory_for_waiting_commands() {
    let setup = setup_with(2, 2);
    let keys = [("ImmediateData", "No")];
    let mut labs = [(); 2].map(|()| Lab::session_with(setup.clone(), &keys));
    let header = |lab: &mut Lab| lab.header(EXPECTS_WRITE, WRITE, 255, 130_560);
    // Uses its guarantee and as much of the pool as one initiator may.
    let mut tags = Vec::new();
    for _ in 0..64 {
        let header = header(&mut labs[0]);
        tags.push(header);
        labs[0].send(header, &[]);
    }
    let asked = r2ts(&mut labs[0]).len();
    assert!((8..20).contains(&asked), "{asked}");
    let mut more = 0;
    for write in &tags {
        labs[0].manage(1, 0, write.itt(), write.cmd_sn());
        labs[0].settle();
        more += r2ts(&mut labs[0]).len();
    }
    assert_eq!(asked + more, 64, "as many go on as are aborted");
    labs[0].connection.tick();
    for _ in 0..8 {
        let header = header(&mut labs[1]);
        labs[1].send(header, &[]);
    }
    finish_writes(&mut labs[1]);
    assert_eq!(labs[1].executed().len(), 8);
}

#[test]
fn a_session_that_stalls_gives_way_when_others_wait() {
    let setup = setup_with(2, 2);
    let keys = [("ImmediateData", "No")];
    let mut hog = Lab::session_with(setup.clone(), &keys);
    let mut other = Lab::session_with(setup.clone(), &keys);
    for lab in [&mut hog, &mut other] {
        for _ in 0..16 {
            let header = lab.header(EXPECTS_WRITE, WRITE, 255, 130_560);
            lab.send(header, &[]);
        }
    }
    r2ts(&mut hog);
    assert!(setup.budget.is_contended());
    // The host is alive, but sends none of its data.
    for _ in 0..5 {
        assert_eq!(hog.connection.ended(), None);
        let ping = nop(&hog);
        hog.send(ping, &[]);
        hog.answers();
        hog.connection.tick();
    }
    assert!(hog.connection.ended().unwrap().contains("others wait"));
    for _ in 0..16 {
        other.settle();
        finish_writes(&mut other);
    }
    assert_eq!(other.executed().len(), 16);
}

#[test]
fn reads_are_charged_with_what_their_cdb_reads() {
    let setup = setup_with(2, 1);
    let budget = setup.budget.clone();
    let mut lab = Lab::session_with(setup, &[]);
    for _ in 0..64 {
        // The initiator expects no data.
        let header = lab.header(SIMPLE, SLOW, 255, 0);
        lab.send(header, &[]);
    }
    let begun = lab.executed().len() as u64;
    assert!((8..16).contains(&begun), "{begun} reads of 127.5 KiB in 1.5 MiB");
    assert!(budget.used() <= SESSION_GUARANTEE.total_bytes + (1 << 20));
}

#[test]
fn what_nobody_reads_is_charged_until_it_is_sent_or_thrown_away() {
    let setup = setup_with(4, 1);
    let budget = setup.budget.clone();
    let mut lab = Lab::session_with(setup, &[]);
    let before = budget.used();
    let mut bytes = Vec::new();
    for _ in 0..60 {
        bytes.extend(lab.header(EXPECTS_READ, READ, 255, 130_560).0);
    }
    lab.deliver(&bytes);
    let done = lab.executed().len();
    assert!((14..22).contains(&done), "{done} reads of 127.5 KiB in 2.5 MiB");
    lab.connection.close("test");
    assert!(budget.used() > before + MIB as u64, "the answers are still there");
    let at_end = budget.used();
    let part: usize = lab.connection.slices().iter().map(|slice| slice.len()).sum::<usize>().min(MIB);
    lab.connection.sent(part);
    lab.connection.tick();
    assert!(budget.used() <= at_end);
    for _ in 0..4 {
        lab.connection.tick();
    }
    assert!(!lab.connection.wants_output());
    assert_eq!(budget.used(), before);
    drop(lab);
    assert_eq!(budget.used(), 0);
}

#[test]
fn pings_that_nobody_reads_stop_the_input() {
    for (keys, most) in
        [(&[][..], SESSION_GUARANTEE_BYTES as usize), (&[("SessionType", "Discovery")][..], 32 << 10)]
    {
        let setup = setup_with(64, 1);
        let budget = setup.budget.clone();
        let mut lab = match keys {
            [] => Lab::session_with(setup, &[]),
            _ => {
                let mut lab = Lab::new(setup);
                let answer = lab.login(0x87, &[("InitiatorName", INITIATOR), ("SessionType", "Discovery")]);
                assert_eq!(status(&answer), 0);
                lab
            }
        };
        let before = budget.used();
        let (mut taken, bytes) = (0, [1; 4096]);
        while lab.connection.wants_input() {
            let ping = nop(&lab);
            lab.send(ping, &bytes);
            taken += bytes.len();
            assert!(taken <= most + (64 << 10), "{taken} bytes of pings");
        }
        assert_eq!(budget.used(), before, "pings draw nothing from the pool");
        let answered: usize = lab.answers().iter().map(|pdu| pdu.data.len()).sum();
        assert!(answered + bytes.len() >= taken);
        lab.settle();
        assert!(lab.connection.wants_input());
    }
}

#[test]
fn requests_that_are_only_answered_stop_the_input_too() {
    let request = |kind: u8, lab: &Lab| {
        let header = Header::new(kind | 0x40, FINAL | 1).with_itt(77).with_ttt(NO_TAG);
        header.put_u32(24, lab.cmd_sn)
    };
    for kind in [opcode::TASK_MANAGEMENT, opcode::SNACK, opcode::TEXT, opcode::NOP_OUT] {
        for discovery in [false, true] {
            let mut lab = match discovery {
                false => Lab::session(&[]),
                true => {
                    let mut lab = Lab::new(setup(target_config()));
                    lab.login(0x87, &[("InitiatorName", INITIATOR), ("SessionType", "Discovery")]);
                    lab
                }
            };
            let data = if kind == opcode::TEXT { text(&[("SendTargets", "All")]) } else { Vec::new() };
            let mut taken = 0;
            while lab.connection.wants_input() {
                let header = request(kind, &lab);
                lab.send(header, &data);
                taken += 1;
                assert!(taken < 20_000, "{kind:#x} without end");
            }
            assert!(lab.connection.slices().iter().map(|slice| slice.len()).sum::<usize>() < 2 * MIB);
            lab.answers();
            lab.settle();
            assert!(lab.connection.wants_input(), "{kind:#x}");
        }
    }
}

#[test]
fn a_gap_in_the_command_numbers_does_not_gather_data_without_end() {
    let setup = setup_with(64, 1);
    let budget = setup.budget.clone();
    let mut lab = Lab::session_with(setup, &[]);
    let before = budget.used();
    lab.header(FINAL, 0, 0, 0);
    for _ in 0..60 {
        let header = lab.header(EXPECTS_WRITE, WRITE, 128, 65_536);
        lab.send(header, &[0; 65_536]);
    }
    assert!(lab.connection.ended().unwrap().contains("before CmdSN"));
    assert!(budget.used() <= before);
}

#[test]
fn data_that_were_asked_for_come_through_whatever_waits_before_them() {
    let setup = setup_with(1, 1);
    let mut lab = Lab::session_with(setup, &[FIRST_BURST]);
    let first = lab.header(FINAL | 0x22, WRITE, 255, 130_560);
    lab.send(first, &[]);
    let asked = r2ts(&mut lab);
    assert_eq!(asked.len(), 1);
    // The stream has more requests before the data than there is room for.
    let mut refused = 0;
    for _ in 0..30 {
        let header = lab.header(EXPECTS_WRITE, WRITE, 255, 130_560);
        lab.send(header, &pattern(130_560));
        assert!(lab.connection.wants_input());
    }
    for (ttt, offset, bytes, itt) in asked {
        lab.itt = itt;
        lab.data_out(ttt, 0, offset, &pattern(bytes), true);
    }
    lab.settle();
    let mut good = 0;
    for pdu in lab.answers() {
        match outcome(&pdu).0 {
            0 => good += 1,
            0x28 => refused += 1,
            other => panic!("status {other:#x}"),
        }
    }
    assert!(refused > 10 && good > 4, "{good} good, {refused} full");
    assert_eq!(good + refused, 31);
    assert_eq!(lab.executed()[0], first.itt());
}

#[test]
fn unsolicited_data_of_a_command_that_was_refused_for_want_of_room_are_ignored() {
    let setup = setup_with(1, 1);
    let mut lab = Lab::session_with(setup, &[("InitialR2T", "No"), ("FirstBurstLength", "131072")]);
    let first = lab.header(FINAL | 0x22, WRITE, 255, 130_560);
    lab.send(first, &[]);
    r2ts(&mut lab);
    let mut refused = Vec::new();
    for _ in 0..30 {
        let header = lab.header(MORE, WRITE, 255, 130_560);
        lab.send(header, &pattern(512));
        for pdu in lab.answers() {
            assert_eq!(outcome(&pdu).0, 0x28);
            refused.push(pdu.header.itt());
        }
    }
    assert!(refused.len() > 10, "{}", refused.len());
    for itt in refused {
        lab.itt = itt;
        lab.data_out(UNSOLICITED, 0, 512, &pattern(130_560 - 512), true);
        assert!(lab.answers().is_empty());
    }
    assert_eq!(lab.connection.ended(), None);
}

#[test]
fn a_login_holds_no_more_than_its_guarantee() {
    let setup = setup_with(1, 0);
    let budget = setup.budget.clone();
    let mut lab = Lab::new(setup.clone());
    assert_eq!(budget.used(), LOGIN_GUARANTEE_BYTES);
    // Text without end.
    let header = Header::new(opcode::LOGIN | 0x40, 0x40).put(8, [0x80, 1, 2, 3, 4, 5]);
    for _ in 0..3 {
        lab.send(header, &[b'a'; 8192]);
    }
    assert!(lab.connection.ended().is_some());
    // A PDU longer than the standard allows before login.
    let mut lab = Lab::new(setup);
    lab.send(header, &[b'a'; 8196]);
    assert!(lab.connection.ended().unwrap().contains("8192"));
}

#[test]
fn a_session_without_room_is_refused_and_may_come_again() {
    let mut setup = setup(target_config());
    setup.budget = Arc::new(Budget::new(2 * SESSION_GUARANTEE.total_bytes));
    let first = Lab::session_with(setup.clone(), &[]);
    let mut second = Lab::session_with(setup.clone(), &[]);
    let mut third = Lab::new(setup.clone());
    let keys = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];
    assert_eq!(status(&third.login(0x87, &keys)), 0x0302);
    drop((first, third));
    assert_eq!(status(&Lab::new(setup).login(0x87, &keys)), 0);
    second.command(0);
    assert_eq!(outcome(&second.one()).0, 0);
}
