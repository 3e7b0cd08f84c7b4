//! Topics of the event stream: the kinds of things that listeners are told of when they change. The API's description
//! has them as an enumeration, so the web interface's types know them, too.

use crate::config::{Edit, Stage};
use crate::record::Thing;

macro_rules! topics {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// A kind of things that change.
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
    let (thing, put) = match edit {
        Edit::Put(thing) => (thing, true),
        Edit::Remove(thing) => (thing, false),
    };
    let (topic, stage) = match thing {
        Thing::Settings(_) => (Topic::Settings, None),
        Thing::Scrub(_) => (Topic::Drives, None),
        Thing::Volume(it) => (Topic::Volumes, Some(it.stage)),
        Thing::Snapshot(it) => (Topic::Snapshots, Some(it.stage)),
        Thing::Schedule(_) => (Topic::Schedules, None),
        Thing::Group(_) => (Topic::Groups, None),
        Thing::Host(_) => (Topic::Hosts, None),
        Thing::HostGroup(_) => (Topic::HostGroups, None),
        Thing::Connection(_) => (Topic::Connections, None),
        Thing::Directory(_) => (Topic::Directories, None),
        Thing::Target(_) => (Topic::NotificationTargets, None),
        Thing::Certificate(_) => (Topic::Certificate, None),
        Thing::User(_) => (Topic::Users, None),
        Thing::Token(_) => (Topic::Tokens, None),
    };
    let after = stage.filter(|_| put);
    let in_bin = before == Some(Stage::Binned) || after == Some(Stage::Binned);
    std::iter::once(topic).chain(in_bin.then_some(Topic::RecycleBin))
}
