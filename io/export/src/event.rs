//! Events of exported volumes, and the interface through which front ends receive them.

use crate::clock::Sleep;
use crate::initiator::NexusName;
use crate::registry::Registry;
use crate::reservation::Change;
use block::DiskId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An event that hosts of a volume must be notified of. Each front end encodes it: SCSI as a unit attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The capacity changed.
    CapacityChanged,
    /// The content was replaced: the volume was restored from a snapshot.
    ContentReplaced,
    /// A soft threshold of the pool was crossed.
    ThresholdCrossed,
    /// Saved state that could not be decoded was cleared: registrations and reservations are lost.
    StateCleared,
    /// The target had lost power since the current state was saved: volatile state is lost.
    PowerLost,
}

/// Objects that a change touches; all others are unchanged.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub(crate) volumes: BTreeSet<DiskId>,
    pub(crate) numbers: BTreeMap<Arc<str>, BTreeSet<u16>>,
    pub(crate) limits: BTreeSet<DiskId>,
}

impl Touched {
    /// All objects.
    pub(crate) fn all(registry: &Registry) -> Touched {
        let numbers = |host: &Arc<str>| registry.mappings(host).map(|(number, _)| number).collect();
        Touched {
            volumes: registry.volumes.keys().copied().collect(),
            numbers: registry.mappings.hosts().map(|host| (host.clone(), numbers(host))).collect(),
            limits: BTreeSet::new(),
        }
    }

    /// Volumes that are newly exported, or no longer exported.
    pub fn volumes(&self) -> &BTreeSet<DiskId> {
        &self.volumes
    }

    /// Logical unit numbers whose mapping may have changed, by host name.
    pub fn numbers(&self) -> &BTreeMap<Arc<str>, BTreeSet<u16>> {
        &self.numbers
    }

    pub(crate) fn limits(&self) -> &BTreeSet<DiskId> {
        &self.limits
    }

    pub(crate) fn has_mappings(&self) -> bool {
        !self.volumes.is_empty() || !self.numbers.is_empty()
    }
}

/// A protocol front end. It is called on the thread that makes the change and must not block.
pub trait FrontEnd: Send + Sync {
    /// Reports changes of volumes and mappings; all of them are in `touched`. `registry` is locked during the call.
    fn mappings_changed(&self, registry: &Registry, touched: &Touched);

    /// Reports changes of QoS limits or quotas of these volumes. `registry` is locked during the call.
    fn limits_changed(&self, registry: &Registry, volumes: &BTreeSet<DiskId>);

    /// `sender` changed the registrations of a volume; the change is in force. The result completes when earlier
    /// commands that the reservation now refuses have ended.
    fn reservations_changed(&self, volume: DiskId, sender: &NexusName, change: &Change) -> Sleep;

    /// Reports an event of one volume.
    fn notify(&self, volume: DiskId, event: Event);
}
