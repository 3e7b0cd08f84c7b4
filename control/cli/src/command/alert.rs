//! Alerts.

use super::{Shown, items};
use crate::client::Client;
use crate::show::{facts, rows, text};
use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Clone, Subcommand)]
pub enum AlertVerb {
    /// What needs attention, newest first
    List {
        /// What is over as well
        #[arg(long)]
        closed: bool,
    },
    /// One alert
    Show {
        /// Its number
        id: i64,
    },
    /// Say that you look after an alert
    Acknowledge {
        /// Its number
        id: i64,
    },
    /// Say that nobody looks after an alert any more
    Reopen {
        /// Its number
        id: i64,
    },
    /// Say that an alert is over; it comes back when it is over and begins again, or matters more
    Close {
        /// Its number
        id: i64,
    },
}

impl AlertVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let change = |id: i64, state: &str| {
            let changed = client.ask("PATCH", &["alerts", &id.to_string()], Some(json!({ "state": state })));
            Ok((changed?, alert as fn(&Value) -> String))
        };
        match self {
            AlertVerb::List { closed } => {
                let query = if closed { "" } else { "?filter=state!=closed" };
                Ok((items(client.send("GET", &["alerts"], query, None)?), alerts))
            }
            AlertVerb::Show { id } => Ok((client.ask("GET", &["alerts", &id.to_string()], None)?, alert)),
            AlertVerb::Acknowledge { id } => change(id, "acknowledged"),
            AlertVerb::Reopen { id } => change(id, "open"),
            AlertVerb::Close { id } => change(id, "closed"),
        }
    }
}

fn alert(it: &Value) -> String {
    facts(&[
        ("Alert", text(&it["id"])),
        ("Kind", text(&it["kind"])),
        ("State", text(&it["state"])),
        ("Severity", text(&it["severity"])),
        ("Message", text(&it["message"])),
        ("About", about(it)),
        ("Opened", text(&it["opened"])),
        ("Changed", text(&it["changed"])),
        ("Acknowledged by", text(&it["acknowledged_by"])),
        ("Closed", text(&it["closed"])),
    ])
}

fn about(it: &Value) -> String {
    match it["noun"].as_str() {
        Some(noun) => format!("{noun} {}", text(&it["name"])),
        None => "array".into(),
    }
}

fn alerts(answer: &Value) -> String {
    rows(&["ID", "STATE", "SEVERITY", "OPENED", "ABOUT", "MESSAGE"], answer, |it| {
        let field = |name: &str| text(&it[name]);
        vec![field("id"), field("state"), field("severity"), field("opened"), about(it), field("message")]
    })
}
