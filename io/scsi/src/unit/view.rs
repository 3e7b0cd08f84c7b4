//! The logical units that a nexus sees, by number.

use crate::encoding::volatile::Origin;
use crate::unit::path::Path;
use block::DiskId;
use export::NexusName;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The paths of a nexus by logical unit number.
pub(crate) type View = BTreeMap<u16, Arc<Path>>;

/// The part of a nexus that the target shares, to change its view.
pub(crate) struct Shared {
    pub(crate) nexus: Arc<NexusName>,
    pub(crate) host: Arc<str>,
    /// The nexus at its front end, if it comes by one.
    pub(crate) origin: Option<Origin>,
    pub(crate) view: RwLock<Arc<View>>,
    /// The unit that each number named last for this nexus, whether it does now or not. Commands that are on their way name
    /// nothing else than the number.
    pub(crate) named: Mutex<BTreeMap<u16, DiskId>>,
    /// True while REPORTED LUNS DATA HAS CHANGED is pending on every path.
    pub(crate) luns_changed: Arc<AtomicBool>,
}

impl Shared {
    pub(crate) fn new(nexus: NexusName, host: Arc<str>, origin: Option<Origin>) -> Shared {
        let (view, named) = (RwLock::new(Arc::new(View::new())), Mutex::default());
        Shared { nexus: Arc::new(nexus), host, origin, view, named, luns_changed: Arc::default() }
    }
}

/// How a nexus begins at this target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It is new to its host: POWER ON.
    New,
    /// It continues from another home, with its reservations and unit attention conditions.
    Resumed,
    /// This target had it before, and has ended it: I_T NEXUS LOSS OCCURRED.
    Lost,
}
