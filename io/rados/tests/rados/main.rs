//! The store in RADOS through its public interface, over a model of a cluster.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

mod conformance;
mod damage;
mod takeover;

use media::encryption::DataKey;
use rados::memory::Cluster;
use rados::{FormatOptions, OpenOptions, Store};
use shelf::pool::KEY_BYTES;
use shelf::{Result, Wait, wait};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Small enough that every limit is met: lanes of several objects, segments of two rows.
fn small() -> FormatOptions {
    FormatOptions {
        stripe_pages: 2,
        segment_stripes: 8,
        journal_bytes: 256 << 10,
        journal_object_bytes: 20 << 10,
        reserve_segments: 1,
        ..FormatOptions::new(12)
    }
}

fn opening(salt: u64, encrypted: bool) -> OpenOptions {
    let key = encrypted.then(|| DataKey::new([7; KEY_BYTES]));
    OpenOptions {
        array: 5,
        salt,
        key,
        journal_object_bytes: 20 << 10,
        reserve_segments: Some(1),
        ..OpenOptions::default()
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a cluster that does not hold operations completes at once"),
    }
}

fn format(cluster: &Cluster, encrypted: bool) -> Arc<Store> {
    now(Store::format(cluster.client(), small(), opening(1, encrypted))).unwrap()
}

fn call<T: Send + 'static>(start: impl FnOnce(shelf::Done<T>)) -> Result<T> {
    let (done, answer): (_, Wait<T>) = wait();
    start(done);
    now(answer)
}
