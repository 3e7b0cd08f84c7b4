//! Membership: the controllers that share the store of the array, and how the home became it.
//!
//! It is not the array's: the process knows it, and gives it by the trait [`Controllers`].

use crate::Result;
use history::Sample;
use records::Secret;
use shelf::pool::BoxFuture;

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

/// A token by which a new controller can join, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    /// The token.
    pub token: Secret,
    /// The number that the new controller gets.
    pub controller: u16,
    /// Until when it can be used, in seconds since 1970.
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

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its number, from 1.
    pub number: u16,
    /// The name of its machine.
    pub name: String,
    /// The version of its software.
    pub version: String,
    /// The newest format of the engine that it reads; `None` if it does not report that.
    pub reads: Option<u32>,
    /// Its state.
    pub state: ControllerState,
    /// Whether it is drained: it becomes the home only if no other one can.
    pub drained: bool,
    /// Since when it has its state, in seconds since 1970.
    pub since: Option<u64>,
    /// URL of its API.
    pub api: Option<String>,
    /// iSCSI portals.
    pub portals: Vec<String>,
    /// NVMe/TCP portals.
    pub nvme_portals: Vec<String>,
    /// iSCSI sessions at its portals now, of which the array knows; zero by the trait.
    pub sessions: usize,
    /// What hosts did by its portals in the last seconds, of which the array knows; nothing by the trait.
    pub recent: Sample,
    /// How it became the home, if it is and has taken over.
    pub takeover: Option<Takeover>,
}

/// The state of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Why another controller became the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeoverCause {
    /// The home before was stopped.
    Stopped,
    /// It was lost.
    Lost,
    /// It gave the array to another one.
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
