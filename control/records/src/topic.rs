//! Topics of the event stream: the kinds of records whose changes are published. The API's description contains them as
//! an enumeration, from which the web interface's types are generated.

macro_rules! topics {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// A kind of records whose changes are published.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Topic {
            $($(#[$doc])* $name,)*
        }

        impl Topic {
            /// All topics.
            pub const ALL: &[Topic] = &[$(Topic::$name,)*];

            /// Name of the topic, as in paths of the API.
            pub fn name(self) -> &'static str {
                match self { $(Topic::$name => $text,)* }
            }
        }
    };
}

topics! {
    /// The address of the API.
    ApiAddress: "api-address";
    /// The certificate of the API.
    Certificate: "certificate";
    /// Connections of volumes with hosts.
    Connections: "connections";
    /// Controllers of the array.
    Controllers: "controllers";
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
    /// Portals.
    Portals: "portals";
    /// The recycle bin.
    RecycleBin: "recycle-bin";
    /// Refused iSCSI logins.
    RefusedLogins: "refused-logins";
    /// Remote arrays.
    RemoteArrays: "remote-arrays";
    /// Replications.
    Replications: "replications";
    /// Snapshot schedules.
    Schedules: "schedules";
    /// Settings of the array.
    Settings: "settings";
    /// Snapshots.
    Snapshots: "snapshots";
    /// API tokens.
    Tokens: "tokens";
    /// Formats of the array.
    Upgrade: "upgrade";
    /// Users.
    Users: "users";
    /// Volumes.
    Volumes: "volumes";
}
