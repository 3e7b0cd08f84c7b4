use crate::lab_test::*;
use crate::memory_admission::SESSION_GUARANTEE;
use crate::pdu::{FINAL, Header, NO_TAG, opcode};
use crate::session::SessionLimits;
use bytes::BufMut;
use std::sync::Arc;
use transport::MAX_TURN_PDUS;

const SIMPLE: u8 = FINAL | 1;
const EXPECTS_READ: u8 = SIMPLE | 0x40;

#[test]
fn a_read_is_answered_with_data_and_status_in_one() {
    let mut lab = Lab::session(&[]);
    let header = lab.header(EXPECTS_READ, READ, 8, 4096);
    lab.send(header, &[]);
    let answer = lab.one();
    assert_eq!(answer.header.opcode(), opcode::DATA_IN);
    assert_eq!(answer.header.flags(), FINAL | 1);
    assert_eq!(answer.data, pattern(4096));
    assert_eq!(answer.header.u32::<28>(), lab.cmd_sn, "ExpCmdSN");
    assert_eq!(answer.header.u32::<32>(), lab.cmd_sn + 7, "MaxCmdSN");
}

#[test]
fn status_numbers_go_up_by_one_and_only_with_a_status() {
    let mut lab = Lab::session(&[("MaxRecvDataSegmentLength", "512")]);
    lab.command(0);
    let first = lab.one().header.u32::<24>();
    let header = lab.header(EXPECTS_READ, READ, 2, 1024);
    lab.send(header, &[]);
    let data = lab.answers();
    assert_eq!(data.len(), 2);
    assert_eq!(data[0].header.u32::<24>(), 0);
    assert_eq!(data[1].header.u32::<24>(), first + 1);
    lab.command(0);
    assert_eq!(lab.one().header.u32::<24>(), first + 2);
}

#[test]
fn commands_are_performed_in_the_order_of_their_numbers() {
    let mut lab = Lab::session(&[]);
    let first = lab.header(FINAL, 0, 0, 0);
    let second = lab.header(FINAL, 0, 0, 0);
    let third = lab.header(FINAL, 0, 0, 0);
    lab.send(third, &[]);
    lab.send(second, &[]);
    assert!(lab.executed().is_empty());
    lab.send(first, &[]);
    assert_eq!(lab.executed(), [first.itt(), second.itt(), third.itt()]);
    assert_eq!(lab.answers().len(), 3);
}

#[test]
fn commands_outside_the_window_are_ignored() {
    let mut lab = Lab::session(&[]);
    let expected = lab.cmd_sn;
    for number in [expected.wrapping_sub(1), expected + 8, expected + 100_000] {
        let header = lab.header(FINAL, 0, 0, 0).put_u32(24, number);
        lab.send(header, &[]);
    }
    assert!(lab.answers().is_empty());
    lab.cmd_sn = expected;
    lab.command(0);
    assert_eq!(lab.executed().len(), 1);
}

#[test]
fn the_window_closes_as_commands_are_outstanding_and_opens_as_they_end() {
    let mut lab = Lab::session(&[]);
    let tags: Vec<u32> = (0..8).map(|_| lab.command(SLOW)).collect();
    assert_eq!(lab.executed(), tags);
    lab.command(SLOW);
    assert_eq!(lab.executed().len(), 8, "the ninth is outside the window");
    lab.finish(tags[3], Some(good()));
    let answer = lab.one();
    assert_eq!(answer.header.itt(), tags[3]);
    assert_eq!(answer.header.u32::<32>(), answer.header.u32::<28>(), "room for one");
}

#[test]
fn immediate_commands_do_not_wait_and_are_bounded() {
    let mut lab = Lab::session(&[]);
    for _ in 0..33 {
        let mut header = lab.header(FINAL, SLOW, 0, 0);
        lab.cmd_sn -= 1;
        header.0[0] |= 0x40;
        lab.send(header, &[]);
    }
    assert_eq!(lab.executed().len(), 32);
    let answer = lab.one();
    assert_eq!((answer.header.opcode(), answer.header.0[2]), (opcode::REJECT, 0x06));
    let tags = lab.executed();
    lab.finish(tags[0], Some(good()));
    assert_eq!(lab.one().header.itt(), tags[0]);
}

#[test]
fn a_tag_in_use_is_rejected() {
    let mut lab = Lab::session(&[]);
    let tag = lab.command(SLOW);
    let header = lab.header(FINAL, 0, 0, 0).with_itt(tag);
    lab.send(header, &[]);
    let answer = lab.one();
    assert_eq!((answer.header.opcode(), answer.header.0[2]), (opcode::REJECT, 0x07));
    assert_eq!(answer.data[..], header.0[..], "the rejected header comes back");
    lab.finish(tag, Some(good()));
    assert_eq!(lab.one().header.itt(), tag);
}

#[test]
fn data_in_both_directions_is_refused() {
    let mut lab = Lab::session(&[]);
    let header = lab.header(EXPECTS_READ | 0x20, READ, 1, 512);
    lab.send(header, &[1; 512]);
    assert_eq!(sense(&lab.one()), (5, 0x24, 0));
    assert!(lab.executed().is_empty());
}

#[test]
fn long_cdbs_come_in_an_additional_segment() {
    let mut lab = Lab::session(&[]);
    let mut header = lab.header(FINAL, 0x7f, 0, 0);
    header.0[4] = 5;
    let mut ahs = vec![0, 17, 1, 0];
    ahs.extend(1..=16);
    let bytes = [&header.0[..], &ahs].concat();
    lab.deliver(&bytes);
    let cdb = lab.script.lock().executed[0].cdb.clone();
    assert_eq!(cdb.len(), 32);
    assert_eq!(cdb[16..], ahs[4..]);
    assert_eq!(outcome(&lab.one()).0, 0);
}

#[test]
fn malformed_additional_segments_are_rejected() {
    for ahs in [[0, 0, 1, 0], [0, 9, 1, 0], [0xff, 0xff, 1, 0], [0, 1, 9, 0]] {
        let mut lab = Lab::session(&[]);
        let mut header = lab.header(FINAL, 0, 0, 0);
        header.0[4] = 1;
        lab.deliver(&[&header.0[..], &ahs].concat());
        assert_eq!((lab.one().header.opcode(), lab.executed().len()), (opcode::REJECT, 0), "{ahs:?}");
    }
}

#[test]
fn pdus_that_arrive_at_once_are_taken_in_turns() {
    let mut lab = Lab::session(&[]);
    let ping =
        Header::new(opcode::NOP_OUT | 0x40, FINAL).with_itt(5).with_ttt(NO_TAG).put_u32(24, lab.cmd_sn);
    let count = 2 * MAX_TURN_PDUS + 44;
    let bytes = lab.encoded(std::iter::repeat_n(ping, count));
    lab.connection.space().put_slice(&bytes);
    lab.connection.received();
    assert_eq!((lab.answers().len(), lab.connection.wants_input()), (MAX_TURN_PDUS, false));
    assert!(lab.connection.proceed());
    assert_eq!(lab.answers().len(), MAX_TURN_PDUS);
    assert!(!lab.connection.proceed());
    assert_eq!((lab.answers().len(), lab.connection.wants_input()), (44, true));
}

#[test]
fn pings_come_back_with_their_data() {
    let mut lab = Lab::session(&[]);
    let ping =
        Header::new(opcode::NOP_OUT | 0x40, FINAL).with_itt(5).with_ttt(NO_TAG).put_u32(24, lab.cmd_sn);
    lab.send(ping, b"hello");
    let answer = lab.one();
    assert_eq!(
        (answer.header.opcode(), answer.header.itt(), answer.header.ttt()),
        (opcode::NOP_IN, 5, NO_TAG)
    );
    assert_eq!(&answer.data[..], b"hello");
    let reply = Header::new(opcode::NOP_OUT | 0x40, FINAL).with_itt(NO_TAG).with_ttt(1);
    lab.send(reply, &[]);
    assert!(lab.answers().is_empty());
}

#[test]
fn a_silent_initiator_is_pinged_and_then_given_up() {
    let mut lab = Lab::session(&[]);
    lab.connection.tick();
    for _ in 0..3 {
        assert!(lab.answers().is_empty());
        lab.connection.tick();
    }
    let ping = lab.one();
    assert_eq!((ping.header.opcode(), ping.header.itt()), (opcode::NOP_IN, NO_TAG));
    assert_ne!(ping.header.ttt(), NO_TAG);
    let reply = Header::new(opcode::NOP_OUT | 0x40, FINAL).with_itt(NO_TAG).with_ttt(ping.header.ttt());
    lab.send(reply, &[]);
    for _ in 0..5 {
        assert_eq!(lab.connection.ended(), None);
        lab.connection.tick();
    }
    lab.connection.tick();
    assert!(lab.connection.ended().unwrap().contains("nothing received"));
}

#[test]
fn a_login_that_takes_too_long_is_given_up_however_busy_it_is() {
    let mut lab = Lab::new(setup(target_config()));
    for _ in 0..5 {
        assert_eq!(lab.connection.ended(), None);
        lab.login(0x00, &[]);
        lab.connection.tick();
        lab = match lab.connection.ended() {
            Some(_) => return,
            None => lab,
        };
    }
    assert!(lab.connection.ended().unwrap().contains("too long"));
}

#[test]
fn logout_ends_the_session_after_its_answer() {
    let mut lab = Lab::session(&[]);
    let tag = lab.command(SLOW);
    let header = Header::new(opcode::LOGOUT | 0x40, FINAL).with_itt(8).put_u32(24, lab.cmd_sn);
    lab.send(header, &[]);
    let answer = lab.one();
    assert_eq!((answer.header.opcode(), answer.header.0[2]), (opcode::LOGOUT_RESPONSE, 0));
    assert_eq!(lab.connection.ended().unwrap(), "logged out");
    assert_eq!(lab.dropped(), [u64::from(tag)]);
}

#[test]
fn logout_of_another_connection_or_for_recovery_is_refused() {
    for (reason, cid, response) in [(1, 9, 1), (2, 0, 2)] {
        let mut lab = Lab::session(&[]);
        let header = Header::new(opcode::LOGOUT | 0x40, FINAL | reason).put_u16(20, cid);
        lab.send(header, &[]);
        assert_eq!(lab.one().header.0[2], response);
        assert_eq!(lab.connection.ended(), None);
    }
}

#[test]
fn a_shutdown_asks_for_a_logout() {
    let mut lab = Lab::session(&[]);
    lab.connection.request_logout(3);
    let message = lab.one().header;
    assert_eq!((message.opcode(), message.0[36], message.u16::<42>()), (opcode::ASYNC, 1, 3));
    assert_eq!(lab.connection.ended(), None);
}

#[test]
fn digests_are_checked_and_sent() {
    let mut lab = Lab::session(&[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")]);
    let header = lab.header(EXPECTS_READ, READ, 3, 1536);
    lab.send(header, &[]);
    assert_eq!(lab.one().data, pattern(1536));
    let header = lab.header(SIMPLE | 0x20, WRITE, 1, 512);
    lab.send(header, &pattern(512));
    assert_eq!(outcome(&lab.one()), (0, 0, 0));
    assert_eq!(lab.script.lock().executed[1].data_out.to_bytes(), pattern(512));
}

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let mut lab = Lab::session(&[("HeaderDigest", "CRC32C")]);
    let header = lab.header(FINAL, 0, 0, 0);
    lab.deliver(&[&header.0[..], &[1, 2, 3, 4]].concat());
    assert_eq!(lab.connection.ended().unwrap(), "wrong header digest");
    assert!(lab.executed().is_empty());
}

#[test]
fn a_command_with_a_wrong_data_digest_is_rejected_and_may_be_sent_again() {
    let mut lab = Lab::session(&[("DataDigest", "CRC32C")]);
    let mut header = lab.header(SIMPLE | 0x20, WRITE, 1, 512);
    header.set_data_bytes(512);
    lab.deliver(&[&header.0[..], &[0; 512], &[1, 2, 3, 4]].concat());
    let answer = lab.one();
    assert_eq!((answer.header.opcode(), answer.header.0[2]), (opcode::REJECT, 0x02));
    lab.send(header, &[0; 512]);
    assert_eq!(outcome(&lab.one()), (0, 0, 0));
}

#[test]
fn data_with_a_wrong_digest_fail_their_command() {
    let mut lab = Lab::session(&[("DataDigest", "CRC32C"), ("ImmediateData", "No")]);
    let header = lab.header(SIMPLE | 0x20, WRITE, 1, 512);
    lab.send(header, &[]);
    let r2t = lab.one().header;
    let mut data = Header::new(opcode::DATA_OUT, FINAL).with_itt(lab.itt).with_ttt(r2t.ttt());
    data.set_data_bytes(512);
    lab.deliver(&[&data.0[..], &[0; 512], &[1, 2, 3, 4]].concat());
    let answers = lab.answers();
    assert_eq!((answers[0].header.opcode(), answers[0].header.0[2]), (opcode::REJECT, 0x02));
    assert_eq!(sense(&answers[1]), (0x0b, 0x47, 0x05));
    assert!(lab.executed().is_empty());
}

#[test]
fn a_slow_reader_stops_its_own_input() {
    let limits = SessionLimits { commands: 64, busy_bytes: 100_000, ..SessionLimits::default() };
    let mut setup = setup(target_config());
    setup.limits = limits;
    let mut lab = Lab::session_with(setup, &[]);
    let mut bytes = Vec::new();
    for _ in 0..20 {
        bytes.extend(lab.header(EXPECTS_READ, READ, 64, 32_768).0);
    }
    lab.deliver(&bytes);
    let done = lab.executed().len();
    assert!((3..=5).contains(&done), "{done} commands while the initiator reads nothing");
    let ping = Header::new(opcode::NOP_OUT | 0x40, FINAL).with_itt(5).put_u32(24, lab.cmd_sn);
    let mut pings = 0;
    while lab.connection.wants_input() {
        lab.send(ping, &[0; 8192]);
        pings += 1;
        assert!(pings < 80, "pings are taken though their answers are not");
    }
    while lab.executed().len() < 20 {
        assert!(!lab.answers().is_empty());
        lab.settle();
    }
    assert!(lab.connection.wants_input() || lab.connection.wants_output());
}

#[test]
fn what_other_sessions_hold_leaves_each_a_little() {
    let mut setup = setup(target_config());
    setup.limits.commands = 64;
    // A pool of 1 MiB.
    setup.budget = Arc::new(transport::Budget::new(((1 << 20) + 2 * SESSION_GUARANTEE.total_bytes) * 8 / 7));
    let mut greedy = Lab::session_with(setup.clone(), &[]);
    let mut modest = Lab::session_with(setup, &[]);
    for lab in [&mut greedy, &mut modest] {
        let mut bytes = Vec::new();
        for _ in 0..60 {
            bytes.extend(lab.header(EXPECTS_READ, READ, 128, 65_536).0);
        }
        lab.deliver(&bytes);
    }
    // Neither reads: the first has taken half of the pool, the second its own share.
    let done = [&greedy, &modest].map(|lab| lab.executed().len());
    assert!(done[0] >= 13 && done[0] <= 16, "{done:?}");
    assert!(done[1] >= 6 && done[1] <= 8, "{done:?}");
    while modest.executed().len() < 60 {
        assert!(!modest.answers().is_empty());
        modest.settle();
    }
}

#[test]
fn a_reader_that_never_reads_is_given_up() {
    let mut setup = setup(target_config());
    setup.limits.busy_bytes = 1000;
    let mut lab = Lab::session_with(setup, &[]);
    let header = lab.header(EXPECTS_READ, READ, 64, 32_768);
    lab.send(header, &[]);
    for _ in 0..6 {
        lab.connection.tick();
    }
    assert!(lab.connection.ended().is_some());
    lab.connection.tick();
    lab.connection.tick();
    assert!(!lab.connection.wants_output(), "unread output is discarded");
}

#[test]
fn anything_but_a_login_first_is_no_iscsi_and_gets_no_answer() {
    let mut lab = Lab::new(setup(target_config()));
    lab.deliver(b"GET / HTTP/1.1\r\nHost: an address that listens here\r\n\r\n");
    assert!(lab.connection.ended().is_some());
    assert!(lab.answers().is_empty());
}

#[test]
fn a_login_within_a_session_ends_it() {
    let mut lab = Lab::session(&[]);
    let header = Header::new(opcode::LOGIN | 0x40, 0x87);
    lab.send(header, &[]);
    assert!(lab.connection.ended().is_some());
}

#[test]
fn discovery_reports_every_portal_and_accepts_no_commands() {
    let mut lab = Lab::new(setup(target_config()));
    let answer =
        lab.login(0x87, &[("InitiatorName", "iqn.2026-01.test:stranger"), ("SessionType", "Discovery")]);
    assert_eq!(status(&answer), 0);
    let request =
        Header::new(opcode::TEXT | 0x40, FINAL).with_itt(3).with_ttt(NO_TAG).put_u32(24, lab.cmd_sn);
    lab.send(request, &text(&[("SendTargets", "All")]));
    let answer = lab.one();
    assert_eq!(answer.header.flags(), FINAL);
    assert_eq!(value(&answer, "TargetName").unwrap(), TARGET);
    assert_eq!(value(&answer, "TargetAddress").unwrap(), "[::1]:3260,3");
    lab.command(0);
    assert_eq!(lab.one().header.opcode(), opcode::REJECT);
}

#[test]
fn a_text_may_come_and_go_in_several_pdus() {
    let setup = setup(target_config());
    let address = "0.0.0.0:3260".parse().unwrap();
    let portals = (1..=40).map(|number| crate::Portal::plain(number, address)).collect();
    setup.target_config.set_portals(portals);
    let mut lab = Lab::session_with(setup, &[("MaxRecvDataSegmentLength", "512")]);
    let header = |flags, ttt, lab: &Lab| {
        Header::new(opcode::TEXT | 0x40, flags).with_itt(3).with_ttt(ttt).put_u32(24, lab.cmd_sn)
    };
    let request = text(&[("SendTargets", "")]);
    let first = header(0x40, NO_TAG, &lab);
    lab.send(first, &request[..5]);
    let mut answer = lab.one();
    assert!(answer.data.is_empty() && answer.header.ttt() != NO_TAG);
    let second = header(FINAL, answer.header.ttt(), &lab);
    lab.send(second, &request[5..]);
    let mut text = Vec::new();
    loop {
        answer = lab.one();
        assert!(answer.data.len() <= 512);
        text.extend_from_slice(&answer.data);
        if answer.header.flags() == FINAL {
            break;
        }
        assert_eq!(answer.header.flags(), 0x40);
        let next = header(FINAL, answer.header.ttt(), &lab);
        lab.send(next, &[]);
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("TargetAddress=10.0.0.1:3260,").count(), 40);
}

#[test]
fn an_exchange_goes_on_until_the_initiator_has_nothing_more_to_say() {
    let mut lab = Lab::session(&[]);
    let header = |flags, ttt, lab: &Lab| {
        Header::new(opcode::TEXT | 0x40, flags).with_itt(3).with_ttt(ttt).put_u32(24, lab.cmd_sn)
    };
    // An empty first part of a text, the rest, and then a final request of the same exchange.
    let mut ttt = NO_TAG;
    for (flags, keys) in [(0x40, ""), (0, "SendTargets"), (FINAL, "")] {
        let request = header(flags, ttt, &lab);
        let data = if keys.is_empty() { Vec::new() } else { text(&[(keys, "")]) };
        lab.send(request, &data);
        let answer = lab.one();
        assert_eq!(answer.header.opcode(), opcode::TEXT_RESPONSE, "{flags:#x}");
        assert_eq!(answer.header.flags() & FINAL, flags & FINAL);
        assert_eq!(answer.data.is_empty(), keys.is_empty());
        ttt = answer.header.ttt();
    }
    assert_eq!(ttt, NO_TAG);
    for (flags, ttt) in [(FINAL, 1), (FINAL | 0x40, NO_TAG)] {
        let request = header(flags, ttt, &lab);
        lab.send(request, &[]);
        assert_eq!(lab.one().header.opcode(), opcode::REJECT);
    }
}

#[test]
fn unknown_keys_are_not_understood_and_names_are_compared_without_case() {
    let target = TARGET.to_ascii_uppercase();
    let other = target.replace("IQN", "iqN") + "X";
    type Keys<'a> = &'a [(&'a str, &'a str)];
    // The text, and the response.
    let rows: [(Keys, Keys); 5] = [
        (&[("X-org.example.key", "1")], &[("X-org.example.key", "NotUnderstood")]),
        (&[("sENDtARGETS", ""), ("Z", "1")], &[("sENDtARGETS", "NotUnderstood"), ("Z", "NotUnderstood")]),
        (&[("SendTargets", &target)], &[("TargetName", TARGET), ("TargetAddress", "[::1]:3260,3")]),
        (&[("SendTargets", &other), ("Z", "1")], &[("Z", "NotUnderstood")]),
        (&[("SendTargets", &other)], &[]),
    ];
    let mut lab = Lab::session(&[]);
    for (keys, expected) in rows {
        let request =
            Header::new(opcode::TEXT | 0x40, FINAL).with_itt(3).with_ttt(NO_TAG).put_u32(24, lab.cmd_sn);
        lab.send(request, &text(keys));
        let answer = lab.one();
        assert_eq!(answer.header.opcode(), opcode::TEXT_RESPONSE, "{keys:?}");
        assert_eq!(answer.data, text(expected), "{keys:?}");
    }
}

#[test]
fn text_requests_that_break_a_rule_are_rejected() {
    let mut lab = Lab::session(&[]);
    let pairs = [
        ("SendTargets", "Alle"),
        // SendTargets values of discovery sessions (RFC 7143 Appendix C).
        ("SendTargets", "All"),
        ("SendTargets", "aLL"),
        ("MaxBurstLength", "512"),
        ("TargetAddress", "x"),
    ];
    for (key, value) in pairs {
        let request =
            Header::new(opcode::TEXT | 0x40, FINAL).with_itt(3).with_ttt(NO_TAG).put_u32(24, lab.cmd_sn);
        lab.send(request, &text(&[(key, value)]));
        assert_eq!(lab.one().header.opcode(), opcode::REJECT, "{key}={value}");
    }
}

#[test]
fn the_initiator_may_change_how_much_it_takes_during_the_session() {
    let mut lab = Lab::session(&[]);
    let request =
        Header::new(opcode::TEXT | 0x40, FINAL).with_itt(3).with_ttt(NO_TAG).put_u32(24, lab.cmd_sn);
    lab.send(request, &text(&[("MaxRecvDataSegmentLength", "1024")]));
    assert_eq!(lab.one().header.flags(), FINAL);
    let header = lab.header(EXPECTS_READ, READ, 4, 2048);
    lab.send(header, &[]);
    assert_eq!(lab.answers().len(), 2);
}

#[test]
fn snack_is_rejected_and_unknown_opcodes_end_the_connection() {
    let mut lab = Lab::session(&[]);
    lab.send(Header::new(opcode::SNACK, FINAL), &[]);
    assert_eq!(lab.one().header.0[2], 0x03);
    lab.send(Header::new(0x1c, FINAL), &[]);
    assert!(lab.connection.ended().is_some());
}

/// Arbitrary bytes, and valid PDUs with a few bytes changed, against a login and a session: nothing may panic,
/// and all output must be well-formed.
#[test]
fn mutated_pdus_never_panic() {
    for seed in 0..1000_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mut lab = if seed % 4 == 0 { Lab::new(setup(target_config())) } else { Lab::session(&[]) };
        for _ in 0..20 {
            let op = [0x00, 0x01, 0x01, 0x02, 0x03, 0x04, 0x05, 0x05, 0x06, 0x10][next() as usize % 10];
            let mut header = Header::new(op | if next() % 4 == 0 { 0x40 } else { 0 }, next() as u8)
                .with_itt(next() as u32 % 4)
                .with_ttt(if next() % 2 == 0 { NO_TAG } else { next() as u32 % 3 })
                .put_u32(24, lab.cmd_sn.wrapping_add(next() as u32 % 3))
                .put_u32(36, next() as u32 % 2)
                .put_u32(40, next() as u32 % 3 * 512)
                .put(32, [[READ, WRITE, SLOW, 0][next() as usize % 4]]);
            if op == 0x01 {
                header = header.put_u32(20, next() as u32 % 5000);
            }
            let data = vec![b'='; next() as usize % 3 * 512];
            header.set_data_bytes(data.len());
            let mut bytes = [&header.0[..], &data].concat();
            for _ in 0..next() % 3 {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8;
            }
            lab.deliver(&bytes);
            lab.cmd_sn = lab.answers().last().map_or(lab.cmd_sn, |pdu| pdu.header.u32::<28>());
            lab.connection.tick();
        }
    }
}

#[test]
fn what_is_beyond_the_room_waits_and_can_be_aborted() {
    let mut setup = setup(target_config());
    setup.limits = SessionLimits { commands: 64, busy_bytes: 100_000, ..SessionLimits::default() };
    let mut lab = Lab::session_with(setup, &[]);
    let mut tags = Vec::new();
    for _ in 0..6 {
        let header = lab.header(EXPECTS_READ, SLOW, 118, 60_000);
        tags.push(header.itt());
        lab.send(header, &[]);
    }
    let write = lab.header(FINAL | 0x21, WRITE, 64, 32_768);
    let write_tag = write.itt();
    lab.send(write, &[]);
    assert_eq!(lab.executed().len(), 2, "two reads are more than there is room for");
    assert!(lab.answers().is_empty(), "no data is asked for");
    assert!(lab.connection.wants_input(), "but input is received");
    // A waiting command is aborted, and never begins.
    lab.manage(1, 0, tags[3], 0);
    assert_eq!(lab.one().header.opcode(), opcode::TASK_MANAGEMENT_RESPONSE);
    for tag in [0, 1, 2, 4, 5].map(|index| tags[index]) {
        lab.finish(tag, Some(good()));
        lab.settle();
    }
    assert_eq!(lab.executed().len(), 5);
    let last = lab.answers().into_iter().find(|pdu| pdu.header.opcode() == opcode::R2T);
    assert_eq!(last.expect("an R2T at last").header.itt(), write_tag);
}
