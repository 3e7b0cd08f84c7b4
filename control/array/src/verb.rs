//! What each action is, declared as data: its verb and noun, what it does to the array, and the role that it needs.
//!
//! Who may do what, what goes into the audit trail and what waits for the change before it all follow from this one
//! table. An action without a row does not compile.

use crate::action::Action;
use records::Role;

/// What an action does to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads.
    Read,
    /// It changes nothing here, and sends something elsewhere: it is audited.
    Probe,
    /// It changes something: it is audited, and waits for the change before it.
    Change,
}

/// The row of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// What is done: `create`.
    pub verb: &'static str,
    /// To what kind of record: `volume`.
    pub noun: &'static str,
    /// What it does to the array.
    pub effect: Effect,
    /// The least role that may.
    pub role: Role,
}

macro_rules! verbs {
    ($($name:ident: $verb:literal $noun:literal, $effect:ident, $role:ident;)*) => {
        /// Every action, without what it is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Verb {
            $(#[doc = concat!("`", $verb, " ", $noun, "`.")] $name,)*
        }

        impl Verb {
            /// Every verb.
            pub const ALL: &[Verb] = &[$(Verb::$name,)*];

            /// Its name for programs: `CreateVolume`.
            pub fn name(self) -> &'static str {
                match self { $(Verb::$name => stringify!($name),)* }
            }

            /// Its row.
            pub fn declaration(self) -> Declaration {
                match self {
                    $(Verb::$name => Declaration {
                        verb: $verb,
                        noun: $noun,
                        effect: Effect::$effect,
                        role: Role::$role,
                    },)*
                }
            }
        }

        impl Action {
            /// Which one it is.
            pub fn verb(&self) -> Verb {
                match self { $(Action::$name { .. } => Verb::$name,)* }
            }
        }
    };
}

verbs! {
    ShowArray: "show" "array", Read, Viewer;
    ShowSettings: "show" "settings", Read, Viewer;
    ChangeSettings: "change" "settings", Change, Admin;
    ConfirmTime: "confirm" "time", Change, Admin;

    ShowProtection: "show" "protection", Read, Viewer;
    ListDrives: "list" "drive", Read, Viewer;
    ShowDrive: "show" "drive", Read, Viewer;
    AddDrive: "add" "drive", Change, Admin;
    EvacuateDrive: "evacuate" "drive", Change, Admin;
    ReplaceDrive: "replace" "drive", Change, Admin;
    StartScrub: "start" "scrub", Change, Operator;
    ShowKey: "show" "key", Read, Viewer;
    RotateKey: "rotate" "key", Change, Admin;
    ListJobs: "list" "job", Read, Viewer;
    ShowJob: "show" "job", Read, Viewer;
    CancelJob: "cancel" "job", Change, Operator;

    ShowVolumeUsage: "show usage of" "volume", Read, Viewer;
    ShowGroupUsage: "show usage of" "volume group", Read, Viewer;
    CreateVolume: "create" "volume", Change, Operator;
    CloneVolume: "clone" "volume", Change, Operator;
    ListVolumes: "list" "volume", Read, Viewer;
    ShowVolume: "show" "volume", Read, Viewer;
    ChangeVolume: "change" "volume", Change, Operator;
    DeleteVolume: "delete" "volume", Change, Operator;
    ListBin: "list" "recycle bin entry", Read, Viewer;
    TakeFromBin: "recover" "recycle bin entry", Change, Operator;
    EradicateFromBin: "eradicate" "recycle bin entry", Change, Operator;
    RestoreVolume: "restore" "volume", Change, Operator;
    ClearUnreadableState: "clear unreadable state of" "volume", Change, Admin;

    CreateSnapshots: "create" "snapshot", Change, Operator;
    ListSnapshots: "list" "snapshot", Read, Viewer;
    ShowSnapshot: "show" "snapshot", Read, Viewer;
    ChangeSnapshot: "change" "snapshot", Change, Operator;
    DeleteSnapshot: "delete" "snapshot", Change, Operator;
    CompareDisks: "compare" "volume", Read, Viewer;
    CreateSchedule: "create" "schedule", Change, Operator;
    ListSchedules: "list" "schedule", Read, Viewer;
    ShowSchedule: "show" "schedule", Read, Viewer;
    ChangeSchedule: "change" "schedule", Change, Operator;
    DeleteSchedule: "delete" "schedule", Change, Operator;
    RunSchedule: "run" "schedule", Change, Operator;

    CreateGroup: "create" "volume group", Change, Operator;
    ListGroups: "list" "volume group", Read, Viewer;
    ShowGroup: "show" "volume group", Read, Viewer;
    ChangeGroup: "change" "volume group", Change, Operator;
    DeleteGroup: "delete" "volume group", Change, Operator;

    CreateHost: "create" "host", Change, Operator;
    ListHosts: "list" "host", Read, Viewer;
    ShowHost: "show" "host", Read, Viewer;
    ChangeHost: "change" "host", Change, Operator;
    DeleteHost: "delete" "host", Change, Operator;
    CreateHostGroup: "create" "host group", Change, Operator;
    ListHostGroups: "list" "host group", Read, Viewer;
    ShowHostGroup: "show" "host group", Read, Viewer;
    ChangeHostGroup: "change" "host group", Change, Operator;
    DeleteHostGroup: "delete" "host group", Change, Operator;
    Connect: "connect" "volume", Change, Operator;
    Disconnect: "disconnect" "volume", Change, Operator;
    ListConnections: "list" "connection", Read, Viewer;
    ListRefusedLogins: "list" "refused log-in", Read, Viewer;

    ShowSupportBundle: "show" "support bundle", Read, Admin;
    ListAlerts: "list" "alert", Read, Viewer;
    ShowAlert: "show" "alert", Read, Viewer;
    ChangeAlert: "change" "alert", Change, Operator;

    ListTargets: "list" "notification target", Read, Viewer;
    ShowTarget: "show" "notification target", Read, Viewer;
    CreateTarget: "create" "notification target", Change, Admin;
    ChangeTarget: "change" "notification target", Change, Admin;
    DeleteTarget: "delete" "notification target", Change, Admin;
    TestTarget: "test" "notification target", Probe, Admin;

    ListDirectories: "list" "directory", Read, Admin;
    ShowDirectory: "show" "directory", Read, Admin;
    CreateDirectory: "create" "directory", Change, Admin;
    ChangeDirectory: "change" "directory", Change, Admin;
    DeleteDirectory: "delete" "directory", Change, Admin;
    TestDirectory: "test" "directory", Probe, Admin;

    ShowCertificate: "show" "certificate", Read, Viewer;
    ReplaceCertificate: "replace" "certificate", Change, Admin;
    CreateUser: "create" "user", Change, Admin;
    ListUsers: "list" "user", Read, Admin;
    ShowUser: "show" "user", Read, Admin;
    ChangeUser: "change" "user", Change, Admin;
    DeleteUser: "delete" "user", Change, Admin;
    ShowOwnUser: "show own" "user", Read, Viewer;
    ChangeOwnPassword: "set own password of" "user", Change, Viewer;
    CreateToken: "create" "token", Change, Admin;
    ListTokens: "list" "token", Read, Admin;
    DeleteToken: "delete" "token", Change, Admin;

    ShowPerformance: "show" "performance", Read, Viewer;
    ListBusiest: "list" "performance", Read, Viewer;
    ListPaths: "list" "path", Read, Viewer;
    ShowCapacity: "show" "capacity", Read, Viewer;
    ListEvents: "list" "event", Read, Viewer;
    ListAudit: "list" "audit", Read, Admin;
}
