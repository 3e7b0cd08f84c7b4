//! A logical unit: an exported volume with the state that SCSI adds to it (task set, mode pages, SCSI-2 reservations).

pub(crate) mod command;
pub(crate) mod gate;
pub(crate) mod operations;
pub(crate) mod path;
pub(crate) mod reservation;
pub(crate) mod response;
pub(crate) mod row;
pub(crate) mod task;
pub(crate) mod view;

use crate::encoding::identity::TargetIdentity;
use crate::encoding::pages::Pages;
use crate::encoding::rods::Rods;
use crate::encoding::sense::Code;
use crate::encoding::task_set::Queue;
use crate::encoding::volatile::{Attention, Volatile};
use crate::unit::path::Path;
use crate::unit::reservation::Reservations;
use block::{DiskId, Geometry, Op};
use bytes::Bytes;
use export::reservation::Registrations;
use export::{Clock, Exports, ScsiState, StateError, Volume};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// A logical unit.
pub(crate) struct Unit {
    pub(crate) volume: Arc<Volume>,
    pub(crate) id: DiskId,
    pub(crate) block_bytes: u32,
    pub(crate) identity: Arc<TargetIdentity>,
    pub(crate) exports: Arc<Exports>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The RODs of all units.
    pub(crate) rods: Arc<Rods>,
    /// True if the unit supports RESERVE and RELEASE.
    pub(crate) simple_reservations: AtomicBool,
    /// D_SENSE of the control mode page, read wherever sense data is encoded.
    pub(crate) descriptor_sense: AtomicBool,
    /// Volatile state may have changed since it was saved.
    changed: AtomicBool,
    core: Mutex<Core>,
}

/// The state of a unit that changes rarely; never locked by a command on a path without flags.
pub(crate) struct Core {
    volume: Arc<Volume>,
    /// Every path to the unit.
    pub(crate) paths: Vec<Arc<Path>>,
    pub(crate) queue: Queue,
    pub(crate) reservations: Reservations,
    pub(crate) pages: Pages,
    /// What was saved of nexuses that have not been resumed.
    pub(crate) unclaimed: Unclaimed,
    /// True while a threshold of the provisioning mode page is crossed; the initiators have been notified.
    pub(crate) threshold_crossed: bool,
}

/// Unit attention conditions that a former home left.
#[derive(Default)]
pub(crate) struct Unclaimed {
    pub(crate) attentions: Vec<Attention>,
    /// There were too many of them.
    pub(crate) overflowed: bool,
}

/// The state of a unit that was saved. `None` if a part can't be understood.
fn saved_state(volume: &Volume) -> Option<(Pages, Volatile)> {
    let state = volume.state();
    let volatile = Volatile::decode(state.scsi_volatile())?;
    let saved = Pages::from_saved(state.scsi_mode_pages())?;
    let pages = if volatile.pages.is_empty() { saved } else { saved.with_current(&volatile.pages)? };
    Some((pages, volatile))
}

impl Unit {
    pub(crate) fn new(
        volume: Arc<Volume>,
        identity: Arc<TargetIdentity>,
        exports: Arc<Exports>,
        rods: Arc<Rods>,
    ) -> Arc<Unit> {
        let saved = saved_state(&volume);
        let (pages, volatile) = saved.unwrap_or_else(|| {
            volume.fence();
            Default::default()
        });
        let Volatile { holder, attentions, overflowed, .. } = volatile;
        let unit = Unit {
            id: volume.id(),
            block_bytes: volume.block_bytes(),
            identity,
            clock: exports.clock().clone(),
            exports,
            rods,
            simple_reservations: AtomicBool::new(true),
            descriptor_sense: AtomicBool::new(pages.current().descriptor_sense),
            changed: AtomicBool::new(false),
            core: Mutex::new(Core {
                volume: volume.clone(),
                paths: Vec::new(),
                queue: Queue::default(),
                reservations: Reservations::held_by(holder),
                pages,
                unclaimed: Unclaimed { attentions, overflowed },
                threshold_crossed: false,
            }),
            volume,
        };
        Arc::new(unit)
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Sets whether the unit supports RESERVE and RELEASE of SCSI-2.
    pub(crate) fn set_simple_reservations(&self, supported: bool) {
        self.simple_reservations.store(supported, Ordering::Relaxed);
        if !supported {
            let mut core = self.lock();
            core.reservations.reset();
            core.refresh();
            self.set_changed(true);
        }
    }

    /// Whether volatile state may have changed since it was saved.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_changed(&self, changed: bool) {
        self.changed.store(changed, Ordering::Relaxed);
    }

    /// Forgets what was saved of nexuses of a front end that it has not resumed.
    pub(crate) fn release_unclaimed(&self, front: u64) {
        let mut core = self.lock();
        core.unclaimed.attentions.retain(|(origin, _)| origin.front != front);
        core.reservations.release_unclaimed(front);
        core.refresh();
        drop(core);
        self.set_changed(true);
        self.wake_queued();
    }

    /// The front ends that may resume nexuses of which something was saved.
    pub(crate) fn unclaimed_fronts(&self) -> Vec<u64> {
        let core = self.lock();
        let origins = core.unclaimed.attentions.iter().map(|(origin, _)| *origin);
        origins.chain(core.reservations.unclaimed()).map(|origin| origin.front).collect()
    }

    /// Wakes the queued tasks after the end of a task that may have blocked them.
    pub(crate) fn wake_queued(&self) {
        let wakers = self.core.lock().queue.take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Establishes a unit attention condition on every path that `selects` returns true for.
    pub(crate) fn raise_unit_attention(&self, code: Code, selects: impl Fn(&Path) -> bool) {
        self.lock().raise_unit_attention(code, selects);
    }
}

/// Changes of a command to the saved state; the rest stays as it is.
#[derive(Default)]
pub(crate) struct Next<'a> {
    pub(crate) registrations: Option<&'a Registrations>,
    /// Saved and current images.
    pub(crate) pages: Option<(Vec<u8>, Vec<u8>)>,
    /// The path that holds the SCSI-2 reservation, or none.
    pub(crate) holder: Option<Option<&'a Path>>,
    /// Unit attention conditions that the command raises.
    pub(crate) raised: Vec<Attention>,
}

impl Unit {
    /// The state to save after a change, and its part that is this front end's.
    pub(crate) fn encode_state(&self, core: &Core, next: Next<'_>) -> Result<(Bytes, ScsiState), StateError> {
        let current = || (core.pages.saved_bytes(), core.pages.current_bytes());
        let (saved, pages) = next.pages.unwrap_or_else(current);
        let mut scsi = ScsiState { mode_pages: saved.into(), volatile: Bytes::new() };
        if self.volume.state().saves_volatile() {
            let mut attentions = core.unclaimed.attentions.clone();
            let pending = core.paths.iter().filter_map(|path| Some((path.origin?, path)));
            let pending = pending.flat_map(|(origin, path)| {
                path.saved_attentions().into_iter().map(move |code| (origin, code))
            });
            for attention in pending.chain(next.raised) {
                if !attentions.contains(&attention) {
                    attentions.push(attention);
                }
            }
            let holder = match next.holder {
                Some(holder) => holder.and_then(|path| path.origin),
                None => core.reservations.holder(),
            };
            let overflowed = core.unclaimed.overflowed;
            let pages = if scsi.mode_pages == pages { Vec::new() } else { pages };
            scsi.volatile = Volatile { pages, holder, attentions, overflowed }.encode();
        }
        let registrations = next.registrations.cloned();
        let registrations = registrations.unwrap_or_else(|| self.volume.state().registrations.clone());
        Ok((self.volume.encode_state(&registrations, scsi.clone())?, scsi))
    }

    /// Saves the volatile state if it has changed since it was saved.
    ///
    /// # Errors
    /// That of the disk; it is tried again by the next call.
    pub(crate) async fn save_volatile(&self) -> block::Result<()> {
        let is_saved = {
            let state = self.volume.state();
            state.saves_volatile() && !state.is_fenced()
        };
        if !is_saved || !self.is_changed() {
            return Ok(());
        }
        let _lock = self.volume.lock_state().await;
        let (state, scsi) = {
            let core = self.lock();
            self.set_changed(false);
            // What can't be saved is reported where it is encoded, and was not saved before.
            let Ok(encoded) = self.encode_state(&core, Next::default()) else { return Ok(()) };
            encoded
        };
        if self.volume.disk().state() != state {
            let saved = self.volume.disk().execute(Op::SaveState(state)).await;
            if let Err(error) = saved {
                self.set_changed(true);
                return Err(error);
            }
        }
        self.volume.state().set_scsi(scsi);
        Ok(())
    }
}

impl Core {
    /// Establishes a unit attention condition on every path that `selects` returns true for.
    pub(crate) fn raise_unit_attention(&self, code: Code, selects: impl Fn(&Path) -> bool) {
        let selected = self.paths.iter().filter(|path| selects(path));
        selected.for_each(|path| path.raise_unit_attention(code.into()));
    }

    /// Sets the gate flags of all paths by reservations, mode pages and limits.
    pub(crate) fn refresh(&self) {
        self.paths.iter().for_each(|path| self.refresh_path(path));
    }

    /// As [`Core::refresh`], of one path.
    pub(crate) fn refresh_path(&self, path: &Path) {
        path.gate.set(gate::RESERVED, self.reservations.may_conflict(path));
        path.gate.set(gate::PROTECTED, self.pages.current().write_protect || path.is_read_only());
        path.gate.set(gate::LIMITED, !self.volume.limiters().is_empty());
    }

    /// Simple tasks in progress that are only counted.
    pub(crate) fn counted(&self) -> u64 {
        self.paths.iter().map(|path| path.gate.count()).sum()
    }

    pub(crate) fn refresh_barrier(&self) {
        let on = self.queue.has_barrier();
        self.paths.iter().for_each(|path| path.gate.set(gate::BARRIER, on));
    }
}
