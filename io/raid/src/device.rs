//! Files and block devices as drives, through io_uring: the only module of the store that makes system calls or starts
//! a thread.
//!
//! One ring serves all drives of a process. The submitting thread puts a request into the submission queue and enters
//! the kernel; when several submit at once, the one inside the kernel submits for the others. One thread, the reaper,
//! waits for completions and calls back. A thread with an event loop may have a ring of its own instead: see
//! [`LocalRing`].
//!
//! Assumptions: a write completed with RWF_DSYNC, and every write completed before a successful fdatasync, survives a
//! power cut. Direct I/O is used wherever the file system supports it, so the page cache can neither hide a failed
//! write nor use memory for data that the array caches itself.

use crate::{ALIGN, Backing, Done, Drive, Error};
use bytes::Bytes;
use shelf::ReservationStep;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

mod local;
mod request;
mod reservation;
mod ring;

pub use local::LocalRing;
use request::{Request, Work};
pub use ring::Ring;

/// A file or block device that no other array has open.
struct Device {
    ring: Arc<Ring>,
    file: Arc<Node>,
}

/// The open file that a request in flight refers to.
struct Node {
    name: String,
    file: File,
    bytes: u64,
    /// Cleared by the first result that says that the drive does not support it; a discard does nothing from then on.
    /// Never set for a file that was fully allocated when it was opened.
    discards: AtomicBool,
    /// A file that was not fully allocated.
    sparse: bool,
}

/// Creates a file of `bytes` zeros, sparse where the file system can, for [`open`].
pub fn create(path: &Path, bytes: u64) -> Result<(), Error> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|cause| unusable(path, "can't be created", &cause))?;
    let made = file.set_len(bytes).and_then(|()| file.sync_all()).and_then(|()| sync_folder(path));
    made.map_err(|cause| unusable(path, "can't be given its size", &cause))
}

/// Opens a drive for this process alone.
///
/// A fully allocated file was made so by its owner, so that the file system can't run out of space and need not
/// allocate during writes: it stays allocated, and a discard does nothing.
///
/// # Errors
/// [`Error::Unusable`] when it can't be opened, is in use by another process, is neither a regular file nor a block
/// device, or has logical blocks of more than 4096 bytes.
pub fn open(ring: &Arc<Ring>, path: &Path) -> Result<Arc<dyn Drive>, Error> {
    open_as(ring, path, true)
}

/// Opens a drive read-only, for this process alone nevertheless: every write ends with an error. For an [`Overlay`](crate::Overlay).
///
/// # Errors
/// As [`open`].
pub fn open_read_only(ring: &Arc<Ring>, path: &Path) -> Result<Arc<dyn Drive>, Error> {
    open_as(ring, path, false)
}

fn open_as(ring: &Arc<Ring>, path: &Path, write: bool) -> Result<Arc<dyn Drive>, Error> {
    let kind = std::fs::metadata(path).map_err(|cause| unusable(path, "can't be found", &cause))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(Error::Unusable(format!(
            "{}: neither a file nor a block device; name one of these",
            path.display()
        )));
    }
    let file = retry_while_busy(|| take(path, kind.is_block_device(), write))?;
    let bytes = size(&file, path, kind.is_block_device())?;
    let sparse = !kind.is_block_device() && !is_allocated(&file, path, bytes)?;
    let discards = AtomicBool::new(kind.is_block_device() || sparse);
    let node = Node { name: path.display().to_string(), file, bytes, discards, sparse };
    Ok(Arc::new(Device { ring: ring.clone(), file: Arc::new(node) }))
}

/// How long a killed process may hold its drives: the kernel first completes its requests in flight, which may still
/// write. If it takes longer, it is another process.
const OPEN_RETRY_TIMEOUT: Duration = Duration::from_secs(5);
const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Retries what ends with [`Busy`] for as long as the kernel may need to end a killed process.
fn retry_while_busy<T>(attempt: impl Fn() -> Result<T, Busy>) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(Busy { may_pass: true, .. }) if start.elapsed() < OPEN_RETRY_TIMEOUT => {
                std::thread::sleep(OPEN_RETRY_INTERVAL)
            }
            other => return other.map_err(|busy| busy.error),
        }
    }
}

/// Why a drive could not be opened, and whether a process that is ending may be the reason.
struct Busy {
    may_pass: bool,
    error: Error,
}

/// Opens a block device with O_EXCL, which excludes mounts, other drivers and other arrays, and locks a file.
///
/// A block device is not locked by flock: udev takes a shared lock of a disk before it examines it, and would wait for as long as
/// the array runs.
fn take(path: &Path, is_device: bool, write: bool) -> Result<File, Busy> {
    let exclusive = if is_device { libc::O_EXCL } else { 0 };
    let open = |flags| OpenOptions::new().read(true).write(write).custom_flags(flags | exclusive).open(path);
    let file = match open(libc::O_DIRECT) {
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {
            tracing::warn!(drive = %path.display(), "no direct I/O here: the page cache is used");
            open(0)
        }
        other => other,
    };
    let file = file.map_err(|cause| match cause.raw_os_error() {
        Some(libc::EBUSY) => in_use(path, "mounted, used by a driver, or open in another process"),
        _ => Busy { may_pass: false, error: unusable(path, "can't be opened", &cause) },
    })?;
    if !is_device {
        lock(&file, path)?;
    }
    Ok(file)
}

fn lock(file: &File, path: &Path) -> Result<(), Busy> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(in_use(path, "open in another process")),
        Err(TryLockError::Error(cause)) => {
            Err(Busy { may_pass: false, error: unusable(path, "can't be locked", &cause) })
        }
    }
}

fn in_use(path: &Path, how: &str) -> Busy {
    let text =
        format!("{0} is in use: {how}; end that use first (fuser -v {0} names processes)", path.display());
    Busy { may_pass: true, error: Error::Unusable(text) }
}

fn size(file: &File, path: &Path, is_device: bool) -> Result<u64, Error> {
    let failed = |cause: &io::Error| unusable(path, "does not report its size", cause);
    let bytes = if is_device {
        let (mut bytes, mut block): (u64, libc::c_int) = (0, 0);
        // SAFETY: BLKGETSIZE64 stores a 64-bit number at the address given, BLKSSZGET an int.
        let outcome = unsafe {
            libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut bytes)
                | libc::ioctl(file.as_raw_fd(), BLKSSZGET, &raw mut block)
        };
        if outcome != 0 {
            return Err(failed(&io::Error::last_os_error()));
        }
        if block as usize > ALIGN {
            return Err(Error::Unusable(format!(
                "{}: its block size of {block} bytes is not supported: format it with blocks of 512 or 4096 bytes",
                path.display()
            )));
        }
        bytes
    } else {
        file.metadata().map_err(|cause| failed(&cause))?.len()
    };
    Ok(bytes / ALIGN as u64 * ALIGN as u64)
}

/// Whether a file is fully allocated.
fn is_allocated(file: &File, path: &Path, bytes: u64) -> Result<bool, Error> {
    let metadata =
        file.metadata().map_err(|cause| unusable(path, "does not report its allocated blocks", &cause))?;
    Ok(metadata.blocks() * STAT_BLOCK_BYTES >= bytes)
}

/// The file system that a file allocates from; `None` if it can't be determined.
fn backing(file: &File) -> Option<Backing> {
    let metadata = file.metadata().ok()?;
    let mut stat = std::mem::MaybeUninit::<libc::statvfs64>::zeroed();
    // SAFETY: fstatvfs takes an open descriptor and fills the structure given, for which zeros are valid, too.
    let stat = unsafe {
        if libc::fstatvfs64(file.as_raw_fd(), stat.as_mut_ptr()) != 0 {
            return None;
        }
        stat.assume_init()
    };
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(Backing {
        file_system: metadata.dev(),
        free: bytes(stat.f_bavail),
        total: bytes(stat.f_blocks),
        allocated: metadata.blocks() * STAT_BLOCK_BYTES,
    })
}

/// The unit of `st_blocks` in stat(2), independent of the block size of the file system.
const STAT_BLOCK_BYTES: u64 = 512;

/// `<linux/fs.h>`: _IOR(0x12, 114, size_t) and _IO(0x12, 104), which libc does not name for every target.
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
const BLKSSZGET: libc::Ioctl = 0x1268;

/// The name of a new file is durable only when its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn unusable(path: &Path, what: &str, cause: &io::Error) -> Error {
    Error::Unusable(format!("{} {what}: {cause}", path.display()))
}

impl Device {
    fn submit(&self, offset: u64, work: Work) {
        self.ring.submit(Request::new(self.file.clone(), offset, work));
    }
}

impl Drive for Device {
    fn name(&self) -> &str {
        &self.file.name
    }

    fn bytes(&self) -> u64 {
        self.file.bytes
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.submit(offset, Work::read(len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        self.submit(offset, Work::write(pieces, durable, done));
    }

    fn sync(&self, done: Done<()>) {
        self.submit(0, Work::Sync { done });
    }

    fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        if self.file.sparse {
            self.submit(offset, Work::Allocate { len, done });
        } else {
            done(Ok(()));
        }
    }

    fn backing(&self) -> Option<Backing> {
        if self.file.sparse { backing(&self.file.file) } else { None }
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        if self.file.discards.load(Ordering::Relaxed) {
            self.submit(offset, Work::Discard { len, done });
        } else {
            done(Ok(()));
        }
    }

    fn reserve(&self, step: ReservationStep, done: Done<bool>) {
        let node = self.file.clone();
        // The ring has no such request, and the call waits for the drive.
        let begun = std::thread::Builder::new()
            .name("reservation".into())
            .spawn(move || done(reservation::perform(&node, step)));
        if let Err(cause) = begun {
            // Its callback was dropped, which ends the wait with an error.
            tracing::error!(drive = self.name(), %cause, "no thread for a reservation");
        }
    }
}

#[cfg(test)]
#[path = "device_test.rs"]
mod tests;
