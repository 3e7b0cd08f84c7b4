//! UIO memory of a device, and the loop that serves it. With `configfs`, this module makes all system calls of this
//! crate.

use crate::area::Area;
use crate::device::Device;
use std::fs::{self, File, OpenOptions};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Maximum memory of a device in bytes, far above the actual size.
const MAX_AREA_BYTES: usize = 1 << 32;

/// The memory of a device, and the descriptor for signals in both directions.
pub struct Uio {
    file: File,
    area: Area,
}

/// Mapped memory.
struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is only unmapped, which any thread may do.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping is unmapped, and no reference into it remains: areas own it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

impl Uio {
    /// Opens the device with this name prefix, and maps its memory. `system` is `/sys`, and `devices` `/dev`.
    ///
    /// # Errors
    /// The system's error; `NotFound` if the device does not exist, `ResourceBusy` if another process uses it.
    pub fn open(system: &Path, devices: &Path, name: &str) -> io::Result<Uio> {
        for entry in fs::read_dir(system.join("class/uio"))? {
            let entry = entry?;
            let known = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if known.starts_with(name) {
                let bytes = fs::read_to_string(entry.path().join("maps/map0/size"))?;
                return Self::map(&devices.join(entry.file_name()), size(&bytes)?);
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, format!("no UIO device has the name {name}")))
    }

    fn map(path: &Path, length: usize) -> io::Result<Uio> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the system chooses; the result is checked.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("memory at address zero"))?;
        let mapping = Arc::new(Mapping { base, length });
        // SAFETY: the memory is mapped until the mapping is dropped; pages are aligned.
        let area = unsafe { Area::new(base, length, mapping) };
        Ok(Uio { file, area })
    }

    /// The memory.
    pub fn area(&self) -> Area {
        self.area.clone()
    }

    /// Serves a device until the kernel removes it, or until `stop` is ready and the taken commands have their
    /// responses. Runs on a thread of connections.
    ///
    /// # Errors
    /// The reason of the failure; the system's error if the kernel has removed the device.
    pub async fn serve(self, mut device: Device, stop: impl Future<Output = ()>) -> io::Result<()> {
        // SAFETY: the file keeps its one descriptor open until it is dropped.
        let file = unsafe { AsyncFd::register_with_interest(self.file, Interest::READABLE) }?;
        let mut stop = pin!(stop);
        let mut stopping = false;
        poll_fn(|cx| {
            if !stopping && stop.as_mut().poll(cx).is_ready() {
                stopping = true;
                device.stop();
            }
            // Clear signals before reading the ring, so later entries signal again.
            while take_signal(&file, cx)?.is_ready() {}
            while device.poll(cx).map_err(io::Error::other)? {
                signal(&file)?;
            }
            match stopping && device.is_idle() {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
        .await
    }
}

/// Takes a signal of the kernel. If there is none, the next one wakes the context.
fn take_signal(file: &AsyncFd<File>, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
    let mut guard = match file.poll_read_ready(cx) {
        Poll::Pending => return Ok(Poll::Pending),
        Poll::Ready(guard) => guard?,
    };
    let mut count = [0; 4];
    match guard.try_io(|file| file.get_ref().read_exact(&mut count)) {
        Ok(read) => read?,
        // No signal: the next call registers the context.
        Err(_would_block) => {}
    }
    Ok(Poll::Ready(()))
}

/// Signals the kernel to read the ring.
fn signal(file: &AsyncFd<File>) -> io::Result<()> {
    file.get_ref().write_all(&1_u32.to_le_bytes())
}

/// A size in the system's notation: hexadecimal.
fn size(text: &str) -> io::Result<usize> {
    let digits = text.trim().trim_start_matches("0x");
    let size = usize::from_str_radix(digits, 16).ok().filter(|size| (1..=MAX_AREA_BYTES).contains(size));
    size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is no size of memory")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_hexadecimal_and_bounded() {
        assert_eq!(size("0x0000000008100000\n").unwrap(), 129 << 20);
        for bad in ["", "0x", "0x0", "0x100000001", "g", "-1"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_device_is_found_by_the_beginning_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (system, devices) = (folder.path().join("sys"), folder.path().join("dev"));
        for (number, name) in [(0, "other"), (1, "tcm-user/1000/a/ashlar/1\n")] {
            let entry = system.join(format!("class/uio/uio{number}"));
            fs::create_dir_all(entry.join("maps/map0")).unwrap();
            fs::write(entry.join("name"), name).unwrap();
            fs::write(entry.join("maps/map0/size"), "0x2000\n").unwrap();
        }
        fs::create_dir(&devices).unwrap();
        fs::write(devices.join("uio1"), vec![7; 8192]).unwrap();
        let found = Uio::open(&system, &devices, "tcm-user/1000/a/").unwrap();
        let mut bytes = [0; 2];
        found.area().read(8190, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 2]);
        assert!(found.area().read(8191, &mut bytes).is_err());
        let absent = Uio::open(&system, &devices, "tcm-user/1000/b/").err().unwrap();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }
}
