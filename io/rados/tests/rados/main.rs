//! The store in RADOS through its public interface, over a model of a cluster. `cargo xtask rados` runs the tests in `real`
//! over a cluster of its own.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

mod conformance;
mod damage;
mod manage;
mod reader;
mod real;
mod takeover;

use media::encryption::{DataKey, Envelope};
use rados::memory::Cluster;
use rados::objects::Objects;
use rados::{FormatOptions, OpenOptions, Store};
use shelf::pool::{KEY_BYTES, KeySource};
use shelf::{Result, Wait, wait};
use std::sync::Arc;

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
    let key = encrypted.then(|| {
        let key = DataKey::new([7; KEY_BYTES]);
        let envelope = Envelope::wrap(5, &key, KeySource::File, &[8; KEY_BYTES], [9; 12]);
        (key, envelope)
    });
    OpenOptions {
        array: 5,
        salt,
        key,
        journal_object_bytes: 20 << 10,
        reserve_segments: Some(1),
        ..OpenOptions::default()
    }
}

/// Makes clients of one namespace.
type Ground = Box<dyn Fn() -> Arc<dyn Objects>>;

/// A namespace of a new model.
fn model() -> Ground {
    let cluster = Cluster::default();
    Box::new(move || cluster.client())
}

fn now<T>(future: impl Future<Output = T>) -> T {
    rig::block_on(future)
}

fn format(client: Arc<dyn Objects>, encrypted: bool) -> Arc<Store> {
    now(Store::format(client, small(), opening(1, encrypted))).unwrap()
}

fn call<T: Send + 'static>(start: impl FnOnce(shelf::Done<T>)) -> Result<T> {
    let (done, answer): (_, Wait<T>) = wait();
    start(done);
    now(answer)
}
