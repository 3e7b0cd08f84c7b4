//! Table of records of one type, by identity and by name.

use crate::id::{GroupId, HostId, Identity};
use crate::secret::SealedField;
use crate::{Error, Result, Stage, work};
use block::DiskId;
use std::collections::BTreeMap;

/// Secondary keys of records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Volumes of a group.
    Group(GroupId),
    /// Snapshots of a volume.
    Source(DiskId),
    /// The group of a host.
    Member(HostId),
    /// The host with a port of this name.
    Port(String),
}

/// A record with a stable identity and a name.
pub trait Named {
    /// Type of the identity.
    type Id: Identity;
    /// Noun for messages.
    const NOUN: &'static str;

    /// Identity of the record.
    fn id(&self) -> Self::Id;

    /// Name of the record, active or not.
    fn label(&self) -> &str;

    /// Active name; `None` if the name is free for other records.
    fn name(&self) -> Option<&str> {
        Some(self.label())
    }

    /// The life-cycle stage of a volume or snapshot; `None` for other records.
    fn stage(&self) -> Option<Stage> {
        None
    }

    /// Secondary keys, while the record has an active name.
    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Whether records of this type may have sealed secrets.
    const SEALS: bool = false;

    /// Sealed secrets of the record.
    fn sealed(&self) -> Vec<SealedField> {
        Vec::new()
    }
}

/// Records of one type by identity and by name.
#[derive(Clone, Debug)]
pub struct Table<T: Named> {
    by_id: BTreeMap<T::Id, T>,
    names: BTreeMap<String, T::Id>,
    /// Secondary index, ordered by name.
    keyed: BTreeMap<Key, BTreeMap<String, T::Id>>,
}

impl<T: Named> Default for Table<T> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), names: BTreeMap::new(), keyed: BTreeMap::new() }
    }
}

impl<T: Named> Table<T> {
    /// The record with this identity.
    pub fn get(&self, id: T::Id) -> Option<&T> {
        work::look();
        self.by_id.get(&id)
    }

    /// The record with this identity or name. An identity takes precedence over a name that looks like one.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(&self, which: &str) -> Result<&T> {
        let found = self.with_digits(which).or_else(|| self.find(which));
        found.ok_or_else(|| Error::not_found(format!("there is no {} {which:?}", T::NOUN)))
    }

    /// The record with this identity, if it has an active name.
    pub fn with_digits(&self, digits: &str) -> Option<&T> {
        self.get(T::Id::from_digits(digits)?).filter(|it| it.name().is_some())
    }

    /// The record with this name.
    pub fn find(&self, name: &str) -> Option<&T> {
        self.names.get(name).and_then(|id| self.get(*id))
    }

    /// The records with a key and an active name, ordered by name.
    pub fn with_key(&self, key: &Key) -> impl Iterator<Item = &T> + use<'_, T> {
        self.keyed.get(key).into_iter().flat_map(BTreeMap::values).filter_map(|id| self.get(*id))
    }

    /// Checks that a name is free.
    ///
    /// # Errors
    /// If another record has the name.
    pub fn free(&self, name: &str) -> Result<()> {
        match self.names.contains_key(name) {
            true => {
                let taken = format!("a {} {name:?} exists already: choose another name", T::NOUN);
                Err(Error::conflict(taken).about("name"))
            }
            false => Ok(()),
        }
    }

    /// The records with an active name, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.names.values().filter_map(|id| self.get(*id))
    }

    /// At most `take` records with an active name after the first `skip`, in ascending or descending order of names.
    /// Only these are looked up.
    pub fn page(&self, reverse: bool, skip: usize, take: usize) -> Vec<&T> {
        let found = |id: &T::Id| self.get(*id);
        match reverse {
            false => self.names.values().skip(skip).take(take).filter_map(found).collect(),
            true => self.names.values().rev().skip(skip).take(take).filter_map(found).collect(),
        }
    }

    /// Number of records with an active name.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if no record has an active name.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All records, with or without an active name, ordered by identity.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.by_id.values().inspect(|_| work::look())
    }

    /// Inserts a record, or replaces the one with the same identity. False if another record has its name.
    pub fn put(&mut self, record: T) -> bool {
        self.remove(record.id());
        let unique = match record.name() {
            Some(name) => {
                for key in record.keys() {
                    self.keyed.entry(key).or_default().insert(name.to_owned(), record.id());
                }
                self.names.insert(name.to_owned(), record.id()).is_none()
            }
            None => true,
        };
        self.by_id.insert(record.id(), record);
        unique
    }

    /// Removes a record.
    pub fn remove(&mut self, id: T::Id) -> Option<T> {
        let old = self.by_id.remove(&id)?;
        if let Some(name) = old.name() {
            self.names.remove(name);
            for key in old.keys() {
                if let Some(names) = self.keyed.get_mut(&key) {
                    names.remove(name);
                    if names.is_empty() {
                        self.keyed.remove(&key);
                    }
                }
            }
        }
        Some(old)
    }
}

/// Inserts new records.
impl<T: Named> Extend<T> for Table<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, records: I) {
        records.into_iter().for_each(|record| {
            self.put(record);
        });
    }
}
