//! Snapshot schedules.

use super::policy::{Switch, put};
use super::{Shown, items, seconds};
use crate::client::Client;
use crate::show;
use anyhow::Result;
use clap::{ArgGroup, Subcommand};
use serde_json::{Map, Value, json};

#[derive(Clone, Subcommand)]
pub enum ScheduleVerb {
    /// Make a schedule: when snapshots are taken, and how many are kept
    #[command(group(ArgGroup::new("subject").required(true).args(["volume", "group"])))]
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// The volume to take snapshots of
        #[arg(long)]
        volume: Option<String>,
        /// The volume group to take snapshots of, all volumes at one moment
        #[arg(long)]
        group: Option<String>,
        /// Such as hourly=24, daily=7, or "0 */4 * * *=12" (cron, UTC); may be given several times
        #[arg(long = "rule", required = true, value_name = "WHEN=KEEP", value_parser = rule)]
        rules: Vec<Rule>,
        /// Nobody can delete a snapshot before it is so old, such as 12h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        immutable: Option<u64>,
    },
    /// All schedules
    List,
    /// One schedule
    Show {
        /// The schedule
        name: String,
    },
    /// Change a schedule; what is not given stays
    Set {
        /// The schedule
        name: String,
        /// Another name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// All rules, such as hourly=24; may be given several times
        #[arg(long = "rule", value_name = "WHEN=KEEP", value_parser = rule)]
        rules: Vec<Rule>,
        /// Nobody can delete a new snapshot before it is so old, such as 12h or 7d; 0s: everybody can
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        immutable: Option<u64>,
        /// Whether it takes snapshots
        #[arg(long, value_enum)]
        enabled: Option<Switch>,
    },
    /// Forget a schedule; its snapshots stay
    Delete {
        /// The schedule
        name: String,
    },
    /// Take its snapshots now
    Run {
        /// The schedule
        name: String,
    },
}

/// When, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule(String, u32);

fn rule(text: &str) -> Result<Rule, String> {
    let parts =
        text.rsplit_once('=').and_then(|(when, keep)| Some(Rule(when.trim().into(), keep.parse().ok()?)));
    parts.ok_or_else(|| "write when and how many are kept, such as hourly=24".into())
}

fn body(rules: Vec<Rule>) -> Value {
    rules.into_iter().map(|Rule(when, keep)| json!({ "when": when, "keep": keep })).collect()
}

impl ScheduleVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use ScheduleVerb::*;
        Ok(match self {
            Create { name, volume, group, rules, immutable } => {
                let body = json!({
                    "name": name, "volume": volume, "group": group, "rules": body(rules),
                    "immutable_seconds": immutable.unwrap_or(0),
                });
                (client.ask("POST", &["schedules"], Some(body))?, show::schedule)
            }
            List => (items(client.ask("GET", &["schedules"], None)?), show::schedules),
            Show { name } => (client.ask("GET", &["schedules", &name], None)?, show::schedule),
            Set { name, new_name, rules, immutable, enabled } => {
                let mut change = Map::new();
                put(&mut change, "name", new_name.map(Value::String));
                put(&mut change, "rules", (!rules.is_empty()).then(|| body(rules)));
                put(&mut change, "immutable_seconds", immutable.map(Value::from));
                put(&mut change, "enabled", enabled.map(|it| Value::Bool(it.on())));
                (client.ask("PATCH", &["schedules", &name], Some(change.into()))?, show::schedule)
            }
            Delete { name } => {
                client.ask("DELETE", &["schedules", &name], None)?;
                (json!({ "deleted": name }), show::deleted)
            }
            Run { name } => (items(client.ask("POST", &["schedules", &name, "run"], None)?), show::snapshots),
        })
    }
}
