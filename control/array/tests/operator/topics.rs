//! The topics that listeners hear of, action by action.

use crate::rig::{Rig, Step, Up, ldap, step};
use array::{
    ChangeDirectory, ChangeGroup, ChangeHost, ChangeNotificationTarget, ChangeSchedule, ChangeSettings,
    ChangeSnapshot, ChangeUser, ChangeVolume, CloneVolume, CreateConnection, CreateDirectory, CreateGroup,
    CreateHost, CreateHostGroup, CreateNotificationTarget, CreateSchedule, CreateSnapshots, CreateToken,
    CreateUser, CreateVolume, DeleteConnection, DeleteDirectory, DeleteGroup, DeleteHost, DeleteHostGroup,
    DeleteNotificationTarget, DeleteSchedule, DeleteSnapshot, DeleteToken, DeleteUser, DeleteVolume,
    Deletion, Destination, EradicateFromRecycleBin, GroupChange, HostChange, LabelsChange,
    NotificationTargetChange, Overwrite, PeerName, ReplaceCertificate, Restore, RestoreFromRecycleBin,
    RestoreVolume, Role, Rule, RunSchedule, ScheduleChange, Secret, SettingsChange, Severity, SnapshotChange,
    SubjectName, Topic, Update, VolumeChange,
};
use std::collections::BTreeSet;

/// Performs it and returns the topics that were published.
async fn heard(up: &Up, action: &Step) -> BTreeSet<Topic> {
    let mut ear = up.array.subscribe();
    action.ok(up).await;
    let mut topics = BTreeSet::new();
    while let Ok(update) = ear.try_recv() {
        if let Update::Changed(topic) = update {
            topics.insert(topic);
        }
    }
    topics
}

fn volume(name: &str) -> CreateVolume {
    CreateVolume { name: name.into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() }
}

/// Requests with their topics.
macro_rules! topics {
    ($(($request:expr, &[$($topic:expr),*] $(,)?)),* $(,)?) => { vec![$((step($request), &[$($topic),*] as &[Topic])),*] };
}

fn story() -> Vec<(Step, &'static [Topic])> {
    use Topic::*;
    let name = |name: &str| name.to_owned();
    let snapshot = |suffix: &str| CreateSnapshots {
        subject: SubjectName::Volume(name("a")),
        suffix: Some(name(suffix)),
        keep_until: None,
        labels: LabelsChange::default(),
    };
    topics![
        (volume("a"), &[Volumes]),
        (CloneVolume { source: name("a"), name: name("b"), ..CloneVolume::default() }, &[Volumes]),
        (CreateGroup { name: name("sql"), ..CreateGroup::default() }, &[Groups]),
        (
            ChangeVolume {
                name: name("b"),
                change: VolumeChange { group: Some(Some(name("sql"))), ..VolumeChange::default() },
            },
            &[Volumes],
        ),
        (
            ChangeVolume {
                name: name("b"),
                change: VolumeChange { size: Some(2 << 30), ..VolumeChange::default() },
            },
            &[Volumes],
        ),
        (
            ChangeGroup {
                name: name("sql"),
                change: GroupChange { hard_quota: Some(Some(1 << 40)), ..GroupChange::default() },
            },
            &[Groups],
        ),
        (snapshot("s"), &[Snapshots]),
        (snapshot("t"), &[Snapshots]),
        (
            ChangeSnapshot {
                name: name("a.s"),
                change: SnapshotChange { name: Some(name("a.r")), ..SnapshotChange::default() }
            },
            &[Snapshots]
        ),
        (
            ChangeSnapshot {
                name: name("a.r"),
                change: SnapshotChange { writable: Some(true), ..SnapshotChange::default() }
            },
            &[Snapshots]
        ),
        (
            RestoreVolume {
                name: name("b"),
                change: Overwrite { source: name("a.t"), ..Overwrite::default() }
            },
            &[Volumes]
        ),
    ]
}

/// What follows [`story`]: the end of what it made.
fn end_of_story() -> Vec<(Step, &'static [Topic])> {
    use Topic::*;
    let name = |name: &str| name.to_owned();
    let rules = vec![Rule { when: name("hourly"), keep: 2 }];
    topics![
        (
            CreateSchedule {
                name: name("gold"),
                volume: Some(name("a")),
                rules,
                ..CreateSchedule::default()
            },
            &[Schedules],
        ),
        (RunSchedule { name: name("gold"), now: true }, &[Schedules, Snapshots]),
        (
            ChangeSchedule {
                name: name("gold"),
                change: ScheduleChange { enabled: Some(false), ..ScheduleChange::default() },
            },
            &[Schedules],
        ),
        (DeleteSchedule { name: name("gold") }, &[Schedules]),
        // Into the recycle bin, out of it, and away from there.
        (DeleteSnapshot { name: name("a.r"), how: Deletion { eradicate: false } }, &[Snapshots, RecycleBin]),
        (RestoreFromRecycleBin { id: name("a.r"), change: Restore { name: None } }, &[Snapshots, RecycleBin]),
        (DeleteSnapshot { name: name("a.t"), how: Deletion { eradicate: true } }, &[Snapshots]),
        (DeleteVolume { name: name("b"), how: Deletion { eradicate: false } }, &[Volumes, RecycleBin]),
        (
            RestoreFromRecycleBin { id: name("b"), change: Restore { name: Some(name("c")) } },
            &[Volumes, RecycleBin]
        ),
        (DeleteVolume { name: name("c"), how: Deletion { eradicate: false } }, &[Volumes, RecycleBin]),
        (EradicateFromRecycleBin { id: name("c") }, &[Volumes, RecycleBin]),
        (DeleteGroup { name: name("sql") }, &[Groups]),
        (
            ChangeSettings {
                change: SettingsChange { recycle_bin_seconds: Some(60), ..SettingsChange::default() }
            },
            &[Settings]
        ),
    ]
}

fn hosts() -> Vec<(Step, &'static [Topic])> {
    use Topic::*;
    let name = |name: &str| name.to_owned();
    let (peer, cluster) = (PeerName::Host(name("web1")), PeerName::HostGroup(name("cluster")));
    let initiators = vec![name("iqn.1993-08.org.debian:01:web1")];
    let connect =
        |peer| CreateConnection { volume: name("a"), peer, lun: None, read_only: false, min_lun: None };
    topics![
        (volume("a"), &[Volumes]),
        (
            CreateHost { name: name("web1"), initiators, chap: None, mutual: None, ..CreateHost::default() },
            &[Hosts]
        ),
        (
            ChangeHost {
                name: name("web1"),
                change: HostChange { name: Some(name("web2")), ..HostChange::default() },
            },
            &[Hosts],
        ),
        (
            ChangeHost {
                name: name("web2"),
                change: HostChange { name: Some(name("web1")), ..HostChange::default() },
            },
            &[Hosts],
        ),
        (connect(peer.clone()), &[Connections]),
        (DeleteConnection { volume: name("a"), peer }, &[Connections]),
        (
            CreateHostGroup {
                name: name("cluster"),
                hosts: Some(vec![name("web1")]),
                ..CreateHostGroup::default()
            },
            &[HostGroups]
        ),
        (connect(cluster.clone()), &[Connections]),
        (DeleteConnection { volume: name("a"), peer: cluster }, &[Connections]),
        (DeleteHostGroup { name: name("cluster") }, &[HostGroups]),
        (DeleteHost { name: name("web1") }, &[Hosts]),
        (DeleteVolume { name: name("a"), how: Deletion { eradicate: true } }, &[Volumes]),
    ]
}

fn administration() -> Vec<(Step, &'static [Topic])> {
    use Topic::*;
    let name = |name: &str| name.to_owned();
    let settings = ldap("ldap://127.0.0.1:1");
    let directory =
        CreateDirectory { name: name("corp"), settings, secret: None, grants: Vec::new(), enabled: true };
    let destination = Destination::Snmp { host: "127.0.0.1".into(), port: 162, user: None };
    let target = CreateNotificationTarget {
        name: name("nms"),
        destination,
        secret: None,
        severity: Severity::Info,
        content: array::Content::default_set(),
        enabled: true,
    };
    topics![
        (directory, &[Directories]),
        (ChangeDirectory { name: name("corp"), change: Default::default() }, &[Directories]),
        (DeleteDirectory { name: name("corp") }, &[Directories]),
        (target, &[NotificationTargets]),
        (
            ChangeNotificationTarget {
                name: name("nms"),
                change: NotificationTargetChange {
                    enabled: Some(false),
                    ..NotificationTargetChange::default()
                },
            },
            &[NotificationTargets],
        ),
        (DeleteNotificationTarget { name: name("nms") }, &[NotificationTargets]),
        (ReplaceCertificate { chain: name("PEM"), key: Secret::new("key") }, &[Certificate]),
        (CreateUser { name: name("ada"), role: Role::Admin, password: Secret::new("eight chars") }, &[Users]),
        (ChangeUser { name: name("ada"), role: None, password: None }, &[Users]),
        (
            CreateToken {
                name: name("t"),
                user: Some(name("ada")),
                role: None,
                expires: None,
                on_behalf: false
            },
            &[Tokens]
        ),
        (DeleteToken { name: name("t") }, &[Tokens]),
        (
            CreateToken {
                name: name("u"),
                user: Some(name("ada")),
                role: None,
                expires: None,
                on_behalf: false
            },
            &[Tokens]
        ),
        (CreateUser { name: name("eve"), role: Role::Admin, password: Secret::new("eight chars") }, &[Users]),
        (DeleteUser { name: name("ada") }, &[Users, Tokens]),
    ]
}

#[tokio::test]
async fn listeners_hear_of_all_that_an_action_changes() {
    let rig = Rig::new();
    let up = rig.up().await;
    for (action, expected) in hosts().into_iter().chain(story()).chain(end_of_story()).chain(administration())
    {
        let expected: BTreeSet<Topic> = expected.iter().copied().collect();
        let heard = heard(&up, &action).await;
        assert!(heard.is_superset(&expected), "{action:?}: {heard:?}, not {expected:?}");
    }
}
