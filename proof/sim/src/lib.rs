//! Deterministic simulation: the real engine and the real store over simulated drives that fail.
//!
//! Everything runs on one thread: one sequence of pseudo-random numbers chooses tasks, drive requests and faults, so a
//! seed and a commit give the same run, byte for byte ([`Report::trace`] proves it). A fault that needs a rare order of
//! events is found by trying seeds, and is reproducible.
//!
//! # Fault model
//!
//! A drive consists of pages of 4096 bytes, each of eight sectors, with a volatile write cache:
//!
//! - requests in flight complete in any order; a slow drive keeps its requests longer than the others;
//! - a write that completed without durability may be lost, whole pages or some, until a sync completes that was
//!   submitted after it; writes may become durable in any order before that;
//! - at a crash, which may follow any completed request, every page of a write that was not durable, completed or
//!   not, is kept, lost or torn: each of its sectors old or new;
//! - everything in memory is lost at a crash; after a restart, only the drives have data;
//! - durable pages may be corrupt after a crash (world `bit-rot`): only those that the store mirrors, on one drive at a
//!   time;
//! - a drive may fail journal writes, or all requests, from some moment on (world `drive-failures`); after a crash it
//!   works again with its old content;
//! - in the world `lost-writes`, as many drives as parity tolerates, always the same ones, acknowledge writes (even
//!   durable and synced ones) that they lose, completely or in part, or misdirect to other pages: in the journal,
//!   superblocks, maps, labels and segments. Their pages rot as well. No host may get an error or a wrong byte.
//!
//! In the worlds `out-of-space` and `drive-changes`, hosts write incompressible data until the array is nearly full,
//! and continue then. In the first, the drives may be sparse files of one file system that other files fill and leave,
//! and the number of map pages may be bounded. In the second, blank drives are added, members are evacuated, and drives
//! fail permanently or return at a later opening, while the store can spare them.
//!
//! In the world `shelf`, as many drives as the store reports to tolerate fail, hang, rot anywhere, are missing at the
//! next opening, return with their content, or are replaced by blank ones, at any step. Time advances in jumps; a
//! healthy drive completes requests within the store's time-outs.
//!
//! Not in the model: a write that reaches another drive; two owners that write the same drive at the same time.
//!
//! In the world `rados`, the store consists of objects in a model of RADOS ([`rados::memory`]): operations on different
//! objects take effect in any order, and replies arrive later. After a crash, each outstanding operation takes effect
//! at any later moment, or never. Instead of a crash, another owner may take over while the older one continues its
//! background work, with or without an entry on the blocklist. The pool gets full, and is emptied.
//!
//! In the world `located`, a front end reads data that owners of the store locate, sometimes much later, and survives
//! the owners.
//!
//! In the world `repair`, an object of the newest checkpoint or a record of the journal is changed after a crash, with
//! a valid checksum. Opening must end, and after a repair, which crashes may interrupt, the array's check must find
//! nothing.
//!
//! In the world `encrypted`, the key of the drives is changed while hosts work and while the array is off, even while a
//! drive has failed or is missing. In one of four arrays of the world `array`, a drive is much slower than its peers
//! for some time.
//!
//! In the world `management`, policies of volumes, records and images change while hosts work.
//!
//! In the world `cluster`, several controllers share a model of RADOS; see `cluster`. They serve a set of numbers
//! instead of an engine: the world tests membership and leases.
//!
//! In the world `shared-drives`, two controllers on two servers share drives with persistent reservations; see
//! `shared`. A write of an ended process may arrive late there.
//!
//! In the world `replication`, two arrays on drives of their own crash independently, and the connection between them
//! loses data in transit; see `replication`. In the world `synchronous`, every write is on both before it is
//! acknowledged; see `replication::synchronous`.
//!
//! In the world `takeover`, front ends survive crashes of their home, and repeat commands at the next one; see
//! `takeover`.
//!
//! In the world `upgrade`, this release and an earlier one open an array alternately, and commit it to the newer
//! format; see `upgrade`.
//!
//! # Limits and scheduling
//!
//! Every seed draws the internal limits of the engine and of the store, each from a wide range down to one
//! ([`Bounds::Drawn`]): memory, pages of a step, parts, requests in flight, thresholds. Whenever the background waits,
//! for a drive or only to yield, hosts may perform no step, one, or hundreds before it continues.
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
mod workers;

use engine::{Engine, SpaceRefusals};

pub use ::cluster::Timing;
pub use bounds::Bounds;
pub use conformance::run as run_conformance;

/// A scenario: the components, their drives, and the injected faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// The store alone: journal, segments and superblocks under crashes and drive failures.
    Shelf,
    /// The array: volumes under crashes.
    Array,
    /// The array with more written than there is space.
    OutOfSpace,
    /// The array with corrupted copies of mirrored data.
    BitRot,
    /// The array with a drive that fails journal writes, and one that fails all requests.
    DriveFailures,
    /// The array with volumes and snapshots that are immutable until a time.
    Retention,
    /// The array with drives that lose or misdirect acknowledged writes.
    LostWrites,
    /// A nearly full array whose drives are added, evacuated, replaced and lost.
    DriveChanges,
    /// The array on objects in RADOS, with crashes, and owners that continue after another has taken over.
    Rados,
    /// The array on RADOS, with a front end that reads data located by the home.
    Located,
    /// Membership of several controllers over one store.
    Cluster,
    /// Two controllers over shared drives.
    SharedDrives,
    /// The array with writes that replace several whole map pages, and are split between journal batches.
    LargeWrites,
    /// The array on encrypted drives, whose key is changed.
    Encrypted,
    /// A group of volumes that one array replicates to another.
    Replication,
    /// A group of volumes whose writes are on two arrays before they are acknowledged.
    Synchronous,
    /// The array with metadata that become inconsistent and are repaired.
    Repair,
    /// The array with policies, records and images that are changed while hosts work.
    Management,
    /// Host commands that front ends repeat after a crash of their home.
    Takeover,
    /// An array opened by two releases alternately, and committed to the format of the newer one.
    Upgrade,
}

/// The names of a world.
struct Names {
    world: World,
    name: &'static str,
    /// The name in older recorded seeds.
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
    /// Drives that the store classified as slow.
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
    /// Repairs that reported blocks as lost.
    pub losses: u64,
    /// Takeovers of a home that was killed while nothing else was wrong, in the world `cluster`.
    pub takeovers: u64,
    /// The longest of them, in milliseconds: until the next home acknowledged a write.
    pub longest_takeover_ms: u64,
    /// Completed changes of the map or the format that operators requested.
    pub settled: u64,
    /// Targets that a witness allowed to continue alone, in the world `synchronous`.
    pub promotions: u64,
    /// Sources that a witness allowed to continue alone.
    pub consents: u64,
    /// Recipes that a front end resolved, in the world `located`.
    pub resolved: u64,
    /// Recipes whose data no longer existed.
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

/// A failure, with the parameters that reproduce it.
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
/// The first violation. A panic of the code under test is not caught, since its message is more specific.
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
