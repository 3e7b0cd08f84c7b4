//! Every operator action and its answer: the one list that REST, command line, GUI, tests and simulation are views
//! of. How each is carried out is in the file of its noun; [`crate::Array::perform`] is the way in.

use crate::config::Chap;
use crate::view::{ArrayStatus, BinnedVolume, Connection, Group, Host, HostGroup, Settings, Volume};
use history::{Audit, Event, Page, Severity};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's name.
    pub user: String,
    /// From where: an address, or `local`.
    pub origin: String,
}

impl Caller {
    /// The array itself: schedules, the recycle bin.
    pub fn array() -> Self {
        Self { user: "array".into(), origin: "local".into() }
    }
}

/// A host or a host group, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerName {
    /// A host.
    Host(String),
    /// A host group.
    HostGroup(String),
}

/// Everything that an operator can ask for. Sizes in bytes, times in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The array's state and space.
    ShowArray,
    /// What is set for the array as a whole.
    ShowSettings,
    /// Set it.
    ChangeSettings(SettingsChange),

    /// Make a volume. `bytes`: 1 MiB to 16 PiB; `block_bytes`: 512 or 4096.
    CreateVolume {
        /// Its name.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// Its logical block length in bytes.
        block_bytes: u32,
        /// The volume group to be in.
        group: Option<String>,
    },
    /// Make a volume with the contents that another has now, sharing its space.
    CloneVolume {
        /// The volume to copy.
        source: String,
        /// Name of the new one.
        name: String,
        /// The volume group to be in.
        group: Option<String>,
    },
    /// All volumes, by name.
    ListVolumes,
    /// One volume.
    ShowVolume {
        /// Its name.
        name: String,
    },
    /// Change a volume.
    ChangeVolume {
        /// Its name.
        name: String,
        /// What to change.
        change: VolumeChange,
    },
    /// Take a volume that no host sees away: into the recycle bin, or for good.
    DeleteVolume {
        /// Its name.
        name: String,
        /// With its data and at once, instead of into the recycle bin.
        eradicate: bool,
    },
    /// What is in the recycle bin, the newest last.
    ListBin,
    /// Take a volume out of the recycle bin.
    RestoreVolume {
        /// Its identity, or its name when that says which.
        which: String,
        /// The name to have; its old one when none is given.
        name: Option<String>,
    },
    /// Delete a volume in the recycle bin with its data.
    EradicateVolume {
        /// Its identity, or its name when that says which.
        which: String,
    },

    /// Make a volume group.
    CreateGroup {
        /// Its name.
        name: String,
        /// What to set.
        change: GroupChange,
    },
    /// All volume groups, by name.
    ListGroups,
    /// One volume group.
    ShowGroup {
        /// Its name.
        name: String,
    },
    /// Change a volume group.
    ChangeGroup {
        /// Its name.
        name: String,
        /// What to change.
        change: GroupChange,
    },
    /// Forget a volume group; its volumes stay.
    DeleteGroup {
        /// Its name.
        name: String,
    },

    /// Make a host known, so that it may log in.
    CreateHost {
        /// Its name.
        name: String,
        /// Its iSCSI initiator names, at least one.
        initiators: Vec<String>,
        /// CHAP that it must pass.
        chap: Option<Chap>,
        /// CHAP that the array passes to it.
        mutual: Option<Chap>,
    },
    /// All hosts, by name.
    ListHosts,
    /// One host.
    ShowHost {
        /// Its name.
        name: String,
    },
    /// Change a host.
    ChangeHost {
        /// Its name.
        name: String,
        /// What to change.
        change: HostChange,
    },
    /// Forget a host that sees no volume.
    DeleteHost {
        /// Its name.
        name: String,
    },
    /// Make a host group.
    CreateHostGroup {
        /// Its name.
        name: String,
        /// Names of its hosts.
        hosts: Vec<String>,
    },
    /// All host groups, by name.
    ListHostGroups,
    /// One host group.
    ShowHostGroup {
        /// Its name.
        name: String,
    },
    /// Change a host group.
    ChangeHostGroup {
        /// Its name.
        name: String,
        /// What to change.
        change: HostGroupChange,
    },
    /// Forget a host group that sees no volume; its hosts stay.
    DeleteHostGroup {
        /// Its name.
        name: String,
    },

    /// Let a host or a host group see a volume.
    Connect {
        /// The volume's name.
        volume: String,
        /// Who.
        peer: PeerName,
        /// The LUN, 0 to 16383; the lowest free one when none is given.
        lun: Option<u16>,
    },
    /// Let a host or a host group no longer see a volume.
    Disconnect {
        /// The volume's name.
        volume: String,
        /// Who.
        peer: PeerName,
    },
    /// Who sees what, by volume.
    ListConnections,

    /// What happened, newest first.
    ListEvents {
        /// Which part.
        page: Page,
        /// At least as severe.
        least: Severity,
    },
    /// What operators did, newest first.
    ListAudit {
        /// Which part.
        page: Page,
    },
}

/// What to set for the array as a whole; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// What people call the array.
    pub name: Option<String>,
    /// How long the recycle bin keeps a volume, in seconds.
    pub bin_seconds: Option<u64>,
}

/// What to change of a volume; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeChange {
    /// Another name.
    pub name: Option<String>,
    /// Another size in bytes; hosts are told. Not together with anything else, as it is a step of its own.
    pub bytes: Option<u64>,
    /// Cut off the end and lose what is there. Without it a smaller size is refused.
    pub shrink: bool,
    /// Another volume group, or none.
    pub group: Option<Option<String>>,
}

/// What to set of a volume group; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// Another name.
    pub name: Option<String>,
    /// Mapped bytes beyond which operators and hosts are warned.
    pub soft_quota: Option<Option<u64>>,
    /// Mapped bytes beyond which its volumes take no new space.
    pub hard_quota: Option<Option<u64>>,
}

/// What to change of a host; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostChange {
    /// Another name.
    pub name: Option<String>,
    /// Other initiator names, all of them.
    pub initiators: Option<Vec<String>>,
    /// Other CHAP that it must pass, or none.
    pub chap: Option<Option<Chap>>,
    /// Other CHAP that the array passes to it, or none.
    pub mutual: Option<Option<Chap>>,
}

/// What to change of a host group; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostGroupChange {
    /// Another name.
    pub name: Option<String>,
    /// Other hosts, all of them.
    pub hosts: Option<Vec<String>>,
}

/// What an action answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The array as it is now.
    Array(Box<ArrayStatus>),
    /// The settings as they are now.
    Settings(Settings),
    /// A volume as it is now.
    Volume(Volume),
    /// Volumes.
    Volumes(Vec<Volume>),
    /// What is in the recycle bin.
    Bin(Vec<BinnedVolume>),
    /// A volume group as it is now.
    Group(Group),
    /// Volume groups.
    Groups(Vec<Group>),
    /// A host as it is now.
    Host(Host),
    /// Hosts.
    Hosts(Vec<Host>),
    /// A host group as it is now.
    HostGroup(HostGroup),
    /// Host groups.
    HostGroups(Vec<HostGroup>),
    /// A connection as it is now.
    Connection(Connection),
    /// Connections.
    Connections(Vec<Connection>),
    /// What happened.
    Events(Vec<Event>),
    /// What operators did.
    Audit(Vec<Audit>),
    /// What was asked to go is gone.
    Gone,
}

impl Action {
    /// True when the action changes something.
    pub fn changes(&self) -> bool {
        use Action::*;
        !matches!(
            self,
            ShowArray
                | ShowSettings
                | ListVolumes
                | ShowVolume { .. }
                | ListBin
                | ListGroups
                | ShowGroup { .. }
                | ListHosts
                | ShowHost { .. }
                | ListHostGroups
                | ShowHostGroup { .. }
                | ListConnections
                | ListEvents { .. }
                | ListAudit { .. }
        )
    }

    /// What it is called in the audit trail: `CreateVolume`.
    pub fn name(&self) -> String {
        let debug = format!("{self:?}");
        debug.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
    }
}
