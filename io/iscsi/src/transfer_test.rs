use crate::lab_test::*;
use crate::pdu::incoming::Pdu;
use crate::pdu::{FINAL, opcode};
use crate::session::SessionLimits;

const EXPECTS_WRITE: u8 = FINAL | 0x21;
/// More unsolicited data follow.
const MORE: u8 = 0x21;
const ORDERED: u8 = 0x22;

/// Tag, number, offset and length of an R2T.
fn r2t(pdu: &Pdu) -> (u32, u32, usize, usize) {
    let header = &pdu.header;
    assert_eq!(header.opcode(), opcode::R2T, "{header:?}");
    (header.ttt(), header.u32::<36>(), header.u32::<40>() as usize, header.u32::<44>() as usize)
}

fn gathered(lab: &Lab) -> bytes::Bytes {
    lab.script.lock().executed.last().expect("a command").data_out.to_bytes()
}

#[test]
fn immediate_data_need_no_r2t() {
    let mut lab = Lab::session(&[]);
    let header = lab.header(EXPECTS_WRITE, WRITE, 8, 4096);
    lab.send(header, &pattern(4096));
    assert_eq!(outcome(&lab.one()), (0, 0, 0));
    assert_eq!(gathered(&lab), pattern(4096));
}

#[test]
fn what_immediate_data_leave_is_asked_for_burst_by_burst() {
    let keys = [("MaxBurstLength", "2048"), ("MaxOutstandingR2T", "1"), ("FirstBurstLength", "1024")];
    let mut lab = Lab::session(&keys);
    let data = pattern(5120);
    let header = lab.header(EXPECTS_WRITE, WRITE, 10, 5120);
    lab.send(header, &data[..1024]);
    for (number, offset) in [(0, 1024), (1, 3072)] {
        let (ttt, sn, at, bytes) = r2t(&lab.one());
        assert_eq!((sn, at, bytes), (number, offset, 2048));
        lab.data_out(ttt, 0, at, &data[at..at + 1000], false);
        lab.data_out(ttt, 1, at + 1000, &data[at + 1000..at + 2048], true);
    }
    let answer = lab.one();
    assert_eq!(outcome(&answer), (0, 0, 0));
    assert_eq!(answer.header.u32::<36>(), 2, "ExpDataSN counts the R2Ts");
    assert_eq!(gathered(&lab), data);
}

#[test]
fn several_r2ts_are_outstanding_when_negotiated() {
    let mut lab =
        Lab::session(&[("MaxBurstLength", "512"), ("MaxOutstandingR2T", "3"), ("ImmediateData", "No")]);
    let data = pattern(2048);
    let header = lab.header(EXPECTS_WRITE, WRITE, 4, 2048);
    lab.send(header, &[]);
    let first: Vec<_> = lab.answers().iter().map(r2t).collect();
    assert_eq!(first.iter().map(|it| it.2).collect::<Vec<_>>(), [0, 512, 1024]);
    for (ttt, _, at, bytes) in first {
        lab.data_out(ttt, 0, at, &data[at..at + bytes], true);
    }
    let (ttt, sn, at, bytes) = r2t(&lab.one());
    assert_eq!((sn, at), (3, 1536));
    lab.data_out(ttt, 0, at, &data[at..at + bytes], true);
    assert_eq!(outcome(&lab.one()), (0, 0, 0));
    assert_eq!(gathered(&lab), data);
}

#[test]
fn unsolicited_data_follow_a_command_when_negotiated() {
    let mut lab = Lab::session(&[("InitialR2T", "No"), ("FirstBurstLength", "2048")]);
    let data = pattern(4096);
    let header = lab.header(MORE, WRITE, 8, 4096);
    lab.send(header, &data[..512]);
    assert!(lab.answers().is_empty(), "no R2T before the last of them");
    lab.data_out(UNSOLICITED, 0, 512, &data[512..1024], false);
    lab.data_out(UNSOLICITED, 1, 1024, &data[1024..2048], true);
    let (ttt, _, at, bytes) = r2t(&lab.one());
    assert_eq!((at, bytes), (2048, 2048));
    lab.data_out(ttt, 0, at, &data[at..], true);
    assert_eq!(outcome(&lab.one()), (0, 0, 0));
    assert_eq!(gathered(&lab), data);
}

#[test]
fn data_that_nothing_allows_fail_the_command_once_they_are_all_there() {
    let mut lab = Lab::session(&[("ImmediateData", "No")]);
    let header = lab.header(EXPECTS_WRITE, WRITE, 1, 512);
    lab.send(header, &[0; 512]);
    assert_eq!(sense(&lab.one()), (0x0b, 0x0c, 0x0c));

    let header = lab.header(MORE, WRITE, 2, 1024);
    lab.send(header, &[]);
    assert!(lab.answers().is_empty());
    lab.data_out(UNSOLICITED, 0, 0, &[0; 512], true);
    assert_eq!(sense(&lab.one()), (0x0b, 0x0c, 0x0c));
    assert!(lab.executed().is_empty());
}

#[test]
fn more_than_the_first_burst_or_the_expected_length_fails_the_command() {
    let mut lab = Lab::session(&[("FirstBurstLength", "512")]);
    for expected in [4096, 100] {
        let header = lab.header(EXPECTS_WRITE, WRITE, 8, expected);
        lab.send(header, &[0; 1024]);
        assert_eq!(sense(&lab.one()), (0x0b, 0x0c, 0x0d));
    }
    assert!(lab.executed().is_empty());
}

#[test]
fn a_gap_or_a_wrong_number_fails_the_command() {
    for (data_sn, offset) in [(1, 0), (27, 0), (u32::MAX, 0), (0, 512), (0, u32::MAX as usize)] {
        let mut lab = Lab::session(&[("ImmediateData", "No")]);
        let header = lab.header(EXPECTS_WRITE, WRITE, 2, 1024);
        lab.send(header, &[]);
        let (ttt, ..) = r2t(&lab.one());
        lab.data_out(ttt, data_sn, offset, &[0; 512], false);
        assert!(lab.answers().is_empty(), "the rest is awaited");
        lab.data_out(ttt, 0, 512, &[0; 512], true);
        assert_eq!(sense(&lab.one()), (0x0b, 0x47, 0x05));
        lab.command(0);
        assert_eq!(outcome(&lab.one()).0, 0, "the session continues");
    }
}

#[test]
fn a_burst_of_another_length_fails_the_command() {
    for bytes in [500, 1500] {
        let mut lab = Lab::session(&[("ImmediateData", "No")]);
        let header = lab.header(EXPECTS_WRITE, WRITE, 2, 1024);
        lab.send(header, &[]);
        let (ttt, ..) = r2t(&lab.one());
        lab.data_out(ttt, 0, 0, &vec![0; bytes], true);
        assert_eq!(sense(&lab.one()), (0x0b, 0x0c, 0x0d));
    }
}

#[test]
fn data_without_an_r2t_are_rejected_or_ignored() {
    let mut lab = Lab::session(&[]);
    lab.data_out(12345, 0, 0, &[0; 512], true);
    assert_eq!(lab.one().header.opcode(), opcode::REJECT);
    lab.data_out(UNSOLICITED, 0, 0, &[0; 512], true);
    assert!(lab.answers().is_empty(), "of a command that was refused");
}

#[test]
fn data_in_tiny_pdus_are_gathered_too() {
    let mut lab = Lab::session(&[("ImmediateData", "No")]);
    let data = pattern(2048);
    let header = lab.header(EXPECTS_WRITE, WRITE, 4, 2048);
    lab.send(header, &[]);
    let (ttt, ..) = r2t(&lab.one());
    for at in 0..2048 {
        lab.data_out(ttt, at as u32, at, &data[at..=at], at == 2047);
    }
    assert_eq!(outcome(&lab.one()), (0, 0, 0));
    assert_eq!(gathered(&lab), data);
    assert!(lab.script.lock().executed[0].data_out.parts().count() < 4);
}

#[test]
fn what_is_asked_for_at_a_time_is_bounded_but_the_oldest_command_gets_on() {
    let mut setup = setup(target_config());
    setup.limits = SessionLimits { commands: 8, solicited_bytes: 1024, ..SessionLimits::default() };
    let keys = [("ImmediateData", "No"), ("MaxBurstLength", "1024"), ("MaxOutstandingR2T", "4")];
    let mut lab = Lab::session_with(setup, &keys);
    let mut tags = Vec::new();
    for _ in 0..3 {
        let header = lab.header(EXPECTS_WRITE, WRITE, 6, 3072);
        lab.send(header, &[]);
        tags.push(lab.itt);
    }
    for tag in tags {
        for at in [0, 1024, 2048] {
            let asked = lab.answers();
            let asked: Vec<_> = asked.iter().filter(|pdu| pdu.header.opcode() == opcode::R2T).collect();
            assert_eq!(asked.len(), 1);
            assert_eq!((asked[0].header.itt(), r2t(asked[0]).2), (tag, at));
            lab.itt = tag;
            lab.data_out(r2t(asked[0]).0, 0, at, &[0; 1024], true);
        }
    }
    assert_eq!(lab.executed().len(), 3);
}

#[test]
fn a_command_that_announces_more_than_the_limit_gets_that_much() {
    let mut setup = setup(target_config());
    setup.offers.first_burst = 512;
    setup.limits.command_bytes = 1024;
    let mut lab = Lab::session_with(setup, &[]);
    let header = lab.header(EXPECTS_WRITE, WRITE, 4, u32::MAX);
    lab.send(header, &[]);
    let (ttt, _, _, bytes) = r2t(&lab.one());
    assert_eq!(bytes, 1024);
    lab.data_out(ttt, 0, 0, &[0; 1024], true);
    assert_eq!(gathered(&lab).len(), 1024);
    assert_eq!(outcome(&lab.one()), (0, 2, u32::MAX - 2048));
}

#[test]
fn no_more_is_asked_for_than_the_cdb_asks() {
    let mut lab = Lab::session(&[("ImmediateData", "No")]);
    let header = lab.header(EXPECTS_WRITE, WRITE, 3, 32 << 20);
    lab.send(header, &[]);
    let (ttt, _, at, bytes) = r2t(&lab.one());
    assert_eq!((at, bytes), (0, 1536));
    lab.data_out(ttt, 0, 0, &pattern(1536), true);
    assert_eq!(gathered(&lab), pattern(1536));
    assert_eq!(outcome(&lab.one()), (0, 2, (32 << 20) - 1536));
    // A command without Data-Out, or an unknown one, gets no R2T.
    let header = lab.header(EXPECTS_WRITE, 0, 0, 1 << 20);
    lab.send(header, &[]);
    assert_eq!(outcome(&lab.one()), (0, 2, 1 << 20));
}

#[test]
fn unsolicited_data_beyond_the_cdb_are_taken_and_dropped() {
    let mut lab = Lab::session(&[("InitialR2T", "No"), ("FirstBurstLength", "4096")]);
    let data = pattern(4096);
    let header = lab.header(MORE, WRITE, 1, 8192);
    lab.send(header, &data[..1024]);
    lab.data_out(UNSOLICITED, 0, 1024, &data[1024..], true);
    assert_eq!(gathered(&lab), data[..512]);
    assert_eq!(outcome(&lab.one()), (0, 2, 8192 - 512));
    let header = lab.header(EXPECTS_WRITE, WRITE, 1, 2048);
    lab.send(header, &data[..2048]);
    assert_eq!(gathered(&lab), data[..512]);
    assert_eq!(outcome(&lab.one()), (0, 2, 2048 - 512));
}

#[test]
fn ordered_commands_keep_their_place_while_older_ones_gather() {
    let mut lab = Lab::session(&[("ImmediateData", "No")]);
    let write = lab.header(EXPECTS_WRITE, WRITE, 1, 512);
    lab.send(write, &[]);
    let (ttt, ..) = r2t(&lab.one());
    let ordered = lab.header(FINAL | ORDERED & 7, 0, 0, 0);
    lab.send(ordered, &[]);
    let younger = lab.header(FINAL | 1, 0, 0, 0);
    lab.send(younger, &[]);
    let elsewhere = lab.header(FINAL | 1, 0, 0, 0).put(8, [0, 1]);
    lab.send(elsewhere, &[]);
    let head_of_queue = lab.header(FINAL | 3, 0, 0, 0);
    lab.send(head_of_queue, &[]);
    assert_eq!(lab.executed(), [elsewhere.itt(), head_of_queue.itt()]);
    lab.itt = write.itt();
    lab.data_out(ttt, 0, 0, &[0; 512], true);
    assert_eq!(lab.executed()[2..], [write.itt(), ordered.itt(), younger.itt()]);
}

#[test]
fn residual_counts_of_writes_are_exact() {
    for (blocks, expected, flags, count) in
        [(1, 0, 4, 512), (1, 1024, 2, 512), (2, 512, 4, 512), (1, 200, 4, 312)]
    {
        let mut lab = Lab::session(&[]);
        let header = lab.header(EXPECTS_WRITE, WRITE, blocks, expected);
        lab.send(header, &pattern(expected as usize));
        assert_eq!(outcome(&lab.one()), (0, flags, count));
    }
}
