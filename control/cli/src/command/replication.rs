//! Replications.

use super::policy::Switch;
use super::schedule::rule;
use crate::ask::confirm;
use crate::client::Client;
use crate::show::{self, Shown};
use crate::window::window;
use anyhow::Result;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use client::api;
use client::schemas::{
    NewReplication, NewTestFailover, OnLinkLoss, ReplicationChange, ReplicationDemotion, ReplicationMode,
    ReplicationPromotion, Rule, WeeklyWindow,
};
use units::seconds;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// When the source has it
    Async,
    /// When both arrays have it
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkLossPolicy {
    /// The source acknowledges writes alone
    Continue,
    /// Writes wait, and are refused after a time
    Stop,
}

impl From<Mode> for ReplicationMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Async => Self::Async,
            Mode::Sync => Self::Sync,
        }
    }
}

impl From<LinkLossPolicy> for OnLinkLoss {
    fn from(policy: LinkLossPolicy) -> Self {
        match policy {
            LinkLossPolicy::Continue => Self::Continue,
            LinkLossPolicy::Stop => Self::Stop,
        }
    }
}

#[derive(Clone, Subcommand)]
pub enum ReplicationVerb {
    /// Replicate a volume or a volume group to a remote array
    #[command(group(ArgGroup::new("subject").required(true).args(["volume", "group"])))]
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Volume to replicate
        #[arg(long)]
        volume: Option<String>,
        /// Volume group to replicate, consistent across its volumes
        #[arg(long)]
        group: Option<String>,
        /// Remote array
        #[arg(long, value_name = "NAME")]
        to: String,
        /// Recovery point objective, such as 30s, 15m or 4h
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        rpo: u64,
        /// When a write is acknowledged: when the source has it, or when both arrays have it
        #[arg(long, value_enum, default_value_t = Mode::Async)]
        mode: Mode,
        /// Policy for writes while the other array is out of reach: the source acknowledges them alone, or they wait and are
        /// refused after 20 seconds; with --mode sync [default: continue]
        #[arg(long, value_enum, value_name = "POLICY")]
        on_link_loss: Option<LinkLossPolicy>,
        /// Witness: a third array that decides which of the two continues alone after a loss; with --mode sync
        #[arg(long, value_name = "NAME")]
        witness: Option<String>,
        /// Weekly window in which no point is taken or transferred, such as "mon-fri 08:00-18:00", in the time zone of the
        /// array (`ashlar array settings`); repeatable
        #[arg(long = "blackout", value_name = "WINDOW", value_parser = window)]
        blackouts: Vec<WeeklyWindow>,
    },
    /// List replications
    List,
    /// Show a replication
    Show {
        /// Replication
        name: String,
    },
    /// Change a replication; omitted settings keep their values
    #[command(group(ArgGroup::new("windows").args(["blackouts", "no_blackout"])))]
    #[command(group(ArgGroup::new("rules").args(["keep_rules", "no_keep_rule"])))]
    #[command(group(ArgGroup::new("decider").args(["witness", "no_witness"])))]
    Set(Changes),
    /// List points of a replication on this array
    Points {
        /// Replication
        name: String,
    },
    /// Delete a replication with its points on this array; delete it on the other array as well
    Delete {
        /// Replication
        name: String,
        /// Delete without confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Transfer a point now; on the source
    Sync {
        /// Replication
        name: String,
    },
    /// Pause a replication
    Pause {
        /// Replication
        name: String,
    },
    /// Resume a replication
    Resume {
        /// Replication
        name: String,
    },
    /// Make the volumes read-only; a source transfers a last point, after which the target can be promoted without loss
    Demote {
        /// Replication
        name: String,
        /// Demote although the other array lacks data, which this array loses
        #[arg(long)]
        force: bool,
    },
    /// Create volumes of the last complete point for hosts to use; on the target
    Promote {
        /// Replication
        name: String,
        /// Promote although the source may still take writes, which are lost
        #[arg(long)]
        force: bool,
        /// Number of the point [default: the newest one]
        #[arg(long, value_name = "NUMBER")]
        point: Option<u64>,
    },
    /// Make the promoted array the source, and the demoted one its target; only differences are transferred
    Reverse {
        /// Replication
        name: String,
    },
    /// Test a failover with clones of the last complete point; on the target
    #[command(subcommand)]
    TestFailover(TestFailoverVerb),
}

/// What `set` changes.
#[derive(Clone, Args)]
pub struct Changes {
    /// Replication
    name: String,
    /// New name on this array
    #[arg(long = "name", value_name = "NAME")]
    new_name: Option<String>,
    /// Recovery point objective, such as 30s, 15m or 4h; on the source
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    rpo: Option<u64>,
    /// When a write is acknowledged: when the source has it, or when both arrays have it; on the source
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Policy for writes of a synchronous replication while the other array is out of reach; with `continue` a source
    /// whose writes are stopped continues alone at once; on the source
    #[arg(long, value_enum, value_name = "POLICY")]
    on_link_loss: Option<LinkLossPolicy>,
    /// Witness: a third array that decides which of the two continues alone after a loss; on the source
    #[arg(long, value_name = "NAME")]
    witness: Option<String>,
    /// No witness: an operator decides
    #[arg(long)]
    no_witness: bool,
    /// Complete list of the weekly windows in which no point is taken or transferred, such as "mon-fri 08:00-18:00" or
    /// "daily 22:00-06:00"; repeatable; on the source
    #[arg(long = "blackout", value_name = "WINDOW", value_parser = window)]
    blackouts: Vec<WeeklyWindow>,
    /// No such window
    #[arg(long)]
    no_blackout: bool,
    /// Whether snapshots of all of its volumes that users and schedules take are replicated as well; on the source
    #[arg(long, value_enum)]
    snapshots: Option<Switch>,
    /// Points of such snapshots to retain; on the target
    #[arg(long, value_name = "COUNT")]
    keep_snapshots: Option<u32>,
    /// Complete points to retain; on the target
    #[arg(long, value_name = "COUNT")]
    keep_points: Option<u32>,
    /// Complete list of the rules that keep older points, such as hourly=24 or daily=7: of each period the first point;
    /// repeatable; on the target
    #[arg(long = "keep-rule", value_name = "WHEN=KEEP", value_parser = rule)]
    keep_rules: Vec<Rule>,
    /// No such rule
    #[arg(long)]
    no_keep_rule: bool,
    /// Retention lock of points that arrive from now on, such as 12h or 7d; 0s: none; on the target
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    lock: Option<u64>,
}

#[derive(Clone, Subcommand)]
pub enum TestFailoverVerb {
    /// Create the clones; replication continues
    Start {
        /// Replication
        name: String,
        /// Host to connect the clones to; may be repeated
        #[arg(long = "host", value_name = "NAME")]
        hosts: Vec<String>,
        /// Host group to connect the clones to; may be repeated
        #[arg(long = "host-group", value_name = "NAME")]
        host_groups: Vec<String>,
        /// Number of the point [default: the newest one]
        #[arg(long, value_name = "NUMBER")]
        point: Option<u64>,
    },
    /// Delete the clones with what was written to them
    Stop {
        /// Replication
        name: String,
    },
}

impl ReplicationVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use ReplicationVerb::*;
        Ok(match self {
            Create { name, volume, group, to, rpo, mode, on_link_loss, witness, blackouts } => {
                let new = NewReplication {
                    name,
                    volume,
                    group,
                    remote_array: to,
                    rpo_seconds: rpo,
                    mode: Some(mode.into()),
                    on_link_loss: on_link_loss.map(Into::into),
                    witness,
                    blackouts,
                };
                client.call(api::create_replication(&new))?.into()
            }
            List => client.call(api::list_replications(&api::ListReplications::default()))?.into(),
            Show { name } => client.call(api::show_replication(&name))?.into(),
            Set(changes) => changes.run(client)?,
            Points { name } => {
                let all = api::ListReplicationPoints::default();
                client.call(api::list_replication_points(&name, &all))?.into()
            }
            Delete { name, yes } => {
                confirm(
                    yes,
                    &format!("the points of {name} on this array are eradicated and cannot be recovered"),
                )?;
                client.call(api::delete_replication(&name))?;
                show::deleted(name)
            }
            Sync { name } => client.call(api::sync_replication(&name))?.into(),
            Pause { name } => client.call(api::pause_replication(&name))?.into(),
            Resume { name } => client.call(api::resume_replication(&name))?.into(),
            Promote { name, force, point } => {
                let how = ReplicationPromotion { force: Some(force), point };
                client.call(api::promote_replication(&name, &how))?.into()
            }
            Demote { name, force } => {
                let how = ReplicationDemotion { force: Some(force) };
                client.call(api::demote_replication(&name, &how))?.into()
            }
            Reverse { name } => client.call(api::reverse_replication(&name))?.into(),
            TestFailover(verb) => verb.run(client)?,
        })
    }
}

impl Changes {
    fn run(self, client: &Client) -> Result<Shown> {
        let witness = if self.no_witness { Some(None) } else { self.witness.map(Some) };
        let change = ReplicationChange {
            name: self.new_name.map(Some),
            rpo_seconds: self.rpo.map(Some),
            mode: self.mode.map(|it| Some(it.into())),
            on_link_loss: self.on_link_loss.map(|it| Some(it.into())),
            witness,
            blackouts: (self.no_blackout || !self.blackouts.is_empty()).then_some(Some(self.blackouts)),
            replicate_snapshots: self.snapshots.map(|it| Some(it.on())),
            keep_snapshots: self.keep_snapshots.map(Some),
            keep_points: self.keep_points.map(Some),
            keep_rules: (self.no_keep_rule || !self.keep_rules.is_empty()).then_some(Some(self.keep_rules)),
            lock_seconds: self.lock.map(Some),
        };
        Ok(client.call(api::change_replication(&self.name, &change))?.into())
    }
}

impl TestFailoverVerb {
    fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            Self::Start { name, hosts, host_groups, point } => {
                let test = NewTestFailover { hosts, host_groups, point };
                client.call(api::start_test_failover(&name, &test))?.into()
            }
            Self::Stop { name } => client.call(api::stop_test_failover(&name))?.into(),
        })
    }
}
