//! Controllers, and the store that they share.

use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::Result;
use clap::Subcommand;
use client::api;

#[derive(Clone, Subcommand)]
pub enum ControllerVerb {
    /// List controllers
    List,
    /// Show a controller, and the takeover by which it became the home
    Show {
        /// Number, or name of the machine
        controller: String,
    },
    /// Add a controller: print a token for ashlard --join, which can be used once and within an hour
    Add,
    /// Remove a controller that is lost or was stopped
    Remove {
        /// Number, or name of the machine
        controller: String,
    },
    /// Drain a controller: it becomes the home only if no other one can, and a home hands the array over
    Drain {
        /// Number, or name of the machine
        controller: String,
    },
    /// Resume a controller that is drained; the array stays where it is
    Resume {
        /// Number, or name of the machine
        controller: String,
    },
}

impl ControllerVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            ControllerVerb::List => {
                client.call(api::list_controllers(&api::ListControllers::default()))?.into()
            }
            ControllerVerb::Show { controller } => client.call(api::show_controller(&controller))?.into(),
            ControllerVerb::Add => client.call(api::create_join_token())?.into(),
            ControllerVerb::Remove { controller } => {
                client.call(api::remove_controller(&controller))?;
                show::removed(controller)
            }
            ControllerVerb::Drain { controller } => client.call(api::drain_controller(&controller))?.into(),
            ControllerVerb::Resume { controller } => client.call(api::resume_controller(&controller))?.into(),
        })
    }
}

#[derive(Clone, Subcommand)]
pub enum StoreVerb {
    /// Show the store: kind, owner, segments, and the pools of a store in Ceph
    Show,
}

impl StoreVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let StoreVerb::Show = self;
        Ok(client.call(api::show_store())?.into())
    }
}
