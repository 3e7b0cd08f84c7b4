//! Events of exported volumes, and the interface through which front ends receive them.

use crate::clock::Sleep;
use crate::exports::Registry;
use crate::initiator::NexusName;
use crate::reservation::Change;
use block::DiskId;

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

/// A protocol front end. It is called on the thread that makes the change and must not block.
pub trait FrontEnd: Send + Sync {
    /// Volumes or mappings changed. `registry` is locked during the call.
    fn mappings_changed(&self, registry: &Registry);

    /// QoS limits or quotas changed. `registry` is locked during the call.
    fn limits_changed(&self, registry: &Registry);

    /// `sender` changed the registrations of a volume; the change is in force. The result completes when commands have
    /// ended that began before and that the reservation refuses now.
    fn reservations_changed(&self, volume: DiskId, sender: &NexusName, change: &Change) -> Sleep;

    /// An event of one volume.
    fn notify(&self, volume: DiskId, event: Event);
}
