//! Volumes over a shelf: journal, acknowledge, reduce, log.
//!
//! The way down is [`volume`] → `change` → `journal`; behind the acknowledgement `flush` moves what the journal
//! holds into frames of the log, `checkpoint` makes that durable and `clean` wins back space. The way up is `read`.
//! The engine makes no system call, starts no thread and reads no clock; whoever opens it drives
//! [`Engine::background`].

mod adaptivity;
mod background;
mod backpressure;
mod builder;
mod cache;
mod capacity;
mod catalog;
mod change;
mod check;
mod checkpoint;
mod cleaner;
mod codec;
mod commit;
mod copy;
mod core;
mod dedup;
mod diff;
mod engine;
mod entry;
mod error;
mod estimate;
mod exclusive;
mod flush;
mod frame;
mod frame_table;
mod handle;
mod hidden;
mod inconsistency;
mod index_rebuild;
mod journal;
mod locality;
mod log;
mod log_writes;
mod map;
pub mod media;
mod options;
mod page_index;
mod pages;
mod policy;
mod ratios;
mod read;
mod recompress;
mod record;
mod recover;
mod repair;
mod root;
mod sharded_lock;
mod slots;
mod snapshot;
mod space;
mod span;
mod staged_copy;
mod state;
mod tunables;
mod unaligned;
mod validate;
mod volume;
mod wake;

pub use background::Rest;
pub use check::Progress;
pub use diff::Difference;
pub use engine::Engine;
pub use estimate::{COMPARED_POLICIES, Estimate, Estimator};
pub use exclusive::Exclusive;
pub use log_writes::LogWrites;
pub use options::Options;
pub use policy::{Compression, Policy};
pub use ratios::{Amounts, Ratios};
pub use repair::{Loss, Repair};
pub use snapshot::DiskInfo;
pub use space::{DiskSpace, SpaceReport};
pub use tunables::Tunables;
pub use volume::Volume;
