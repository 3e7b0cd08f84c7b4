//! The namespaces of a controller: what its host sees, and what the host may still take an identifier for.
//!
//! An identifier that was freed becomes that of another volume on a controller only after the host has dropped the former
//! namespace: it has listed its namespaces without it, and then begun another inventory. Until then the identifier names
//! nothing, as nothing in a command says which volume it was meant for. A new controller can't know what its host believes. There
//! the host has to identify a namespace whose identifier was ever another's before its commands are performed.

use crate::path::{Opening, Path, View};
use block::DiskId;
use export::{Mapping, Volume};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the host takes an identifier for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Possibly this volume.
    Names(DiskId),
    /// As before, but it has read a list of its namespaces without the identifier.
    Listed(DiskId),
    /// Nothing: it began another inventory after that.
    Free,
}

#[derive(Default)]
struct Known {
    beliefs: BTreeMap<u32, Belief>,
    /// Identifiers that are mapped, and name nothing until the host takes them for nothing else.
    withheld: BTreeSet<u32>,
}

/// The namespaces of a controller. The lock of `known` is held while the view changes.
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

/// What is new to the host.
#[derive(Debug, Default)]
pub(crate) struct ViewChange {
    /// Identifiers whose namespaces appeared, disappeared or changed, and those that the host has to look for again.
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

    /// The number of the view. A command that comes now can't be meant for a namespace of a later one.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::SeqCst)
    }

    /// Makes the view what is wanted, without the identifiers that the host may take for other volumes.
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
        // After the view: a command that finds the new number finds the new view.
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends all paths.
    pub(crate) fn close(&self) {
        let _known = self.known.lock();
        self.view().values().for_each(|path| path.close());
        self.set_view(View::new());
    }

    /// The host begins to read which namespaces there are. Returns whether a namespace may appear now that was withheld. `unread`:
    /// the host has a notification of the identifier to read first.
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

    /// The host has read the list of the namespaces of `view` with identifiers above `after`. Returns the withheld ones that it has
    /// to look for again. `unread` as for [`Namespaces::begin_inventory`]: a list that is not an answer to the notification
    /// may have been read by a program beside the host's driver.
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
