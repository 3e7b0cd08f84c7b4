//! Sparse files on a small file system that fills up.

use raid::device::{self, Ring};
use raid::{DriveShelf, FormatOptions};
use rig::block_on;
use shelf::pool::DriveState;
use shelf::{AlignedBuf, Drive, SegmentId, Shelf, Wait, wait};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A tmpfs, unmounted at the end.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// None where this may not be done.
    fn new(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).status();
        if mounted.is_ok_and(|status| status.success()) {
            Some(Self(folder))
        } else {
            eprintln!("skipped: a file system can't be mounted here");
            None
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "it is unmounted");
    }
}

fn write(shelf: &DriveShelf, segment: u32) -> Wait<()> {
    let mut bytes = AlignedBuf::zeroed(shelf.layout().segment_bytes as usize);
    bytes.fill(segment as u8 + 1);
    let (done, written) = wait();
    shelf.write(SegmentId(segment), 0, Arc::new(bytes), done);
    written
}

fn check(shelf: &DriveShelf, segment: u32) {
    let (done, read) = wait();
    shelf.read(SegmentId(segment), 0, shelf.layout().segment_bytes, done);
    assert!(block_on(read).unwrap().iter().all(|byte| *byte == segment as u8 + 1), "segment {segment}");
}

fn all_in_use(shelf: &DriveShelf) -> bool {
    shelf.status().drives.iter().all(|drive| drive.state == DriveState::Online)
}

/// Ticks until something holds, for a minute at most.
fn until(shelf: &DriveShelf, start: Instant, holds: impl Fn(&DriveShelf) -> bool) {
    for _ in 0..600 {
        shelf.tick(Duration::from_secs(1) + start.elapsed());
        if holds(shelf) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it does not come: {:?}", shelf.status());
}

#[test]
fn a_full_file_system_puts_no_drive_out_and_is_waited_for() {
    let Some(mounted) = Mounted::new("100m") else { return };
    let (ring, start) = (Ring::start().unwrap(), Instant::now());
    let drive = |index| {
        let path = mounted.path().join(format!("{index}.drive"));
        device::create(&path, 64 << 20).unwrap();
        device::open(&ring, &path).unwrap() as Arc<dyn Drive>
    };
    let options = FormatOptions { array: 7, ..FormatOptions::default() };
    let shelf = block_on(DriveShelf::format((0..4).map(drive).collect(), options)).unwrap();
    let (room, status) = (shelf.room(), shelf.status());
    assert!(room.any < shelf.layout().segments, "{room:?} of {}", shelf.layout().segments);
    assert!(status.file_systems.len() == 1 && status.file_systems[0].growth > status.file_systems[0].free);
    (0..4).for_each(|segment| block_on(write(&shelf, segment)).unwrap());
    // Another user of the file system takes the rest.
    let filler = mounted.path().join("filler");
    let mut left = vec![0; 1 << 20];
    let mut file = std::fs::File::create(&filler).unwrap();
    while !left.is_empty() {
        if std::io::Write::write_all(&mut file, &left).is_err() {
            left.truncate(left.len() / 2);
        }
    }
    drop(file);
    let waiting: Vec<_> = (4..7).map(|segment| write(&shelf, segment)).collect();
    until(&shelf, start, |shelf| shelf.is_starved() && shelf.room().protected == 0);
    (0..4).for_each(|segment| check(&shelf, segment));
    assert!(all_in_use(&shelf) && shelf.status().tolerates == 2);
    std::fs::remove_file(&filler).unwrap();
    until(&shelf, start, |shelf| !shelf.is_starved() && shelf.room().protected > 0);
    waiting.into_iter().for_each(|written| block_on(written).unwrap());
    (0..7).for_each(|segment| check(&shelf, segment));
    assert!(all_in_use(&shelf) && shelf.status().tolerates == 2);
}
