//! A store in a Ceph cluster: journal, segments and superblocks as RADOS objects.
//!
//! This is the implementation of the `shelf` contract for RADOS. Redundancy, rebuild and scrub are Ceph's; checksums,
//! encryption, the order of batches and fencing are kept here. Its parts: [`objects`] is what is needed of RADOS;
//! [`Client`] is a real cluster, by librados in `library`; [`memory`] is a model of it for tests; `record` encodes superblocks and batches; `journal` appends batches in lanes,
//! `segments` writes and reads stripes, whose place `stripes` knows; [`Reader`] reads those of another owner; `takeover` makes a new owner of a store that another may still believe to own;
//! the spine [`Store`] joins them. [`Arbiter`] is where controllers that share the store find out who is alive.
//!
//! # Why an older owner can't acknowledge a write
//!
//! Every object that an owner writes carries the owner's epoch in the attribute `owner`, and every write compares it in
//! the same compound operation. A new owner first sets the attribute on both superblocks, then on every journal object
//! that an older owner may append to, and creates the object that would follow in each lane as an empty tombstone. From
//! then on each operation of an older owner is refused by the object that it is addressed to, whatever the clocks say
//! and however late it arrives. Only then does the new owner read the journal, so that what it reads is all that was
//! ever acknowledged.

pub mod memory;
pub mod objects;

mod arbiter;
mod client;
mod contents;
mod envelope;
mod journal;
mod library;
mod overlay;
mod owned;
mod pool;
mod queue;
mod reader;
mod record;
mod segments;
mod store;
mod stripes;
mod takeover;

pub use arbiter::{Arbiter, is_shared};
pub use client::{Client, Location};
pub use contents::{Contents, contents};
pub use envelope::{read as read_envelope, replace as replace_envelope};
pub use overlay::Overlay;
pub use reader::Reader;
pub use store::{FormatOptions, OpenOptions, Store, owner_epoch};
