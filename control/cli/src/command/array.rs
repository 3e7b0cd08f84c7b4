//! The array as a whole, its events and its audit log.

use super::outcome::choice;
use crate::ask;
use crate::client::Client;
use crate::show::Shown;
use anyhow::Result;
use clap::Subcommand;
use client::api;
use client::schemas::{ApiAddressChange, SettingsChange, Severity};
use serde_json::json;
use units::seconds;

/// What a commit means.
const IRREVERSIBLE: &str =
    "The array gets the newest format, and releases that do not know it can't open it any more";

#[derive(Clone, Subcommand)]
pub enum ArrayVerb {
    /// Show identity, state, portals and capacity
    #[command(visible_alias = "show")]
    Status,
    /// Show state, health and capacity in brief, for scripts that poll
    Health,
    /// Show the array settings
    Settings,
    /// Change the array settings; omitted settings keep their values
    Set {
        /// Display name
        #[arg(long)]
        name: Option<String>,
        /// Recycle bin retention, such as 12h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        recycle_bin: Option<u64>,
        /// UNMAP throttle level: 0 (off) to 9
        #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
        unmap_throttle: Option<u8>,
        /// Interval between scrubs, such as 7d; 0s: no scheduled scrubs
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        scrub_every: Option<u64>,
        /// Longest retention lock, such as 30d; no less than what schedules and replications have
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        max_lock: Option<u64>,
        /// Time zone of snapshot schedules, such as Europe/Berlin or UTC
        #[arg(long, value_name = "ZONE")]
        time_zone: Option<String>,
        /// Threads for connections of hosts, from the next start on; 0: one for each processor
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=256))]
        threads: Option<u16>,
    },
    /// Show the formats of the array, and with --commit raise it to the newest one
    Upgrade {
        /// Raise the array to the newest format; releases that do not know it can't open the array afterwards
        #[arg(long)]
        commit: bool,
        /// Commit without confirmation
        #[arg(long, requires = "commit")]
        yes: bool,
    },
    /// Confirm the time of day after a clock jump; until then nothing expires
    ConfirmTime,
    /// Show the addresses of the API, or change the one that the array keeps
    ///
    /// A new address serves beside the others. The first authenticated request by it confirms it; without one it is
    /// given up after ten minutes.
    ApiAddress {
        /// Another address, such as 10.0.0.1 or 10.0.0.1:8443
        #[arg(long, value_name = "ADDR[:PORT]", group = "api_address_change")]
        set: Option<String>,
        /// Keep the address that is on trial
        #[arg(long, group = "api_address_change")]
        confirm: bool,
        /// Remove the address that the array keeps; the one of the start options remains
        #[arg(long, group = "api_address_change")]
        remove: bool,
        /// Set or remove the address that moves with the home, not that of this controller
        #[arg(long, requires = "api_address_change", conflicts_with = "confirm")]
        moves: bool,
    },
}

impl ArrayVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            ArrayVerb::Status => client.call(api::show_array())?.into(),
            ArrayVerb::Health => client.call(api::show_status())?.into(),
            ArrayVerb::Settings => client.call(api::show_settings())?.into(),
            ArrayVerb::Set {
                name,
                recycle_bin,
                unmap_throttle,
                scrub_every,
                max_lock,
                time_zone,
                threads,
            } => {
                let change = SettingsChange {
                    name: name.map(Some),
                    recycle_bin_seconds: recycle_bin.map(Some),
                    unmap_throttle: unmap_throttle.map(|level| Some(level.into())),
                    scrub_every_seconds: scrub_every.map(Some),
                    max_retention_lock_seconds: max_lock.map(Some),
                    time_zone: time_zone.map(Some),
                    threads: threads.map(|threads| (threads > 0).then_some(threads.into())),
                };
                client.call(api::change_settings(&change))?.into()
            }
            ArrayVerb::Upgrade { commit: false, .. } => client.call(api::show_upgrade())?.into(),
            ArrayVerb::Upgrade { yes, .. } => {
                let now = client.call(api::show_upgrade())?;
                if !now.read()?.committed {
                    ask::confirm(yes, IRREVERSIBLE)?;
                }
                client.call(api::commit_upgrade())?.into()
            }
            ArrayVerb::ApiAddress { confirm: true, .. } => client.call(api::confirm_api_address())?.into(),
            ArrayVerb::ApiAddress { set: None, remove: false, .. } => {
                client.call(api::show_api_address())?.into()
            }
            ArrayVerb::ApiAddress { set, moves, .. } => {
                let change = ApiAddressChange { address: Some(set), moves: Some(moves) };
                client.call(api::change_api_address(&change))?.into()
            }
            ArrayVerb::ConfirmTime => {
                client.call(api::confirm_time())?;
                Shown::text(json!({ "confirmed": true }), |_| {
                    "The time is confirmed: retention follows the clock again.\n".into()
                })
            }
        })
    }
}

#[derive(Clone, Subcommand)]
pub enum EventVerb {
    /// List events, newest first
    List {
        /// Maximum number of events
        #[arg(long, default_value = "50", value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// Minimum severity
        #[arg(long, value_parser = choice::<Severity>(), default_value = "info")]
        severity: Severity,
    },
}

impl EventVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let EventVerb::List { limit, severity } = self;
        let query = api::ListEvents {
            limit: Some(limit),
            severity: Some(severity.to_string()),
            ..api::ListEvents::default()
        };
        Ok(client.call(api::list_events(&query))?.into())
    }
}

#[derive(Clone, Subcommand)]
pub enum AuditVerb {
    /// List audit log entries, newest first
    List {
        /// Maximum number of entries
        #[arg(long, default_value = "50", value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
}

impl AuditVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let AuditVerb::List { limit } = self;
        let query = api::ListAudit { limit: Some(limit), ..api::ListAudit::default() };
        Ok(client.call(api::list_audit(&query))?.into())
    }
}
