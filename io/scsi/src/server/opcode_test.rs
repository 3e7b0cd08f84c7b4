use super::*;
use bytes::Bytes;

/// The table as text: code, service action, class, access, effect, data, usage mask, name.
fn table() -> String {
    let line = |row: &Row| {
        let action = row.action.map_or("--".to_owned(), |action| format!("{action:02x}"));
        let usage: Vec<String> = usage(row).iter().map(|byte| format!("{byte:02x}")).collect();
        let (class, access) = (format!("{:?}", row.class), format!("{:?}", row.conflict));
        let effect = format!("{:?}", row.effect);
        let transfer = format!("{:?}", row.transfer);
        let usage = usage.join(" ");
        let codes = format!("{:02x} {action}", row.opcode);
        format!("{codes}  {class:<6} {access:<10} {effect:<7} {transfer:<19} {usage:<47}  {}\n", row.name)
    };
    TABLE.iter().map(line).collect()
}

#[test]
fn the_table_is_as_it_was_agreed() {
    let golden = include_str!("../../tests/golden/opcodes.txt");
    assert_eq!(
        golden,
        table(),
        "the table differs from tests/golden/opcodes.txt; it should be:\n{}",
        table()
    );
}

#[test]
fn rows_are_sorted_and_codes_fit_their_masks() {
    let key = |row: &Row| (row.opcode, row.action);
    assert!(TABLE.is_sorted_by_key(key));
    assert!(TABLE.len() < 256, "the index holds a byte");
    for row in TABLE {
        let expected = match row.opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            _ => 12,
        };
        assert_eq!((row.usage[0], row.usage.len()), (row.opcode, expected), "{}", row.name);
        let mixed = TABLE
            .iter()
            .any(|other| other.opcode == row.opcode && other.action.is_some() != row.action.is_some());
        assert!(!mixed, "{} is with and without service actions", row.name);
        assert_eq!(row.usage.last(), Some(&0), "no bit of the control byte is used");
    }
}

#[test]
fn every_row_is_found_and_nothing_else() {
    for opcode in 0..=255u8 {
        for action in 0..32u8 {
            let mut bytes = vec![0; 16];
            (bytes[0], bytes[1]) = (opcode, action);
            let found = find(&Cdb::new(Bytes::from(bytes)));
            let expected = TABLE
                .iter()
                .find(|row| row.opcode == opcode && row.action.is_none_or(|known| known == action));
            assert_eq!(found.map(|row| row.name), expected.map(|row| row.name));
        }
    }
    assert!(find(&Cdb::new(Bytes::new())).is_some(), "missing bytes are zero");
}

#[test]
fn data_lengths_come_from_the_cdb() {
    let cdb = |bytes: &[u8]| Cdb::new(Bytes::copy_from_slice(bytes));
    let wanted = |bytes: &[u8]| find(&cdb(bytes)).expect("a row").data_out(&cdb(bytes), 512);
    assert_eq!(wanted(&[0x0A, 0, 0, 0, 0, 0]), 256 * 512, "zero means 256 in six bytes");
    assert_eq!(wanted(&[0x2A, 0, 0, 0, 0, 0, 0, 1, 0, 0]), 256 * 512);
    assert_eq!(wanted(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0]), 6 * 512);
    assert_eq!(wanted(&[0x93, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0]), 0, "NDOB");
    assert_eq!(wanted(&[0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0]), 512);
    assert_eq!(wanted(&[0x2F, 6, 0, 0, 0, 0, 0, 0, 3, 0]), 512);
    assert_eq!(wanted(&[0x2F, 0, 0, 0, 0, 0, 0, 0, 3, 0]), 0);
    assert_eq!(wanted(&[0x42, 0, 0, 0, 0, 0, 0, 1, 2, 0]), 258);
    assert_eq!(wanted(&[0x28, 0, 0, 0, 0, 0, 0, 0, 3, 0]), 0);
}

#[test]
fn bits_that_a_command_does_not_use_are_found() {
    let stray = |bytes: &[u8]| {
        let cdb = Cdb::new(Bytes::copy_from_slice(bytes));
        find(&cdb).expect("a row").stray_bit(&cdb)
    };
    assert_eq!(stray(&[0x12, 0, 0, 0, 36, 0]), None);
    assert_eq!(
        stray(&[0x12, 0x20, 0, 0, 36, 0]),
        None,
        "the LUN where SCSI-2 has it: a scan of one LUN by Linux"
    );
    assert_eq!(stray(&[0x12, 0xE1, 0x83, 0, 36, 0]), None);
    assert_eq!(stray(&[0x12, 0x02, 0, 0, 36, 0]), Some((1, 1)), "CMDDT is obsolete");
    assert_eq!(stray(&[0x12, 0, 0, 0, 36, 1]), Some((5, 0)));
    assert_eq!(stray(&[0x00, 0x20, 0, 0, 0, 0]), Some((1, 5)), "no other command has it");
}

#[test]
fn what_may_be_performed_again_changes_nothing() {
    for row in TABLE {
        let is_change = matches!(row.effect, Effect::Medium | Effect::Unit | Effect::Named);
        assert!(!(row.is_repeatable() && is_change), "{}", row.name);
    }
    // These change nothing that others share, and something that their sender holds.
    let passive = TABLE.iter().filter(|row| row.effect == Effect::Nothing && !row.is_repeatable());
    let names: Vec<_> = passive.map(|row| row.name).collect();
    let expected = [
        "RELEASE (6)",
        "SEND DIAGNOSTIC",
        "RELEASE (10)",
        "PERSISTENT RESERVE OUT, RELEASE",
        "POPULATE TOKEN",
    ];
    assert_eq!(names, expected);
}
