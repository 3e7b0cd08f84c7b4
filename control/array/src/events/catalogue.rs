//! The catalogue of messages: every kind of alert and event, and the other log messages, with their parameters.
//!
//! Documentation, the content pack for log products, dashboards and vCenter's events are generated from it. What is not in it
//! can't be logged: debug builds assert that, and a test searches the sources.

use notify::LogClass;
use serde::Serialize;
use std::fmt::Write;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Space of the array.
    Space,
    /// Quotas of volume groups.
    Quota,
    /// Safety of the data.
    Protection,
    /// Drives.
    Drives,
    /// Paths and log-ins of hosts.
    Paths,
    /// State of volumes.
    Volume,
    /// Replication and remote arrays.
    Replication,
    /// Users, credentials and keys.
    Security,
    /// Changes of volumes, hosts and what belongs to them.
    Configuration,
    /// Management of the array itself.
    Management,
}

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// Its identifier: the kind in the API, and the MSGID in syslog.
    pub id: &'static str,
    /// What it is about.
    pub category: Category,
    /// What has happened, in a few words.
    pub meaning: &'static str,
}

/// A parameter of structured data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it is, with its unit.
    pub meaning: &'static str,
}

const fn kind(id: &'static str, category: Category, meaning: &'static str) -> Kind {
    Kind { id, category, meaning }
}

const fn parameter(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, meaning }
}

/// Kinds of alerts. In vCenter, an alarm stands for a category: that of a kind stays.
pub const ALERTS: &[Kind] = {
    use Category::*;
    &[
        kind("array.stopped", Protection, "the array stopped to protect data"),
        kind("space.threshold", Space, "little space is free"),
        kind("space.forecast", Space, "the drives will be full soon"),
        kind("space.map", Space, "the map pages that memory allows are almost used up"),
        kind("group.quota", Quota, "a volume group is over its soft quota or at its hard quota"),
        kind("drive.failed", Drives, "a drive failed or is missing"),
        kind("drive.evacuating", Drives, "a drive is being evacuated"),
        kind("drive.checksum-errors", Drives, "a drive returned data with wrong checksums"),
        kind("drive.failing", Drives, "a drive reports or predicts a failure"),
        kind("drive.worn", Drives, "the rated endurance of a drive is used up"),
        kind("drive.slow", Drives, "a drive is much slower than the others"),
        kind("drive.no-space", Space, "the file system under the drives is full"),
        kind(
            "drive.overcommitted",
            Space,
            "the file system under the drives is smaller than the drives may grow",
        ),
        kind("drive.stray", Drives, "a drive that was of this array is no member now"),
        kind("drive.unwiped", Drives, "a drive could not be wiped"),
        kind("store.near-full", Space, "a pool of the store in Ceph is nearly full"),
        kind("controller.lost", Protection, "a controller is lost"),
        kind("controller.alone", Protection, "only one of several controllers is left"),
        kind("controller.versions", Management, "the controllers run different versions"),
        kind("replication.rpo", Protection, "a replication misses its RPO"),
        kind("replication.no-space", Space, "a replication waits for space on the target"),
        kind(
            "replication.out-of-sync",
            Protection,
            "both arrays of a synchronous replication are not the same",
        ),
        kind(
            "replication.witness",
            Protection,
            "the witness of a synchronous replication would not decide after a loss",
        ),
        kind(
            "replication.writes-stopped",
            Protection,
            "the volumes of a synchronous replication refuse writes",
        ),
        kind("replication.split", Protection, "the volumes of both arrays of a replication take writes"),
        kind("scrub.found", Protection, "the last scrub found wrong pages"),
        kind("protection.degraded", Protection, "fewer drives than usual may fail"),
        kind("protection.low", Protection, "there are too few drives for dual parity"),
        kind("protection.rebuilding", Protection, "data are being rebuilt"),
        kind("data.lost", Protection, "data are lost"),
        kind("metadata.contradiction", Protection, "metadata on the drives contradict each other"),
        kind("portal.down", Paths, "a portal can't listen"),
        kind("api.down", Management, "the API can't listen on its address"),
        kind("host.sessions", Paths, "few sessions of hosts are left"),
        kind("host.one-path", Paths, "a host uses one portal only"),
        kind(
            "host.duplicate-initiator",
            Paths,
            "several machines use one initiator name and end each other's sessions",
        ),
        kind("host.uneven-paths", Paths, "a host uses its paths unevenly"),
        kind("volume.state-unreadable", Volume, "saved reservations of a volume can't be read"),
        kind("upgrade.uncommitted", Management, "the array has an older format than its software knows"),
        kind("clock.jumped", Management, "the clock jumped"),
        kind("history.memory", Management, "the history file can't be used"),
        kind("audit.lost", Management, "the audit log has lost entries"),
        kind("secrets.locked", Management, "sealed secrets can't be opened"),
        kind("certificate.temporary", Management, "a temporary certificate is shown"),
        kind("certificate.expiry", Management, "the certificate expires soon"),
        kind("folder.api.json", Management, "a file in the data folder can't be written"),
        kind("folder.tls.pem", Management, "a file in the data folder can't be written"),
        kind("remote-array.disconnected", Management, "a paired array can not be reached"),
        kind("notification.failing", Management, "a notification target can't be reached"),
    ]
};

/// Kinds of events.
pub const EVENTS: &[Kind] = {
    use Category::*;
    &[
        kind("volume.created", Configuration, "a volume was created"),
        kind("volume.changed", Configuration, "a volume was changed"),
        kind("volume.resized", Configuration, "a volume was resized"),
        kind(
            "volume.overwritten",
            Configuration,
            "a volume got the content of a snapshot, a volume or a replicated point",
        ),
        kind("volume.connected", Configuration, "a volume was connected to a host or a host group"),
        kind("volume.disconnected", Configuration, "a volume was disconnected"),
        kind("volume.deleted", Configuration, "a volume was moved to the recycle bin"),
        kind("volume.restored", Configuration, "a volume was restored from the recycle bin"),
        kind("volume.eradicated", Configuration, "a volume was deleted for good"),
        kind("volume.state-cleared", Volume, "saved reservations that could not be read were cleared"),
        kind("snapshot.created", Configuration, "a snapshot was taken"),
        kind("snapshot.changed", Configuration, "a snapshot was changed"),
        kind("snapshot.connected", Configuration, "a snapshot was connected to a host or a host group"),
        kind("snapshot.disconnected", Configuration, "a snapshot was disconnected"),
        kind("snapshot.deleted", Configuration, "a snapshot was moved to the recycle bin"),
        kind("snapshot.restored", Configuration, "a snapshot was restored from the recycle bin"),
        kind("snapshot.eradicated", Configuration, "a snapshot was deleted for good"),
        kind("snapshot.state-cleared", Volume, "saved reservations that could not be read were cleared"),
        kind("group.created", Configuration, "a volume group was created"),
        kind("group.changed", Configuration, "a volume group was changed"),
        kind("group.deleted", Configuration, "a volume group was deleted"),
        kind("group.soft-quota-crossed", Quota, "a volume group crossed its soft quota"),
        kind("group.soft-quota-over", Quota, "a volume group is below its soft quota again"),
        kind("group.hard-quota-reached", Quota, "a volume group reached its hard quota"),
        kind("group.hard-quota-over", Quota, "a volume group takes new space again"),
        kind("host.created", Configuration, "a host was created"),
        kind("host.changed", Configuration, "a host was changed"),
        kind("host.deleted", Configuration, "a host was deleted"),
        kind("host-group.created", Configuration, "a host group was created"),
        kind("host-group.changed", Configuration, "a host group was changed"),
        kind("host-group.deleted", Configuration, "a host group was deleted"),
        kind("host.logged-in", Paths, "a host logged in at a portal"),
        kind("host.logged-out", Paths, "a session of a host ended"),
        kind("host.login-refused", Paths, "a log-in of a host was refused"),
        kind("initiator.login-refused", Paths, "a log-in of an initiator that no host has was refused"),
        kind("portal.added", Paths, "a portal was added"),
        kind("portal.removed", Paths, "a portal was removed"),
        kind("schedule.created", Configuration, "a snapshot schedule was created"),
        kind("schedule.changed", Configuration, "a snapshot schedule was changed"),
        kind("schedule.deleted", Configuration, "a snapshot schedule was deleted"),
        kind("schedule.failed", Protection, "a snapshot schedule could not run"),
        kind("replication.created", Replication, "a replication was created"),
        kind("replication.changed", Replication, "a replication was changed"),
        kind("replication.deleted", Replication, "a replication was deleted"),
        kind("replication.paused", Replication, "a replication was paused"),
        kind("replication.resumed", Replication, "a replication was resumed"),
        kind("replication.promoted", Replication, "this array became the source of a replication"),
        kind("replication.demoted", Replication, "this array became the target of a replication"),
        kind("replication.reversed", Replication, "source and target of a replication changed places"),
        kind("replication.test-started", Replication, "the test of a failover began"),
        kind("replication.test-stopped", Replication, "the test of a failover ended"),
        kind("replication.points-kept", Replication, "other replicated points are kept"),
        kind("replication.failed", Replication, "a transfer failed and is tried again"),
        kind("replication.restored", Replication, "transfers of a replication work again"),
        kind("replication.in-sync", Replication, "both arrays of a synchronous replication are the same"),
        kind(
            "replication.out-of-sync",
            Replication,
            "both arrays of a synchronous replication are not the same",
        ),
        kind(
            "replication.writes-stopped",
            Replication,
            "the volumes of a synchronous replication refuse writes",
        ),
        kind(
            "replication.failed-over",
            Replication,
            "the target of a synchronous replication went on: its witness has agreed",
        ),
        kind("replication.alone", Replication, "the source of a synchronous replication continues alone"),
        kind("replication.split", Replication, "the volumes of both arrays of a replication take writes"),
        kind("remote-array.key-created", Security, "a key to pair another array with was created"),
        kind("remote-array.paired", Replication, "another array was paired"),
        kind("remote-array.changed", Replication, "a remote array was changed"),
        kind("remote-array.deleted", Replication, "a remote array was deleted"),
        kind("remote-array.connected", Replication, "a remote array is connected"),
        kind("remote-array.disconnected", Replication, "a remote array is disconnected"),
        kind("drive.added", Drives, "a drive was added"),
        kind("drive.evacuating", Drives, "a drive is being evacuated"),
        kind("drive.evacuated", Drives, "a drive was evacuated and can be removed"),
        kind("drive.evacuation-canceled", Drives, "the evacuation of a drive was cancelled"),
        kind("drive.removed", Drives, "a drive is no longer a member"),
        kind("drive.failed", Drives, "a drive failed"),
        kind("drive.returned", Drives, "a drive is online again"),
        kind("drive.pages-repaired", Protection, "pages with wrong checksums were repaired"),
        kind("drive.pages-lost", Protection, "pages can't be reconstructed"),
        kind("scrub.started", Protection, "a scrub began"),
        kind("scrub.finished", Protection, "a scrub ended"),
        kind("scrub.failed", Protection, "a scrub could not begin"),
        kind("space.threshold-crossed", Space, "70, 80, 90 or 95 % of the space is in use"),
        kind("space.threshold-over", Space, "less space is in use again"),
        kind("controller.joined", Protection, "a controller stands by"),
        kind("controller.stopped", Protection, "a controller was stopped"),
        kind("controller.lost", Protection, "a controller is lost"),
        kind("controller.takeover", Protection, "a controller took over"),
        kind("controller.token-created", Security, "a token for another controller was created"),
        kind("session.begun", Security, "a user logged in"),
        kind("session.refused", Security, "a log-in of a user was refused"),
        kind("user.created", Security, "a user was created"),
        kind("user.changed", Security, "a user was changed"),
        kind("user.deleted", Security, "a user was deleted"),
        kind("token.created", Security, "an API token was created"),
        kind("token.deleted", Security, "an API token was revoked"),
        kind("directory.created", Security, "a directory was created"),
        kind("directory.changed", Security, "a directory was changed"),
        kind("directory.deleted", Security, "a directory was deleted"),
        kind("certificate.replaced", Security, "the certificate of the API was replaced"),
        kind("key.rotated", Security, "the key of the drives was changed"),
        kind("notification.created", Management, "a notification target was created"),
        kind("notification.changed", Management, "a notification target was changed"),
        kind("notification.deleted", Management, "a notification target was deleted"),
        kind("settings.changed", Management, "settings were changed"),
        kind("api-address.tried", Management, "another address of the API is on trial"),
        kind("api-address.changed", Management, "the address of the API was changed"),
        kind("api-address.removed", Management, "an address of the API was removed"),
        kind("api-address.reverted", Management, "an unconfirmed address of the API was given up"),
        kind("upgrade.committed", Management, "an upgrade was committed"),
        kind("clock.confirmed", Management, "the time of the clock was confirmed"),
        kind("history.set-aside", Management, "a history file that could not be used was set aside"),
    ]
};

/// Log messages that are neither alerts nor events.
pub const OTHERS: &[Kind] = &[
    kind(AUDIT_DONE, Category::Security, "a change that a user requested was made"),
    kind(AUDIT_REFUSED, Category::Security, "a change that a user requested was refused, or failed"),
    kind(PERFORMANCE, Category::Management, "what hosts did in the last minute"),
    kind(CAPACITY, Category::Space, "how the space is used"),
    kind(TEST, Category::Management, "a test of a notification target"),
];

const AUDIT_DONE: &str = "audit.done";
const AUDIT_REFUSED: &str = "audit.refused";
/// The message with performance.
pub const PERFORMANCE: &str = "performance.array";
/// The message with the use of space.
pub const CAPACITY: &str = "capacity.array";
/// The test message, which has the form of an alert.
pub const TEST: &str = "test";

const OBJECT_NOUN: Parameter = parameter("noun", "kind of object concerned; absent if there is none");
const OBJECT_NAME: Parameter = parameter("name", "name of that object");
const SEVERITY: Parameter = parameter("severity", "`info`, `warning` or `critical`");

/// Parameters of every message, in the element `ashlar@32473`.
pub const COMMON: &[Parameter] = &[
    parameter("class", "class of the message"),
    parameter("serial", "serial number of the array, 16 hex digits"),
];

const ALERT_PARAMETERS: &[Parameter] = &[
    parameter("id", "number of the alert: one condition keeps it from beginning to end"),
    parameter("event", "`alert.opened`, `alert.worse`, `alert.closed`, or `test`"),
    parameter("kind", "kind of the alert, as the MSGID"),
    SEVERITY,
    parameter("serial", "serial number of the array"),
    OBJECT_NOUN,
    OBJECT_NAME,
];

const EVENT_PARAMETERS: &[Parameter] = &[
    parameter("id", "number of the event"),
    parameter("kind", "kind of the event, as the MSGID"),
    SEVERITY,
    OBJECT_NOUN,
    OBJECT_NAME,
];

const AUDIT_PARAMETERS: &[Parameter] = &[
    parameter("id", "number of the entry of the audit log"),
    parameter("outcome", "`done` or `refused`"),
    parameter("user", "user; `OWNER for USER` if a program acted for a user of its own"),
    parameter("origin", "address that the request came from, or `local`"),
    parameter("action", "name of the verb, such as `CreateVolume`"),
    OBJECT_NOUN,
    OBJECT_NAME,
];

/// Parameters of the messages of a class, in its own element.
pub fn parameters(class: LogClass) -> &'static [Parameter] {
    match class {
        LogClass::Alert => ALERT_PARAMETERS,
        LogClass::Event => EVENT_PARAMETERS,
        LogClass::Audit => AUDIT_PARAMETERS,
        LogClass::Performance => PERFORMANCE_PARAMETERS,
        LogClass::Capacity => CAPACITY_PARAMETERS,
    }
}

/// In the order in which the service of statistics gives the values.
pub(crate) const PERFORMANCE_PARAMETERS: &[Parameter] = &[
    parameter("seconds", "length of the period"),
    parameter("read_iops", "reads per second"),
    parameter("write_iops", "writes per second"),
    parameter("read_bytes", "bytes read per second"),
    parameter("write_bytes", "bytes written per second"),
    parameter("read_latency_us", "mean latency of reads, in microseconds; 0 without reads"),
    parameter("write_latency_us", "mean latency of writes, in microseconds; 0 without writes"),
    parameter("ats", "COMPARE AND WRITE commands (VAAI ATS) in the period"),
    parameter("xcopy", "EXTENDED COPY commands (VAAI XCOPY), and Copy of NVMe, in the period"),
    parameter("token_copy", "WRITE USING TOKEN commands (ODX) in the period"),
    parameter("write_same", "WRITE SAME commands (VAAI block zero) in the period"),
    parameter("unmap", "UNMAP commands in the period"),
    parameter("shared_bytes", "bytes that were copied by sharing stored blocks, in the period"),
    parameter("moved_bytes", "bytes that were copied by reading and writing, in the period"),
    parameter("failures", "commands that failed in the period"),
];

/// In the order in which the service of statistics gives the values.
pub(crate) const CAPACITY_PARAMETERS: &[Parameter] = &[
    parameter("total_bytes", "space for data and metadata, without parity"),
    parameter("free_bytes", "data that can still be written if they can't be reduced"),
    parameter("physical_bytes", "space of unique data after compression"),
    parameter("metadata_bytes", "space of metadata"),
    parameter("provisioned_bytes", "sum of the sizes of all volumes"),
    parameter("logical_bytes", "data of volumes and snapshots without zeros"),
    parameter("used_percent", "space in use, in percent of the total"),
    parameter("reduction_percent", "data reduction ratio times 100; 0 while nothing is stored"),
];

/// Whether there is an alert of this kind.
pub(crate) fn is_alert(id: &str) -> bool {
    ALERTS.iter().any(|kind| kind.id == id)
}

/// Whether there is an event of this kind.
pub(crate) fn is_event(id: &str) -> bool {
    EVENTS.iter().any(|kind| kind.id == id)
}

/// The catalogue for programs, in JSON.
pub fn json() -> String {
    let classes: serde_json::Map<_, _> = LogClass::ALL
        .iter()
        .map(|class| (class.name().to_owned(), serde_json::json!(parameters(*class))))
        .collect();
    let all = serde_json::json!({
        "alerts": ALERTS, "events": EVENTS, "others": OTHERS, "common": COMMON, "parameters": classes,
    });
    format!("{all:#}\n")
}

/// The catalogue for people, in Markdown.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Log messages\n\n\
         Generated from the code by `cargo xtask openapi --write`.\n\
         `ashlar notification create NAME --syslog HOST --tls --content alerts,events,audit,statistics` sends them by syslog: RFC\n\
         5424 with octet counting over TCP (RFC 6587) or TLS (RFC 5425). HOSTNAME is the name of the array, APP-NAME is `ashlar`,\n\
         PROCID is empty, and **MSGID is the identifier of the message** in the tables below. The facility is 3 (system daemons),\n\
         that of the audit log 13 (log audit). Messages are delivered in order, wait in memory while the receiver can't be\n\
         reached, and may arrive twice after a failure: with the same `id`. [messages.json](messages.json) has the same for\n\
         programs.\n\n\
         The severity of syslog is 2 for `critical`, 4 for `warning`, 6 for `info`; 5 for the end of an alert and for audited\n\
         changes, 4 for refused ones.\n\n\
         ## Structured data\n\n\
         Every message has the element `ashlar@32473`, and after it one of its class.\n",
    );
    let mut table = |title: &str, rows: &[Parameter]| {
        let _ = write!(text, "\n### `{title}@32473`\n\n| parameter | meaning |\n|---|---|\n");
        for row in rows {
            let _ = writeln!(text, "| `{}` | {} |", row.name, row.meaning);
        }
    };
    table("ashlar", COMMON);
    LogClass::ALL.iter().for_each(|class| table(class.name(), parameters(*class)));
    for (title, kinds) in [("Alerts", ALERTS), ("Events", EVENTS), ("Audit log, statistics, test", OTHERS)] {
        let _ = write!(text, "\n## {title}\n\n| MSGID | category | meaning |\n|---|---|---|\n");
        for kind in kinds {
            let category = format!("{:?}", kind.category).to_lowercase();
            let _ = writeln!(text, "| `{}` | {category} | {} |", kind.id, kind.meaning);
        }
    }
    text
}

#[cfg(test)]
#[path = "catalogue_test.rs"]
mod tests;
