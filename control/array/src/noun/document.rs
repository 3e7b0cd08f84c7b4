//! The configuration document: what an operator has configured, by names, in one versioned text that people and programs read.
//!
//! It is for keeping, comparing and moving a configuration. It holds neither data nor secrets, and no identity by which
//! hosts know a volume.

use crate::array::Array;
use crate::configuration::check;
use crate::noun::group::CreateGroup;
use crate::noun::host::CreateHostGroup;
use crate::noun::schedule::CreateSchedule;
use crate::{Error, Result};
use history::Severity;
use history::utc;
use records::{
    Config, ConnectionEntry, Content, Destination, DirectoryEntry, DirectorySettings, Grant, HostEntry,
    Labels, Limits, LimitsChange, Named, NotificationTargetEntry, Peer, Policy, PolicyChange, Role, Secret,
    UserEntry, VolumeEntry,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// The format that this software writes, and the only one that it reads.
pub const CONFIGURATION_FORMAT: u32 = 1;

/// The configuration of an array as one document. Sections that are left out mean nothing: an import takes nothing away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationDocument {
    /// Version of this format.
    pub format: u32,
    /// The array that it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What the document does not contain, as text for an operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Portals: shown only, since their addresses are those of a machine. An import does not change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portals: Option<PortalsItem>,
    /// Settings of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SettingsItem>,
    /// Volume groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_groups: Vec<CreateGroup>,
    /// Volumes, without contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeItem>,
    /// Hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostItem>,
    /// Host groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_groups: Vec<CreateHostGroup>,
    /// Connections of volumes; those of snapshots are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionItem>,
    /// Snapshot schedules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<CreateSchedule>,
    /// Notification targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notification_targets: Vec<TargetItem>,
    /// Directories that authenticate users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<DirectoryItem>,
    /// Users of the array.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserItem>,
}

/// The array that a document was taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Its serial number.
    pub serial: String,
    /// Version of its software.
    pub version: String,
    /// When, as RFC 3339 has it.
    pub exported: String,
}

/// Where hosts log in: addresses with ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalsItem {
    /// Over iSCSI.
    pub iscsi: Vec<String>,
    /// Over NVMe/TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvme: Vec<String>,
}

/// Settings of the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsItem {
    /// The array's name.
    pub name: String,
    /// How long the recycle bin keeps a volume, in seconds.
    pub recycle_bin_seconds: u64,
    /// How much UNMAP is slowed down: 0 not at all, 9 most.
    pub unmap_throttle: u8,
    /// Interval between scrubs in seconds; 0: none.
    pub scrub_every_seconds: u64,
    /// Longest time for which a retention lock can be set, in seconds; a document of an earlier release has none, and the setting stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retention_lock_seconds: Option<u64>,
    /// The time zone of schedules.
    pub time_zone: String,
}

/// A volume, without its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeItem {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Logical block length in bytes: 512 or 4096.
    pub block_size: u32,
    /// Its volume group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// It takes no changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// How its data are reduced.
    #[serde(default, deserialize_with = "policy", skip_serializing_if = "Policy::is_inherited")]
    pub policy: Policy,
    /// What it may do in a second.
    #[serde(default, deserialize_with = "limits", skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Whether it may use RESERVE and RELEASE of SCSI-2.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub scsi2_reservations: bool,
    /// Hosts may see it over iSCSI and over NVMe/TCP at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed_transports: bool,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostItem {
    /// Its name.
    pub name: String,
    /// Its iSCSI initiator names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initiators: Vec<String>,
    /// Its NVMe qualified names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nqns: Vec<String>,
    /// Its WWPNs of Fibre Channel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wwpns: Vec<String>,
    /// The CHAP user that it must log in as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_user: Option<String>,
    /// The secret of that user. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub chap_secret: Option<Secret>,
    /// The CHAP user that the array answers as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
    /// The secret of that user. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub mutual_secret: Option<Secret>,
    /// It authenticates by DH-HMAC-CHAP over NVMe/TCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dhchap: bool,
    /// Its secret for that. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub dhchap_secret: Option<Secret>,
    /// The array authenticates by DH-HMAC-CHAP if the host asks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dhchap_controller: bool,
    /// The secret of the array for that. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub dhchap_controller_secret: Option<Secret>,
    /// It has a PSK of TLS over NVMe/TCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// The PSK. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub tls_psk: Option<Secret>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// A connection of a volume to a host or to a host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionItem {
    /// The volume.
    pub volume: String,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The host group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_group: Option<String>,
    /// The LUN.
    pub lun: u16,
    /// Its writes are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// A notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetItem {
    /// Its name.
    pub name: String,
    /// Where notices go. Of the address of a webhook no export has more than the host; an operator adds the rest.
    pub destination: Destination,
    /// The lowest severity of alerts and events that is sent.
    pub severity: Severity,
    /// What is sent.
    #[serde(default = "Content::default_set", skip_serializing_if = "Content::is_default")]
    pub content: BTreeSet<Content>,
    /// Whether anything is sent.
    pub enabled: bool,
    /// It has a secret.
    #[serde(default)]
    pub has_secret: bool,
    /// That secret. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub secret: Option<Secret>,
}

/// A directory that authenticates users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryItem {
    /// Its name.
    pub name: String,
    /// Which directory, and how it is asked.
    pub settings: DirectorySettings,
    /// The roles that groups are granted.
    pub grants: Vec<Grant>,
    /// Whether it is asked.
    pub enabled: bool,
    /// It has a secret.
    #[serde(default)]
    pub has_secret: bool,
    /// That secret. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub secret: Option<Secret>,
}

/// A user of the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserItem {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Its password. An operator adds it; no export has it.
    #[serde(default, skip_serializing, deserialize_with = "secret")]
    pub password: Option<Secret>,
}

/// Reads a policy as a request does: an unknown field is refused.
fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Policy, D::Error> {
    Ok(Policy::default().with(PolicyChange::deserialize(deserializer)?))
}

/// Reads limits likewise. Their values are checked with the volume.
fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Limits, D::Error> {
    let LimitsChange { iops, iops_burst, bandwidth, bandwidth_burst } =
        LimitsChange::deserialize(deserializer)?;
    let [iops, iops_burst, bandwidth, bandwidth_burst] =
        [iops, iops_burst, bandwidth, bandwidth_burst].map(Option::flatten);
    Ok(Limits { iops, iops_burst, bandwidth, bandwidth_burst })
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Secret>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
}

/// What says how a document is to be read.
#[derive(Debug, Default, Deserialize)]
pub struct DocumentHead {
    format: Option<Value>,
    origin: Option<Value>,
}

impl ConfigurationDocument {
    /// Checks whether this software reads a document.
    ///
    /// # Errors
    /// When it has another format, or is none.
    pub fn check(head: &DocumentHead) -> Result<()> {
        let Some(format) = head.format.as_ref().and_then(Value::as_u64) else {
            return Err(Error::invalid(
                "that is no configuration document of an Ashlar array, as it has no number as its `format`: export one with \
                 `ashlar config export`",
            ));
        };
        if format != u64::from(CONFIGURATION_FORMAT) {
            let origin = head.origin.as_ref().and_then(|origin| origin["version"].as_str());
            let writer = origin.unwrap_or("unknown");
            return Err(Error::invalid(format!(
                "the document has format {format}, written by version {writer}, and this array reads format \
                 {CONFIGURATION_FORMAT}: upgrade the array's software, or export with software of this version"
            )));
        }
        Ok(())
    }

    /// Gives lists that mean a set one form, so that documents can be compared.
    pub(crate) fn normalise(&mut self) {
        for host in &mut self.hosts {
            if let Ok(initiators) = check::initiators(&host.initiators) {
                host.initiators = initiators;
            }
            host.initiators.sort();
            host.nqns.sort();
            host.wwpns.sort();
        }
        self.host_groups.iter_mut().for_each(|group| group.hosts.get_or_insert_default().sort());
        for schedule in &mut self.schedules {
            schedule.enabled.get_or_insert(true);
        }
    }
}

impl Array {
    /// What is configured, as a document.
    pub(crate) fn document(&self, config: &Config) -> ConfigurationDocument {
        let portals = |portals: Vec<iscsi::Portal>| portals.iter().map(|it| it.address.to_string()).collect();
        let mut document = ConfigurationDocument {
            format: CONFIGURATION_FORMAT,
            origin: Some(Origin {
                serial: self.identity.serial.clone(),
                version: self.version.clone(),
                exported: utc(self.now()),
            }),
            left_out: left_out(config),
            portals: Some(PortalsItem {
                iscsi: portals(self.parts.server.portals()),
                nvme: portals(self.parts.subsystem.portals()),
            }),
            settings: Some(self.settings_item(config)),
            volume_groups: config.groups.iter().map(CreateGroup::of).collect(),
            volumes: config.volumes.iter().filter_map(|entry| self.volume_item(config, entry)).collect(),
            hosts: config.hosts.iter().map(host_item).collect(),
            host_groups: config.host_groups.iter().map(|entry| CreateHostGroup::of(config, entry)).collect(),
            connections: connection_items(config),
            schedules: config.schedules.iter().map(|entry| CreateSchedule::of(config, entry)).collect(),
            notification_targets: config.notification_targets.iter().map(target_item).collect(),
            directories: config.directories.iter().map(directory_item).collect(),
            users: config.users.iter().map(user_item).collect(),
        };
        document.normalise();
        document
    }

    fn settings_item(&self, config: &Config) -> SettingsItem {
        // Threads are a matter of the machine.
        let settings = self.settings(config);
        SettingsItem {
            name: settings.name,
            recycle_bin_seconds: settings.recycle_bin_seconds,
            unmap_throttle: settings.unmap_throttle,
            scrub_every_seconds: settings.scrub_every_seconds,
            max_retention_lock_seconds: Some(settings.max_retention_lock_seconds),
            time_zone: settings.time_zone,
        }
    }

    fn volume_item(&self, config: &Config, entry: &VolumeEntry) -> Option<VolumeItem> {
        let disk = self.parts.engine.disk(entry.id)?;
        Some(VolumeItem {
            name: entry.name.clone(),
            size: disk.geometry.bytes(),
            block_size: disk.geometry.block_bytes,
            group: entry.group.and_then(|id| Some(config.groups.get(id)?.name.clone())),
            read_only: disk.read_only,
            policy: entry.policy,
            limits: entry.limits,
            scsi2_reservations: entry.scsi2_reservations,
            mixed_transports: entry.mixed_transports,
            labels: entry.labels.clone(),
        })
    }
}

/// What a document does not contain, as text for an operator.
fn left_out(config: &Config) -> Vec<String> {
    let mut left: Vec<String> = vec![
        "contents of volumes, snapshots, the recycle bin, and the identifiers by which hosts know volumes"
            .into(),
        "the certificate of the API with its key, and the key of encrypted drives".into(),
    ];
    for host in config.hosts.iter() {
        let secrets = [
            ("chap_secret", host.chap.is_some()),
            ("mutual_secret", host.mutual.is_some()),
            ("dhchap_secret", host.dhchap.is_some()),
            ("dhchap_controller_secret", host.dhchap_controller.is_some()),
            ("tls_psk", host.tls_psk.is_some()),
        ];
        let secrets = secrets.iter().filter(|(_, is_set)| *is_set);
        left.extend(secrets.map(|(name, _)| format!("{name} of host/{}", host.name)));
    }
    let hidden = config.notification_targets.iter().filter(|it| it.destination.shown().is_incomplete());
    left.extend(hidden.map(|it| format!("destination.url of notification-target/{}", it.name)));
    let targets = config.notification_targets.iter().filter(|it| it.secret.is_some());
    left.extend(targets.map(|it| format!("secret of notification-target/{}", it.name)));
    let directories = config.directories.iter().filter(|it| it.secret.is_some());
    left.extend(directories.map(|it| format!("secret of directory/{}", it.name)));
    left.extend(config.users.iter().map(|it| format!("password of user/{}", it.name)));
    left.extend(config.tokens.iter().map(|it| format!("API token {}: create it again", it.name)));
    left
}

fn host_item(entry: &HostEntry) -> HostItem {
    let HostEntry { name, initiators, nqns, wwpns, chap, mutual, labels, .. } = entry.clone();
    HostItem {
        name,
        initiators,
        nqns,
        wwpns,
        chap_user: chap.map(|chap| chap.user),
        chap_secret: None,
        mutual_user: mutual.map(|chap| chap.user),
        mutual_secret: None,
        dhchap: entry.dhchap.is_some(),
        dhchap_secret: None,
        dhchap_controller: entry.dhchap_controller.is_some(),
        dhchap_controller_secret: None,
        tls: entry.tls_psk.is_some(),
        tls_psk: None,
        labels,
    }
}

/// Connections of volumes, by volume and peer.
fn connection_items(config: &Config) -> Vec<ConnectionItem> {
    let item = |entry: &ConnectionEntry| {
        let volume = config.volumes.get(entry.volume)?.name()?.to_owned();
        let (host, host_group) = match entry.peer {
            Peer::Host(id) => (Some(config.hosts.get(id)?.name.clone()), None),
            Peer::HostGroup(id) => (None, Some(config.host_groups.get(id)?.name.clone())),
        };
        Some(ConnectionItem { volume, host, host_group, lun: entry.lun, read_only: entry.read_only })
    };
    let mut items: Vec<_> = config.connections.iter().filter_map(item).collect();
    items.sort_by_key(|it| (it.volume.clone(), it.host.clone(), it.host_group.clone()));
    items
}

fn target_item(entry: &NotificationTargetEntry) -> TargetItem {
    let NotificationTargetEntry { name, destination, least, content, enabled, secret, .. } = entry.clone();
    let has_secret = secret.is_some();
    TargetItem {
        name,
        destination: destination.shown(),
        severity: least,
        content,
        enabled,
        has_secret,
        secret: None,
    }
}

fn directory_item(entry: &DirectoryEntry) -> DirectoryItem {
    let DirectoryEntry { name, settings, grants, enabled, secret, .. } = entry.clone();
    DirectoryItem { name, settings, grants, enabled, has_secret: secret.is_some(), secret: None }
}

fn user_item(entry: &UserEntry) -> UserItem {
    UserItem { name: entry.name.clone(), role: entry.role, password: None }
}
