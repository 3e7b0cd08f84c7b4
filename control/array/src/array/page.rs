//! Parts of long lists, in order of names: only the objects of the part are looked at, so that a page of ten thousand volumes costs
//! what a page of a hundred costs.

use crate::array::Array;
use crate::shape::view::{Snapshot, Volume};
use records::{Labels, Named, SnapshotEntry, Table, VolumeEntry};

/// What the labels of an object must be: a key, and its value if one is wanted. All must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(pub Vec<(String, Option<String>)>);

impl LabelSelector {
    /// Whether an object with these labels is selected.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, wanted)| {
            labels.get(key).is_some_and(|value| wanted.as_deref().is_none_or(|wanted| wanted == value))
        })
    }
}

/// Which part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Of the objects with these labels.
    pub selector: LabelSelector,
    /// In the reverse order of names.
    pub reverse: bool,
    /// How many come before the part.
    pub skip: usize,
    /// How many it has at most; `None`: all.
    pub take: Option<usize>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The objects of the part.
    pub items: Vec<T>,
    /// How many objects the list has.
    pub total: usize,
}

/// A record with labels.
pub(crate) trait Labelled: Named {
    fn labels(&self) -> &Labels;
}

impl Labelled for VolumeEntry {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Labelled for SnapshotEntry {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl ListPage {
    /// The records of the part. Without a selector no others are looked up.
    pub(crate) fn of<'a, T: Labelled>(&self, table: &'a Table<T>) -> Listed<&'a T> {
        let take = self.take.unwrap_or(usize::MAX);
        if self.selector == LabelSelector::default() {
            return Listed { items: table.page(self.reverse, self.skip, take), total: table.len() };
        }
        let mut found = table.page(self.reverse, 0, usize::MAX);
        found.retain(|entry| self.selector.selects(entry.labels()));
        let total = found.len();
        Listed { items: found.into_iter().skip(self.skip).take(take).collect(), total }
    }
}

impl Array {
    /// Volumes by name.
    pub(crate) fn volume_page(&self, page: &ListPage) -> Listed<Volume> {
        let config = self.config();
        let Listed { items, total } = page.of(&config.volumes);
        Listed { items: self.volume_views(&config, &items), total }
    }

    /// Snapshots by name.
    pub(crate) fn snapshot_page(&self, page: &ListPage) -> Listed<Snapshot> {
        let config = self.config();
        let Listed { items, total } = page.of(&config.snapshots);
        Listed { items: items.into_iter().map(|entry| self.snapshot(&config, entry)).collect(), total }
    }
}
