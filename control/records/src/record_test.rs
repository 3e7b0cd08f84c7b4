#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use crate::{GroupId, HostGroupId, HostId, Kind, Labels, Limits, Policy, Rule, ScheduleId, Stage, Subject};
use block::DiskId;
use serde_json::Map;

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
        nqns: Vec::new(),
        luns_retired_below: 0,
        wwpns: Vec::new(),
        chap: None,
        mutual: None,
        dhchap: None,
        dhchap_controller: None,
        tls_psk: None,
        created: 1_795_000_000,
        labels: Labels::default(),
    }
}

type Case = (Record, &'static str, &'static str);

fn cases() -> Vec<Case> {
    [disks(), peers()].concat()
}

fn disks() -> Vec<Case> {
    let group = GroupEntry {
        id: GroupId(0x99),
        name: "sql".into(),
        created: 8,
        soft_quota: Some(1 << 30),
        hard_quota: None,
        policy: Policy { dedup: Some(false), ..Policy::default() },
        limits: Limits { iops: Some(5000), ..Limits::default() },
        labels: Labels::default(),
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
        labels: Labels::default(),
    };
    let schedule = ScheduleEntry {
        id: ScheduleId(6),
        name: "gold".into(),
        created: 13,
        subject: Subject::Group(GroupId(0x99)),
        rules: vec![Rule { when: "hourly".into(), keep: 24 }],
        immutable: 3600,
        enabled: true,
        handled_until: 14,
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

fn peers() -> Vec<Case> {
    let cluster = HostGroupEntry {
        id: HostGroupId(5),
        name: "cluster".into(),
        created: 9,
        hosts: [HostId(0xabc)].into(),
        luns_retired_below: 0,
        labels: Labels::default(),
    };
    let connection = ConnectionEntry {
        volume: DiskId(0x6a51),
        peer: Peer::HostGroup(HostGroupId(5)),
        lun: 16_383,
        read_only: false,
        reused: false,
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
fn the_encoding_of_version_2_is_stable() {
    for (record, key, value) in cases() {
        assert_eq!(
            (record.key().as_str(), String::from_utf8(record.value()).unwrap().as_str()),
            (key, value)
        );
    }
}

#[test]
fn records_are_decoded_as_encoded() {
    let identity =
        ArrayIdentity { name: "ashlar".into(), serial: "0123456789abcdef".into(), created: 1_795_000_000 };
    assert_eq!(ArrayIdentity::read(&identity.record().1).unwrap(), identity);
    for (record, key, value) in cases() {
        assert_eq!(Record::read(key, value.as_bytes()).unwrap(), Some(record));
    }
    assert_eq!(Record::read("something/else", b"{}").unwrap(), None);
}

#[test]
fn a_newer_or_damaged_record_is_refused_with_its_key() {
    let newer = ArrayIdentity::read(br#"{"version":3,"anything":true}"#).unwrap_err();
    assert_eq!(newer.kind, Kind::Precondition);
    let other_host = Record::Host(host()).value();
    for (key, value) in [
        ("volume/12", &b"{}"[..]),
        ("volume/00000000000000000000000000006a51", b"not json"),
        ("host/0000000000000001", &other_host),
    ] {
        let error = Record::read(key, value).unwrap_err();
        assert!(error.message.contains(key), "{error}");
    }
}

#[test]
fn every_type_has_a_prefix_of_its_own_and_known_fields() {
    let prefixes: std::collections::BTreeSet<_> = Record::DECLARATIONS.iter().map(|it| it.prefix).collect();
    assert_eq!(prefixes.len(), Record::DECLARATIONS.len());
    for declaration in Record::DECLARATIONS {
        assert!(!(declaration.fields)().is_empty(), "{declaration:?}");
    }
}

#[test]
fn unknown_fields_of_newer_software_are_preserved() {
    let newer =
        br#"{"version":2,"id":"0000000000000abc","name":"esx1","initiators":["iqn.1998-01.com.vmware:esx1"],
        "chap":{"user":"u","secret":"s"},"created":1795000000,"nqn":["nqn.2014-08.org.nvmexpress:uuid:1"]}"#;
    let key = "host/0000000000000abc";
    let Some(Record::Host(mut host)) = Record::read(key, newer).unwrap() else { panic!() };
    (host.name, host.chap) = ("esx2".into(), None);
    let written = Record::Host(host).value_over(Some(newer));
    let fields: Map<String, Value> = serde_json::from_slice(&written).unwrap();
    assert_eq!(fields["name"], "esx2");
    assert_eq!(fields["nqn"][0], "nqn.2014-08.org.nvmexpress:uuid:1");
    assert!(!fields.contains_key("chap"), "a known field that was removed is not preserved");
    assert!(Record::read(key, &written).unwrap().is_some());
}

#[test]
fn nested_fields_of_newer_software_stay_when_a_record_is_written_again() {
    let newer = br#"{"version":2,"id":"0000000000000001","name":"gold","created":7,"seen":7,
        "subject":{"volume":"00000000000000000000000000000001"},"immutable":0,"enabled":true,
        "rules":[{"when":"hourly","keep":24,"zone":"UTC"},{"when":"daily","keep":7,"at":{"hour":3}}]}"#;
    let key = "schedule/0000000000000001";
    let Some(Record::Schedule(mut schedule)) = Record::read(key, newer).unwrap() else { panic!() };
    schedule.rules.remove(0);
    schedule.enabled = false;
    let written = Record::Schedule(schedule.clone()).value_over(Some(newer));
    let fields: Value = serde_json::from_slice(&written).unwrap();
    let left = serde_json::json!([{ "when": "daily", "keep": 7, "at": { "hour": 3 } }]);
    assert_eq!((&fields["rules"], &fields["enabled"]), (&left, &Value::Bool(false)));
    // A changed rule is still the same rule.
    schedule.rules[0].keep = 8;
    let again = Record::Schedule(schedule).value_over(Some(&written));
    let fields: Value = serde_json::from_slice(&again).unwrap();
    assert_eq!(fields["rules"][0], serde_json::json!({ "when": "daily", "keep": 8, "at": { "hour": 3 } }));
    assert!(Record::read(key, &again).unwrap().is_some());
}

#[test]
fn a_range_of_versions_is_read() {
    let range = Versions { oldest: 2, current: 3 };
    let [old, new, newer] = [2, 3, 4].map(|version| format!(r#"{{"version":{version},"name":null}}"#));
    assert_eq!(decode::<Settings>("settings", old.as_bytes(), range).unwrap(), Settings::default());
    assert_eq!(decode::<Settings>("settings", new.as_bytes(), range).unwrap(), Settings::default());
    assert_eq!(decode::<Settings>("settings", newer.as_bytes(), range).unwrap_err().kind, Kind::Precondition);
}
