//! Volume groups and host groups.

use super::label::{LabelChanges, LabelFilter, NewLabels};
use super::outcome::{created, each};
use super::policy::{Limit, Policies, limit};
use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::Result;
use clap::{Args, Subcommand};
use client::api;
use client::schemas::{GroupChange, HostGroupChange, NewGroup, NewHostGroup};

#[derive(Clone, Subcommand)]
pub enum GroupVerb {
    /// Create a volume group
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        #[command(flatten)]
        labels: NewLabels,
        #[command(flatten)]
        settings: GroupSettings,
    },
    /// List volume groups
    List {
        #[command(flatten)]
        labels: LabelFilter,
    },
    /// Show a volume group
    Show {
        /// Volume group
        name: String,
    },
    /// Show the space usage of its volumes and their snapshots
    Space {
        /// Volume group
        name: String,
    },
    /// Change a volume group; omitted settings keep their values
    Set {
        /// Volume group
        name: String,
        /// New name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        #[command(flatten)]
        labels: LabelChanges,
        #[command(flatten)]
        settings: GroupSettings,
    },
    /// Delete a volume group; its volumes are kept
    Delete {
        /// Volume group; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Settings of a group.
#[derive(Clone, Args)]
pub struct GroupSettings {
    /// Mapped space above which operators and hosts are warned, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    soft_quota: Option<Limit>,
    /// Mapped space above which writes that need new space fail, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    hard_quota: Option<Limit>,
    #[command(flatten)]
    policies: Policies,
}

impl GroupVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use GroupVerb::*;
        let quota = |it: Option<Limit>| it.map(|Limit(it)| it);
        Ok(match self {
            Create { name, labels, settings } => {
                let (soft_quota, hard_quota) = (quota(settings.soft_quota), quota(settings.hard_quota));
                let (policy, limits) = settings.policies.changes();
                let (soft_quota, hard_quota) = (soft_quota.flatten(), hard_quota.flatten());
                let new = NewGroup { name, soft_quota, hard_quota, policy, limits, labels: labels.read() };
                created(client.call(api::create_group(&new))?)
            }
            List { labels } => {
                let query = api::ListGroups { label: labels.read(), ..Default::default() };
                client.call(api::list_groups(&query))?.into()
            }
            Show { name } => client.call(api::show_group(&name))?.into(),
            Space { name } => client.call(api::show_group_space(&name))?.into(),
            Set { name, new_name, labels, settings } => {
                let (soft_quota, hard_quota) = (quota(settings.soft_quota), quota(settings.hard_quota));
                let (policy, limits) = settings.policies.changes();
                let (name_change, labels) = (new_name.map(Some), labels.read());
                let change =
                    GroupChange { name: name_change, soft_quota, hard_quota, policy, limits, labels };
                client.call(api::change_group(&name, &change))?.into()
            }
            Delete { names } => each(names, |name| {
                client.call(api::delete_group(&name))?;
                Ok(show::deleted(name))
            })?,
        })
    }
}

#[derive(Clone, Subcommand)]
pub enum HostGroupVerb {
    /// Create a host group
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Host; repeatable
        #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
        hosts: Option<Vec<String>>,
        #[command(flatten)]
        labels: NewLabels,
    },
    /// List host groups
    List {
        #[command(flatten)]
        labels: LabelFilter,
    },
    /// Show a host group
    Show {
        /// Host group
        name: String,
    },
    /// Change a host group; omitted settings keep their values
    Set {
        /// Host group
        name: String,
        /// New name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// Complete list of hosts; repeatable
        #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
        hosts: Option<Vec<String>>,
        #[command(flatten)]
        labels: LabelChanges,
    },
    /// Delete a host group that is not connected to a volume; its hosts are kept
    Delete {
        /// Host group; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

impl HostGroupVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use HostGroupVerb::*;
        Ok(match self {
            Create { name, hosts, labels } => {
                let new = NewHostGroup { name, hosts, labels: labels.read() };
                created(client.call(api::create_host_group(&new))?)
            }
            List { labels } => {
                let query = api::ListHostGroups { label: labels.read(), ..Default::default() };
                client.call(api::list_host_groups(&query))?.into()
            }
            Show { name } => client.call(api::show_host_group(&name))?.into(),
            Set { name, new_name, hosts, labels } => {
                let labels = labels.read();
                let change = HostGroupChange { name: new_name.map(Some), hosts: hosts.map(Some), labels };
                client.call(api::change_host_group(&name, &change))?.into()
            }
            Delete { names } => each(names, |name| {
                client.call(api::delete_host_group(&name))?;
                Ok(show::deleted(name))
            })?,
        })
    }
}
