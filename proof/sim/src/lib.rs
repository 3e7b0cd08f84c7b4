//! Deterministic simulation: the real engine and the real store over simulated drives that fail.
//!
//! Everything runs on one thread: tasks, drive requests and faults are chosen by one sequence of pseudo-random
//! numbers, so that a seed and a commit give the same run, byte for byte ([`Report::trace`] proves it). A fault that
//! needs a rare order of events is found by trying seeds, and stays reproducible.
//!
//! # Fault model
//!
//! A drive is pages of 4096 bytes, each of eight sectors, with a volatile write cache:
//!
//! - requests in flight complete in any order; a slow drive keeps its requests longer than the others;
//! - a write that completed without durability may be lost, whole pages or some, until a sync completes that was
//!   submitted after it; writes may become durable in any order before that;
//! - at a crash, which may follow any completed request, every page of a write that was not durable, completed or
//!   not, is kept, lost or torn: each of its sectors old or new;
//! - everything in memory is lost at a crash; what is restarted sees only the drives;
//! - durable pages may be corrupt after a crash (world `bit-rot`): only those that the store mirrors, on one drive at a
//!   time;
//! - a drive may fail writes of its journal, or everything, from some moment on (world `drive-failures`); after a
//!   crash it works again with what it had;
//! - in the world `lost-writes`, as many drives as parity tolerates, always the same ones, acknowledge writes, also durable
//!   and synced ones, that they lose, completely or in part, or misdirect over other pages of theirs: journal, superblocks,
//!   maps, labels and segments alike. Their pages rot as well. No host may get an error or a wrong byte.
//!
//! In the worlds `out-of-space` and `drive-changes` hosts write data that can't be reduced until the array is nearly full
//! and go on then. In the first, the drives may be sparse files of one file system that other files fill and leave, and the
//! number of map pages may be bounded. In the second, blank drives are added, members are evacuated, and drives fail for
//! good or come back at a later opening, while the store can spare them.
//!
//! In the world `shelf` any drives, as many as the store reports to tolerate, fail, hang, rot anywhere, are missing
//! at the next opening, come back with what they had, or are replaced by blank ones, at any step. Time passes in jumps
//! there; a sound drive completes requests within the store's timeouts.
//!
//! Not in the model: a write that reaches another drive; two owners that write the same drive at the same time.
//!
//! In the world `rados` the store is objects in a model of RADOS ([`rados::memory`]): operations on different objects take
//! effect in any order, and answers come later. After a crash each operation under way takes effect at any later moment, or
//! never. Instead of a crash another owner may take over while the older one continues everything that it does in the
//! background, with or without being put on the blocklist. The pool gets full, and is emptied.
//!
//! In the world `located` a front end reads what owners of the store locate, much later at times, and continues when they do not.
//!
//! In the world `repair` an object of the newest checkpoint or a record of the journal is changed after a crash, and gets a
//! valid checksum. Opening must end, and a repair, in which crashes may come, must leave an array whose check finds nothing.
//!
//! In the world `encrypted` the key of the drives is changed while hosts work and while the array is off, also while a drive has
//! failed or is away. In one array in four of the world `array` a drive answers much later than its peers for some time.
//!
//! In the world `management` policies of volumes, records and images are changed while hosts work.
//!
//! In the world `cluster` several controllers share a model of RADOS; see `cluster`. What they serve is a set of numbers, not
//! an engine: the world is about who may serve.
//!
//! In the world `shared-drives` two controllers on two servers share drives with persistent reservations; see `shared`. There a
//! write of a process that is gone may arrive late.
//!
//! In the world `replication` two arrays on drives of their own crash independently, and the connection between them loses what
//! is under way; see `replication`. In the world `synchronous` every write is on both before it is acknowledged; see
//! `replication::synchronous`.
//!
//! In the world `takeover` front ends go on while their home crashes, and repeat commands at the next one; see `takeover`.
//!
//! In the world `upgrade` an array is opened by this release and by an earlier one in turn, and committed to the
//! newer format; see `upgrade`.
//!
//! # Limits and scheduling
//!
//! Every seed draws the internal limits of the engine and of the store, each from a wide range down to one
//! ([`Bounds::Drawn`]): memory, pages of a step, parts, requests in flight, thresholds. Whenever the background waits, for
//! a drive or only to yield, hosts may do nothing, or one thing, or hundreds before it continues.
//!
//! # Oracle
//!
//! Every result is compared with the model [`block::mem`]. Operations that run at the same time and touch the same blocks
//! must be explained by some order among them that respects which completed before which was submitted. An operation that
//! had not completed at a crash, or was cancelled, took effect completely or not at all. After every recovery all contents
//! are compared and the engine checks itself.

mod array;
mod bounds;
mod cluster;
mod conformance;
mod drives;
mod executor;
mod history;
mod journal;
mod machine;
mod replication;
mod shared;
mod takeover;
mod upgrade;

use engine::{Engine, SpaceRefusals};

pub use ::cluster::Timing;
pub use bounds::Bounds;
pub use conformance::run as run_conformance;

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
    /// The array nearly full, with drives that are added, evacuated, replaced and lost.
    DriveChanges,
    /// The array on objects in RADOS, with crashes, and owners that go on after another has taken over.
    Rados,
    /// The same, with a front end that reads what the home locates.
    Located,
    /// Membership of several controllers over one store.
    Cluster,
    /// Two controllers over drives that both see.
    SharedDrives,
    /// The array with writes that replace whole map pages, more than one, and are split between journal batches.
    LargeWrites,
    /// The array on encrypted drives, whose key is changed.
    Encrypted,
    /// A group of volumes that one array replicates to another.
    Replication,
    /// A group of volumes of which every write is on two arrays before it is acknowledged.
    Synchronous,
    /// The array with metadata that become inconsistent, and are repaired.
    Repair,
    /// The array with policies, records and images that are changed while hosts work.
    Management,
    /// Commands of hosts that front ends repeat when their home has crashed.
    Takeover,
    /// The array opened by two releases in turn, and committed to the format of the newer one.
    Upgrade,
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

const NAMES: [Names; 20] = [
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
    names(
        World::DriveChanges,
        "drive-changes",
        "drive-changes",
        "volumes under crashes on a nearly full array whose drives are added, evacuated, replaced and lost",
    ),
    names(
        World::Rados,
        "rados",
        "rados",
        "volumes on objects in RADOS, under crashes, full pools, and owners that go on after a takeover",
    ),
    names(
        World::Located,
        "located",
        "located",
        "volumes on objects in RADOS, read by a front end whose homes crash or are followed by others",
    ),
    names(
        World::Cluster,
        "cluster",
        "cluster",
        "controllers over one store that die, sleep, are cut off and have clocks of their own",
    ),
    names(
        World::SharedDrives,
        "shared-drives",
        "shared-drives",
        "two controllers over drives with reservations, and requests that arrive after their process has ended",
    ),
    names(
        World::LargeWrites,
        "large-writes",
        "large-writes",
        "volumes under crashes, with writes that replace whole map pages",
    ),
    names(
        World::Encrypted,
        "encrypted",
        "encrypted",
        "volumes under crashes and rot on encrypted drives whose key is changed",
    ),
    names(
        World::Replication,
        "replication",
        "replication",
        "a group replicated to another array, under crashes of either and over a connection that breaks",
    ),
    names(
        World::Synchronous,
        "synchronous",
        "synchronous",
        "a group whose writes are on two arrays before they are acknowledged, under crashes of either and a connection that breaks",
    ),
    names(
        World::Repair,
        "repair",
        "repair",
        "volumes under crashes, with metadata that become inconsistent although their checksums hold, and repairs",
    ),
    names(
        World::Management,
        "management",
        "management",
        "volumes under crashes, with policies, records and images that change at the same time",
    ),
    names(
        World::Takeover,
        "takeover",
        "takeover",
        "hosts at front ends that repeat commands when their home has crashed",
    ),
    names(
        World::Upgrade,
        "upgrade",
        "upgrade",
        "an array opened by two releases in turn, under crashes, and committed to the format of the newer one",
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

/// Statistics of a run without a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Operations completed.
    pub operations: u64,
    /// Drive requests completed.
    pub requests: u64,
    /// Crashes survived.
    pub crashes: u64,
    /// Writes that drives acknowledged and lost or misdirected.
    pub write_faults: u64,
    /// Changes that were refused for lack of space, by reason.
    pub refusals: SpaceRefusals,
    /// Drives that were added to a running array.
    pub drives_added: u64,
    /// Evacuations that were begun or cancelled.
    pub evacuations: u64,
    /// Drives that failed for good, in the worlds `drive-changes` and `encrypted`.
    pub drives_failed: u64,
    /// Drives that the store found to be slow.
    pub slow_drives: u64,
    /// Changes of the key that were acknowledged.
    pub key_changes: u64,
    /// Replications that were reversed.
    pub reversals: u64,
    /// Points of users' snapshots that the target of a replication got with their names.
    pub snapshots: u64,
    /// Images that were made.
    pub images: u64,
    /// Repairs of inconsistent metadata.
    pub repairs: u64,
    /// Of these, repairs that reported blocks as lost.
    pub losses: u64,
    /// Takeovers of a home that was killed while nothing else was wrong, in the world `cluster`.
    pub takeovers: u64,
    /// The longest of them, in milliseconds: until the next home acknowledged a write.
    pub longest_takeover_ms: u64,
    /// Changes of the map, or of the format, that operators asked for and got.
    pub settled: u64,
    /// Targets that a witness let go on, in the world `synchronous`.
    pub promotions: u64,
    /// Sources that a witness let go on alone.
    pub consents: u64,
    /// Recipes that a front end resolved, in the world `located`.
    pub resolved: u64,
    /// Recipes whose bytes were not there any more.
    pub unresolved: u64,
    /// A hash over every event: equal for equal seeds of one build.
    pub trace: u64,
}

impl Report {
    /// Adds what an engine has refused since it was opened.
    fn count_refusals(&mut self, engine: &Engine) {
        self.add_refusals(engine.space_refusals());
    }

    fn add_refusals(&mut self, more: SpaceRefusals) {
        let SpaceRefusals { log, capacity, map_pages, reserve } = &mut self.refusals;
        *log += more.log;
        *capacity += more.capacity;
        *map_pages += more.map_pages;
        *reserve += more.reserve;
    }

    /// Adds the statistics of another run, except its trace.
    pub fn add(&mut self, other: &Report) {
        self.operations += other.operations;
        self.requests += other.requests;
        self.crashes += other.crashes;
        self.write_faults += other.write_faults;
        self.drives_added += other.drives_added;
        self.evacuations += other.evacuations;
        self.drives_failed += other.drives_failed;
        self.slow_drives += other.slow_drives;
        self.key_changes += other.key_changes;
        self.reversals += other.reversals;
        self.snapshots += other.snapshots;
        self.images += other.images;
        self.repairs += other.repairs;
        self.losses += other.losses;
        self.takeovers += other.takeovers;
        self.longest_takeover_ms = self.longest_takeover_ms.max(other.longest_takeover_ms);
        self.settled += other.settled;
        self.promotions += other.promotions;
        self.consents += other.consents;
        self.resolved += other.resolved;
        self.unresolved += other.unresolved;
        self.add_refusals(other.refusals);
    }
}

/// A failure, and how to reproduce it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("world {}, seed {seed}: {what}\nreplay: {}", world.name(), replay(*world, *seed, *bounds))]
pub struct Failure {
    /// The world.
    pub world: World,
    /// Its seed.
    pub seed: u64,
    /// How its limits were chosen.
    pub bounds: Bounds,
    /// The observation.
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

/// Runs the world `cluster` with other intervals than those of the product.
///
/// # Errors
/// Like [`run`].
pub fn run_cluster(seed: u64, timing: ::cluster::Timing) -> Result<Report, String> {
    cluster::run(seed, cluster::Options { timing })
}

/// Runs the world `shared-drives` with drives that ignore reservations.
///
/// # Errors
/// Like [`run`].
pub fn run_without_reservations(seed: u64) -> Result<Report, String> {
    shared::run(seed, shared::Reservations::Ignored)
}

/// Runs the world `takeover` with homes that do not look up what the journal notes. Hosts may do nothing but copies.
///
/// # Errors
/// Like [`run`].
pub fn run_without_notes(seed: u64, only_copies: bool) -> Result<Report, String> {
    let work = if only_copies { takeover::Work::Copies } else { takeover::Work::All };
    takeover::run(seed, Bounds::Drawn, (takeover::Notes::Ignored, work))
}

/// Runs one world with limits drawn from the seed, or with those of the product.
///
/// # Errors
/// Like [`run`].
pub fn run_with(world: World, seed: u64, bounds: Bounds) -> Result<Report, Failure> {
    let outcome = match world {
        World::Shelf => journal::run(seed, bounds),
        World::Cluster => cluster::run(seed, cluster::Options::default()),
        World::SharedDrives => shared::run(seed, shared::Reservations::Enforced),
        World::Replication => replication::run(seed, bounds),
        World::Synchronous => replication::synchronous::run(seed, bounds),
        World::Takeover => takeover::run(seed, bounds, (takeover::Notes::Consulted, takeover::Work::All)),
        World::Upgrade => upgrade::run(seed, bounds),
        other => array::run(other, seed, bounds),
    };
    outcome.map_err(|what| Failure { world, seed, bounds, what })
}
