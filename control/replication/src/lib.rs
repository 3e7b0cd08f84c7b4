//! Replication of a group of volumes to another array: asynchronous by points, and synchronous.
//!
//! The source takes a *point*: snapshots of all volumes of the group at one moment. [`Source::sync`] transfers the
//! changes since the last common point. [`Target::serve`] applies them to *staging volumes*, which no host sees, and
//! publishes the point as snapshots of these in one step. So the target always has the group as of one moment.
//!
//! The spines are [`mod@source`] and [`mod@target`]; all other modules are leaves. The engine's maps provide changes as
//! *offers*: runs of one volume with a keyed fingerprint of each block. The target requests the blocks that it lacks,
//! and receives only those, compressed. It records each applied offer, so a broken connection costs only the
//! outstanding offers.
//!
//! This crate has no sockets, threads or clocks: the byte stream is the trait [`Stream`], the rest [`Env`]. The caller
//! must authenticate both ends: this crate checks the received data, but not the sender.

mod apply;
mod changes;
mod connection;
mod disk;
mod env;
mod error;
mod fingerprint;
mod host_throttle;
mod index;
mod inventory;
mod known;
mod limits;
mod mirror;
mod points;
mod reversal;
mod source;
mod table;
mod target;
mod throttle;
mod turns;
mod wire;
pub mod witness;

pub use env::{Env, Stream};
pub use error::{Error, Reason, Result};
pub use fingerprint::{Digest, Key};
pub use host_throttle::{Commands, HostIo, HostThrottle};
pub use inventory::{
    RECORD_PREFIXES, RULINGS, armed_session, detach_target_point, disarm, disks, is_armed, is_mirrored,
    release, source_points, target_points, unneeded, unneeded_record,
};
pub use limits::{HEARTBEAT_NS, Limits, MAX_JOIN_NS, MAX_SILENCE_NS};
pub use mirror::{Mirror, MirrorProgress, MirrorState, OnLinkLoss};
pub use points::{Point, Volume};
pub use reversal::{Counterpart, Reversal, Written};
pub use source::{Source, Synced, UserSnapshot};
pub use target::Target;
pub use throttle::Throttle;
pub use wire::{
    Extent, Kind, MAX_PAYLOAD_BYTES, MIRROR_VERSION, Message, NAMES_VERSION, Offer, Position, SourceVolume,
    VERSIONS, unpack,
};
