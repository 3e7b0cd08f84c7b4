//! Replication of a group of volumes to another array: asynchronous by points, and synchronous.
//!
//! The source takes a *point*: snapshots of all volumes of the group at one moment. [`Source::sync`] moves what changed since
//! the last point that both arrays have, [`Target::serve`] applies it to *staging volumes* that no host sees, and publishes the
//! point as snapshots of these, all in one step. So what is on the target is always the group as it was at one moment.
//!
//! The spines are [`mod@source`] and [`mod@target`]; everything else is a leaf. Changes come from the maps of the engine, in
//! *offers*: runs of one volume with a keyed fingerprint of each block. The target says which blocks it wants, and gets only
//! those, compressed. It remembers each offer that it applied, so that a connection that breaks costs the offers under way.
//!
//! There are no sockets, threads or clocks here: the byte stream is the trait [`Stream`], the rest [`Env`]. Both ends must be
//! authenticated before a byte reaches this crate: it checks what it receives, but not who sent it.

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
