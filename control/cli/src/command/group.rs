//! Volume groups, and host groups.

use super::policy::{Limit, Treatment, limit, put};
use super::{Shown, items};
use crate::client::Client;
use crate::show;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

#[derive(Clone, Subcommand)]
pub enum GroupVerb {
    /// Make a volume group
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        #[command(flatten)]
        settings: GroupSettings,
    },
    /// All volume groups
    List,
    /// One volume group
    Show {
        /// The volume group
        name: String,
    },
    /// What its volumes and their snapshots cost on the drives
    Space {
        /// The volume group
        name: String,
    },
    /// Change a volume group; what is not given stays
    Set {
        /// The volume group
        name: String,
        /// Another name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        #[command(flatten)]
        settings: GroupSettings,
    },
    /// Forget a volume group; its volumes stay
    Delete {
        /// The volume group
        name: String,
    },
}

/// What is set of a group.
#[derive(Clone, Args)]
pub struct GroupSettings {
    /// Mapped space beyond which operators and hosts are warned, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    soft_quota: Option<Limit>,
    /// Mapped space beyond which its volumes take no new space, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    hard_quota: Option<Limit>,
    #[command(flatten)]
    treatment: Treatment,
}

impl GroupSettings {
    fn put(self, body: &mut Map<String, Value>) {
        put(body, "soft_quota", self.soft_quota.map(|Limit(it)| json!(it)));
        put(body, "hard_quota", self.hard_quota.map(|Limit(it)| json!(it)));
        self.treatment.put(body);
    }
}

impl GroupVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use GroupVerb::*;
        let mut body = Map::new();
        Ok(match self {
            Create { name, settings } => {
                body.insert("name".into(), name.into());
                settings.put(&mut body);
                (client.ask("POST", &["groups"], Some(body.into()))?, show::group)
            }
            List => (items(client.ask("GET", &["groups"], None)?), show::groups),
            Show { name } => (client.ask("GET", &["groups", &name], None)?, show::group),
            Space { name } => (client.ask("GET", &["groups", &name, "space"], None)?, show::usage),
            Set { name, new_name, settings } => {
                put(&mut body, "name", new_name.map(Value::String));
                settings.put(&mut body);
                (client.ask("PATCH", &["groups", &name], Some(body.into()))?, show::group)
            }
            Delete { name } => {
                client.ask("DELETE", &["groups", &name], None)?;
                (json!({ "deleted": name }), show::deleted)
            }
        })
    }
}

#[derive(Clone, Subcommand)]
pub enum HostGroupVerb {
    /// Make a host group: what it sees, every host in it sees
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// A host in it; may be given several times
        #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
        hosts: Vec<String>,
    },
    /// All host groups
    List,
    /// One host group
    Show {
        /// The host group
        name: String,
    },
    /// Change a host group; what is not given stays
    Set {
        /// The host group
        name: String,
        /// Another name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// All hosts in it; may be given several times
        #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
        hosts: Option<Vec<String>>,
    },
    /// Forget a host group that sees no volume; its hosts stay
    Delete {
        /// The host group
        name: String,
    },
}

impl HostGroupVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use HostGroupVerb::*;
        Ok(match self {
            Create { name, hosts } => {
                let body = json!({ "name": name, "hosts": hosts });
                (client.ask("POST", &["host-groups"], Some(body))?, show::host_group)
            }
            List => (items(client.ask("GET", &["host-groups"], None)?), show::host_groups),
            Show { name } => (client.ask("GET", &["host-groups", &name], None)?, show::host_group),
            Set { name, new_name, hosts } => {
                let body = json!({ "name": new_name, "hosts": hosts });
                (client.ask("PATCH", &["host-groups", &name], Some(body))?, show::host_group)
            }
            Delete { name } => {
                client.ask("DELETE", &["host-groups", &name], None)?;
                (json!({ "deleted": name }), show::deleted)
            }
        })
    }
}
