//! Forwarding of SCSI commands from a front end, which has the host's session, to the home controller, which has the volumes.
//!
//! Whole commands with their data cross the link. So all SCSI state of a unit (task set, reservations, unit attentions)
//! stays in one place, and atomic commands work across the paths of all controllers. [`Front`] is the half at the front
//! end, [`Service`] the half at the home, one for each front end. [`FrontEnd`] provides device servers for the sessions
//! of hosts. None of them has a socket, a clock or a thread: a driver moves their bytes, advances the time, and decides
//! which controller is the home. All times are in nanoseconds of a clock that counts while the machine sleeps.
//!
//! # A command takes effect once
//!
//! Each request has a number of its front end. After a link failure, a front end resends the request with the same
//! number until it is answered. The home remembers the requests that it has begun, and their answers until the front
//! end confirms them. This memory ends with the process, or [`LINGER_NS`] after the link broke. After that, the home
//! does not know the nexus: the session of the host continues at a new nexus, with a unit attention, and its open
//! commands are sent again.
//!
//! The store notes a command together with its effect, so the home can look up commands that are new to its process
//! ([`block::Ledger`]). A command that took effect is answered with GOOD and not performed again. One that did not is
//! performed, unless it is too old. A command ends with ABORTED COMMAND if a part of it took effect, or if it was not
//! noted (a home of an older release, or state in the memory of that process alone): its fate is unknown, it has no
//! later effect, and the host repeats it, as after a path failure.
//!
//! # Located reads
//!
//! A front end that shares the store reads the data of a READ itself: the home checks and performs the command, and
//! returns the location of the data ([`block::Recipe`]). The bytes that a recipe names never change, so neither a
//! new home nor a broken link affects data that were read. If they can't be read, the home is asked for them. A
//! response that task management of its host has overtaken is not sent.
//!
//! # No late command
//!
//! A host that gave up a path repeats its write on another one. If the first copy took effect after that, it would undo
//! later writes. So a command carries the home's clock, as the front end knew it when the command arrived from its
//! host, and the home begins no command older than [`MAX_AGE_NS`]. A refused command did not take effect: the host gets
//! BUSY. A command that changes nothing has no age limit.

mod fetching;
mod front;
mod front_end;
mod pulse;
mod service;
mod wire;

pub use front::{Event, Front};
pub use front_end::{Device, FrontEnd};
pub use service::Service;

/// After a pause of the front end's process of this length, hosts may have given up its paths, and its sockets may
/// still contain older commands: its nexuses are lost.
pub const MAX_PAUSE_NS: u64 = MAX_AGE_NS;

/// Maximum age of a command that the home begins.
pub const MAX_AGE_NS: u64 = 2_000_000_000;

/// Time that the home keeps nexuses, tasks and answers of a front end after the link broke.
pub const LINGER_NS: u64 = 2_000_000_000;

/// Time that a front end holds requests without a home, if a longer wait can't determine their fate. ESXi expects
/// answers to its heartbeat within 8 s.
pub const HOLD_NS: u64 = 8_000_000_000;

/// Time that a front end holds a command that a home has begun, and whose fate the next home can look up in the store.
/// Linux aborts a command after 30 s, and resets the unit if it can't; any earlier end is better.
pub const OPEN_HOLD_NS: u64 = 25_000_000_000;

/// Time limit for reading located data, after which the front end asks the home for them. A store that stalls also
/// stalls at the home; a store that only this controller can't reach does not.
pub const MAX_FETCH_NS: u64 = 2_000_000_000;

/// Time between two pulses of one end of a link.
pub const PULSE_NS: u64 = 250_000_000;

/// Time without received bytes after which a link counts as broken.
pub const SILENCE_NS: u64 = 1_000_000_000;

/// Maximum bytes of data of the requests that a front end has outstanding at the home, unless it is a single request.
pub const MAX_SENT_BYTES: u64 = 32 << 20;

/// Bytes of running requests and remembered answers of one front end beyond which the home answers BUSY. A front end
/// that respects [`MAX_SENT_BYTES`] never reaches this limit.
pub const MAX_HELD_BYTES: u64 = 3 * MAX_SENT_BYTES;

/// Maximum data of one command in each direction.
pub const MAX_DATA_BYTES: usize = 32 << 20;

/// Maximum number of nexuses of a front end.
pub const MAX_NEXUSES: usize = 4096;

/// Time after the break of a link by which the home has aborted the outstanding requests, even if it detected the break
/// only by silence.
pub const ABORTED_NS: u64 = SILENCE_NS + LINGER_NS + 1_000_000_000;

const _: () = assert!(ABORTED_NS < HOLD_NS, "a host does not wait longer for it");
const _: () = assert!(HOLD_NS < OPEN_HOLD_NS, "a fate that can be known is waited for");

/// Reason for closing a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Malformed bytes.
    #[error(transparent)]
    Link(#[from] peer::Error),
    /// No bytes arrived in time.
    #[error("the link has been silent for {} ms", SILENCE_NS / 1_000_000)]
    Silent,
}

/// The result of an operation of a link.
pub type Result<T> = std::result::Result<T, Error>;

fn malformed<T>(what: &'static str) -> Result<T> {
    Err(Error::Link(peer::Error::Malformed(what)))
}
