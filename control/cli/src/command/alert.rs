//! Alerts.

use crate::client::Client;
use crate::show::Shown;
use anyhow::Result;
use clap::Subcommand;
use client::api;
use client::schemas::{AlertChange, AlertState};

#[derive(Clone, Subcommand)]
pub enum AlertVerb {
    /// List active alerts, newest first
    List {
        /// Include closed alerts
        #[arg(long)]
        closed: bool,
    },
    /// Show an alert
    Show {
        /// Number of the alert
        id: i64,
    },
    /// Acknowledge an alert
    Acknowledge {
        /// Number of the alert
        id: i64,
    },
    /// Withdraw the acknowledgement of an alert
    Reopen {
        /// Number of the alert
        id: i64,
    },
    /// Close an alert; it is raised again only if its condition clears and recurs, or escalates
    Close {
        /// Number of the alert
        id: i64,
    },
}

impl AlertVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use AlertVerb::*;
        let change = |id: i64, state| -> Result<Shown> {
            Ok(client.call(api::change_alert(&id.to_string(), &AlertChange { state }))?.into())
        };
        match self {
            List { closed } => {
                let filter = (!closed).then(|| "state!=closed".to_owned());
                Ok(client.call(api::list_alerts(&api::ListAlerts { filter, ..Default::default() }))?.into())
            }
            Show { id } => Ok(client.call(api::show_alert(&id.to_string()))?.into()),
            Acknowledge { id } => change(id, AlertState::Acknowledged),
            Reopen { id } => change(id, AlertState::Open),
            Close { id } => change(id, AlertState::Closed),
        }
    }
}
