//! A copy-on-write drive in memory: opening a shelf over such drives shows what opening it on the real drives would do, and the
//! drives stay as they are.

use crate::{ALIGN, AlignedBuf, Done, Drive};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A drive over another one that is only read.
pub struct Overlay {
    below: Arc<dyn Drive>,
    /// What was written, by page.
    written: Arc<Mutex<BTreeMap<u64, Bytes>>>,
}

impl Overlay {
    /// A drive with the contents of `below`.
    pub fn new(below: Arc<dyn Drive>) -> Arc<Self> {
        Arc::new(Self { below, written: Arc::default() })
    }
}

impl Drive for Overlay {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        let written = self.written.clone();
        let merge = move |read: Bytes| {
            let written = written.lock();
            let mut pages = written.range(offset..offset + u64::from(len)).peekable();
            if pages.peek().is_none() {
                return read;
            }
            let mut merged = AlignedBuf::with_capacity(read.len());
            merged.push(&read);
            for (at, page) in pages {
                let at = (at - offset) as usize;
                merged[at..at + ALIGN].copy_from_slice(page);
            }
            Arc::new(merged).share(0..read.len())
        };
        self.below.read(offset, len, Box::new(move |read| done(read.map(merge))));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, _durable: bool, done: Done<()>) {
        {
            let mut written = self.written.lock();
            let pages = pieces.iter().flat_map(|piece| {
                (0..piece.len() / ALIGN).map(|page| piece.slice(page * ALIGN..(page + 1) * ALIGN))
            });
            written.extend((offset..).step_by(ALIGN).zip(pages));
        }
        done(Ok(()));
    }

    fn sync(&self, done: Done<()>) {
        done(Ok(()));
    }

    fn discard(&self, _offset: u64, _len: u64, done: Done<()>) {
        // Reads there are arbitrary from now on, so they may return what was there.
        done(Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemDrive, wait};

    fn read(drive: &dyn Drive, offset: u64, len: u32) -> Bytes {
        let (done, read) = wait();
        drive.read(offset, len, done);
        let read = std::pin::pin!(read);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match read.poll(&mut context) {
            std::task::Poll::Ready(Ok(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_drive_below_stays() {
        let below = MemDrive::new("below", 16 * 4096);
        below.with(|bytes| bytes.fill(7));
        let over = Overlay::new(below.clone());
        let pieces = vec![Bytes::from(vec![1; 4096]), Bytes::from(vec![2; 8192])];
        over.write(4096, pieces, true, Box::new(|_| {}));
        over.discard(0, 4096, Box::new(|_| {}));
        let expected = [[7; 4096], [1; 4096], [2; 4096], [2; 4096], [7; 4096]].concat();
        assert_eq!(read(&*over, 0, 5 * 4096), expected);
        assert_eq!(read(&*over, 5 * 4096, 4096), [7; 4096][..]);
        below.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 7)));
    }
}
