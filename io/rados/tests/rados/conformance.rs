//! The store keeps the contract of `shelf`.

use super::{opening, small};
use rados::Store;
use rados::memory::Cluster;
use shelf::conformance::{self, Subject, poll_once};
use shelf::{Result, Shelf, Wait};
use std::sync::Arc;

struct Rados {
    cluster: Cluster,
    encrypted: bool,
    openings: u64,
}

impl Subject for Rados {
    fn format(&mut self) -> Result<Arc<dyn Shelf>> {
        self.cluster = Cluster::default();
        self.openings += 1;
        let opening = opening(self.openings, self.encrypted);
        Ok(super::now(Store::format(self.cluster.client(), small(), opening))?)
    }

    fn open(&mut self) -> Result<Arc<dyn Shelf>> {
        self.openings += 1;
        let opening = opening(self.openings, self.encrypted);
        Ok(super::now(Store::open(self.cluster.client(), opening))?)
    }

    fn lose_power(&mut self) {}

    fn finish<T: Send + 'static>(&mut self, operation: Wait<T>) -> Result<T> {
        poll_once(operation)
    }
}

#[test]
fn a_store_in_rados_keeps_the_contract() {
    for encrypted in [false, true] {
        let mut rados = Rados { cluster: Cluster::default(), encrypted, openings: 0 };
        conformance::run(&mut rados).unwrap_or_else(|what| panic!("encrypted {encrypted}: {what}"));
    }
}
