//! The conformance suite of `shelf` over simulated drives: durability is tested with real power losses.

use crate::drives::Drives;
use crate::machine::Machine;
use raid::{DriveShelf, FormatOptions, Opening, Sizes};
use shelf::conformance::{self, Subject};
use shelf::{Error, Result, Shelf, Wait};
use std::future::Future;
use std::sync::Arc;

const DRIVE_BYTES: u64 = 8 << 20;

struct Store {
    seed: u64,
    drives: usize,
    machine: Machine,
    openings: u64,
}

fn machine(seed: u64, drives: usize) -> Machine {
    Machine::new(seed, Drives::new(seed, &vec![DRIVE_BYTES; drives]))
}

impl Store {
    fn run<T: 'static>(&mut self, future: impl Future<Output = Result<T>> + 'static) -> Result<T> {
        let stuck = |what: String| Error::Unusable(what);
        self.machine.finish(future).map_err(stuck)?.ok_or_else(|| stuck("no crash was asked for".into()))?
    }

    fn opening(&mut self) -> Opening {
        self.openings += 1;
        Opening { salt: self.openings, key: None }
    }

    fn start(&mut self, shelf: Arc<DriveShelf>) -> Arc<dyn Shelf> {
        shelf.use_workers(self.machine.jobs.workers());
        self.machine.start_background(shelf.background());
        shelf
    }
}

impl Subject for Store {
    fn format(&mut self) -> Result<Arc<dyn Shelf>> {
        self.seed += 1;
        self.machine = machine(self.seed, self.drives);
        let sizes = Sizes {
            chunk_bytes: Some(8 << 10),
            segment_bytes: Some(256 << 10),
            journal_bytes: Some(512 << 10),
        };
        let options = FormatOptions { array: 5, sizes, opening: self.opening(), ..FormatOptions::default() };
        let shelf = self.run(DriveShelf::format(self.machine.drives.handles(), options))?;
        Ok(self.start(shelf))
    }

    fn open(&mut self) -> Result<Arc<dyn Shelf>> {
        let opening = self.opening();
        let shelf = self.run(DriveShelf::open(self.machine.drives.handles(), opening))?;
        Ok(self.start(shelf))
    }

    fn lose_power(&mut self) {
        self.machine.crash();
    }

    fn finish<T: Send + 'static>(&mut self, operation: Wait<T>) -> Result<T> {
        self.run(operation)
    }
}

/// Runs the suite on this many drives.
///
/// # Errors
/// The first rule of the contract that was broken.
pub fn run(seed: u64, drives: usize) -> std::result::Result<(), String> {
    let seed = seed * 1000;
    conformance::run(&mut Store { seed, drives, machine: machine(seed, drives), openings: 0 })
}
