//! A logical unit: an exported volume with the state that SCSI adds to it (task set, mode pages, SCSI-2 reservations).

use crate::gate;
use crate::mode_pages::Pages;
use crate::path::Path;
use crate::reservation::Reservations;
use crate::rod::Rods;
use crate::sense::Code;
use crate::target::TargetIdentity;
use crate::task_set::Queue;
use block::{DiskId, Geometry};
use export::{Clock, Exports, Volume};
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
    /// True while a threshold of the provisioning mode page is crossed; the initiators have been notified.
    pub(crate) threshold_crossed: bool,
}

impl Unit {
    pub(crate) fn new(
        volume: Arc<Volume>,
        identity: Arc<TargetIdentity>,
        exports: Arc<Exports>,
        rods: Arc<Rods>,
    ) -> Arc<Unit> {
        let saved = volume.state().scsi_mode_pages().clone();
        let pages = Pages::from_saved(&saved).unwrap_or_else(|| {
            volume.fence();
            Pages::default()
        });
        let unit = Unit {
            id: volume.id(),
            block_bytes: volume.block_bytes(),
            identity,
            clock: exports.clock().clone(),
            exports,
            rods,
            simple_reservations: AtomicBool::new(true),
            descriptor_sense: AtomicBool::new(pages.current().descriptor_sense),
            core: Mutex::new(Core {
                volume: volume.clone(),
                paths: Vec::new(),
                queue: Queue::default(),
                reservations: Reservations::default(),
                pages,
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
        }
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

impl Core {
    /// Establishes a unit attention condition on every path that `selects` returns true for.
    pub(crate) fn raise_unit_attention(&self, code: Code, selects: impl Fn(&Path) -> bool) {
        let selected = self.paths.iter().filter(|path| selects(path));
        selected.for_each(|path| path.raise_unit_attention(code.into()));
    }

    /// Sets the gate flags of all paths by reservations, mode pages and limits.
    pub(crate) fn refresh(&self) {
        let write_protect = self.pages.current().write_protect;
        let limited = !self.volume.limiters().is_empty();
        for path in &self.paths {
            path.gate.set(gate::RESERVED, self.reservations.may_conflict(path));
            path.gate.set(gate::PROTECTED, write_protect || path.is_read_only());
            path.gate.set(gate::LIMITED, limited);
        }
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
