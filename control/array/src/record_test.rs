use super::*;
use crate::Kind;

fn entry() -> HostEntry {
    HostEntry {
        id: HostId(0xabc),
        name: "esx1".into(),
        initiators: vec!["iqn.1998-01.com.vmware:esx1".into()],
        chap: Some(Chap::new("esx1", "twelve chars")),
        mutual: None,
        created: 1_795_000_000,
        luns: Default::default(),
    }
}

#[test]
fn records_come_back_as_written() {
    let who = Identity { name: "ashlar".into(), serial: "0123456789abcdef".into() };
    assert_eq!(read_identity(&identity(&who).1).unwrap(), who);
    let made = VolumeEntry { id: DiskId(0x6a51), name: "db1".into(), created: 7 };
    for stage in [Stage::Creating, Stage::Ready, Stage::Deleting] {
        let (key, value) = volume(&made, stage);
        assert_eq!(read_volume(&key, &value).unwrap(), (made.clone(), stage));
    }
    let (key, value) = host(&entry());
    assert_eq!(read_host(&key, &value).unwrap(), entry());
    let (key, value) = connection(HostId(1), 16_383, DiskId(u128::MAX));
    assert_eq!(read_connection(&key, &value).unwrap(), (HostId(1), 16_383, DiskId(u128::MAX)));
}

#[test]
fn the_format_of_version_1_stays() {
    let (key, value) =
        volume(&VolumeEntry { id: DiskId(0x6a51), name: "db1".into(), created: 7 }, Stage::Ready);
    assert_eq!(key, "volume/00000000000000000000000000006a51");
    assert_eq!(
        String::from_utf8(value).unwrap(),
        r#"{"version":1,"name":"db1","created":7,"stage":"ready"}"#
    );
    let (key, value) = host(&entry());
    assert_eq!(key, "host/0000000000000abc");
    assert_eq!(
        String::from_utf8(value).unwrap(),
        r#"{"version":1,"name":"esx1","initiators":["iqn.1998-01.com.vmware:esx1"],"created":1795000000,"chap":{"user":"esx1","secret":"twelve chars"}}"#
    );
    let (key, value) = connection(HostId(0xabc), 3, DiskId(0x6a51));
    assert_eq!(key, "connection/0000000000000abc/00003");
    assert_eq!(
        String::from_utf8(value).unwrap(),
        r#"{"version":1,"volume":"00000000000000000000000000006a51"}"#
    );
}

#[test]
fn a_newer_or_damaged_record_is_refused_with_its_key() {
    let newer = read_identity(br#"{"version":2,"anything":true}"#).unwrap_err();
    assert_eq!(newer.kind, Kind::Precondition);
    for (key, value) in [("volume/12", "{}"), ("volume/00000000000000000000000000006a51", "not json")] {
        let error = read_volume(key, value.as_bytes()).unwrap_err();
        assert!(error.message.contains(key), "{error}");
    }
}
