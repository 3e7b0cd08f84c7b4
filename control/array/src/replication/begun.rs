//! Work in the background, one at a time for each key: what waits for another machine holds up nothing but itself.

use std::collections::BTreeMap;
use tokio::task::JoinHandle;

/// The work that was begun, by key. It keeps running when this is dropped.
pub(super) struct Begun<K>(BTreeMap<K, JoinHandle<()>>);

impl<K: Ord> Begun<K> {
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Begins the work for a key, unless that for it is under way.
    pub fn begin<F: Future<Output = ()> + Send + 'static>(&mut self, key: K, work: impl FnOnce() -> F) {
        self.0.retain(|_, work| !work.is_finished());
        self.0.entry(key).or_insert_with(|| tokio::spawn(work()));
    }
}
