//! Membership: the controllers that share the store of the array, and how the home became it.
//!
//! It is not the array's: the process knows it, and gives it by the trait [`Controllers`].

use crate::Result;
use crate::shape::work::RecentPerformance;
use crate::shape::{exposed, shapes, some_time, time};
use history::Sample;
use records::Secret;
use serde::Serialize;
use shelf::pool::BoxFuture;
use utoipa::ToSchema;

/// The controllers of the array, as the process knows them.
pub trait Controllers: Send + Sync {
    /// By number. An array that is not shared has one, the home.
    fn controllers(&self) -> Vec<Controller>;

    /// How this controller became the home; `None` if it has not taken over from another one.
    fn takeover(&self) -> Option<Takeover>;

    /// Makes a token by which a new controller can join, once.
    ///
    /// # Errors
    /// If none can join.
    fn add(&self) -> Result<JoinToken>;

    /// Makes a change; returns once all controllers will find it, or refuses it.
    fn change(&self, number: u16, change: ControllerChange) -> BoxFuture<'static, Result<()>>;
}

/// A join token. It can be used once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct JoinToken {
    /// The token, for `ashlard --join` on the machine of the new controller.
    #[serde(serialize_with = "exposed")]
    #[schema(value_type = String, format = Password)]
    pub token: Secret,
    /// Number that the new controller gets.
    pub controller: u16,
    /// Time until which it can be used.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: u64,
}

/// A change of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerChange {
    /// It is forgotten. Only one that does not take part.
    Remove,
    /// It is the home only if no other one can be. A home hands the array over.
    Drain,
    /// That ends.
    Resume,
}

/// A controller: a process that serves the array, or takes over when the one that does fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Controller {
    /// Number, from 1.
    pub number: u16,
    /// Name of its machine.
    pub name: String,
    /// Software version.
    pub version: String,
    /// The newest format of the engine that it reads; `None` if it does not report that.
    #[serde(skip)]
    pub reads: Option<u32>,
    /// State.
    pub state: ControllerState,
    /// Whether it is drained: it becomes the home only if no other controller can.
    pub drained: bool,
    /// Time since which it has that state; `null` if it is not known.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<u64>,
    /// URL of its API; `null` if it is not known.
    #[schema(example = "https://192.0.2.11:8443")]
    pub api: Option<String>,
    /// iSCSI portals: addresses with ports. A controller that is not the home listens on them if it has a link to the home.
    pub portals: Vec<String>,
    /// NVMe/TCP portals: addresses with ports. Only the home listens on them.
    pub nvme_portals: Vec<String>,
    /// iSCSI sessions that hosts have at its portals now.
    pub sessions: usize,
    /// What hosts did by its portals in the last five seconds.
    #[serde(rename = "performance", serialize_with = "RecentPerformance::serialize_of")]
    #[schema(value_type = RecentPerformance)]
    pub recent: Sample,
    /// The takeover by which it became the home; `null` if it is not the home, or has not taken over from another
    /// controller.
    #[schema(value_type = Option<TakeoverPhases>)]
    pub takeover: Option<Takeover>,
}

shapes! {
    Controller: "Controllers" "Controllers." "Sorted by number";
    JoinToken;
}

/// State of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ControllerState {
    /// It serves hosts.
    Home,
    /// It takes over when the home fails.
    Standby,
    /// It was stopped.
    Stopped,
    /// The others found it silent.
    Lost,
}

impl ControllerState {
    /// Whether it takes part.
    pub fn takes_part(self) -> bool {
        matches!(self, Self::Home | Self::Standby)
    }
}

/// A takeover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "TakeoverPhases")]
pub struct Takeover {
    /// When hosts were served again, in seconds since 1970.
    pub time: u64,
    /// The home before.
    pub from: u16,
    /// Why.
    pub cause: TakeoverCause,
    /// How long each phase took.
    pub phases: Phases,
}

/// A takeover and the durations of its phases.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Takeover)]
struct TakeoverPhases {
    /// Time at which hosts were served again.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    time: u64,
    /// Number of the controller that was the home before.
    from: u16,
    /// Cause.
    cause: TakeoverCause,
    /// Sum of the phases in milliseconds.
    total_ms: u64,
    /// Silence of the home before, until it counted as lost, in milliseconds.
    silence_ms: u64,
    /// Agreement of the controllers on the new home, in milliseconds.
    agreement_ms: u64,
    /// Opening of the store, which refuses the home before from then on, in milliseconds.
    store_ms: u64,
    /// Recovery: replay of the journal, in milliseconds.
    recovery_ms: u64,
    /// Start of portals and API, in milliseconds.
    start_ms: u64,
}

impl From<Takeover> for TakeoverPhases {
    fn from(Takeover { time, from, cause, phases }: Takeover) -> Self {
        let total_ms = phases.total();
        let Phases {
            silence: silence_ms,
            agreement: agreement_ms,
            store: store_ms,
            recovery: recovery_ms,
            start: start_ms,
        } = phases;
        Self { time, from, cause, total_ms, silence_ms, agreement_ms, store_ms, recovery_ms, start_ms }
    }
}

/// Cause of a takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TakeoverCause {
    /// The home before was stopped.
    Stopped,
    /// The home before was lost.
    Lost,
    /// The home before gave the array to this controller.
    Moved,
}

/// Milliseconds of the phases of a takeover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// From the last beat of the home before until it counted as silent.
    pub silence: u64,
    /// Until the controllers had agreed on the new home.
    pub agreement: u64,
    /// Until the store was opened, and refused the home before.
    pub store: u64,
    /// Until the journal was replayed.
    pub recovery: u64,
    /// Until the configuration was in force, and portals and API listened.
    pub start: u64,
}

impl Phases {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self { silence, agreement, store, recovery, start } = self;
        silence + agreement + store + recovery + start
    }
}
