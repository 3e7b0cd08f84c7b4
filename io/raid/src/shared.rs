//! Drives that two controllers share: reservations that fence writes, and the arbiter by which the two agree.
//!
//! **Region.** Thirteen pages of every drive between the envelope and the first superblock, which no release before used:
//!
//! ```text
//! page 3        5        7          11         15      16
//! | signs of 1 | signs of 2 | ballots of 1 | ballots of 2 | list |  superblock 0 …
//! ```
//!
//! Each controller writes records of its own only, each twice ([`record`]). The list names the drives that are *witnesses*; it is
//! written when an array is made shared, and does not change.
//!
//! **Agreement** needs nothing of the drives but that a write which has completed is seen by every later read.
//! - *Beats and marks.* A controller that beats writes its sign, then reads the mark; one that marks writes the mark, then
//!   reads the sign. Of a beat and a mark at one drive at least one comes later and sees the other, so they never both
//!   succeed. A mark that sees another beat than it expected is taken back.
//! - *The map* is decided by Disk Paxos (Gafni and Lamport 2003), one instance for each version: a controller writes
//!   its ballot to
//!   the witnesses and then reads the ballot of the other one there; a majority that shows no higher ballot is a promise,
//!   and after the second phase a decision. Any two majorities share a drive, where one of the two writes came first. A
//!   decision is written to a majority before `replace` returns, so a later `map` returns it or a newer one. A record that has
//!   moved on to the next version ends the instance before: who finds it there knows that the instance is decided.
//!   Ballots grow over restarts, as the first phase has the number on a majority before the second accepts anything in it.
//!
//! **Fencing.** Every process registers a random key at every drive before it writes there, and shows it in its sign. The drives
//! are reserved Write Exclusive, Registrants Only. Two things end the registration of another process, by PREEMPT AND ABORT:
//! - A process that takes part removes the one before it with its number: from there on records have one writer.
//! - A home removes every other process from every drive that it uses before it reads anything ([`Party::take_over`]). What
//!   the former home wrote until then is seen; nothing of it arrives later. It can't acknowledge a write afterwards: each
//!   needs all drives with a copy of the journal, and the first drive that refuses one stops its store. At most two drives are
//!   missing when a shelf opens, and a journal that three drives hold is not on these alone.
//!
//! **A drive that does not reply** counts as missing after a time ([`timed`]), for who starts and for who takes over. What was
//! asked of it may still take effect, once, as nothing follows a request without a reply:
//! - *A removal* removes a key of a process that is expelled, or dead. If the new home was removed itself by then, its
//!   own key is not registered, and the drive refuses.
//! - *A registration or a reservation* is of a process that does not use the drive: it writes nothing there. The
//!   drive may be left
//!   reserved by a key that its records do not show. The other controller does without it then, until a process of the same
//!   server takes part, which replaces the key. For that reason a process that finds more than two such drives ends.
//! - *A sign* shows the key of that process, so that it is found and removed. The list of witnesses is always the same.
//! - *A label* of the new owner has its epoch. The other labels say that the drive has failed.
//!
//! The records of the arbiter have no such limit: a later write there never overtakes one that has no reply yet. A
//! majority is enough for it. Such a drive is used again by the next opening, as one that was missing.
//!
//! A process never registers again: one that was removed starts again, with an empty memory. While no process is registered but
//! members that are not the home, the new home's removal of them costs them a start, and nothing else.

mod arbiter;
mod medium;
mod newcomer;
mod party;
mod record;
mod timed;
mod turns;
mod witness;

pub use arbiter::DriveArbiter;
pub use medium::SharedMedium;
pub use newcomer::Newcomer;
pub use party::{Party, SharedArray, find, is_shared};
pub use timed::{REPLY_TIMEOUT, TimedDrive, Timer};

use crate::ALIGN;
use crate::geometry::LABEL_BYTES;
use record::{BALLOT_BYTES, LIST_BYTES, SIGN_BYTES};

/// Controllers that can share drives: a drive has two ports.
pub const CONTROLLERS: usize = 2;

/// Longest map.
pub const MAX_MAP_BYTES: usize = 3992;

/// Offsets on a drive.
const SIGNS_AT: u64 = 3 * ALIGN as u64;
const SIGNS_BYTES: usize = CONTROLLERS * 2 * SIGN_BYTES;
const BALLOTS_AT: u64 = SIGNS_AT + SIGNS_BYTES as u64;
const BALLOTS_BYTES: usize = CONTROLLERS * 2 * BALLOT_BYTES;
const LIST_AT: u64 = BALLOTS_AT + BALLOTS_BYTES as u64;

const _: () = assert!(LIST_AT + LIST_BYTES as u64 == LABEL_BYTES);
