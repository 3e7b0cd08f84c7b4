//! The real engine and the real shelf in seeded worlds whose drives fail.
//!
//! Everything runs on one thread: tasks, drive requests and faults are chosen by one sequence of pseudo-random
//! numbers, so that a seed and a commit give the same run, byte for byte, for ever ([`Report::trace`] proves it).
//!
//! # The fault model
//!
//! A drive is pages of 4096 bytes, each of eight sectors, with a volatile cache in front:
//!
//! - requests under way are completed in any order; a slow drive keeps its requests longer than the others;
//! - a write that was answered without durability may be lost, whole pages or some, until a sync that was asked for
//!   after its answer is answered; writes may become durable in any order before that;
//! - at a crash, which may come behind any completed request, every page of a write that was not durable, answered or
//!   not, is kept, lost or torn: each of its sectors old or new;
//! - everything in memory is lost with a crash; what is restarted sees only the drives;
//! - a page that was durable may come back corrupted after a crash (world `rot`): only where the shelf keeps copies,
//!   on one drive at a time;
//! - a drive may answer errors to writes of its journal, or to everything, from some moment on (world `dead`); after a
//!   crash it works again with what it had.
//!
//! - in the world `lies`, as many drives as parity bears, always the same ones, say that they have done writes, durable
//!   ones and synced ones too, which they have lost, whole or in part, or put in another place of theirs, over what was
//!   there: journal, superblocks, maps, labels and segments alike. Their pages rot as well. No host may get an error or a
//!   wrong byte.
//!
//! In the world `shelf` any drives, as many as the shelf says that it can bear, fail, hang, rot anywhere, are not there
//! at the next opening, come back with what they had, or are replaced by blank ones, at any step. Time passes in jumps
//! there; a drive that is well answers within the time that the shelf bears with.
//!
//! Not in the model: a write that is put on another drive; two owners writing the same drive at the same time.
//!
//! # Limits and turns
//!
//! Every seed draws the internal limits of the engine, each from a wide range down to one ([`Bounds::Drawn`]):
//! memory, pages of a step, parts, requests under way, thresholds. Whenever the background waits, for a drive or only to
//! let others run, hosts may do nothing, or one thing, or hundreds before it goes on.
//!
//! # What is held against what
//!
//! Every answer is compared with [`block::mem`]. Operations that run at the same time and touch the same blocks are
//! explained by some order among them that respects who was answered before whom was asked. An operation
//! that had no answer at a crash, or was cancelled, is there whole or not at all. After every recovery all contents
//! are compared and the engine checks itself.

mod array;
mod bounds;
mod drives;
mod executor;
mod history;

mod journal;
mod machine;

pub use bounds::Bounds;

/// Scenario: what runs over which drives, and which faults are injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// The store alone: journal, segments and superblocks under crashes and drive failures.
    Shelf,
    /// The array: volumes under crashes.
    Array,
    /// The array with more written than there is space.
    OutOfSpace,
    /// The array with corrupted copies of what the store mirrors.
    BitRot,
    /// The array with a drive that fails journal writes, and one that fails altogether.
    DriveFailures,
    /// The array with volumes and snapshots that are immutable until a time.
    Retention,
    /// The array with drives that acknowledge writes that they lose or misdirect.
    LostWrites,
}

/// The names of a world.
struct Names {
    world: World,
    name: &'static str,
    /// The name that older seeds were recorded with.
    old: &'static str,
    gloss: &'static str,
}

const fn names(world: World, name: &'static str, old: &'static str, gloss: &'static str) -> Names {
    Names { world, name, old, gloss }
}

const NAMES: [Names; 7] = [
    names(World::Shelf, "shelf", "shelf", "the store alone, under crashes and drive failures"),
    names(World::Array, "array", "array", "volumes under crashes"),
    names(
        World::OutOfSpace,
        "out-of-space",
        "full",
        "volumes under crashes, with more written than there is space",
    ),
    names(
        World::BitRot,
        "bit-rot",
        "rot",
        "volumes under crashes and corrupted journals, maps and superblocks",
    ),
    names(World::DriveFailures, "drive-failures", "dead", "volumes under crashes and failing drives"),
    names(World::Retention, "retention", "kept", "volumes under crashes, with immutable snapshots"),
    names(
        World::LostWrites,
        "lost-writes",
        "lies",
        "volumes over drives that lose or misdirect acknowledged writes",
    ),
];

impl World {
    /// All worlds.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|names| names.world)
    }

    /// The world of this name. Names of older releases are accepted, so that recorded seeds reproduce.
    pub fn by_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|known| known.name == name || known.old == name).map(|known| known.world)
    }

    fn names(self) -> &'static Names {
        let found = NAMES.iter().find(|known| known.world == self);
        found.expect("every world has its names")
    }

    /// The name of this world.
    pub fn name(self) -> &'static str {
        self.names().name
    }

    /// What this world tests, in one line.
    pub fn gloss(self) -> &'static str {
        self.names().gloss
    }
}

/// What happened in a world that was right to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Operations answered.
    pub operations: u64,
    /// Drive requests completed.
    pub requests: u64,
    /// Crashes survived.
    pub crashes: u64,
    /// Writes that drives said to have done and had not.
    pub lies: u64,
    /// A hash over every event: equal for equal seeds of one build.
    pub trace: u64,
}

/// What was wrong, and how to see it again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("world {}, seed {seed}: {what}\nreplay: {}", world.name(), replay(*world, *seed, *bounds))]
pub struct Failure {
    /// The world.
    pub world: World,
    /// Its seed.
    pub seed: u64,
    /// How its limits were chosen.
    pub bounds: Bounds,
    /// What was observed.
    pub what: String,
}

/// The command that runs a seed again.
pub fn replay(world: World, seed: u64, bounds: Bounds) -> String {
    let (world, bounds) = (world.name(), bounds.name());
    format!("cargo xtask sim --world {world} --bounds {bounds} --from {seed} --seeds 1")
}

/// Runs one world.
///
/// # Errors
/// The first thing that was wrong. A panic of the code under test is not caught: its message says more.
pub fn run(world: World, seed: u64) -> Result<Report, Failure> {
    run_with(world, seed, Bounds::Drawn)
}

/// Runs one world with limits drawn, or with those that the array is measured with.
///
/// # Errors
/// Like [`run`].
pub fn run_with(world: World, seed: u64, bounds: Bounds) -> Result<Report, Failure> {
    let outcome = match world {
        World::Shelf => journal::run(seed, bounds),
        other => array::run(other, seed, bounds),
    };
    outcome.map_err(|what| Failure { world, seed, bounds, what })
}
