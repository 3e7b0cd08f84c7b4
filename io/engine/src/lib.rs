//! Log-structured storage engine: volumes on a shelf.
//!
//! The way down is [`volume`] → `commit` → `journal`. After the acknowledgement the background takes over: `reducer`
//! flushes the data of the journal, deduplicated and compressed, to frames of the log, `checkpoint` makes that
//! durable, and `cleaner` reclaims space. The way up is `read`.
//!
//! The engine makes no system call, starts no thread and reads no clock; its opener polls
//! [`Engine::background`].

mod adaptivity;
mod appender;
mod apply;
mod background;
mod backpressure;
mod batch;
mod builder;
mod cache;
mod capacity;
mod catalog;
mod cell;
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
mod format;
mod frame;
mod frame_table;
mod gathering;
mod handle;
mod hidden;
mod idle;
mod image;
mod inconsistency;
mod index_log;
mod joining;
mod journal;
mod ledger;
mod locate;
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
mod read_ahead;
mod read_streams;
mod reader;
mod record;
mod recover;
mod reducer;
mod repair;
mod root;
mod sharded_lock;
mod slots;
mod snapshot;
mod space;
mod span;
mod staged_copy;
mod state;
mod stored;
mod tap;
mod tunables;
mod unaligned;
mod upgrade;
mod upkeep;
mod validate;
mod volume;
mod wake;

pub use apply::Applied;
pub use capacity::{RESERVE_DIVISOR, SpaceRefusals};
pub use catalog::MAX_VOLUMES;
pub use check::{FrameCheck, FrameFindings, Progress};
pub use dedup::ENTRY_BYTES as INDEX_ENTRY_BYTES;
pub use diff::Difference;
pub use engine::{Engine, NewVolume};
pub use estimate::{COMPARED_POLICIES, Estimate, Estimator};
pub use exclusive::Exclusive;
pub use idle::Rest;
pub use log_writes::LogWrites;
pub use options::Options;
pub use policy::{Compression, Policy};
pub use ratios::{Amounts, Ratios};
pub use reader::{Reader, ReaderCounters};
pub use repair::{Loss, Repair};
pub use root::{CELL_VERSION, FORMATS, INDEX_VERSION, NOTING_VERSION};
pub use sharded_lock::Held;
pub use snapshot::DiskInfo;
pub use space::{DiskSpace, SpaceReport};
pub use stored::Stored;
pub use tap::{Hold, Part, Tap, Tapped};
pub use tunables::Tunables;
pub use volume::Volume;
