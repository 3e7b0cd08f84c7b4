//! Events of exported volumes, and the interface through which front ends receive them.

use crate::clock::Sleep;
use crate::initiator::NexusName;
use crate::registry::Registry;
use crate::reservation::Change;
use block::DiskId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Something that hosts of a volume must be notified of. Each front end encodes it: SCSI as a unit attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The capacity changed.
    CapacityChanged,
    /// The content was replaced: the volume was restored from a snapshot.
    ContentReplaced,
    /// A soft threshold of the pool was crossed.
    ThresholdCrossed,
    /// The saved state that could not be decoded was cleared: registrations and reservations are gone.
    StateCleared,
    /// The target had lost power since the state was saved that was in force: what is volatile is gone.
    PowerLost,
}

/// What a change touches. Whatever is not in it is as it was.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub(crate) volumes: BTreeSet<DiskId>,
    pub(crate) numbers: BTreeMap<Arc<str>, BTreeSet<u16>>,
    pub(crate) limits: BTreeSet<DiskId>,
}

impl Touched {
    /// Everything that there is.
    pub(crate) fn all(registry: &Registry) -> Touched {
        let numbers = |host: &Arc<str>| registry.mappings(host).map(|(number, _)| number).collect();
        Touched {
            volumes: registry.volumes.keys().copied().collect(),
            numbers: registry.mappings.hosts().map(|host| (host.clone(), numbers(host))).collect(),
            limits: BTreeSet::new(),
        }
    }

    /// The volumes that are exported now, or not any more.
    pub fn volumes(&self) -> &BTreeSet<DiskId> {
        &self.volumes
    }

    /// The logical unit numbers under which hosts may see something else than before, by the name of the host.
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
    /// The volumes and mappings in `touched` changed, and no others. `registry` is locked during the call.
    fn mappings_changed(&self, registry: &Registry, touched: &Touched);

    /// QoS limits or quotas of these volumes changed. `registry` is locked during the call.
    fn limits_changed(&self, registry: &Registry, volumes: &BTreeSet<DiskId>);

    /// `sender` changed the registrations of a volume; the change is in force. The result completes when commands have
    /// ended that began before and that the reservation refuses now.
    fn reservations_changed(&self, volume: DiskId, sender: &NexusName, change: &Change) -> Sleep;

    /// An event of one volume.
    fn notify(&self, volume: DiskId, event: Event);
}
