//! Topics of the event stream: the kinds of records that listeners are told of when they change. The API's description
//! has them as an enumeration, so the web interface's types know them, too.

use crate::config::{Edit, Stage};
use crate::record::Record;

macro_rules! topics {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// A kind of records that change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Topic {
            $($(#[$doc])* $name,)*
        }

        impl Topic {
            /// Every topic.
            pub const ALL: &[Topic] = &[$(Topic::$name,)*];

            /// Its name, as the paths of the API say it.
            pub fn name(self) -> &'static str {
                match self { $(Topic::$name => $text,)* }
            }
        }
    };
}

topics! {
    /// The certificate of the API.
    Certificate: "certificate";
    /// Connections of volumes with hosts.
    Connections: "connections";
    /// Directories.
    Directories: "directories";
    /// Drives, their protection, and scrubs.
    Drives: "drives";
    /// Volume groups.
    Groups: "groups";
    /// Host groups.
    HostGroups: "host-groups";
    /// Hosts.
    Hosts: "hosts";
    /// The key of the drives.
    Key: "key";
    /// Notification targets.
    NotificationTargets: "notification-targets";
    /// What is in the recycle bin.
    RecycleBin: "recycle-bin";
    /// Log-ins over iSCSI that were refused.
    RefusedLogins: "refused-logins";
    /// Snapshot schedules.
    Schedules: "schedules";
    /// Settings of the array.
    Settings: "settings";
    /// Snapshots.
    Snapshots: "snapshots";
    /// API tokens.
    Tokens: "tokens";
    /// Users.
    Users: "users";
    /// Volumes.
    Volumes: "volumes";
}

/// The topics of a step. `before`: how far the volume or snapshot was.
pub(crate) fn of_edit(edit: &Edit, before: Option<Stage>) -> impl Iterator<Item = Topic> {
    let (record, put) = match edit {
        Edit::Put(record) => (record, true),
        Edit::Remove(record) => (record, false),
    };
    let (topic, stage) = match record {
        Record::Settings(_) => (Topic::Settings, None),
        Record::Scrub(_) => (Topic::Drives, None),
        Record::Volume(it) => (Topic::Volumes, Some(it.stage)),
        Record::Snapshot(it) => (Topic::Snapshots, Some(it.stage)),
        Record::Schedule(_) => (Topic::Schedules, None),
        Record::Group(_) => (Topic::Groups, None),
        Record::Host(_) => (Topic::Hosts, None),
        Record::HostGroup(_) => (Topic::HostGroups, None),
        Record::Connection(_) => (Topic::Connections, None),
        Record::Directory(_) => (Topic::Directories, None),
        Record::Target(_) => (Topic::NotificationTargets, None),
        Record::Certificate(_) => (Topic::Certificate, None),
        Record::User(_) => (Topic::Users, None),
        Record::Token(_) => (Topic::Tokens, None),
    };
    let after = stage.filter(|_| put);
    let in_bin = before == Some(Stage::Binned) || after == Some(Stage::Binned);
    std::iter::once(topic).chain(in_bin.then_some(Topic::RecycleBin))
}
