//! Namespaces of a controller: the namespaces that its host sees, and the volumes that the host may still associate
//! with an identifier.
//!
//! A freed identifier is reused for another volume on a controller only after the host has dropped the former
//! namespace: the host has listed its namespaces without the identifier, and then begun another inventory. Until then
//! the identifier names nothing, as a command does not say which volume it was meant for. A new controller does not
//! know the host's state: the host has to identify a namespace whose identifier ever named another volume before its
//! commands are performed.

use crate::path::{Opening, Path, View};
use block::DiskId;
use export::{Mapping, Volume};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The volume that the host may associate with an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Possibly this volume.
    Names(DiskId),
    /// As before, but the host has since read a list of its namespaces without the identifier.
    Listed(DiskId),
    /// None: the host began another inventory after that.
    Free,
}

#[derive(Default)]
struct Known {
    beliefs: BTreeMap<u32, Belief>,
    /// Mapped identifiers that name nothing until the host no longer associates them with another volume.
    withheld: BTreeSet<u32>,
}

/// Namespaces of a controller. The lock of `known` is held while the view changes.
#[derive(Default)]
pub(crate) struct Namespaces {
    view: RwLock<Arc<View>>,
    /// Counts the views.
    number: AtomicU64,
    known: Mutex<Known>,
}

/// A namespace that is mapped to the host.
pub(crate) struct Wanted {
    pub(crate) nsid: u32,
    pub(crate) volume: Arc<Volume>,
    pub(crate) mapping: Mapping,
}

/// Changes of the host's view.
#[derive(Debug, Default)]
pub(crate) struct ViewChange {
    /// Identifiers whose namespaces appeared, disappeared or changed, and those that the host has to read again.
    pub(crate) nsids: Vec<u32>,
    /// A namespace appeared.
    pub(crate) appeared: bool,
}

impl Namespaces {
    /// All namespaces that the host sees.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.read().clone()
    }

    /// The namespace with this identifier, if the host sees it.
    pub(crate) fn path(&self, nsid: u32) -> Option<Arc<Path>> {
        self.view.read().get(&nsid).cloned()
    }

    /// Number of the view. A command that arrives now can't be meant for a namespace of a later view.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::SeqCst)
    }

    /// Sets the view to the mapped namespaces, without the identifiers that the host may associate with other volumes.
    pub(crate) fn rebuild(
        &self,
        wanted: impl Iterator<Item = Wanted>,
        open: impl Fn(Opening) -> Arc<Path>,
    ) -> ViewChange {
        let mut known = self.known.lock();
        let (old, since) = (self.view(), self.number() + 1);
        let withheld_before = std::mem::take(&mut known.withheld);
        let (mut new, mut change) = (View::new(), ViewChange::default());
        for Wanted { nsid, volume, mapping } in wanted {
            if let Some(path) = old.get(&nsid).filter(|path| Arc::ptr_eq(&path.volume, &volume)) {
                if path.set_read_only(mapping.read_only) {
                    change.nsids.push(nsid);
                }
                new.insert(nsid, path.clone());
                continue;
            }
            let belief = known.beliefs.get(&nsid).copied();
            if let Some(Belief::Names(other) | Belief::Listed(other)) = belief
                && other != volume.id()
            {
                if matches!(belief, Some(Belief::Listed(_))) && !withheld_before.contains(&nsid) {
                    change.nsids.push(nsid);
                }
                known.withheld.insert(nsid);
                continue;
            }
            change.appeared = true;
            change.nsids.push(nsid);
            known.beliefs.insert(nsid, Belief::Names(volume.id()));
            let unidentified = mapping.reused && belief != Some(Belief::Free);
            let opening = Opening { nsid, volume, read_only: mapping.read_only, unidentified, since };
            new.insert(nsid, open(opening));
        }
        let stays = |nsid: &u32, path: &Arc<Path>| new.get(nsid).is_some_and(|kept| Arc::ptr_eq(kept, path));
        for (nsid, path) in old.iter().filter(|(nsid, path)| !stays(nsid, path)) {
            path.close();
            if !new.contains_key(nsid) {
                change.nsids.push(*nsid);
            }
        }
        self.set_view(new);
        change
    }

    fn set_view(&self, view: View) {
        *self.view.write() = Arc::new(view);
        // After the view is set: a command that sees the new number sees the new view.
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends all paths.
    pub(crate) fn close(&self) {
        let _known = self.known.lock();
        self.view().values().for_each(|path| path.close());
        self.set_view(View::new());
    }

    /// Notes that the host begins to list its namespaces. Returns whether a withheld namespace may appear now.
    /// `unread`: the host has still to read a notification of the identifier.
    pub(crate) fn begin_inventory(&self, unread: impl Fn(u32) -> bool) -> bool {
        let Known { beliefs, withheld } = &mut *self.known.lock();
        let mut appears = false;
        for (nsid, belief) in beliefs {
            if matches!(belief, Belief::Listed(_)) && !unread(*nsid) {
                *belief = Belief::Free;
                appears |= withheld.contains(nsid);
            }
        }
        appears
    }

    /// Notes that the host has read the list of the namespaces of `view` with identifiers above `after`. Returns the
    /// withheld ones that it has to look for again. `unread` as for [`Namespaces::begin_inventory`]: a list that does
    /// not answer the notification may have been read by another program than the host's driver.
    pub(crate) fn listed(&self, view: &View, after: u32, unread: impl Fn(u32) -> bool) -> Vec<u32> {
        let Known { beliefs, withheld } = &mut *self.known.lock();
        let current = self.view();
        let mut again = Vec::new();
        for (nsid, belief) in beliefs.iter_mut().filter(|(nsid, _)| **nsid > after) {
            let is_free = !view.contains_key(nsid) && !current.contains_key(nsid);
            if let Belief::Names(volume) = *belief
                && is_free
                && !unread(*nsid)
            {
                *belief = Belief::Listed(volume);
                again.extend(withheld.contains(nsid).then_some(*nsid));
            }
        }
        again
    }
}
