//! The configuration in memory and its records in the engine.
//!
//! Changes run one after another: only the holder of [`Configuration::change`] may write.

pub(crate) mod check;

use crate::{Error, Result};
use bytes::Bytes;
use engine::Engine;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use records::{Config, Edit, Record};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// The configuration, and where it is stored.
pub(crate) struct Configuration {
    engine: Arc<Engine>,
    config: RwLock<Config>,
    /// Held by the one change under way.
    changing: Mutex<()>,
}

impl Configuration {
    /// The configuration that was read from the engine.
    pub fn new(engine: Arc<Engine>, config: Config) -> Self {
        Self { engine, config: RwLock::new(config), changing: Mutex::default() }
    }

    /// The configuration. Its lock is recursive: a waiting writer does not block a reader that already holds it.
    pub fn read(&self) -> RwLockReadGuard<'_, Config> {
        self.config.read_recursive()
    }

    /// To apply committed edits, for the holder of [`Configuration::change`].
    pub fn write(&self) -> RwLockWriteGuard<'_, Config> {
        self.config.write()
    }

    /// Waits until no other change is under way, and keeps others out until the guard is dropped.
    pub async fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Stores the progress of background work, a record that concerns no host; in memory it is applied in any case.
    ///
    /// # Errors
    /// When the record can't be stored.
    pub async fn store_progress(&self, record: Record) -> Result<()> {
        let _one_at_a_time = self.change().await;
        let stored = put_records(&self.engine, vec![put(&self.engine, &record)]).await;
        self.write().apply(Edit::Put(record));
        stored
    }
}

pub(crate) fn bytes_of(records: Vec<(String, Option<Vec<u8>>)>) -> Vec<(String, Option<Bytes>)> {
    records.into_iter().map(|(key, value)| (key, value.map(Bytes::from))).collect()
}

/// The value that is stored under a key.
pub(crate) fn stored(engine: &Engine, key: &str) -> Option<Vec<u8>> {
    engine.records(key).into_iter().find(|(found, _)| found == key).map(|(_, value)| value.to_vec())
}

/// The record to be written in the place of what is stored.
pub(crate) fn put(engine: &Engine, record: &Record) -> (String, Option<Vec<u8>>) {
    let key = record.key();
    let value = record.value_over(stored(engine, &key).as_deref());
    (key, Some(value))
}

/// Writes or removes records in one step; durable when this answers.
pub(crate) async fn put_records(engine: &Engine, records: Vec<(String, Option<Vec<u8>>)>) -> Result<()> {
    let done = engine.put_records(bytes_of(records)).await;
    done.map_err(|error| Error::failed("the configuration could not be stored", error))
}
