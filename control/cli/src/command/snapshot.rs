//! Snapshots.

use super::policy::Switch;
use super::volume::{Overwrite, before_overwrite};
use super::{Shown, items, query};
use crate::ask::confirm;
use crate::client::Client;
use crate::show;
use anyhow::{Context, Result};
use clap::{ArgGroup, Subcommand};
use serde_json::{Value, json};

#[derive(Clone, Subcommand)]
pub enum SnapshotVerb {
    /// Take a snapshot of a volume, or of every volume of a group at one moment
    #[command(group(ArgGroup::new("subject").required(true).args(["volume", "group"])))]
    Create {
        /// The volume
        volume: Option<String>,
        /// The volume group
        #[arg(long)]
        group: Option<String>,
        /// What stands behind the volume's name and a dot; the time when not given
        #[arg(long)]
        suffix: Option<String>,
        /// Retention lock: it cannot be deleted or changed before this time, such as 2030-12-31T23:59:59Z
        #[arg(long, value_name = "TIME")]
        retain_until: Option<String>,
    },
    /// All snapshots, or those of one volume
    List {
        /// Only those of this volume
        #[arg(long)]
        volume: Option<String>,
    },
    /// One snapshot
    Show {
        /// The snapshot
        name: String,
    },
    /// Give it another name
    Rename {
        /// The snapshot
        name: String,
        /// The other name
        new_name: String,
    },
    /// Say whether hosts may write to it
    Set {
        /// The snapshot
        name: String,
        /// Whether hosts may write to it
        #[arg(long, value_enum)]
        writable: Switch,
    },
    /// Set or extend the retention lock of a snapshot
    Lock {
        /// The snapshot
        name: String,
        /// The time, such as 2030-12-31T23:59:59Z
        #[arg(long, value_name = "TIME")]
        until: String,
    },
    /// Move a snapshot that no host sees to the recycle bin, or delete it with its data
    Delete {
        /// The snapshot
        name: String,
        /// Delete its data at once, so that the space is free
        #[arg(long)]
        eradicate: bool,
        /// Delete its data without asking
        #[arg(long, requires = "eradicate")]
        yes: bool,
    },
    /// Give the volume back what it held: what it holds now is kept in a snapshot, and lost to hosts
    Restore {
        /// The snapshot
        name: String,
        /// Another volume than the one that it was taken of
        #[arg(long)]
        volume: Option<String>,
        #[command(flatten)]
        how: Overwrite,
    },
    /// Make a volume with its contents, sharing its space
    Clone {
        /// The snapshot
        name: String,
        /// Name of the new volume
        new_name: String,
    },
    /// What differs from an older snapshot; everything that is mapped when none is given
    Diff {
        /// The snapshot, or a volume
        name: String,
        /// The older snapshot
        #[arg(long)]
        base: Option<String>,
    },
}

impl SnapshotVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use SnapshotVerb::*;
        let change = |name: &str, body| client.ask("PATCH", &["snapshots", name], Some(body));
        Ok(match self {
            Create { volume, group, suffix, retain_until } => {
                let body = json!({
                    "volume": volume, "group": group, "suffix": suffix, "retain_until": retain_until,
                });
                (items(client.ask("POST", &["snapshots"], Some(body))?), show::snapshots)
            }
            List { volume } => {
                let filter = volume.map(|volume| format!("source={volume}"));
                let query = query(&[("filter", filter.as_deref())]);
                (items(client.send("GET", &["snapshots"], &query, None)?), show::snapshots)
            }
            Show { name } => (client.ask("GET", &["snapshots", &name], None)?, show::snapshot),
            Rename { name, new_name } => (change(&name, json!({ "name": new_name }))?, show::snapshot),
            Set { name, writable } => (change(&name, json!({ "writable": writable.on() }))?, show::snapshot),
            Lock { name, until } => (change(&name, json!({ "retain_until": until }))?, show::snapshot),
            Delete { name, eradicate, yes } => {
                if eradicate {
                    confirm(yes, &format!("snapshot {name} is deleted with its data, for good"))?;
                }
                let query = if eradicate { "?eradicate=true" } else { "" };
                client.send("DELETE", &["snapshots", &name], query, None)?;
                (json!({ "deleted": name, "recycle_bin": !eradicate }), show::deleted)
            }
            Restore { name, volume, how } => {
                let source = || -> Result<String> {
                    let snapshot = client.ask("GET", &["snapshots", &name], None)?;
                    let source = snapshot["source"].as_str().map(str::to_owned);
                    source.with_context(|| {
                        format!("the volume of {name} is gone: name one with --volume, or clone {name}")
                    })
                };
                let volume = volume.map_or_else(source, Ok)?;
                before_overwrite(client, &volume, &name, &how)?;
                let body = json!({ "source": name });
                (client.ask("POST", &["volumes", &volume, "restore"], Some(body))?, show::volume)
            }
            Clone { name, new_name } => {
                let body = json!({ "name": new_name, "source": name });
                (client.ask("POST", &["volumes"], Some(body))?, show::volume)
            }
            Diff { name, base } => (diff(client, &name, base.as_deref())?, show::difference),
        })
    }
}

/// All parts of a comparison.
fn diff(client: &Client, name: &str, base: Option<&str>) -> Result<Value> {
    let mut all = Vec::new();
    let mut offset = "0".to_owned();
    loop {
        let query = query(&[("base", base), ("offset", Some(&offset))]);
        let part = client.send("GET", &["snapshots", name, "diff"], &query, None)?;
        let next = part["next"].as_u64();
        all.extend(items(part).as_array_mut().map(std::mem::take).unwrap_or_default());
        match next {
            Some(next) => offset = next.to_string(),
            None => return Ok(Value::Array(all)),
        }
    }
}
