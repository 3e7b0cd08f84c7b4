//! Records as stored by arrays of version 2: they are read and written back byte for byte.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use records::{ARRAY, AUDIT_MARK, ArrayIdentity, AuditMark, CLOCK, ClockEntry, Config, Edit, Record};
use std::collections::BTreeSet;

/// Key and value of each record, one per line.
const STORED: &str = include_str!("version2.txt");

fn stored() -> impl Iterator<Item = (&'static str, &'static str)> {
    STORED.lines().map(|line| line.split_once(' ').unwrap())
}

fn configuration() -> impl Iterator<Item = (&'static str, &'static str)> {
    stored().filter(|(key, _)| ![ARRAY, AUDIT_MARK, CLOCK].contains(key))
}

#[test]
fn every_record_is_read_and_written_again_byte_for_byte() {
    for (key, value) in configuration() {
        let record = Record::read(key, value.as_bytes()).unwrap().unwrap();
        assert_eq!(record.key(), key);
        assert_eq!(String::from_utf8(record.value()).unwrap(), value);
        assert_eq!(String::from_utf8(record.value_over(Some(value.as_bytes()))).unwrap(), value);
    }
    for (key, value) in stored() {
        let (again, bytes) = match key {
            ARRAY => ArrayIdentity::read(value.as_bytes()).unwrap().record(),
            CLOCK => ClockEntry::read(value.as_bytes()).unwrap().record(),
            AUDIT_MARK => AuditMark::read(value.as_bytes()).unwrap().record(),
            _ => continue,
        };
        assert_eq!((again.as_str(), String::from_utf8(bytes).unwrap().as_str()), (key, value));
    }
}

#[test]
fn every_record_type_is_among_them() {
    let prefixes: BTreeSet<_> = configuration().map(|(key, _)| key.split('/').next().unwrap()).collect();
    let declared: BTreeSet<_> = Record::DECLARATIONS.iter().map(|it| it.prefix).collect();
    assert_eq!(prefixes, declared);
}

#[test]
fn they_make_one_configuration_with_its_names_references_and_secrets() {
    let mut config = Config::default();
    for (key, value) in configuration() {
        let record = Record::read(key, value.as_bytes()).unwrap().unwrap();
        assert!(config.apply(Edit::Put(record)), "{key} contradicts another record");
    }
    assert_eq!(config.volumes.len(), 1, "only what is ready goes by its name");
    assert_eq!(config.name_of("HostId", "0000000000000abc").as_deref(), Some("esx1"));
    assert_eq!(config.name_of("DiskId", "00000000000000000000000000000077").as_deref(), Some("db1.hourly"));
    assert_eq!(config.name_of("UserId", "0000000000000099"), None);
    let places: BTreeSet<_> = config.sealed().into_iter().map(|it| it.place).collect();
    let expected = [
        "certificate",
        "directory/0000000000000021",
        "host/0000000000000abc/chap",
        "host/0000000000000abc/mutual",
        "link-identity",
        "notification/0000000000000011",
        "notification/0000000000000013/url",
        "remote-array/0000000000000051",
    ];
    assert_eq!(places, expected.map(str::to_owned).into());
}
