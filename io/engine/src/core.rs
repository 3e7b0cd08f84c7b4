//! What volumes and the background share: the state behind its lock, the journal, the log, and the ways to wait.

use crate::cache::Cache;
use crate::catalog::VolumeState;
use crate::change::{Change, Made};
use crate::engine::Options;
use crate::entry::BLOCK;
use crate::gate::{Pace, Room, Signal};
use crate::journal::Journal;
use crate::log::Log;
use crate::record::Action;
use crate::space::Usage;
use crate::stage::Stages;
use crate::state::{Refusal, State};
use block::{Error, Result};
use parking_lot::RwLock;
use shelf::{Layout, Shelf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The parts of an engine.
pub struct Core {
    pub options: Options,
    /// Sizes; the number of segments is the one at the opening, see `segments`.
    pub layout: Layout,
    /// Segments that the background knows of.
    pub segments: AtomicU32,
    pub state: RwLock<State>,
    pub journal: Arc<Journal>,
    pub log: Arc<Log>,
    pub cache: Cache,
    /// Wakes the background.
    pub signal: Arc<Signal>,
    /// Operations that wait for room.
    pub room: Room,
    pub wants_room: AtomicBool,
    /// Somebody waits until it is known what space there really is.
    pub wants_space: AtomicBool,
    /// Acknowledgements that wait for the flusher.
    pub pace: Pace,
    pub stopping: AtomicBool,
    /// Reaches one when the background has ended.
    pub finished: Pace,
    /// Copies that are being prepared.
    pub stages: Stages,
    /// The flusher has no room in the log.
    pub full: AtomicBool,
    /// Number of changes made.
    pub changes: AtomicU64,
    /// Key of the fingerprints.
    pub key: [u8; 32],
}

impl Core {
    pub fn new(
        shelf: Arc<dyn Shelf>,
        options: Options,
        key: [u8; 32],
        mut state: State,
        journal: Arc<Journal>,
    ) -> Arc<Self> {
        state.maps.usage = Usage::new(shelf.layout().segments);
        Arc::new(Self {
            layout: shelf.layout(),
            segments: AtomicU32::new(shelf.layout().segments),
            cache: Cache::new(options.cache_bytes),
            options,
            signal: journal.signal(),
            journal,
            log: Arc::new(Log::new(shelf)),
            room: Room::default(),
            wants_room: AtomicBool::new(false),
            wants_space: AtomicBool::new(false),
            pace: Pace::default(),
            stopping: AtomicBool::new(false),
            finished: Pace::default(),
            stages: Stages::default(),
            full: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            key,
            state: RwLock::new(state),
        })
    }

    /// Makes a change that needs nothing prepared, and waits until it is durable.
    pub async fn change(&self, change: Change) -> Result<()> {
        loop {
            if let Some(made) = self.make_soon(&change).await? {
                return self.acknowledge(made).await;
            }
        }
    }

    /// Waits until a change is durable, and then as long as the flusher is behind.
    pub async fn acknowledge(&self, made: Made) -> Result<()> {
        self.journal.until(made.batch).await?;
        if made.pace > 0 {
            self.pace.reached(made.pace).await;
        }
        Ok(())
    }

    /// Makes a change as soon as it can be made; none when a block that it expects has changed.
    pub async fn make_soon(&self, change: &Change) -> Result<Option<Made>> {
        let mut attempt = self.make(change, false);
        loop {
            match attempt {
                Ok(made) => return Ok(Some(made)),
                Err(Refusal::Error(Error::NoSpace))
                    if change.packed.is_none() && !change.pages.is_empty() =>
                {
                    return Box::pin(self.make_soon(&self.measured(change))).await;
                }
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Changed) => return Ok(None),
                Err(Refusal::Need(need)) => {
                    self.load(need).await?;
                    attempt = self.make(change, false);
                }
                Err(Refusal::Room) => {
                    let ticket = self.room.ticket();
                    self.signal.notify();
                    let try_again = || match self.make(change, true) {
                        Err(Refusal::Room) => None,
                        attempt => Some(attempt),
                    };
                    attempt = ticket.turn(try_again).await;
                }
            }
        }
    }

    /// Waits until an answer that something is not there, or takes no changes, can't be undone by a power loss.
    pub async fn settle_refusal<T>(&self, volume: u32, outcome: Result<T>) -> Result<T> {
        let Err(error) = &outcome else { return outcome };
        let batch = match error {
            Error::Gone | Error::Foreign(_) => self.state.read().catalog.ended,
            Error::ReadOnly | Error::OutOfRange { .. } => {
                self.state.read().volume(volume).map_or(0, |found| found.changed)
            }
            _ => return outcome,
        };
        self.journal.until(batch).await?;
        outcome
    }

    pub fn check_running(&self) -> Result<()> {
        match self.journal.stopped() {
            Some(why) => Err(Error::Stopped(why)),
            None if self.stopping.load(Ordering::Acquire) => Err(Error::NotReady),
            None => Ok(()),
        }
    }

    pub fn why_stopped(&self) -> Error {
        Error::Stopped(self.journal.stopped().unwrap_or_default())
    }
}

impl Core {
    /// Size of the log without the part that is kept for checkpoints and cleaning.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.segments.load(Ordering::Acquire)) * u64::from(self.layout.segment_bytes)
            - self.reserve_bytes()
    }

    /// Says whether the flusher is stuck without room in the log, which [`Core::admit_space`] should have prevented.
    pub fn set_full(&self, full: bool) {
        if self.full.swap(full, Ordering::AcqRel) != full && full {
            tracing::warn!("the log is full");
        }
        self.pace.set_open(full);
    }

    /// Bytes of the log that are kept for checkpoints and cleaning.
    pub fn reserve_bytes(&self) -> u64 {
        let segments = u64::from(self.segments.load(Ordering::Acquire));
        (segments / 8).max(12).min(segments / 2) * u64::from(self.layout.segment_bytes)
    }

    /// Upper bound of the bytes that metadata pages take which a checkpoint would write.
    pub fn dirty_bytes(&self) -> u64 {
        let state = self.state.read();
        dirty_bytes(&state)
    }

    /// Bytes in use or promised, if nothing that waits to be written reduces.
    pub fn used_bytes(&self, state: &State) -> u64 {
        let maps = &state.maps;
        let waiting = (maps.slots.bytes() / BLOCK) as u64 * SLOT_WORST;
        maps.usage.physical + maps.usage.metadata + waiting + dirty_bytes(state)
    }

    /// Bytes that can still be written.
    pub fn free_bytes(&self, state: &State) -> u64 {
        self.total_bytes().saturating_sub(self.used_bytes(state))
    }

    /// Refuses a change with data that might not find space in the log. What waits to be flushed and metadata that
    /// waits for a checkpoint are counted at their worst: where that alone is the reason, it has to settle first.
    pub fn admit_space(&self, state: &State, change: &Change) -> std::result::Result<(), Refusal> {
        let pages = (change.pages.len() / BLOCK) as u64;
        let leaves = pages.div_ceil(crate::entry::FAN as u64) + 1;
        let needed = pages * SLOT_WORST + leaves * NODE_WORST;
        let usage = &state.maps.usage;
        if self.full.load(Ordering::Acquire) {
            return Err(Error::NoSpace.into());
        }
        if usage.physical + usage.metadata + needed > self.total_bytes() {
            // Overwriting with what takes less than what it replaces goes on.
            let shrinks = change.packed.is_some_and(|packed| packed <= won_back(state, change));
            // The background looks whether drives were added.
            self.signal.notify();
            return if shrinks { Ok(()) } else { Err(Error::NoSpace.into()) };
        }
        if self.free_bytes(state) < needed {
            self.wants_space.store(true, Ordering::Release);
            return Err(Refusal::Room);
        }
        Ok(())
    }
}

/// What a block takes in the log when it does not reduce: a frame of its own, and its part of the frame table.
pub const SLOT_WORST: u64 = (BLOCK + crate::frame::HEADER + 16 + 16) as u64;

/// What a map page takes at most: 512 entries of ten bytes would be more, but their values are near each other.
const NODE_WORST: u64 = 4096;

/// What a page of the frame table takes, rather more than less.
const TABLE_WORST: u64 = 1024;

/// Bytes of the log that a change makes free at once.
fn won_back(state: &State, change: &Change) -> u64 {
    let overwritten = |action: &Action| match *action {
        Action::Slots { volume, block, count, .. } => Some((volume, block, u64::from(count))),
        Action::Same { volume, block, count, .. } => Some((volume, block, count)),
        _ => None,
    };
    let won = |(volume, block, count)| {
        let tree = state.volume(volume).ok().map(|volume| volume.tree);
        tree.map_or(0, |tree| state.maps.exclusive_bytes(tree, block, block + count))
    };
    change.actions.iter().filter_map(overwritten).map(won).sum()
}

fn dirty_bytes(state: &State) -> u64 {
    state.maps.nodes.dirty() as u64 * NODE_WORST + state.maps.table.pages.dirty() as u64 * TABLE_WORST
}

/// Bytes that a host has mapped on a volume.
pub fn mapped_bytes(state: &State, volume: &VolumeState) -> u64 {
    state.maps.mapped(volume.tree) * BLOCK as u64
}
