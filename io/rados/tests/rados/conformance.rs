//! The store keeps the contract of `shelf`.

use super::{Ground, model, now, opening, small};
use rados::Store;
use shelf::conformance::{self, Subject};
use shelf::{Result, Shelf, Wait};
use std::sync::Arc;

struct Rados {
    fresh: fn() -> Ground,
    ground: Ground,
    encrypted: bool,
    openings: u64,
}

impl Subject for Rados {
    fn format(&mut self) -> Result<Arc<dyn Shelf>> {
        self.ground = (self.fresh)();
        self.openings += 1;
        let opening = opening(self.openings, self.encrypted);
        Ok(now(Store::format((self.ground)(), small(), opening))?)
    }

    fn open(&mut self) -> Result<Arc<dyn Shelf>> {
        self.openings += 1;
        let opening = opening(self.openings, self.encrypted);
        Ok(now(Store::open((self.ground)(), opening))?)
    }

    fn lose_power(&mut self) {}

    fn finish<T: Send + 'static>(&mut self, operation: Wait<T>) -> Result<T> {
        now(operation)
    }
}

/// Runs the suite, clear and encrypted.
pub fn run(fresh: fn() -> Ground) {
    for encrypted in [false, true] {
        let mut rados = Rados { fresh, ground: fresh(), encrypted, openings: 0 };
        conformance::run(&mut rados).unwrap_or_else(|what| panic!("encrypted {encrypted}: {what}"));
    }
}

#[test]
fn a_store_in_rados_keeps_the_contract() {
    run(model);
}
