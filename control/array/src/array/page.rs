//! Parts of long lists, in order of names: only the objects of the part are looked at, so that a page of ten thousand volumes costs
//! what a page of a hundred costs.

use records::{Labels, Named, Table};

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
