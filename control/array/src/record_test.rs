#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use crate::Kind;
use crate::config::{GroupId, HostGroupId, HostId, ScheduleId, Stage};
use crate::connection::Peer;
use crate::policy::{Limits, Policy};
use crate::schedule::{Rule, Subject};
use block::DiskId;

fn volume() -> VolumeEntry {
    let group = Some(GroupId(0x99));
    let (id, name) = (DiskId(0x6a51), "db1".into());
    VolumeEntry::new(id, name, 7, Stage::Ready, group)
}

fn host() -> HostEntry {
    HostEntry {
        id: HostId(0xabc),
        name: "esx1".into(),
        initiators: vec!["iqn.1998-01.com.vmware:esx1".into()],
        chap: None,
        mutual: None,
        created: 1_795_000_000,
    }
}

type Kept = (Record, &'static str, &'static str);

fn records() -> Vec<Kept> {
    [disks(), peers()].concat()
}

fn disks() -> Vec<Kept> {
    let group = GroupEntry {
        id: GroupId(0x99),
        name: "sql".into(),
        created: 8,
        soft_quota: Some(1 << 30),
        hard_quota: None,
        policy: Policy { dedup: Some(false), ..Policy::default() },
        limits: Limits { iops: Some(5000), ..Limits::default() },
    };
    let snapshot = SnapshotEntry {
        id: DiskId(0x77),
        name: "db1.hourly".into(),
        source: DiskId(0x6a51),
        created: 11,
        stage: Stage::Binned,
        set: 0xfe,
        binned: Some(12),
        schedule: Some(ScheduleId(6)),
        rules: vec!["hourly".into()],
        order: 0,
    };
    let schedule = ScheduleEntry {
        id: ScheduleId(6),
        name: "gold".into(),
        created: 13,
        subject: Subject::Group(GroupId(0x99)),
        rules: vec![Rule { when: "hourly".into(), keep: 24 }],
        immutable: 3600,
        enabled: true,
        seen: 14,
    };
    vec![
        (
            Record::Snapshot(snapshot),
            "snapshot/00000000000000000000000000000077",
            r#"{"version":2,"id":"00000000000000000000000000000077","name":"db1.hourly","source":"00000000000000000000000000006a51","created":11,"stage":"binned","set":"00000000000000fe","binned":12,"schedule":"0000000000000006","rules":["hourly"]}"#,
        ),
        (
            Record::Schedule(schedule),
            "schedule/0000000000000006",
            r#"{"version":2,"id":"0000000000000006","name":"gold","created":13,"subject":{"group":"0000000000000099"},"rules":[{"when":"hourly","keep":24}],"immutable":3600,"enabled":true,"seen":14}"#,
        ),
        (
            Record::Volume(volume()),
            "volume/00000000000000000000000000006a51",
            r#"{"version":2,"id":"00000000000000000000000000006a51","name":"db1","created":7,"stage":"ready","group":"0000000000000099"}"#,
        ),
        (
            Record::Group(group),
            "group/0000000000000099",
            r#"{"version":2,"id":"0000000000000099","name":"sql","created":8,"soft_quota":1073741824,"policy":{"dedup":false},"limits":{"iops":5000}}"#,
        ),
    ]
}

fn peers() -> Vec<Kept> {
    let cluster = HostGroupEntry {
        id: HostGroupId(5),
        name: "cluster".into(),
        created: 9,
        hosts: [HostId(0xabc)].into(),
    };
    let connection = ConnectionEntry {
        volume: DiskId(0x6a51),
        peer: Peer::HostGroup(HostGroupId(5)),
        lun: 16_383,
        read_only: false,
    };
    vec![
        (
            Record::Host(host()),
            "host/0000000000000abc",
            r#"{"version":2,"id":"0000000000000abc","name":"esx1","initiators":["iqn.1998-01.com.vmware:esx1"],"created":1795000000}"#,
        ),
        (
            Record::HostGroup(cluster),
            "host-group/0000000000000005",
            r#"{"version":2,"id":"0000000000000005","name":"cluster","created":9,"hosts":["0000000000000abc"]}"#,
        ),
        (
            Record::Connection(connection),
            "connection/00000000000000000000000000006a51/host-group-0000000000000005",
            r#"{"version":2,"volume":"00000000000000000000000000006a51","peer":{"host_group":"0000000000000005"},"lun":16383}"#,
        ),
        (
            Record::Settings(Settings {
                name: None,
                bin_seconds: 5,
                unmap_throttle: 9,
                ..Settings::default()
            }),
            "settings",
            r#"{"version":2,"name":null,"bin_seconds":5,"unmap_throttle":9,"scrub_seconds":604800}"#,
        ),
    ]
}

#[test]
fn the_format_of_version_2_stays() {
    for (record, key, value) in records() {
        assert_eq!(
            (record.key().as_str(), String::from_utf8(record.value()).unwrap().as_str()),
            (key, value)
        );
    }
}

#[test]
fn records_come_back_as_written() {
    let who = Identity { name: "ashlar".into(), serial: "0123456789abcdef".into(), created: 1_795_000_000 };
    assert_eq!(read_identity(&identity(&who).1).unwrap(), who);
    for (record, key, value) in records() {
        assert_eq!(Record::read(key, value.as_bytes()).unwrap(), Some(record));
    }
    assert_eq!(Record::read("something/else", b"{}").unwrap(), None);
}

#[test]
fn a_newer_or_damaged_record_is_refused_with_its_key() {
    let newer = read_identity(br#"{"version":3,"anything":true}"#).unwrap_err();
    assert_eq!(newer.kind, Kind::Precondition);
    let elsewhere = Record::Host(host()).value();
    for (key, value) in [
        ("volume/12", &b"{}"[..]),
        ("volume/00000000000000000000000000006a51", b"not json"),
        ("host/0000000000000001", &elsewhere),
    ] {
        let error = Record::read(key, value).unwrap_err();
        assert!(error.message.contains(key), "{error}");
    }
}
