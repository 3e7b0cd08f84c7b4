//! The store on drives keeps the contract of `shelf`, for any number of drives and with encryption.

use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening, Sizes};
use shelf::conformance::{self, Subject, poll_once};
use shelf::pool::{KEY_BYTES, KeySource};
use shelf::{Drive, Result, Shelf, Wait};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a drive in memory completes at once"),
    }
}

struct Drives {
    count: usize,
    encrypted: bool,
    drives: Vec<Arc<dyn Drive>>,
    openings: u64,
}

impl Drives {
    fn opening(&mut self) -> Opening {
        self.openings += 1;
        let sealing = || {
            let key = DataKey::new([7; KEY_BYTES]);
            let envelope = Envelope::wrap(5, &key, KeySource::File, &[8; KEY_BYTES], [9; 12]);
            (key, envelope)
        };
        Opening { salt: self.openings, key: self.encrypted.then(sealing) }
    }
}

impl Subject for Drives {
    fn format(&mut self) -> Result<Arc<dyn Shelf>> {
        let drive = |index| MemDrive::new(format!("mem{index}"), 8 << 20) as Arc<dyn Drive>;
        self.drives = (0..self.count).map(drive).collect();
        let sizes = Sizes {
            chunk_bytes: Some(8 << 10),
            segment_bytes: Some(256 << 10),
            journal_bytes: Some(512 << 10),
        };
        let options = FormatOptions { array: 5, sizes, opening: self.opening(), ..FormatOptions::default() };
        Ok(now(DriveShelf::format(self.drives.clone(), options))?)
    }

    fn open(&mut self) -> Result<Arc<dyn Shelf>> {
        let opening = self.opening();
        Ok(now(DriveShelf::open(self.drives.clone(), opening))?)
    }

    fn lose_power(&mut self) {}

    fn finish<T: Send + 'static>(&mut self, operation: Wait<T>) -> Result<T> {
        poll_once(operation)
    }
}

#[test]
fn a_store_of_any_number_of_drives_keeps_the_contract() {
    for count in [1, 2, 3, 6] {
        for encrypted in [false, true] {
            let mut drives = Drives { count, encrypted, drives: Vec::new(), openings: 0 };
            conformance::run(&mut drives).unwrap_or_else(|what| panic!("{count} drives: {what}"));
        }
    }
}
