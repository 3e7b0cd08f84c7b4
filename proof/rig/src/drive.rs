//! Drives with fault injection: a test fails requests, delays them, tears them, or refuses them for lack of space.

use bytes::Bytes;
use shelf::{ALIGN, Backing, Done, Drive, Error, Result};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const PAGE_BYTES: u64 = ALIGN as u64;

/// A request to a drive, with its completion callback. Offsets and lengths are in bytes.
#[expect(missing_docs, reason = "the parameters of the methods of `Drive`")]
pub enum Request {
    Read { offset: u64, len: u32, done: Done<Bytes> },
    Write { offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()> },
    Sync { done: Done<()> },
    Discard { offset: u64, len: u64, done: Done<()> },
}

impl Request {
    /// Submits the request to a drive.
    pub fn submit(self, drive: &(impl Drive + ?Sized)) {
        match self {
            Self::Read { offset, len, done } => drive.read(offset, len, done),
            Self::Write { offset, pieces, durable, done } => drive.write(offset, pieces, durable, done),
            Self::Sync { done } => drive.sync(done),
            Self::Discard { offset, len, done } => drive.discard(offset, len, done),
        }
    }

    /// Completes the request with an error.
    pub fn fail(self, error: Error) {
        match self {
            Self::Read { done, .. } => done(Err(error)),
            Self::Write { done, .. } | Self::Sync { done } | Self::Discard { done, .. } => done(Err(error)),
        }
    }
}

/// A drive whose requests go through a function of the test.
pub struct Intercepted<D, F> {
    drive: Arc<D>,
    intercept: F,
}

impl<D: Drive, F: Fn(&Arc<D>, Request) + Send + Sync> Intercepted<D, F> {
    /// `intercept` gets each request with the drive, and submits it or not.
    pub fn new(drive: Arc<D>, intercept: F) -> Self {
        Self { drive, intercept }
    }
}

impl<D: Drive, F: Fn(&Arc<D>, Request) + Send + Sync> Drive for Intercepted<D, F> {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        (self.intercept)(&self.drive, Request::Read { offset, len, done });
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        (self.intercept)(&self.drive, Request::Write { offset, pieces, durable, done });
    }

    fn sync(&self, done: Done<()>) {
        (self.intercept)(&self.drive, Request::Sync { done });
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        (self.intercept)(&self.drive, Request::Discard { offset, len, done });
    }
}

/// A drive that fails every request while a flag is set.
pub struct FailingDrive<D: ?Sized = dyn Drive> {
    /// The drive below, always accessible.
    pub drive: Arc<D>,
    failed: AtomicBool,
}

impl<D: Drive + ?Sized> FailingDrive<D> {
    /// A drive that passes on every request until [`FailingDrive::set_failed`].
    pub fn new(drive: Arc<D>) -> Arc<Self> {
        Arc::new(Self { drive, failed: AtomicBool::new(false) })
    }

    /// Sets whether every request fails.
    pub fn set_failed(&self, failed: bool) {
        self.failed.store(failed, Ordering::Relaxed);
    }

    fn pass<T>(&self, done: Done<T>, submit: impl FnOnce(&D, Done<T>)) {
        match self.failed.load(Ordering::Relaxed) {
            true => done(Err(Error::Drive { what: "it failed".into() })),
            false => submit(&*self.drive, done),
        }
    }
}

impl<D: Drive + ?Sized> Drive for FailingDrive<D> {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.pass(done, |drive, done| drive.read(offset, len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        self.pass(done, |drive, done| drive.write(offset, pieces, durable, done));
    }

    fn sync(&self, done: Done<()>) {
        self.pass(done, |drive, done| drive.sync(done));
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        self.pass(done, |drive, done| drive.discard(offset, len, done));
    }
}

/// A file system that sparse files allocate their pages from.
pub struct FileSystem {
    free_pages: AtomicI64,
    copies_from: AtomicU64,
}

impl FileSystem {
    /// A file system with `mib` MiB free.
    pub fn new(mib: i64) -> Arc<Self> {
        let free_pages = AtomicI64::new((mib << 20) / PAGE_BYTES as i64);
        Arc::new(Self { free_pages, copies_from: AtomicU64::new(u64::MAX) })
    }

    /// Uses up all free pages. Returns their number, for [`FileSystem::set_free_pages`].
    pub fn fill(&self) -> i64 {
        self.free_pages.swap(0, Ordering::SeqCst)
    }

    /// Sets the number of free pages.
    pub fn set_free_pages(&self, pages: i64) {
        self.free_pages.store(pages, Ordering::SeqCst);
    }

    /// Pages that can still be allocated.
    pub fn free_pages(&self) -> i64 {
        self.free_pages.load(Ordering::SeqCst)
    }

    /// Writes from this offset on need new pages, even if they are allocated: the file system copies on write.
    pub fn copy_on_write_from(&self, offset: u64) {
        self.copies_from.store(offset, Ordering::SeqCst);
    }

    fn copies(&self, offset: u64) -> bool {
        offset >= self.copies_from.load(Ordering::SeqCst)
    }
}

/// A sparse file as a drive: its pages are allocated by the first write.
pub struct SparseDrive {
    drive: Arc<dyn Drive>,
    file_system: Arc<FileSystem>,
    allocated: Mutex<BTreeSet<u64>>,
}

impl SparseDrive {
    /// `drive` stores the content.
    pub fn new(drive: Arc<dyn Drive>, file_system: &Arc<FileSystem>) -> Arc<Self> {
        Arc::new(Self { drive, file_system: file_system.clone(), allocated: Mutex::default() })
    }

    fn take(&self, offset: u64, len: u64) -> Result<()> {
        let free = &self.file_system.free_pages;
        let mut allocated = self.allocated.lock().unwrap();
        for page in offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES) {
            if !allocated.contains(&page) {
                if free.fetch_sub(1, Ordering::SeqCst) <= 0 {
                    free.fetch_add(1, Ordering::SeqCst);
                    return Err(self.full());
                }
                allocated.insert(page);
            }
        }
        Ok(())
    }

    fn full(&self) -> Error {
        Error::NoSpace { what: format!("{}: full", self.name()) }
    }
}

impl Drive for SparseDrive {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.drive.read(offset, len, done);
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        if self.file_system.copies(offset) && self.file_system.free_pages() <= 0 {
            return done(Err(self.full()));
        }
        match self.take(offset, pieces.iter().map(|piece| piece.len() as u64).sum()) {
            Ok(()) => self.drive.write(offset, pieces, durable, done),
            Err(error) => done(Err(error)),
        }
    }

    fn sync(&self, done: Done<()>) {
        done(Ok(()));
    }

    fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        done(self.take(offset, len));
    }

    fn backing(&self) -> Option<Backing> {
        let allocated = self.allocated.lock().unwrap().len() as u64 * PAGE_BYTES;
        let free = self.file_system.free_pages().max(0) as u64 * PAGE_BYTES;
        Some(Backing { file_system: 1, free, total: 1 << 30, allocated })
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        let mut allocated = self.allocated.lock().unwrap();
        let before = allocated.len();
        allocated.retain(|page| !(offset / PAGE_BYTES..(offset + len) / PAGE_BYTES).contains(page));
        self.file_system.free_pages.fetch_add((before - allocated.len()) as i64, Ordering::SeqCst);
        done(Ok(()));
    }
}
