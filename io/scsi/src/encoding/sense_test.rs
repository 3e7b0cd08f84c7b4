use super::*;

#[test]
fn fixed_format_carries_information_and_field_pointer() {
    let sense = Sense {
        code: Code::MISCOMPARE,
        information: Some(0x1234),
        field: Some(FieldPointer { origin: FieldOrigin::Cdb, byte: 7, bit: Some(3) }),
    };
    let expected = [0xF0, 0, 0x0E, 0, 0, 0x12, 0x34, 10, 0, 0, 0, 0, 0x1D, 0x00, 0, 0xCB, 0, 7];
    assert_eq!(&sense.encode(false)[..], expected);
}

#[test]
fn fixed_format_leaves_out_what_does_not_fit() {
    let sense = Sense { code: Code::UNRECOVERED_READ, information: Some(1 << 32), field: None };
    assert_eq!(sense.encode(false)[0], 0x70);
    assert_eq!(&sense.encode(true)[8..20], [0, 0x0A, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn descriptor_format_counts_its_descriptors() {
    let sense = Fault::list_byte(300);
    let Fault::Check(sense) = sense else { panic!("sense expected") };
    let bytes = sense.encode(true);
    assert_eq!(&bytes[..8], [0x72, 0x05, 0x26, 0x00, 0, 0, 0, 8]);
    assert_eq!(&bytes[8..], [0x02, 0x06, 0, 0, 0x80, 0x01, 0x2C, 0]);
}

#[test]
fn lack_of_space_pauses_only_the_writer() {
    let Fault::Check(sense) = Fault::from(Error::NoSpace) else { panic!("sense expected") };
    assert_eq!((sense.code.key, sense.code.asc, sense.code.ascq), (7, 0x27, 0x07));
}
