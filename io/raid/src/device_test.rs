use super::*;
use crate::{AlignedBuf, DriveShelf, FormatOptions, JournalPos, Opening, Shelf, wait};
use rig::block_on;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Waker};
use std::thread;

const MIB: u64 = 1 << 20;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ashlar-shelf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn drive(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.0.join(name);
        create(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn call<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> crate::Result<T> {
    let (done, outcome) = wait();
    start(done);
    block_on(outcome)
}

fn pages(count: usize, first: u8) -> Bytes {
    let mut pages = AlignedBuf::zeroed(count * ALIGN);
    pages.chunks_mut(ALIGN).zip(0u8..=255).for_each(|(page, index)| page.fill(first.wrapping_add(index)));
    Arc::new(pages).share(0..count * ALIGN)
}

#[test]
fn bytes_come_back_from_a_file() {
    let (folder, ring) = (Folder::new("bytes"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("a", MIB)).unwrap();
    assert_eq!(drive.bytes(), MIB);
    let (one, two) = (pages(2, 1), pages(1, 9));
    call(|done| drive.write(8192, vec![one.clone(), two.clone()], true, done)).unwrap();
    call(|done| drive.write(0, vec![two.clone()], false, done)).unwrap();
    call(|done| drive.sync(done)).unwrap();
    let read = call(|done| drive.read(0, 5 * ALIGN as u32, done)).unwrap();
    assert!(
        read[..ALIGN] == two[..] && read[2 * ALIGN..4 * ALIGN] == one[..] && read[4 * ALIGN..] == two[..]
    );
    call(|done| drive.discard(0, 8192, done)).unwrap();
    assert!(call(|done| drive.read(0, ALIGN as u32, done)).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_that_has_all_of_its_blocks_keeps_them() {
    let (folder, ring) = (Folder::new("blocks"), Ring::start().unwrap());
    let blocks = |path: &PathBuf| std::fs::metadata(path).unwrap().blocks();
    let (sparse, full) = (folder.drive("sparse", MIB), folder.drive("full", MIB));
    std::fs::write(&full, vec![1; MIB as usize]).unwrap();
    File::open(&full).unwrap().sync_all().unwrap();
    for (path, kept) in [(&sparse, false), (&full, true)] {
        let drive = open(&ring, path).unwrap();
        call(|done| drive.write(0, vec![pages(16, 1)], true, done)).unwrap();
        let before = blocks(path);
        call(|done| drive.discard(0, 65_536, done)).unwrap();
        assert_eq!(blocks(path) == before, kept, "{before} blocks");
    }
}

#[test]
fn a_write_of_more_pieces_than_the_kernel_takes_is_whole() {
    let (folder, ring) = (Folder::new("pieces"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("a", 16 * MIB)).unwrap();
    // Every other page of a buffer, so that no two pieces are neighbours.
    let all = pages(5000, 0);
    let pieces: Vec<_> =
        (0..2500).map(|index| all.slice(index * 2 * ALIGN..(index * 2 + 1) * ALIGN)).collect();
    let expected = pieces.concat();
    call(|done| drive.write(4096, pieces, true, done)).unwrap();
    assert!(call(|done| drive.read(4096, expected.len() as u32, done)).unwrap()[..] == expected[..]);
}

#[test]
fn the_end_of_a_drive_is_an_error_that_names_it() {
    let (folder, ring) = (Folder::new("end"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("short", MIB)).unwrap();
    let beyond = call(|done| drive.read(MIB - 4096, 8192, done)).unwrap_err().to_string();
    assert!(beyond.contains("short: read at byte 1044480"), "{beyond}");
}

#[test]
fn a_drive_is_opened_once() {
    let (folder, ring) = (Folder::new("lock"), Ring::start().unwrap());
    let path = folder.drive("a", MIB);
    let first = open(&ring, &path).unwrap();
    let second = open(&ring, &path).err().unwrap().to_string();
    assert!(second.contains("is in use: open in another process"), "{second}");
    drop(first);
    open(&ring, &path).unwrap();
    let none = open(&ring, &folder.0.join("none")).err().unwrap().to_string();
    assert!(none.contains("can't be found"), "{none}");
    assert!(open(&ring, &folder.0).err().unwrap().to_string().contains("neither a file nor a block device"));
    assert!(create(&path, MIB).unwrap_err().to_string().contains("can't be created"));
}

/// A loop device over a file.
struct Loop(PathBuf);

impl Loop {
    /// `None` where the system has none to give.
    fn over(file: &Path) -> Option<Self> {
        match std::process::Command::new("losetup").args(["--find", "--show"]).arg(file).output() {
            Ok(output) if output.status.success() => {
                Some(Self(String::from_utf8(output.stdout).unwrap().trim().into()))
            }
            other => {
                eprintln!("left out, for there is no loop device to be had: {other:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_is_opened_once_and_udev_may_lock_it() {
    let (folder, ring) = (Folder::new("device"), Ring::start().unwrap());
    let Some(device) = Loop::over(&folder.drive("a", MIB)) else { return };
    for opens in [open, open_read_only] {
        let opened = opens(&ring, &device.0).unwrap();
        // What udevd does before it examines a disk.
        File::open(&device.0).unwrap().try_lock_shared().unwrap();
        for second in [open(&ring, &device.0), open_read_only(&ring, &device.0)] {
            let second = second.err().unwrap().to_string();
            assert!(
                second.contains("is in use: mounted") && second.contains("fuser -v /dev/loop"),
                "{second}"
            );
        }
        drop(opened);
    }
}

#[test]
fn more_requests_than_the_queues_hold_are_all_answered() {
    let (folder, ring) = (Folder::new("many"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("a", 4 * MIB)).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|part: u64| {
            let drive = drive.clone();
            thread::spawn(move || {
                let waits = (0..2500).map(|index: u64| {
                    let (done, written) = wait();
                    let at = (part * 256 + index % 256) * 4096;
                    drive.write(at, vec![pages(1, index as u8)], false, done);
                    written
                });
                waits.collect::<Vec<_>>()
            })
        })
        .collect();
    // The threads end while the kernel still has their requests.
    let waits: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    waits.into_iter().for_each(|written| block_on(written).unwrap());
}

#[test]
fn a_sync_outlives_the_thread_that_asked_for_it() {
    let (folder, ring) = (Folder::new("sync"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("a", 64 * MIB)).unwrap();
    for round in 0..20 {
        let drive = drive.clone();
        let asked = thread::spawn(move || {
            let (done, written) = wait();
            drive.write(round * MIB, vec![pages(256, 1)], true, done);
            let (done, synced) = wait();
            drive.sync(done);
            (written, synced)
        });
        let (written, synced) = asked.join().unwrap();
        block_on(written).unwrap();
        block_on(synced).unwrap();
    }
}

#[test]
fn the_last_user_of_a_ring_may_be_a_callback() {
    let (folder, ring) = (Folder::new("drop"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("a", MIB)).unwrap();
    drop(ring);
    let (finished, outcome) = std::sync::mpsc::channel();
    let user = drive.clone();
    let done: Done<Bytes> = Box::new(move |read| {
        drop(user);
        finished.send(read.map(|bytes| bytes.len())).unwrap();
    });
    drive.read(0, 4096, done);
    drop(drive);
    assert_eq!(outcome.recv().unwrap(), Ok(4096));
}

#[test]
fn a_shelf_on_files_is_there_again_after_reopening() {
    let (folder, ring) = (Folder::new("shelf"), Ring::start().unwrap());
    let paths: Vec<_> = ["a", "b", "c", "d"].map(|name| folder.drive(name, 32 * MIB)).into();
    let drives = || paths.iter().map(|path| open(&ring, path).unwrap()).collect::<Vec<_>>();
    let options = FormatOptions { array: 1, ..FormatOptions::default() };
    let shelf = block_on(DriveShelf::format(drives(), options)).unwrap();
    let superblock = crate::Superblock { journal_from: JournalPos(1), payload: Bytes::from_static(b"root") };
    call(|done| shelf.write_superblock(superblock, done)).unwrap();
    for byte in 0..50 {
        let head = Bytes::from(vec![byte; 10]);
        call(|done| shelf.append(head, vec![pages(3, byte)], done)).unwrap();
    }
    let stripe = shelf.layout().stripe_bytes as usize;
    let mut stripes = AlignedBuf::zeroed(stripe);
    stripes.fill(0x5a);
    call(|done| shelf.write(crate::SegmentId(3), 0, Arc::new(stripes), done)).unwrap();
    call(|done| shelf.sync(done)).unwrap();
    drop(shelf);
    let shelf = block_on(DriveShelf::open(drives(), Opening::default())).unwrap();
    let batches = call(|done| shelf.recover(JournalPos(1), done)).unwrap();
    assert_eq!(batches.len(), 50);
    assert!(
        batches
            .iter()
            .zip(0..)
            .all(|(batch, byte)| batch.head[..] == [byte; 10] && batch.body == pages(3, byte))
    );
    let read = call(|done| shelf.read(crate::SegmentId(3), 5, 100_000, done)).unwrap();
    assert!(read.iter().all(|byte| *byte == 0x5a));
}

#[test]
fn a_thread_with_a_ring_of_its_own_takes_its_answers_itself() {
    let (folder, ring) = (Folder::new("own"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("a", MIB)).unwrap();
    let own = LocalRing::attach().unwrap();
    let mut asked = pin!(own.asked());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(asked.as_mut().poll(&mut cx).is_pending());
    let me = thread::current().id();
    let (completed, again) = (Arc::new(AtomicUsize::new(0)), drive.clone());
    let (first, second) = (completed.clone(), completed.clone());
    let written: Done<()> = Box::new(move |outcome| {
        outcome.unwrap();
        assert_eq!((thread::current().id(), first.fetch_add(1, Ordering::SeqCst)), (me, 0));
        // What an answer asks for goes the same way.
        let read: Done<Bytes> = Box::new(move |bytes| {
            assert_eq!(bytes.unwrap(), pages(3, 7));
            assert_eq!((thread::current().id(), second.fetch_add(1, Ordering::SeqCst)), (me, 1));
        });
        again.read(4096, 3 * ALIGN as u32, read);
    });
    drive.write(4096, vec![pages(3, 7)], true, written);
    assert!(asked.as_mut().poll(&mut cx).is_ready());
    while completed.load(Ordering::SeqCst) < 2 {
        own.turn();
    }
}

#[test]
fn what_a_ring_of_a_thread_has_under_way_when_it_goes_is_answered() {
    let (folder, ring) = (Folder::new("going"), Ring::start().unwrap());
    let drive = open(&ring, &folder.drive("a", 4 * MIB)).unwrap();
    let own = LocalRing::attach().unwrap();
    let waits: Vec<_> = (0..600)
        .map(|index: u64| {
            let (done, written) = wait();
            drive.write(index * 4096, vec![pages(1, index as u8)], false, done);
            written
        })
        .collect();
    own.turn();
    drop(own);
    waits.into_iter().for_each(|written| block_on(written).unwrap());
    // From here on the thread uses the ring of the process.
    let read = call(|done| drive.read(599 * 4096, ALIGN as u32, done)).unwrap();
    assert_eq!(read, pages(1, 599u64 as u8));
}
