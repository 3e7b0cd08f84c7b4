//! Remote arrays.

use super::policy::{Limit, limit};
use crate::ask;
use crate::client::Client;
use crate::show::{self, Shown};
use crate::window::limited;
use anyhow::Result;
use clap::{ArgGroup, Subcommand};
use client::api;
use client::schemas::{BandwidthWindow, NewRemoteArray, RemoteArrayChange};

#[derive(Clone, Subcommand)]
pub enum RemoteArrayVerb {
    /// Create a pairing key, to be entered on another array within an hour, once
    Key,
    /// Pair with another array, on which a pairing key was created
    Pair {
        /// Host and port at which the other array listens for arrays, such as 10.0.0.2:8444
        address: String,
        /// Name on this array [default: the name of the other array]
        #[arg(long)]
        name: Option<String>,
        /// Pairing key [default: asked for]
        #[arg(long, env = "ASHLAR_PAIRING_KEY", hide_env_values = true)]
        key: Option<String>,
    },
    /// List remote arrays
    List,
    /// Show a remote array
    Show {
        /// Remote array
        name: String,
    },
    /// Change a remote array
    #[command(group(ArgGroup::new("to").args(["address", "no_address"])))]
    #[command(group(ArgGroup::new("windows").args(["bandwidth_windows", "no_bandwidth_window"])))]
    Set {
        /// Remote array
        name: String,
        /// New host and port
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
        /// Only the other array opens connections
        #[arg(long)]
        no_address: bool,
        /// Bandwidth limit of replications to it per second, such as 50MiB, or none
        #[arg(long, value_name = "SIZE", value_parser = limit)]
        bandwidth_limit: Option<Limit>,
        /// Complete list of the weekly windows with another limit, such as "mon-fri 08:00-18:00=10MiB" or
        /// "daily 22:00-06:00=none", in the time zone of the array; repeatable
        #[arg(long = "bandwidth-window", value_name = "WINDOW=SIZE", value_parser = limited)]
        bandwidth_windows: Vec<BandwidthWindow>,
        /// The same limit at all times
        #[arg(long)]
        no_bandwidth_window: bool,
    },
    /// Rename a remote array
    Rename {
        /// Remote array
        name: String,
        /// New name
        new: String,
    },
    /// Delete a remote array; delete this array on the other one as well
    Delete {
        /// Remote array
        name: String,
    },
}

impl RemoteArrayVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use RemoteArrayVerb::*;
        Ok(match self {
            Key => client.call(api::create_pairing_key())?.into(),
            Pair { address, name, key } => {
                let key = key.map_or_else(|| ask::secret("pairing key"), Ok)?;
                client.call(api::pair_remote_array(&NewRemoteArray { name, address, key }))?.into()
            }
            List => client.call(api::list_remote_arrays(&api::ListRemoteArrays::default()))?.into(),
            Show { name } => client.call(api::show_remote_array(&name))?.into(),
            Set { name, address, no_address, bandwidth_limit, bandwidth_windows, no_bandwidth_window } => {
                let address = if no_address { Some(None) } else { address.map(Some) };
                let bandwidth_limit = bandwidth_limit.map(|Limit(limit)| limit);
                let given = no_bandwidth_window || !bandwidth_windows.is_empty();
                let bandwidth_windows = given.then_some(Some(bandwidth_windows));
                let change = RemoteArrayChange {
                    address,
                    bandwidth_limit,
                    bandwidth_windows,
                    ..RemoteArrayChange::default()
                };
                client.call(api::change_remote_array(&name, &change))?.into()
            }
            Rename { name, new } => {
                let change = RemoteArrayChange { name: Some(Some(new)), ..RemoteArrayChange::default() };
                client.call(api::change_remote_array(&name, &change))?.into()
            }
            Delete { name } => {
                client.call(api::delete_remote_array(&name))?;
                show::deleted(name)
            }
        })
    }
}
