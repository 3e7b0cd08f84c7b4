//! Topics of the event stream: the kinds of records whose changes are published. The API's description
//! has them as an enumeration, so the web interface's types know them, too.

use crate::{Edit, Stage};

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

impl Edit {
    /// The topics of a step. `before`: the stage that its volume or snapshot has had.
    pub fn topics(&self, before: Option<Stage>) -> impl Iterator<Item = Topic> {
        let (record, put) = self.record();
        let after = record.stage().filter(|_| put);
        let binned = before == Some(Stage::Binned) || after == Some(Stage::Binned);
        std::iter::once(record.declaration().topic).chain(binned.then_some(Topic::RecycleBin))
    }
}
