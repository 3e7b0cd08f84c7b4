//! Volumes, and who sees them.

use super::policy::{Switch, Treatment, put};
use super::{Shown, items, query, size};
use crate::ask::confirm;
use crate::client::Client;
use crate::show;
use anyhow::{Context, Result};
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};

#[derive(Clone, Subcommand)]
pub enum VolumeVerb {
    /// Make a volume
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Such as 10GiB, 2TiB, 500GB, or bytes; 1 MiB to 16 PiB
        #[arg(long, value_parser = size)]
        size: u64,
        /// Logical block length that hosts see: 512 or 4096 bytes
        #[arg(long, value_parser = size, default_value = "512")]
        block_size: u64,
        /// The volume group to be in
        #[arg(long)]
        group: Option<String>,
    },
    /// Make a volume with the contents that another, or a snapshot, has now, sharing its space
    Clone {
        /// The volume or snapshot to clone
        source: String,
        /// Name of the new volume
        name: String,
        /// The volume group to be in
        #[arg(long)]
        group: Option<String>,
    },
    /// All volumes, or those of a group
    List {
        /// Only those of this volume group
        #[arg(long)]
        group: Option<String>,
    },
    /// One volume
    Show {
        /// The volume
        name: String,
    },
    /// Change a volume; what is not given stays
    Set {
        /// The volume
        name: String,
        /// Another name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// Another volume group
        #[arg(long, conflicts_with = "no_group")]
        group: Option<String>,
        /// No volume group
        #[arg(long)]
        no_group: bool,
        /// Take RESERVE and RELEASE of SCSI-2
        #[arg(long, value_enum)]
        scsi2_reservations: Option<Switch>,
        /// Take no changes; nothing else can be given with it
        #[arg(long, value_enum)]
        read_only: Option<Switch>,
        #[command(flatten)]
        treatment: Treatment,
    },
    /// What it and its snapshots cost on the drives
    Space {
        /// The volume
        name: String,
    },
    /// Change the size; hosts are told
    Resize {
        /// The volume
        name: String,
        /// The new size, such as 20GiB
        #[arg(long, value_parser = size)]
        size: u64,
        /// Allow a smaller size: what lies after it is lost
        #[arg(long)]
        force: bool,
    },
    /// Move a volume that no host sees to the recycle bin, or delete it with its data
    Delete {
        /// The volume
        name: String,
        /// Delete its data at once, so that the space is free
        #[arg(long)]
        eradicate: bool,
        /// Delete its data without asking
        #[arg(long, requires = "eradicate")]
        yes: bool,
    },
    /// Give it the contents and size of a snapshot: what it holds now is kept in a snapshot, and lost to hosts
    Restore {
        /// The volume
        name: String,
        /// The snapshot, or another volume
        #[arg(long, value_name = "SNAPSHOT")]
        from: String,
        #[command(flatten)]
        how: Overwrite,
    },
    /// Forget saved reservations of a volume or snapshot that can't be understood, so that hosts may write again
    ClearState {
        /// The volume or snapshot
        name: String,
    },
    /// Let a host or host group see a volume or snapshot
    #[command(group(ArgGroup::new("peer").required(true).args(["host", "host_group"])))]
    Connect {
        /// The volume or snapshot
        name: String,
        /// The host
        #[arg(long)]
        host: Option<String>,
        /// The host group
        #[arg(long)]
        host_group: Option<String>,
        /// Refuse writes
        #[arg(long)]
        read_only: bool,
        /// 0 to 16383; the lowest free one when not given
        #[arg(long)]
        lun: Option<u16>,
    },
    /// Let a host or host group no longer see a volume or snapshot
    #[command(group(ArgGroup::new("peer").required(true).args(["host", "host_group"])))]
    Disconnect {
        /// The volume or snapshot
        name: String,
        /// The host
        #[arg(long)]
        host: Option<String>,
        /// The host group
        #[arg(long)]
        host_group: Option<String>,
    },
}

/// How a volume is overwritten.
#[derive(Clone, Args)]
pub struct Overwrite {
    /// Overwrite it without asking
    #[arg(long)]
    yes: bool,
    /// Take no snapshot of what it holds now
    #[arg(long)]
    no_safety_snapshot: bool,
}

/// Asks whether a volume is to be overwritten with the contents of a source, and takes a snapshot of what it holds.
pub fn before_overwrite(client: &Client, volume: &str, source: &str, how: &Overwrite) -> Result<()> {
    let now = client.ask("GET", &["volumes", volume], None)?;
    let seen: Vec<_> = now["connections"].as_array().into_iter().flatten().map(show::peer).collect();
    let used = match seen.as_slice() {
        [] => String::new(),
        seen => format!("; it is connected to {}, which must not use it now", seen.join(", ")),
    };
    let saved = if how.no_safety_snapshot { "lost" } else { "kept in a snapshot only" };
    confirm(how.yes, &format!("{volume} gets the contents of {source}: what it holds now is {saved}{used}"))?;
    if !how.no_safety_snapshot {
        let taken = items(client.ask("POST", &["snapshots"], Some(json!({ "volume": volume })))?);
        let name = taken[0]["name"].as_str().context("the array took no snapshot: nothing was restored")?;
        eprintln!("{volume} as it was is kept as the snapshot {name}.");
    }
    Ok(())
}

impl VolumeVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use VolumeVerb::*;
        Ok(match self {
            Create { name, size, block_size, group } => {
                let body = json!({ "name": name, "size": size, "block_size": block_size, "group": group });
                (client.ask("POST", &["volumes"], Some(body))?, show::volume)
            }
            Clone { source, name, group } => {
                let body = json!({ "name": name, "source": source, "group": group });
                (client.ask("POST", &["volumes"], Some(body))?, show::volume)
            }
            List { group } => {
                let filter = group.map(|group| format!("group={group}"));
                let query = query(&[("filter", filter.as_deref())]);
                (items(client.send("GET", &["volumes"], &query, None)?), show::volumes)
            }
            Set { name, new_name, group, no_group, scsi2_reservations, read_only, treatment } => {
                let mut body = Map::new();
                put(&mut body, "name", new_name.map(Value::String));
                put(&mut body, "group", group.map(Value::String).or(no_group.then_some(Value::Null)));
                put(&mut body, "scsi2_reservations", scsi2_reservations.map(|it| it.on().into()));
                put(&mut body, "read_only", read_only.map(|it| it.on().into()));
                treatment.put(&mut body);
                (client.ask("PATCH", &["volumes", &name], Some(body.into()))?, show::volume)
            }
            Restore { name, from, how } => {
                before_overwrite(client, &name, &from, &how)?;
                let body = json!({ "source": from });
                (client.ask("POST", &["volumes", &name, "restore"], Some(body))?, show::volume)
            }
            ClearState { name } => {
                client.ask("POST", &["volumes", &name, "clear-state"], None)?;
                (json!({ "cleared": name }), show::cleared)
            }
            Show { name } => (client.ask("GET", &["volumes", &name], None)?, show::volume),
            Space { name } => (client.ask("GET", &["volumes", &name, "space"], None)?, show::usage),
            Resize { name, size, force } => {
                let body = json!({ "size": size, "shrink": force });
                (client.ask("PATCH", &["volumes", &name], Some(body))?, show::volume)
            }
            Delete { name, eradicate: true, yes } => {
                confirm(yes, &format!("volume {name} is deleted with its data, for good"))?;
                client.send("DELETE", &["volumes", &name], "?eradicate=true", None)?;
                (json!({ "deleted": name }), show::deleted)
            }
            Delete { name, eradicate: false, .. } => {
                client.ask("DELETE", &["volumes", &name], None)?;
                (json!({ "deleted": name, "recycle_bin": true }), show::deleted)
            }
            Connect { name, host, host_group, read_only, lun } => {
                let body = json!({
                    "volume": name, "host": host, "host_group": host_group, "lun": lun, "read_only": read_only,
                });
                (client.ask("POST", &["connections"], Some(body))?, show::connection)
            }
            Disconnect { name, host: Some(host), .. } => {
                client.ask("DELETE", &["connections", &name, &host], None)?;
                (json!({ "disconnected": { "volume": name, "host": host } }), show::disconnected)
            }
            Disconnect { name, host: None, host_group } => {
                let group = host_group.unwrap_or_default();
                client.ask("DELETE", &["connections", &name, "host-groups", &group], None)?;
                (json!({ "disconnected": { "volume": name, "host_group": group } }), show::disconnected)
            }
        })
    }
}
