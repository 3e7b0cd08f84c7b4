use crate::lab_test::*;
use crate::pdu::{FINAL, opcode};

const EXPECTS_READ: u8 = FINAL | 0x41;

#[test]
fn residual_counts_of_reads_are_exact() {
    for (blocks, expected, flags, count, bytes) in [
        (1, 512, 0, 0, 512),
        (1, 0, 4, 512, 0),
        (1, 10_000, 2, 9488, 512),
        (1, 200, 4, 312, 200),
        (2, 512, 4, 512, 512),
    ] {
        let mut lab = Lab::session(&[]);
        let header = lab.header(EXPECTS_READ, READ, blocks, expected);
        lab.send(header, &[]);
        let answer = lab.one();
        assert_eq!(answer.data, pattern(usize::from(blocks) * 512)[..bytes]);
        assert_eq!(answer.header.flags() & 0x06, flags);
        assert_eq!(answer.header.u32::<44>(), count);
        let with_data = answer.header.opcode() == opcode::DATA_IN;
        assert_eq!(with_data, bytes > 0);
    }
}

#[test]
fn a_read_without_the_read_flag_sends_no_data() {
    let mut lab = Lab::session(&[]);
    let header = lab.header(FINAL | 1, READ, 1, 0);
    lab.send(header, &[]);
    assert_eq!(outcome(&lab.one()), (0, 4, 512));
    let header = lab.header(FINAL | 0x21, READ, 1, 512);
    lab.send(header, &[0; 512]);
    assert_eq!(outcome(&lab.one()), (0, 2, 512), "a read in the guise of a write");
}

#[test]
fn data_are_cut_by_segment_and_burst() {
    let mut lab = Lab::session(&[("MaxRecvDataSegmentLength", "1024"), ("MaxBurstLength", "2560")]);
    let header = lab.header(EXPECTS_READ, READ, 10, 5120);
    lab.send(header, &[]);
    let answers = lab.answers();
    let shape: Vec<_> =
        answers.iter().map(|it| (it.header.u32::<40>(), it.data.len(), it.header.is_final())).collect();
    let expected = [
        (0, 1024, false),
        (1024, 1024, false),
        (2048, 512, true),
        (2560, 1024, false),
        (3584, 1024, false),
        (4608, 512, true),
    ];
    assert_eq!(shape, expected);
    let whole: Vec<u8> = answers.iter().flat_map(|it| it.data.to_vec()).collect();
    assert_eq!(whole, pattern(5120));
    let numbers: Vec<u32> = answers.iter().map(|it| it.header.u32::<36>()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    let with_status: Vec<bool> = answers.iter().map(|it| it.header.flags() & 1 == 1).collect();
    assert_eq!(with_status, [false, false, false, false, false, true]);
}

#[test]
fn sense_has_its_length_in_front() {
    let mut lab = Lab::session(&[]);
    let header = lab.header(EXPECTS_READ, BAD, 0, 512);
    lab.send(header, &[]);
    let answer = lab.one();
    assert_eq!(outcome(&answer), (2, 2, 512));
    assert_eq!(answer.data[..2], [0, 18]);
    assert_eq!(answer.data[2..], [0x70; 18]);
}
