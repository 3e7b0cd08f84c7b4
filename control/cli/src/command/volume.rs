//! Volumes and their connections to hosts.

use super::label::{LabelChanges, LabelFilter, NewLabels};
use super::outcome::{created, each, equal};
use super::policy::{Policies, Switch};
use crate::ask::confirm;
use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::{Context, Result, ensure};
use clap::{ArgGroup, Args, Subcommand};
use client::api;
use client::schemas::{
    Connection, NewConnection, NewVolume, NewVolumes, NumberedNames, Overwrite, VolumeChange,
};
use serde_json::json;
use units::size;

#[derive(Clone, Subcommand)]
pub enum VolumeVerb {
    /// Create a volume, or several of one size: all of them, or none
    Create(NewNames),
    /// Create a volume as a clone of a volume or snapshot
    Clone {
        /// Volume or snapshot to clone
        source: String,
        /// Name of the new volume
        name: String,
        /// Volume group
        #[arg(long)]
        group: Option<String>,
        #[command(flatten)]
        labels: NewLabels,
    },
    /// List volumes
    List {
        /// Only volumes of this volume group
        #[arg(long)]
        group: Option<String>,
        #[command(flatten)]
        labels: LabelFilter,
    },
    /// Show a volume
    Show {
        /// Volume
        name: String,
    },
    /// Change a volume; omitted settings keep their values
    Set {
        /// Volume
        name: String,
        /// New name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// New volume group
        #[arg(long, conflicts_with = "no_group")]
        group: Option<String>,
        /// Remove it from its volume group
        #[arg(long)]
        no_group: bool,
        #[command(flatten)]
        protocols: Protocols,
        /// Refuse writes; cannot be combined with other settings
        #[arg(long, value_enum)]
        read_only: Option<Switch>,
        #[command(flatten)]
        labels: LabelChanges,
        #[command(flatten)]
        policies: Policies,
    },
    /// Show the space usage of a volume and its snapshots
    Space {
        /// Volume
        name: String,
    },
    /// Resize a volume; connected hosts are notified
    Resize {
        /// Volume
        name: String,
        /// New size, such as 20GiB
        #[arg(long, value_parser = size)]
        size: u64,
        /// Allow a smaller size: data after the new end is destroyed
        #[arg(long)]
        force: bool,
    },
    /// Delete a volume that is not connected: move it to the recycle bin, or eradicate its data
    Delete {
        /// Volume; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Eradicate its data immediately
        #[arg(long)]
        eradicate: bool,
        /// Eradicate without confirmation
        #[arg(long, requires = "eradicate")]
        yes: bool,
    },
    /// Restore a volume from a snapshot or another volume; a safety snapshot of its current contents is taken first
    Restore {
        /// Volume
        name: String,
        /// Snapshot or volume to restore from
        #[arg(long, value_name = "SNAPSHOT")]
        from: String,
        #[command(flatten)]
        how: Restoration,
    },
    /// Clear the unreadable reservation state of a volume or snapshot, so that hosts can write again
    ClearState {
        /// Volume or snapshot
        name: String,
        /// Clear it without confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Connect a volume or snapshot to a host or host group
    #[command(group(ArgGroup::new("peer").required(true).args(["host", "host_group"])))]
    Connect {
        /// Volume or snapshot
        name: String,
        /// Host
        #[arg(long)]
        host: Option<String>,
        /// Host group
        #[arg(long)]
        host_group: Option<String>,
        /// Refuse writes
        #[arg(long)]
        read_only: bool,
        /// LUN, 0 to 16383 [default: the lowest free one; over NVMe/TCP one that named no other volume before]
        #[arg(long)]
        lun: Option<u16>,
        /// Lowest LUN to choose [default: 0]
        #[arg(long, conflicts_with = "lun")]
        min_lun: Option<u16>,
    },
    /// Disconnect a volume or snapshot from a host or host group
    #[command(group(ArgGroup::new("peer").required(true).args(["host", "host_group"])))]
    Disconnect {
        /// Volume or snapshot
        name: String,
        /// Host
        #[arg(long)]
        host: Option<String>,
        /// Host group
        #[arg(long)]
        host_group: Option<String>,
    },
}

/// Options of a restore.
#[derive(Clone, Args)]
pub struct Restoration {
    /// Restore without confirmation
    #[arg(long)]
    yes: bool,
    /// Take no safety snapshot of the current contents
    #[arg(long)]
    no_safety_snapshot: bool,
    /// Refuse the restore if the volume has newer snapshots than the source
    #[arg(long)]
    only_if_latest: bool,
    /// Keep the size of the volume; the part beyond a smaller source reads as zeros
    #[arg(long)]
    keep_size: bool,
}

/// Restores a volume, after a confirmation and a safety snapshot.
pub fn restore(client: &Client, volume: &str, source: &str, how: &Restoration) -> Result<Shown> {
    let now = client.call(api::show_volume(volume))?.read()?;
    let peers: Vec<_> = now.connections.iter().map(peer).collect();
    let used = match peers.as_slice() {
        [] => String::new(),
        peers => format!("; it is connected to {}, which must not use it now", peers.join(", ")),
    };
    let saved = if how.no_safety_snapshot { "lost" } else { "only kept in a snapshot" };
    let consequence =
        format!("{volume} gets the contents of {source}: its current contents are {saved}{used}");
    confirm(how.yes, &consequence)?;
    let safety_snapshot = (!how.no_safety_snapshot).then(|| format!("before-restore-{}", stamp()));
    let wanted = Overwrite {
        source: source.into(),
        safety_snapshot: safety_snapshot.clone(),
        only_if_latest: Some(how.only_if_latest),
        keep_size: Some(how.keep_size),
    };
    let restored = client.call(api::restore_volume(volume, &wanted))?;
    if let Some(suffix) = safety_snapshot {
        eprintln!("The previous contents of {volume} are kept in the snapshot {}.{suffix}.", now.name);
    }
    Ok(restored.into())
}

/// The time as part of a name that no other restore has: `20261121T153000Z-123456789`, with nanoseconds.
fn stamp() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let time =
        jiff::Timestamp::from_second(i64::try_from(now.as_secs()).unwrap_or_default()).unwrap_or_default();
    let time: String = time.to_string().chars().filter(|c| !"-:".contains(*c)).collect();
    format!("{time}-{:09}", now.subsec_nanos())
}

/// Where a connection leads.
fn peer(it: &Connection) -> String {
    match (&it.host, &it.host_group) {
        (Some(host), _) => format!("host {host}"),
        (None, group) => format!("host group {}", group.as_deref().unwrap_or_default()),
    }
}

/// New volumes of one size.
#[derive(Clone, Args)]
pub struct NewNames {
    /// 1 to 63 letters, digits, '-', '_' or '.'; several may be given
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Create this many volumes with numbers in their names, which replace a run of '#' in NAME
    #[arg(long)]
    count: Option<u32>,
    /// First number [default: 1]
    #[arg(long, requires = "count")]
    first: Option<u32>,
    /// Size, such as 10GiB, 2TiB, 500GB, or in bytes; 1 MiB to 16 PiB
    #[arg(long, value_parser = size)]
    size: u64,
    /// Logical block size: 512 or 4096 bytes
    #[arg(long, value_parser = size, default_value = "512")]
    block_size: u64,
    /// Volume group
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    labels: NewLabels,
}

impl NewNames {
    fn create(self, client: &Client) -> Result<Shown> {
        let Self { mut names, count, first, size, block_size, group, labels } = self;
        let labels = labels.read();
        let block_size = Some(u32::try_from(block_size).context("the block size is 512 or 4096")?);
        ensure!(count.is_none() || names.len() == 1, "numbers are for one name, such as 'db###'");
        if let (None, [_]) = (count, names.as_slice()) {
            let name = names.remove(0);
            let new = NewVolume { name, size: Some(size), block_size, group, labels, source: None };
            return Ok(created(client.call(api::create_volume(&new))?));
        }
        let numbered = count.map(|count| NumberedNames { pattern: names.remove(0), first, count });
        let names = numbered.is_none().then_some(names);
        let new = NewVolumes { names, numbered, size, block_size, group, labels };
        Ok(created(client.call(api::create_volumes(&new))?))
    }
}

/// What hosts may do with a volume, by protocol.
#[derive(Clone, Args)]
pub struct Protocols {
    /// Support for SCSI-2 RESERVE and RELEASE
    #[arg(long, value_enum)]
    scsi2_reservations: Option<Switch>,
    /// Hosts may see it over iSCSI and over NVMe/TCP at once
    #[arg(long, value_enum)]
    mixed_transports: Option<Switch>,
}

impl VolumeVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use VolumeVerb::*;
        let change = |name: &str, change| client.call(api::change_volume(name, &change));
        Ok(match self {
            Create(new) => new.create(client)?,
            Clone { source, name, group, labels } => {
                let (source, labels) = (Some(source), labels.read());
                let new = NewVolume { name, source, group, labels, block_size: None, size: None };
                created(client.call(api::create_volume(&new))?)
            }
            List { group, labels } => {
                let (filter, label) = (group.map(|group| equal("group", &group)), labels.read());
                client
                    .call(api::list_volumes(&api::ListVolumes { filter, label, ..Default::default() }))?
                    .into()
            }
            Set { name, new_name, group, no_group, protocols, read_only, labels, policies } => {
                let (policy, limits) = policies.changes();
                let group = group.map(Some).or(no_group.then_some(None));
                let changed = VolumeChange {
                    name: new_name.map(Some),
                    group,
                    scsi2_reservations: protocols.scsi2_reservations.map(Switch::on).map(Some),
                    mixed_transports: protocols.mixed_transports.map(Switch::on).map(Some),
                    read_only: read_only.map(Switch::on).map(Some),
                    labels: labels.read(),
                    policy,
                    limits,
                    ..VolumeChange::default()
                };
                change(&name, changed)?.into()
            }
            Restore { name, from, how } => restore(client, &name, &from, &how)?,
            ClearState { name, yes } => {
                confirm(
                    yes,
                    &format!("the reservations of {name} are lost, and every connected host may write"),
                )?;
                clear_state(client, &name)?
            }
            Show { name } => client.call(api::show_volume(&name))?.into(),
            Space { name } => client.call(api::show_volume_space(&name))?.into(),
            Resize { name, size, force } => {
                let (size, shrink) = (Some(Some(size)), Some(force));
                change(&name, VolumeChange { size, shrink, ..VolumeChange::default() })?.into()
            }
            Delete { names, eradicate, yes } => delete(client, names, eradicate, yes)?,
            Connect { name, host, host_group, read_only, lun, min_lun } => {
                let (read_only, lun, min_lun) = (Some(read_only), lun.map(u32::from), min_lun.map(u32::from));
                let new = NewConnection { volume: name, host, host_group, read_only, lun, min_lun };
                created(client.call(api::create_connection(&new))?)
            }
            Disconnect { name, host: Some(host), .. } => {
                client.call(api::delete_connection(&name, &host))?;
                disconnected(&json!({ "volume": name, "host": host }))
            }
            Disconnect { name, host: None, host_group } => {
                let group = host_group.unwrap_or_default();
                client.call(api::delete_host_group_connection(&name, &group))?;
                disconnected(&json!({ "volume": name, "host_group": group }))
            }
        })
    }
}

fn delete(client: &Client, names: Vec<String>, eradicate: bool, yes: bool) -> Result<Shown> {
    if eradicate {
        confirm(yes, &format!("the data of {} is eradicated and cannot be recovered", names.join(", ")))?;
    }
    let query = api::DeleteVolume { eradicate: eradicate.then_some(true) };
    each(names, |name| {
        client.call(api::delete_volume(&name, &query))?;
        Ok(show::deleted_to(name, !eradicate))
    })
}

fn disconnected(it: &serde_json::Value) -> Shown {
    Shown::text(json!({ "disconnected": it }), |it| {
        let it = &it["disconnected"];
        let peer = if it["host"].is_null() { "host_group" } else { "host" };
        format!("{} is disconnected from {}\n", show::text(it, "volume"), show::text(it, peer))
    })
}

fn clear_state(client: &Client, name: &str) -> Result<Shown> {
    client.call(api::clear_volume_state(name))?;
    let text = |it: &_| format!("{} has no reservations and accepts writes\n", show::text(it, "cleared"));
    Ok(Shown::text(json!({ "cleared": name }), text))
}
