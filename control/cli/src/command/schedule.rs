//! Snapshot schedules.

use super::outcome::each;
use super::policy::Switch;
use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::Result;
use clap::{ArgGroup, Subcommand};
use client::api;
use client::schemas::{NewSchedule, Rule, ScheduleChange};
use units::seconds;

#[derive(Clone, Subcommand)]
pub enum ScheduleVerb {
    /// Create a snapshot schedule
    #[command(group(ArgGroup::new("subject").required(true).args(["volume", "group"])))]
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Volume to snapshot
        #[arg(long)]
        volume: Option<String>,
        /// Volume group to snapshot, consistent across its volumes
        #[arg(long)]
        group: Option<String>,
        /// When to take a snapshot and how many to retain, such as hourly=24, daily=7, or "0 */4 * * *=12" (cron), in the
        /// time zone of the array (`ashlar array settings`); repeatable
        #[arg(long = "rule", required = true, value_name = "WHEN=KEEP", value_parser = rule)]
        rules: Vec<Rule>,
        /// Retention lock: how long a snapshot cannot be deleted, such as 12h or 7d
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        immutable: Option<u64>,
    },
    /// List snapshot schedules
    List,
    /// Show a snapshot schedule
    Show {
        /// Schedule
        name: String,
    },
    /// Change a snapshot schedule; omitted settings keep their values
    Set {
        /// Schedule
        name: String,
        /// New name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// Complete list of rules, such as hourly=24; repeatable
        #[arg(long = "rule", value_name = "WHEN=KEEP", value_parser = rule)]
        rules: Vec<Rule>,
        /// Retention lock of future snapshots, such as 12h or 7d; 0s: none
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        immutable: Option<u64>,
        /// Whether the schedule is active
        #[arg(long, value_enum)]
        enabled: Option<Switch>,
    },
    /// Delete a snapshot schedule; its snapshots are kept
    Delete {
        /// Schedule; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Run a snapshot schedule now
    Run {
        /// Schedule
        name: String,
    },
}

/// When, and how many to retain, such as `hourly=24`.
pub fn rule(text: &str) -> Result<Rule, String> {
    let parts = text
        .rsplit_once('=')
        .and_then(|(when, keep)| Some(Rule { when: when.trim().into(), keep: keep.parse().ok()? }));
    parts.ok_or_else(|| "write when to take a snapshot and how many to retain, such as hourly=24".into())
}

impl ScheduleVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use ScheduleVerb::*;
        Ok(match self {
            Create { name, volume, group, rules, immutable } => {
                let new =
                    NewSchedule { name, volume, group, rules, immutable_seconds: immutable, enabled: None };
                client.call(api::create_schedule(&new))?.into()
            }
            List => client.call(api::list_schedules(&api::ListSchedules::default()))?.into(),
            Show { name } => client.call(api::show_schedule(&name))?.into(),
            Set { name, new_name, rules, immutable, enabled } => {
                let change = ScheduleChange {
                    name: new_name.map(Some),
                    rules: (!rules.is_empty()).then_some(Some(rules)),
                    immutable_seconds: immutable.map(Some),
                    enabled: enabled.map(|it| Some(it.on())),
                };
                client.call(api::change_schedule(&name, &change))?.into()
            }
            Delete { names } => each(names, |name| {
                client.call(api::delete_schedule(&name))?;
                Ok(show::deleted(name))
            })?,
            Run { name } => client.call(api::run_schedule(&name))?.into(),
        })
    }
}
