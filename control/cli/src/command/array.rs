//! The array as a whole, and what happened to it.

use super::performance::Performance;
use super::policy::put;
use super::{Shown, items, query, seconds};
use crate::client::Client;
use crate::show;
use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

#[derive(Clone, Subcommand)]
pub enum ArrayVerb {
    /// Identity, state, portals, space
    #[command(visible_alias = "show")]
    Status,
    /// How fast it is, and was; with --watch as it goes
    Performance(Performance),
    /// Rates, latencies and the busiest as they are now, on the whole terminal, until q is pressed
    Top,
    /// What is set
    Settings,
    /// Set it; what is not given stays
    Set {
        /// What people call the array
        #[arg(long)]
        name: Option<String>,
        /// How long deleted volumes and snapshots are kept, such as 12h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        recycle_bin: Option<u64>,
        /// How much UNMAP is slowed down: 0 not at all, 9 most
        #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
        unmap_throttle: Option<u8>,
        /// How long after a scrub has ended the next one begins by itself, such as 7d; 0s: never
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        scrub_every: Option<u64>,
    },
    /// Confirm that the clock of the array is right after it jumped: until then nothing expires
    ConfirmTime,
}

impl ArrayVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            ArrayVerb::Status => (client.ask("GET", &["array"], None)?, show::array),
            ArrayVerb::Performance(which) => which.run(client)?,
            ArrayVerb::Top => unreachable!("it has the terminal to itself"),
            ArrayVerb::Settings => (client.ask("GET", &["settings"], None)?, show::settings),
            ArrayVerb::Set { name, recycle_bin, unmap_throttle, scrub_every } => {
                let mut body = Map::new();
                put(&mut body, "name", name.map(Value::String));
                put(&mut body, "recycle_bin_seconds", recycle_bin.map(Value::from));
                put(&mut body, "unmap_throttle", unmap_throttle.map(Value::from));
                put(&mut body, "scrub_every_seconds", scrub_every.map(Value::from));
                (client.ask("PATCH", &["settings"], Some(body.into()))?, show::settings)
            }
            ArrayVerb::ConfirmTime => {
                client.ask("POST", &["array", "confirm-time"], None)?;
                (json!({ "confirmed": true }), |_| {
                    "The clock is confirmed: what is kept until a time goes by it.\n".into()
                })
            }
        })
    }
}

#[derive(Clone, Subcommand)]
pub enum EventVerb {
    /// What happened, newest first
    List {
        /// At most so many
        #[arg(long, default_value = "50", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// At least as severe
        #[arg(long, value_enum, default_value = "info")]
        severity: Severity,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Severity {
    /// Good to know
    Info,
    /// Somebody should look soon
    Warning,
    /// Somebody must act now
    Critical,
}

impl EventVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let EventVerb::List { limit, severity } = self;
        let severity = match severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        };
        let query = query(&[("limit", Some(&limit.to_string())), ("severity", Some(severity))]);
        Ok((items(client.send("GET", &["events"], &query, None)?), show::events))
    }
}

#[derive(Clone, Subcommand)]
pub enum AuditVerb {
    /// What operators did, newest first
    List {
        /// At most so many
        #[arg(long, default_value = "50", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
}

impl AuditVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let AuditVerb::List { limit } = self;
        let query = query(&[("limit", Some(&limit.to_string()))]);
        Ok((items(client.send("GET", &["audit"], &query, None)?), show::audit))
    }
}
