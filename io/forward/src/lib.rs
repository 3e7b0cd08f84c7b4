//! Forwarding of SCSI commands from a front end, which has the host's session, to the home controller, which has the volumes.
//!
//! Whole commands with their data cross the link, so all SCSI state of a unit (task set, reservations, unit attentions) stays
//! in one place, and atomic commands are exact over the paths of all controllers. [`Front`] is the half at the front end,
//! [`Service`] the half at the home, one for each front end. [`FrontEnd`] gives the sessions of hosts their device servers.
//! None of them has a socket, a clock or a thread: a driver moves their bytes, passes the time, and decides which controller is
//! the home. All times are in nanoseconds of a clock that counts while the machine sleeps.
//!
//! # A command takes effect once
//!
//! Each request has a number of its front end. A front end sends a request again after the link broke, with the same
//! number, until it is answered; the home remembers which requests it has begun and their answers, until the front
//! end says that it has them. What it remembers is in memory: it ends with the process, or [`LINGER_NS`] after the
//! link broke. Then the home does not know the nexus any more. The session of the host continues at a new nexus, with
//! a unit attention, and its open commands are sent again, too.
//!
//! The store notes a command together with its effect, so the home looks up what is new to its process
//! ([`block::Ledger`]). What took effect is answered with GOOD and not performed again. What did not is performed, if it is
//! not too old. Where a part of it took effect, or where it was not noted (a home of an older release; state that is in the
//! memory of this very process alone), it ends with ABORTED COMMAND: whether it took effect is not known, nothing of it takes
//! effect later, and the host repeats it, as after a failed path.
//!
//! # Located reads
//!
//! A front end that shares the store reads the data of a READ itself: the home checks and performs the command and answers where
//! the data are ([`block::Recipe`]). What a recipe names is never other bytes later, so neither a new home nor a broken link
//! matters to data that were read. If they can't be read, the home is asked for them. A response that the task management of its
//! host has overtaken is not given.
//!
//! # No late command
//!
//! A host that gave up a path repeats its write by another one. If the first copy took effect after that, it would
//! undo what was written since. So a command carries the home's clock as the front end knew it when the command came
//! from its host, and the home begins nothing that is older than [`MAX_AGE_NS`]. A refused command did not take
//! effect: the host gets BUSY. A command that changes nothing has no age.

mod fetching;
mod front;
mod front_end;
mod pulse;
mod service;
mod wire;

pub use front::{Event, Front};
pub use front_end::{Device, FrontEnd};
pub use service::Service;

/// After a pause of this length of the front end's process, hosts may have given up the paths by it, and what they sent before
/// may still be in its sockets: its nexuses are lost.
pub const MAX_PAUSE_NS: u64 = MAX_AGE_NS;

/// The oldest command that the home begins.
pub const MAX_AGE_NS: u64 = 2_000_000_000;

/// How long the home keeps nexuses, tasks and answers of a front end whose link broke.
pub const LINGER_NS: u64 = 2_000_000_000;

/// How long a front end holds requests while there is no home, if waiting longer says no more about them. ESXi expects answers to
/// its heartbeat within 8 s.
pub const HOLD_NS: u64 = 8_000_000_000;

/// How long a front end holds a command that a home has begun and whose fate the next home can look up in the store.
/// Linux aborts a command after 30 s, and resets the unit if it can't; any end before that is better.
pub const OPEN_HOLD_NS: u64 = 25_000_000_000;

/// How long a front end reads data that the home has located, before it asks the home for them. A store that stalls does that
/// at the home as well; one that only this controller can't reach does not.
pub const MAX_FETCH_NS: u64 = 2_000_000_000;

/// Time between two pulses of one end of a link.
pub const PULSE_NS: u64 = 250_000_000;

/// A link on which nothing has come for this long is broken.
pub const SILENCE_NS: u64 = 1_000_000_000;

/// Maximum bytes of data of the requests that a front end has outstanding at the home, unless it is a single request.
pub const MAX_SENT_BYTES: u64 = 32 << 20;

/// Bytes of running requests and of remembered answers of one front end beyond which the home answers BUSY. A front end that
/// keeps to [`MAX_SENT_BYTES`] never gets there.
pub const MAX_HELD_BYTES: u64 = 3 * MAX_SENT_BYTES;

/// Longest data of one command in either direction.
pub const MAX_DATA_BYTES: usize = 32 << 20;

/// Maximum number of nexuses of a front end.
pub const MAX_NEXUSES: usize = 4096;

/// Time after the break of a link by which the home has aborted the outstanding requests, even if it noticed the break by
/// silence alone.
pub const ABORTED_NS: u64 = SILENCE_NS + LINGER_NS + 1_000_000_000;

const _: () = assert!(ABORTED_NS < HOLD_NS, "a host does not wait longer for it");
const _: () = assert!(HOLD_NS < OPEN_HOLD_NS, "a fate that can be known is waited for");

/// Why a link is to be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Its bytes.
    #[error(transparent)]
    Link(#[from] peer::Error),
    /// No sign of life came.
    #[error("the link has been silent for {} ms", SILENCE_NS / 1_000_000)]
    Silent,
}

/// The result of an operation of a link.
pub type Result<T> = std::result::Result<T, Error>;

fn malformed<T>(what: &'static str) -> Result<T> {
    Err(Error::Link(peer::Error::Malformed(what)))
}
