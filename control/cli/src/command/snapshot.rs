//! Snapshots.

use super::label::{LabelChanges, LabelFilter, NewLabels};
use super::outcome::{created, each, equal};
use super::policy::Switch;
use super::volume::{Restoration, restore};
use crate::ask::confirm;
use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::{Context, Result, ensure};
use clap::{ArgGroup, Subcommand};
use client::api;
use client::schemas::{NewSnapshots, NewVolume, SnapshotChange, SnapshotSource};
use serde_json::Value;
use std::collections::HashMap;

#[derive(Clone, Subcommand)]
pub enum SnapshotVerb {
    /// Take snapshots of volumes, or of all volumes of a group, at the same instant
    #[command(group(ArgGroup::new("subject").required(true).args(["volumes", "group"])))]
    Create {
        /// Volumes
        #[arg(value_name = "VOLUME")]
        volumes: Vec<String>,
        /// Volume group
        #[arg(long)]
        group: Option<String>,
        /// Suffix of the name after the volume name and a dot [default: the time]
        #[arg(long)]
        suffix: Option<String>,
        /// Name of the snapshot of a single volume
        #[arg(long, conflicts_with_all = ["group", "suffix"])]
        name: Option<String>,
        #[command(flatten)]
        labels: NewLabels,
        /// Retention lock: it cannot be deleted or changed before this time, such as 2030-12-31T23:59:59Z
        #[arg(long, value_name = "TIME")]
        retain_until: Option<String>,
    },
    /// List snapshots
    List {
        /// Only snapshots of this volume
        #[arg(long)]
        volume: Option<String>,
        #[command(flatten)]
        labels: LabelFilter,
    },
    /// Show a snapshot
    Show {
        /// Snapshot
        name: String,
    },
    /// Rename a snapshot
    Rename {
        /// Snapshot
        name: String,
        /// New name
        new_name: String,
    },
    /// Change the access or the labels of a snapshot
    Set {
        /// Snapshot
        name: String,
        /// Whether hosts can write to it
        #[arg(long, value_enum)]
        writable: Option<Switch>,
        #[command(flatten)]
        labels: LabelChanges,
    },
    /// Set or extend the retention lock of a snapshot
    Lock {
        /// Snapshot
        name: String,
        /// Time before which it cannot be deleted or changed, such as 2030-12-31T23:59:59Z
        #[arg(long, value_name = "TIME")]
        until: String,
    },
    /// Delete a snapshot that is not connected: move it to the recycle bin, or eradicate its data
    Delete {
        /// Snapshot; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Eradicate its data immediately
        #[arg(long)]
        eradicate: bool,
        /// Eradicate without confirmation
        #[arg(long, requires = "eradicate")]
        yes: bool,
    },
    /// Restore its volume from a snapshot; a safety snapshot of the current contents is taken first
    Restore {
        /// Snapshot
        name: String,
        /// Volume to restore [default: the source of the snapshot]
        #[arg(long)]
        volume: Option<String>,
        #[command(flatten)]
        how: Restoration,
    },
    /// Create a volume as a clone of a snapshot
    Clone {
        /// Snapshot
        name: String,
        /// Name of the new volume
        new_name: String,
    },
    /// List the extents that differ from an older snapshot, or all mapped extents
    Diff {
        /// Snapshot or volume
        name: String,
        /// Older snapshot
        #[arg(long)]
        base: Option<String>,
    },
}

impl SnapshotVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use SnapshotVerb::*;
        let change = |name: &str, change: SnapshotChange| -> Result<Shown> {
            Ok(client.call(api::change_snapshot(name, &change))?.into())
        };
        Ok(match self {
            Create { mut volumes, group, suffix, name, labels, retain_until } => {
                ensure!(name.is_none() || volumes.len() == 1, "a name is for the snapshot of one volume");
                let source = |volume| SnapshotSource { volume, name: None, labels: HashMap::new() };
                let (volume, sources) = match volumes.len() {
                    0 | 1 => (volumes.pop(), None),
                    _ => (None, Some(volumes.into_iter().map(source).collect())),
                };
                let labels = labels.read();
                let new = NewSnapshots { volume, group, sources, name, suffix, labels, retain_until };
                created(client.call(api::create_snapshots(&new))?)
            }
            List { volume, labels } => {
                let (filter, label) = (volume.map(|volume| equal("source", &volume)), labels.read());
                let query = api::ListSnapshots { filter, label, ..Default::default() };
                client.call(api::list_snapshots(&query))?.into()
            }
            Show { name } => client.call(api::show_snapshot(&name))?.into(),
            Rename { name, new_name } => {
                change(&name, SnapshotChange { name: Some(Some(new_name)), ..Default::default() })?
            }
            Set { name, writable, labels } => set(client, &name, writable, labels)?,
            Lock { name, until } => {
                change(&name, SnapshotChange { retain_until: Some(Some(until)), ..Default::default() })?
            }
            Delete { names, eradicate, yes } => {
                if eradicate {
                    confirm(
                        yes,
                        &format!("the data of {} is eradicated and cannot be recovered", names.join(", ")),
                    )?;
                }
                let query = api::DeleteSnapshot { eradicate: eradicate.then_some(true) };
                each(names, |name| {
                    client.call(api::delete_snapshot(&name, &query))?;
                    Ok(show::deleted_to(name, !eradicate))
                })?
            }
            Restore { name, volume, how } => {
                let source = || -> Result<String> {
                    client.call(api::show_snapshot(&name))?.read()?.source.with_context(|| {
                        format!("the volume of {name} is deleted: name one with --volume, or clone {name}")
                    })
                };
                let volume = volume.map_or_else(source, Ok)?;
                restore(client, &volume, &name, &how)?
            }
            Clone { name, new_name } => {
                let source = Some(name);
                let labels = HashMap::new();
                let new =
                    NewVolume { name: new_name, source, labels, group: None, block_size: None, size: None };
                created(client.call(api::create_volume(&new))?)
            }
            Diff { name, base } => diff(client, &name, base)?,
        })
    }
}

/// Changes access and labels, each by a request of its own.
fn set(client: &Client, name: &str, writable: Option<Switch>, labels: LabelChanges) -> Result<Shown> {
    let writable =
        writable.map(|it| SnapshotChange { writable: Some(Some(it.on())), ..SnapshotChange::default() });
    let labels = (!labels.is_empty())
        .then(|| SnapshotChange { labels: Some(Some(labels.read())), ..SnapshotChange::default() });
    let mut shown = None;
    for change in writable.into_iter().chain(labels) {
        shown = Some(client.call(api::change_snapshot(name, &change))?.into());
    }
    shown.context("give --writable, --label or --remove-label")
}

/// All pages of a comparison.
fn diff(client: &Client, name: &str, base: Option<String>) -> Result<Shown> {
    let mut query = api::CompareSnapshots { base, ..Default::default() };
    let mut all = Vec::new();
    loop {
        let page = client.call(api::compare_snapshots(name, &query))?;
        let (schema, next) = (page.schema, page.value["next"].as_u64());
        all.extend(Shown::from(page).value.as_array_mut().map(std::mem::take).unwrap_or_default());
        if next.is_none() {
            return Ok(Shown::of(Value::Array(all), schema));
        }
        query.offset = next;
    }
}
