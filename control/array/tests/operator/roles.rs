//! Who may do what: every action, by every kind of caller.

use crate::rig::{Rig, Step, Up, ldap, step, steps};
use array::{
    AddDrive, AlertState, AlertStateChange, By, Caller, CancelJob, ChangeAlert, ChangeApiAddress,
    ChangeDirectory, ChangeGroup, ChangeHost, ChangeHostGroup, ChangeNotificationTarget, ChangeOwnPassword,
    ChangeRemoteArray, ChangeReplication, ChangeSchedule, ChangeSettings, ChangeSnapshot, ChangeUser,
    ChangeVolume, ClearVolumeState, CloneVolume, CommitUpgrade, CompareConfiguration, CompareSnapshots,
    Comparison, ConfirmApiAddress, ConfirmTime, CreateConnection, CreateDirectory, CreateGroup, CreateHost,
    CreateHostGroup, CreateJoinToken, CreateNotificationTarget, CreatePairingKey, CreatePortal,
    CreateReplication, CreateSchedule, CreateSnapshotSet, CreateSnapshots, CreateToken, CreateUser,
    CreateVolume, CreateVolumes, Credential, DeleteConnection, DeleteDirectory, DeleteGroup, DeleteHost,
    DeleteHostGroup, DeleteNotificationTarget, DeletePortal, DeleteRemoteArray, DeleteReplication,
    DeleteSchedule, DeleteSnapshot, DeleteToken, DeleteUser, DeleteVolume, Deletion, DemoteReplication,
    Destination, DirectorySettings, DownloadSupportBundle, DrainController, Effect, EradicateFromRecycleBin,
    EvacuateDrive, GroupChange, HostChange, HostGroupChange, Import, ImportConfiguration, Kind, LabelsChange,
    Ldap, ListAlerts, ListAudit, ListAvailableDrives, ListBusiest, ListConnections, ListControllers,
    ListDirectories, ListDrives, ListEvents, ListFibreChannelSessions, ListGroups, ListHostGroups, ListHosts,
    ListJobs, ListNotificationTargets, ListPaths, ListPortals, ListRecycleBin, ListRefusedLogins,
    ListRemoteArrays, ListReplicationPoints, ListReplications, ListSchedules, ListSnapshots, ListTokens,
    ListUsers, ListVolumes, Member, NewTestFailover, NotificationTargetChange, Overwrite, PairRemoteArray,
    PauseReplication, PeerName, PortalProtocol, PromoteReplication, RemoteArrayChange, RemoveController,
    ReplaceCertificate, ReplaceDrive, ReplicationChange, ReplicationDemotion, ReplicationPromotion, Restore,
    RestoreFromRecycleBin, RestoreVolume, ResumeController, ResumeReplication, ReverseReplication, Role,
    RotateKey, RunSchedule, ScheduleChange, Scope, Secret, SettingsChange, Severity, ShowAlert,
    ShowApiAddress, ShowArray, ShowCapacity, ShowCertificate, ShowConfiguration, ShowConnection,
    ShowController, ShowDirectory, ShowDrive, ShowGroup, ShowGroupSpace, ShowHost, ShowHostGroup, ShowJob,
    ShowKey, ShowNotificationTarget, ShowOwnUser, ShowPerformance, ShowPortal, ShowProtection,
    ShowRemoteArray, ShowReplication, ShowReplicationHistory, ShowSchedule, ShowSettings, ShowSnapshot,
    ShowStatus, ShowStore, ShowUpgrade, ShowUser, ShowVolume, ShowVolumeSpace, SnapshotChange, StartScrub,
    StartTestFailover, StopTestFailover, SubjectName, SyncReplication, TestDirectory, TestNotificationTarget,
    TimeRange, VERBS, Verb, VolumeChange,
};

const PASSWORD: &str = "eight chars";

/// What each action needs, as an administrator would write it down: the row in the product must say the same.
const NEEDED: &[(Role, &[&str])] = &[
    (
        Role::Viewer,
        &[
            "ShowArray",
            "ShowStatus",
            "ShowSettings",
            "ShowUpgrade",
            "ListControllers",
            "ShowController",
            "ListPortals",
            "ShowPortal",
            "ShowApiAddress",
            "ShowStore",
            "ShowProtection",
            "ListDrives",
            "ShowDrive",
            "ShowKey",
            "ListJobs",
            "ShowJob",
            "ShowVolumeSpace",
            "ShowGroupSpace",
            "ListVolumes",
            "ShowVolume",
            "ListRecycleBin",
            "ListSnapshots",
            "ShowSnapshot",
            "CompareSnapshots",
            "ListSchedules",
            "ShowSchedule",
            "ListGroups",
            "ShowGroup",
            "ListHosts",
            "ShowHost",
            "ListHostGroups",
            "ShowHostGroup",
            "ListConnections",
            "ShowConnection",
            "ListRefusedLogins",
            "ListFibreChannelSessions",
            "ListAlerts",
            "ShowAlert",
            "ListNotificationTargets",
            "ShowNotificationTarget",
            "ListRemoteArrays",
            "ShowRemoteArray",
            "ListReplications",
            "ShowReplication",
            "ListReplicationPoints",
            "ShowCertificate",
            "ShowPerformance",
            "ListBusiest",
            "ListPaths",
            "ShowCapacity",
            "ShowReplicationHistory",
            "ListEvents",
        ],
    ),
    (
        Role::Operator,
        &[
            "StartScrub",
            "CancelJob",
            "CreateVolume",
            "CreateVolumes",
            "CloneVolume",
            "ChangeVolume",
            "DeleteVolume",
            "RestoreFromRecycleBin",
            "RestoreVolume",
            "CreateSnapshots",
            "CreateSnapshotSet",
            "ChangeSnapshot",
            "DeleteSnapshot",
            "CreateSchedule",
            "ChangeSchedule",
            "DeleteSchedule",
            "RunSchedule",
            "CreateGroup",
            "ChangeGroup",
            "DeleteGroup",
            "CreateHost",
            "ChangeHost",
            "DeleteHost",
            "CreateHostGroup",
            "ChangeHostGroup",
            "DeleteHostGroup",
            "CreateConnection",
            "DeleteConnection",
            "ChangeAlert",
            "CreateReplication",
            "ChangeReplication",
            "SyncReplication",
            "PauseReplication",
            "ResumeReplication",
            "StartTestFailover",
            "StopTestFailover",
        ],
    ),
    (
        Role::Admin,
        &[
            "ChangeSettings",
            "CommitUpgrade",
            "ConfirmTime",
            "ShowConfiguration",
            "CompareConfiguration",
            "ImportConfiguration",
            "ClearVolumeState",
            "EradicateFromRecycleBin",
            "ListAvailableDrives",
            "AddDrive",
            "EvacuateDrive",
            "ReplaceDrive",
            "CreateJoinToken",
            "RemoveController",
            "DrainController",
            "ResumeController",
            "CreatePortal",
            "DeletePortal",
            "ChangeApiAddress",
            "ConfirmApiAddress",
            "RotateKey",
            "DownloadSupportBundle",
            "CreateNotificationTarget",
            "ChangeNotificationTarget",
            "DeleteNotificationTarget",
            "TestNotificationTarget",
            "ListDirectories",
            "ShowDirectory",
            "CreateDirectory",
            "ChangeDirectory",
            "DeleteDirectory",
            "TestDirectory",
            "CreatePairingKey",
            "PairRemoteArray",
            "ChangeRemoteArray",
            "DeleteRemoteArray",
            "DeleteReplication",
            "PromoteReplication",
            "DemoteReplication",
            "ReverseReplication",
            "ReplaceCertificate",
            "CreateUser",
            "ListUsers",
            "ShowUser",
            "ChangeUser",
            "DeleteUser",
            "CreateToken",
            "ListTokens",
            "DeleteToken",
            "ListAudit",
        ],
    ),
];

/// What only the user itself may, in a session that its password began.
const OWN: &[&str] = &["ShowOwnUser", "ChangeOwnPassword"];

fn name() -> String {
    "nothing".into()
}

/// An action of each verb about things that are not there. Those of users are about `user`.
pub fn samples(user: &str, verified: &Member) -> Vec<Step> {
    [of_drives(), of_volumes(), of_hosts(), of_elsewhere(), of_access(user, verified), of_history()].concat()
}

fn of_drives() -> Vec<Step> {
    let drive = AddDrive { path: name(), ..AddDrive::default() };
    let import = Import { document: Box::default(), overwrite: [name()].into() };
    steps![
        ShowArray,
        ShowStatus,
        ShowSettings,
        ChangeSettings { change: SettingsChange::default() },
        ShowUpgrade,
        CommitUpgrade,
        ConfirmTime,
        ShowConfiguration,
        CompareConfiguration(import.clone()),
        ImportConfiguration(import),
        ListControllers,
        ShowController { number: name() },
        CreateJoinToken,
        RemoveController { number: name() },
        DrainController { number: name() },
        ResumeController { number: name() },
        ShowApiAddress,
        ChangeApiAddress { address: Some(name()), moves: false },
        ConfirmApiAddress,
        ListPortals,
        ShowPortal { number: name() },
        CreatePortal {
            address: name(),
            protocol: PortalProtocol::Iscsi,
            controller: None,
            tls: false,
            moves: false,
            force: false,
        },
        DeletePortal { number: name(), how: Default::default() },
        ShowStore,
        ShowProtection,
        ListDrives,
        ListAvailableDrives,
        ShowDrive { slot: name() },
        drive.clone(),
        EvacuateDrive { slot: name(), change: Default::default() },
        ReplaceDrive { slot: name(), new: drive },
        StartScrub,
        ShowKey,
        RotateKey::default(),
        ListJobs,
        ShowJob { id: name() },
        CancelJob { id: name() },
    ]
}

fn of_volumes() -> Vec<Step> {
    let subject = SubjectName::Volume(name());
    steps![
        ShowVolumeSpace { name: name() },
        ShowGroupSpace { name: name() },
        CreateVolume { name: "!".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() },
        CreateVolumes {
            names: vec!["!".into()],
            bytes: 1 << 30,
            block_bytes: 512,
            ..CreateVolumes::default()
        },
        CloneVolume { source: name(), name: "a".into(), ..CloneVolume::default() },
        ListVolumes,
        ShowVolume { name: name() },
        ChangeVolume { name: name(), change: VolumeChange::default() },
        DeleteVolume { name: name(), how: Deletion { eradicate: false } },
        ListRecycleBin,
        RestoreFromRecycleBin { id: name(), change: Restore { name: None } },
        EradicateFromRecycleBin { id: name() },
        RestoreVolume { name: name(), change: Overwrite { source: name(), ..Overwrite::default() } },
        ClearVolumeState { name: name() },
        CreateSnapshots { subject, suffix: None, keep_until: None, labels: LabelsChange::default() },
        CreateSnapshotSet {
            sources: Vec::new(),
            suffix: None,
            keep_until: None,
            labels: LabelsChange::default(),
        },
        ListSnapshots,
        ShowSnapshot { name: name() },
        ChangeSnapshot {
            name: name(),
            change: SnapshotChange { writable: Some(true), ..SnapshotChange::default() }
        },
        DeleteSnapshot { name: name(), how: Deletion { eradicate: false } },
        CreateSchedule { name: name(), volume: Some(name()), ..CreateSchedule::default() },
        ListSchedules,
        ShowSchedule { name: name() },
        ChangeSchedule { name: name(), change: ScheduleChange::default() },
        DeleteSchedule { name: name() },
        RunSchedule { name: name(), now: false },
        CompareSnapshots { name: name(), of: Comparison::default() },
        CreateGroup { name: "!".into(), ..CreateGroup::default() },
        ListGroups,
        ShowGroup { name: name() },
        ChangeGroup { name: name(), change: GroupChange::default() },
        DeleteGroup { name: name() },
    ]
}

fn of_hosts() -> Vec<Step> {
    let peer = PeerName::Host(name());
    steps![
        CreateHost {
            name: "!".into(),
            initiators: Vec::new(),
            nqns: Vec::new(),
            chap: None,
            mutual: None,
            ..CreateHost::default()
        },
        ListHosts::default(),
        ShowHost { name: name() },
        ChangeHost { name: name(), change: HostChange::default() },
        DeleteHost { name: name() },
        CreateHostGroup { name: "!".into(), hosts: Some(Vec::new()), ..CreateHostGroup::default() },
        ListHostGroups,
        ShowHostGroup { name: name() },
        ChangeHostGroup { name: name(), change: HostGroupChange::default() },
        DeleteHostGroup { name: name() },
        CreateConnection { volume: name(), peer: peer.clone(), lun: None, read_only: false, min_lun: None },
        DeleteConnection { volume: name(), peer: peer.clone() },
        ShowConnection { volume: name(), peer },
        ListConnections,
        ListRefusedLogins,
        ListFibreChannelSessions { host: None },
        DownloadSupportBundle,
        ListAlerts,
        ShowAlert { id: 999 },
        ChangeAlert { id: 999, change: AlertStateChange { state: AlertState::Open } },
    ]
}

fn of_elsewhere() -> Vec<Step> {
    let destination = Destination::Snmp { host: "127.0.0.1".into(), port: 1, user: None };
    let settings = DirectorySettings::Ldap(Ldap {
        server: "!".into(),
        starttls: false,
        bind_dn: None,
        base: String::new(),
        user_attribute: String::new(),
        group_base: None,
        ca: None,
    });
    let directory =
        CreateDirectory { name: "!".into(), settings, secret: None, grants: Vec::new(), enabled: true };
    steps![
        ListNotificationTargets,
        ShowNotificationTarget { name: name() },
        CreateNotificationTarget {
            name: "!".into(),
            destination,
            secret: None,
            severity: Severity::Warning,
            content: array::Content::default_set(),
            enabled: true
        },
        ChangeNotificationTarget { name: name(), change: NotificationTargetChange::default() },
        DeleteNotificationTarget { name: name() },
        TestNotificationTarget { name: name() },
        ListDirectories,
        ShowDirectory { name: name() },
        directory,
        ChangeDirectory { name: name(), change: Default::default() },
        DeleteDirectory { name: name() },
        TestDirectory { name: name() },
        ListRemoteArrays,
        ShowRemoteArray { name: name() },
        CreatePairingKey,
        PairRemoteArray { name: None, address: "!".into(), key: Secret::new("!") },
        ChangeRemoteArray { name: name(), change: RemoteArrayChange::default() },
        DeleteRemoteArray { name: name() },
        ListReplications,
        ShowReplication { name: name() },
        ListReplicationPoints { name: name() },
        CreateReplication {
            name: name(),
            volume: Some(name()),
            remote_array: name(),
            rpo_seconds: 60,
            ..CreateReplication::default()
        },
        ChangeReplication { name: name(), change: ReplicationChange::default() },
        DeleteReplication { name: name() },
        SyncReplication { name: name() },
        PauseReplication { name: name() },
        ResumeReplication { name: name() },
        PromoteReplication { name: name(), change: ReplicationPromotion::default() },
        DemoteReplication { name: name(), change: ReplicationDemotion::default() },
        ReverseReplication { name: name() },
        StartTestFailover { name: name(), change: NewTestFailover::default() },
        StopTestFailover { name: name() },
    ]
}

fn of_access(user: &str, verified: &Member) -> Vec<Step> {
    let user = user.to_owned();
    steps![
        ShowCertificate,
        ReplaceCertificate { chain: "no PEM".into(), key: Secret::new("a secret key") },
        CreateUser { name: "!".into(), role: Role::Viewer, password: Secret::new("!") },
        ListUsers,
        ShowUser { name: user.clone() },
        ChangeUser { name: user.clone(), role: None, password: None },
        DeleteUser { name: name() },
        ShowOwnUser,
        ChangeOwnPassword { verified: verified.clone(), password: Secret::new("short") },
        CreateToken {
            name: "!".into(),
            user: Some(user),
            role: Some(Role::Admin),
            expires: None,
            on_behalf: false
        },
        ListTokens,
        DeleteToken { name: name() },
    ]
}

fn of_history() -> Vec<Step> {
    let range = TimeRange::default();
    steps![
        ShowPerformance { scope: Scope::Array, range },
        ListBusiest { by: By::Volume, seconds: 1 },
        ListPaths { host: None, range },
        ShowCapacity(range),
        ShowReplicationHistory { name: name(), range },
        ListEvents::default(),
        ListAudit::default(),
    ]
}

async fn user(up: &Up, name: &str, role: Role) -> Member {
    let create = CreateUser { name: name.into(), role, password: Secret::new(PASSWORD) };
    up.perform(create).await.unwrap();
    up.array.accounts().log_in(name, &Secret::new(PASSWORD)).unwrap()
}

async fn token(up: &Up, name: &str, user: &str, role: Role) -> Caller {
    let create = CreateToken {
        name: name.into(),
        user: Some(user.into()),
        role: Some(role),
        expires: None,
        on_behalf: false,
    };
    let secret = up.perform(create).await.unwrap().secret.unwrap();
    let array::Bearer { id, user, role, .. } = up.array.accounts().token(secret.expose()).unwrap();
    Caller { user, origin: "10.0.0.9".into(), role, credential: Credential::Token(id) }
}

pub fn session(member: &Member) -> Caller {
    let credential = Credential::Session(member.id, member.password_set);
    Caller { user: member.name.clone(), origin: "10.0.0.9".into(), role: member.role, credential }
}

/// A session of a directory user who has the name of a user of the array.
async fn guest(up: &Up, called: &str, role: Role) -> Caller {
    let settings = ldap("ldap://127.0.0.1:1");
    let new =
        CreateDirectory { name: "corp".into(), settings, secret: None, grants: Vec::new(), enabled: true };
    up.perform(new).await.unwrap();
    let id = up.engine.records("directory/")[0].0["directory/".len()..].to_owned();
    let id = array::DirectoryId(u64::from_str_radix(&id, 16).unwrap());
    let since = up.array.now() + 100;
    Caller { user: called.into(), origin: "10.0.0.9".into(), role, credential: Credential::Guest(id, since) }
}

fn verbs() -> impl Iterator<Item = Verb> {
    VERBS.iter().copied().flatten().copied()
}

fn needed(verb: Verb) -> Option<Role> {
    NEEDED.iter().find(|(_, verbs)| verbs.contains(&verb.name)).map(|(role, _)| *role)
}

#[test]
fn every_verb_is_declared_as_it_is_written_down_here() {
    for verb in verbs() {
        match needed(verb) {
            Some(role) => assert_eq!(verb.role, role, "{verb:?}"),
            None => assert!(OWN.contains(&verb.name), "{verb:?} is not written down"),
        }
        let reads = ["list", "show", "compare"].iter().any(|word| verb.verb.starts_with(word));
        assert_eq!(verb.effect == Effect::Read, reads, "{verb:?}");
    }
    let written: usize = NEEDED.iter().map(|(_, verbs)| verbs.len()).sum();
    assert_eq!(written + OWN.len(), verbs().count(), "each once");
}

#[tokio::test]
async fn every_caller_may_what_its_credential_may_and_nothing_more() {
    let rig = Rig::new();
    let up = rig.up().await;
    up.array.first_user().await.unwrap();
    let (ada, olga, vera) = (
        user(&up, "ada", Role::Admin).await,
        user(&up, "olga", Role::Operator).await,
        user(&up, "vera", Role::Viewer).await,
    );
    let dora = user(&up, "dora", Role::Admin).await;
    let demoted = session(&dora);
    let demoted_token = token(&up, "d", "dora", Role::Admin).await;
    let demotion = ChangeUser { name: "dora".into(), role: Some(Role::Viewer), password: None };
    up.perform(demotion).await.unwrap();
    // Who asks, the user whose it is, the role that counts, and whether it is that user itself.
    let callers = [
        (
            "viewer token of an administrator",
            token(&up, "a", "ada", Role::Viewer).await,
            &ada,
            Role::Viewer,
            false,
        ),
        (
            "operator token of an administrator",
            token(&up, "b", "ada", Role::Operator).await,
            &ada,
            Role::Operator,
            false,
        ),
        ("administrator token", token(&up, "c", "ada", Role::Admin).await, &ada, Role::Admin, false),
        ("token of a viewer", token(&up, "e", "vera", Role::Admin).await, &vera, Role::Viewer, false),
        ("viewer session", session(&vera), &vera, Role::Viewer, true),
        ("operator session", session(&olga), &olga, Role::Operator, true),
        ("administrator session", session(&ada), &ada, Role::Admin, true),
        ("session of a user that was demoted", demoted, &dora, Role::Viewer, true),
        ("token of a user that was demoted", demoted_token, &dora, Role::Viewer, false),
        ("directory user of the same name", guest(&up, "ada", Role::Viewer).await, &ada, Role::Viewer, false),
    ];
    for (who, caller, member, role, itself) in &callers {
        let samples = samples(&member.name, member);
        let names: std::collections::BTreeSet<_> = samples.iter().map(|sample| sample.verb.name).collect();
        assert_eq!(names.len(), verbs().count(), "a request of each verb");
        for action in samples {
            let verb = action.verb;
            let allowed = needed(verb).map_or(*itself, |needed| *role >= needed);
            let outcome = action.perform(&up, caller).await;
            let refused = outcome.as_ref().err().map(|error| error.kind);
            let forbidden = refused == Some(Kind::Forbidden)
                || verb.name == "ShowOwnUser" && refused == Some(Kind::NotFound);
            assert_eq!(!forbidden, allowed, "{who}: {action:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn ones_own_password_is_set_with_the_current_one_and_in_no_other_way() {
    let rig = Rig::new();
    let up = rig.up().await;
    let (ada, vera) = (user(&up, "ada", Role::Admin).await, user(&up, "vera", Role::Viewer).await);
    let set = |verified: &Member, password: &str| ChangeOwnPassword {
        verified: verified.clone(),
        password: Secret::new(password),
    };
    let plain = |name: &str| ChangeUser {
        name: name.into(),
        role: None,
        password: Some(Secret::new("without the old one")),
    };
    // Not even an administrator in its own session goes without the current password, nor with that of another user.
    for (caller, action) in [
        (session(&ada), step(plain("ada"))),
        (session(&vera), step(plain("vera"))),
        (session(&vera), step(set(&ada, "of another user"))),
        (token(&up, "t", "vera", Role::Viewer).await, step(set(&vera, "by a token"))),
        (guest(&up, "vera", Role::Admin).await, step(set(&vera, "by a namesake"))),
    ] {
        let refused = action.perform(&up, &caller).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Forbidden, "{action:?}");
    }
    assert!(up.array.accounts().log_in("vera", &Secret::new(PASSWORD)).is_some());
    up.array.perform(&session(&vera), set(&vera, "nine chars")).await.unwrap();
    assert!(up.array.accounts().log_in("vera", &Secret::new(PASSWORD)).is_none());
    // The session, and the proof, were those of the old password.
    let refused = up.array.perform(&session(&vera), set(&vera, "ten chars!")).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Forbidden);
    let refused = up.array.perform(&session(&vera), ListVolumes).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Forbidden);
    // An administrator sets those of others.
    up.array.perform(&session(&ada), plain("vera")).await.unwrap();
}

#[tokio::test]
async fn a_change_that_waited_is_judged_by_the_role_of_its_moment() {
    let rig = Rig::new();
    let up = rig.up().await;
    let (_, dora) = (user(&up, "ada", Role::Admin).await, user(&up, "dora", Role::Admin).await);
    let caller = session(&dora);
    let create = CreateUser { name: "eve".into(), role: Role::Admin, password: Secret::new(PASSWORD) };
    let demotion = ChangeUser { name: "dora".into(), role: Some(Role::Viewer), password: None };
    // Both are under way at once; the demotion is first at the lock of changes.
    let (demoted, made) = tokio::join!(up.perform(demotion), up.array.perform(&caller, create));
    demoted.unwrap();
    assert_eq!(made.unwrap_err().kind, Kind::Forbidden);
}
