//! What a front end reads itself: data that the home locates in the store that both share.

use crate::board::DOMAIN;
use crate::shared_store::SharedStore;
use anyhow::{Context, Result};
use engine::{Reader, ReaderCounters};
use forward::FrontEnd;
use machine::key;
use rados::objects::Objects;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// How a front end opens the store, and what its cache may hold.
pub struct Config {
    /// The array's folder.
    pub data: PathBuf,
    /// Where the key comes from.
    pub key: key::Config,
    /// Bytes of the cache.
    pub cache_bytes: usize,
}

/// What a front end needs to read the store. Its cache has the memory of the home's read cache, which this process has none of.
#[derive(Clone)]
pub struct Reading {
    objects: Arc<dyn Objects>,
    array: u128,
    key: key::Config,
    data: PathBuf,
    cache_bytes: usize,
}

impl Reading {
    /// Of a store that controllers share; `None` if only the home can read it.
    pub fn of(config: Config, store: &SharedStore) -> Option<Self> {
        let SharedStore::Rados(objects, array) = store else { return None };
        let Config { key, data, cache_bytes } = config;
        Some(Self { objects: objects.clone(), array: *array, key, data, cache_bytes })
    }

    /// Lets a front end read itself as soon as that is possible. If it is not, the front end gets all data from the home, and a
    /// line of the log says why.
    pub fn start(self, front_end: Arc<FrontEnd>) -> Started {
        Started(tokio::spawn(async move {
            match self.open().await {
                Ok(reader) => {
                    let reader = Arc::new(reader);
                    front_end.resolve_with(Some(reader.clone()));
                    tracing::info!("this controller reads data of hosts itself, where the home locates them");
                    Some(reader)
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(
                        error,
                        "this controller gets all data from the home: it can't read the store itself"
                    );
                    None
                }
            }
        }))
    }

    async fn open(self) -> Result<Reader> {
        let Self { objects, array, key, data, cache_bytes } = self;
        let envelopes = rados::read_envelope(&*objects, array).await?.map(|envelope| vec![envelope]);
        // A passphrase takes long to derive a key of, and a server of keys to answer.
        let unlocked = tokio::task::spawn_blocking(move || key::unlock(&key, &data, envelopes));
        let key = unlocked.await.context("the key was not unlocked")??.map(|(key, _)| key);
        let store = rados::Reader::open(objects, (array, DOMAIN), key).await?;
        Ok(Reader::new(Arc::new(store), cache_bytes))
    }
}

/// A front end that reads itself, or will.
pub struct Started(JoinHandle<Option<Arc<Reader>>>);

impl Started {
    /// True if the store is open, or can't be.
    #[cfg(test)]
    pub fn is_decided(&self) -> bool {
        self.0.is_finished()
    }

    /// The front end ends: if it does not read itself yet, it never will. Returns what it has read.
    pub async fn end(self) -> ReaderCounters {
        self.0.abort();
        let reader = self.0.await.ok().flatten();
        reader.map(|reader| reader.counters()).unwrap_or_default()
    }
}
