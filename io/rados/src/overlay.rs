//! Writes that stay in memory, over objects that are only read: an array can be opened and checked without a change of it.

use crate::memory::{self, Object};
use crate::objects::{Attributes, Name, ObjectError, Objects, Operation, Pool, Usage};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::pool::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

type Outcome<T> = Result<T, ObjectError>;

/// Maximum size of an object that can be changed, in bytes: it is copied to memory as a whole.
const MAX_OBJECT_BYTES: u64 = 128 << 20;

/// Objects as they would be after the writes that this has had.
pub struct Overlay {
    below: Arc<dyn Objects>,
    changed: Arc<Mutex<BTreeMap<Name, Option<Object>>>>,
}

impl Overlay {
    /// Nothing is changed yet.
    pub fn new(below: Arc<dyn Objects>) -> Arc<Self> {
        Arc::new(Self { below, changed: Arc::default() })
    }

    /// What is known of an object here: that it was changed, or removed.
    fn known<T>(&self, name: &Name, look: impl FnOnce(&Object) -> T) -> Option<Outcome<T>> {
        let changed = self.changed.lock();
        changed.get(name).map(|object| object.as_ref().map(look).ok_or(ObjectError::Absent))
    }
}

async fn copy(below: &dyn Objects, name: &Name) -> Outcome<Option<Object>> {
    let bytes = match below.read(name, 0, MAX_OBJECT_BYTES).await {
        Ok(bytes) => bytes.to_vec(),
        Err(ObjectError::Absent) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Object { bytes, attributes: below.attributes(name).await? }))
}

impl Objects for Overlay {
    fn operate(&self, name: &Name, operation: Operation) -> BoxFuture<'static, Outcome<()>> {
        let (below, changed, name) = (self.below.clone(), self.changed.clone(), name.clone());
        Box::pin(async move {
            // Operations on one object do not overlap: the store has one under way.
            let known = changed.lock().get(&name).cloned();
            let before = match known {
                Some(object) => object,
                None => copy(&*below, &name).await?,
            };
            let after = memory::change(before.as_ref(), &operation.steps)?;
            changed.lock().insert(name, after);
            Ok(())
        })
    }

    fn read(&self, name: &Name, offset: u64, len: u64) -> BoxFuture<'static, Outcome<Bytes>> {
        match self.known(name, |object| object.read(offset, len)) {
            Some(outcome) => Box::pin(std::future::ready(outcome)),
            None => self.below.read(name, offset, len),
        }
    }

    fn attributes(&self, name: &Name) -> BoxFuture<'static, Outcome<Attributes>> {
        match self.known(name, |object| object.attributes.clone()) {
            Some(outcome) => Box::pin(std::future::ready(outcome)),
            None => self.below.attributes(name),
        }
    }

    fn list(&self, pool: Pool) -> BoxFuture<'static, Outcome<Vec<String>>> {
        let (names, changed) = (self.below.list(pool), self.changed.clone());
        Box::pin(async move {
            let mut names = names.await?;
            let changed = changed.lock();
            let there = changed.iter().filter(|(name, _)| name.pool == pool);
            names.retain(|name| !there.clone().any(|(changed, _)| changed.name == *name));
            names.extend(there.filter(|(_, object)| object.is_some()).map(|(name, _)| name.name.clone()));
            Ok(names)
        })
    }

    fn usage(&self, pool: Pool) -> BoxFuture<'static, Outcome<Usage>> {
        self.below.usage(pool)
    }

    fn pool_name(&self, pool: Pool) -> String {
        self.below.pool_name(pool)
    }

    fn namespace(&self) -> String {
        self.below.namespace()
    }

    fn alignment(&self) -> u64 {
        self.below.alignment()
    }

    fn tolerates(&self) -> usize {
        self.below.tolerates()
    }

    fn instance(&self) -> String {
        self.below.instance()
    }

    /// The former owner is not disturbed.
    fn fence(&self, _instance: &str) -> BoxFuture<'static, Outcome<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
