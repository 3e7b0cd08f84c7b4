//! The management interface of the store: redundancy and scrubs are those of Ceph, so little is left.

use crate::envelope;
use crate::record::RECORDS;
use crate::store::Store;
use shelf::pool::{BoxFuture, KEY_BYTES, KeySource, Keys, Pool, PoolStatus, WrappedKey};
use shelf::{Error, Result, spawn};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the pool is asked how full it is.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The pool of the journal is asked once in this many measurements: its usage is only displayed.
const JOURNAL_POOL_DIVISOR: u64 = 10;

impl Pool for Store {
    fn array(&self) -> u128 {
        self.0.keyring.array()
    }

    fn format(&self) -> (u32, RangeInclusive<u32>) {
        (RECORDS.current, RECORDS.oldest..=RECORDS.current)
    }

    fn status(&self) -> PoolStatus {
        let tolerates = self.0.objects.tolerates();
        PoolStatus {
            tolerates,
            failures_to_tolerate: tolerates,
            segments: self.0.segments.used(),
            total_segments: self.0.layout().segments,
            objects: Some(self.0.objects()),
            ..PoolStatus::default()
        }
    }

    fn tick(&self, now: Duration) {
        let now = now.as_nanos() as u64;
        let due = self.0.measured_ns.load(Ordering::Relaxed) + MEASURE_INTERVAL.as_nanos() as u64;
        if now < due || self.0.measuring.swap(true, Ordering::Relaxed) {
            return;
        }
        self.0.measured_ns.store(now, Ordering::Relaxed);
        let owner = self.0.clone();
        spawn(async move {
            owner.measure().await;
            if owner.measured.fetch_add(1, Ordering::Relaxed).is_multiple_of(JOURNAL_POOL_DIVISOR) {
                owner.measure_journal_pool().await;
            }
            owner.measuring.store(false, Ordering::Relaxed);
        });
    }

    fn background(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn keys(&self) -> Option<&dyn Keys> {
        self.0.keyring.is_sealed().then_some(self)
    }
}

impl Keys for Store {
    fn wrapped(&self) -> Option<Arc<dyn WrappedKey>> {
        self.0.envelope.lock().clone().map(|envelope| Arc::new(envelope) as Arc<dyn WrappedKey>)
    }

    fn rewrap<'a>(
        &'a self,
        source: KeySource,
        key: &'a [u8; KEY_BYTES],
        nonce: [u8; 12],
    ) -> BoxFuture<'a, Result<Vec<usize>>> {
        Box::pin(async move {
            let owner = &self.0;
            let refused = || Error::Unusable("the array is not encrypted".into());
            let newest = envelope::read(&*owner.objects, owner.keyring.array()).await?.ok_or_else(refused)?;
            let changed = owner.keyring.rewrap(&newest, source, key, nonce).ok_or_else(refused)?;
            envelope::replace(&*owner.objects, &changed).await?;
            *owner.envelope.lock() = Some(changed);
            Ok(Vec::new())
        })
    }
}
