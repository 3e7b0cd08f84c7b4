//! Sparse drives on a file system that fills up: writes that need space are refused, everything else works, and writes
//! succeed again when there is space.

use crate::support::{now, poll};
use block::{Data, Disk, DiskId, Extent, Geometry, Op, Reply};
use engine::{Engine, Options};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening, Sizes};
use rig::drive::{FileSystem, SparseDrive};
use shelf::pool::DriveState;
use shelf::{Drive, Shelf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

const BLOCK: u64 = 4096;
const BYTES: u64 = 32 << 20;
/// Polls after which an operation is taken to hang.
const ROUNDS: u32 = 20_000;

/// Bytes that neither repeat nor compress.
fn content(lba: u64) -> Vec<u8> {
    let mut state = lba + 1;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).to_le_bytes()
    };
    (0..BLOCK / 8).flat_map(|_| word()).collect()
}

struct Rig {
    drives: Vec<Arc<SparseDrive>>,
    file_system: Arc<FileSystem>,
    shelf: Arc<DriveShelf>,
    engine: Arc<Engine>,
    background: Pin<Box<dyn Future<Output = ()>>>,
    ticks: u64,
}

impl Rig {
    /// Four drives on a file system with this many MiB, and a volume larger than all of it.
    fn new(mib: i64) -> Self {
        Self::sized(BYTES, Sizes::default(), mib)
    }

    /// The same with drives of this size, and with these sizes of what is on them.
    fn sized(bytes: u64, sizes: Sizes, mib: i64) -> Self {
        let file_system = FileSystem::new(mib);
        let drive = |index| SparseDrive::new(MemDrive::new(format!("file{index}"), bytes), &file_system);
        let drives: Vec<_> = (0..4).map(drive).collect();
        let options = FormatOptions { array: 7, sizes, ..FormatOptions::default() };
        let shelf = now(DriveShelf::format(given(&drives), options)).expect("blank drives");
        let mut rig = Self::of(drives, file_system, shelf);
        let geometry = Geometry { block_bytes: BLOCK as u32, blocks: 1 << 18 };
        let engine = rig.engine.clone();
        rig.run(engine.create_volume(DiskId(1), geometry, 0)).expect("a volume");
        rig
    }

    fn of(drives: Vec<Arc<SparseDrive>>, file_system: Arc<FileSystem>, shelf: Arc<DriveShelf>) -> Self {
        let engine = now(Engine::open(shelf.clone(), Options::new([1; 32]))).expect("an engine");
        let background = Box::pin(engine.background());
        Self { drives, file_system, shelf, engine, background, ticks: 0 }
    }

    /// The same drives after a power loss.
    fn restart(self) -> Self {
        let Self { drives, file_system, shelf, engine, background, .. } = self;
        drop((background, engine, shelf));
        let shelf = now(DriveShelf::open(given(&drives), Opening::default())).expect("the same drives");
        Self::of(drives, file_system, shelf)
    }

    fn turn(&mut self) {
        assert!(poll(self.background.as_mut()).is_pending(), "the engine runs");
        self.ticks += 1;
        self.shelf.tick(Duration::from_millis(1000 + 100 * self.ticks));
        self.engine.watch_drives();
    }

    fn run<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        for _ in 0..ROUNDS {
            if let Poll::Ready(outcome) = poll(work.as_mut()) {
                return outcome;
            }
            self.turn();
        }
        panic!("no answer: {:?}, {:?}", self.engine.space(), self.shelf.status());
    }

    fn execute(&mut self, op: Op) -> block::Result<Reply> {
        let volume = self.engine.volume(DiskId(1)).expect("the volume");
        self.run(volume.execute(op))
    }

    fn write(&mut self, lba: u64) -> block::Result<Reply> {
        self.execute(Op::Write { lba, data: Data::from(content(lba)) })
    }

    /// Writes until it is refused; the answer is the first block that was.
    fn fill(&mut self, from: u64) -> u64 {
        for lba in from..1 << 18 {
            match self.write(lba) {
                Ok(_) => {}
                Err(block::Error::NoSpace) => return lba,
                Err(error) => panic!("block {lba}: {error}"),
            }
        }
        panic!("everything was taken");
    }

    fn check(&mut self, lbas: impl Iterator<Item = u64>) {
        for lba in lbas {
            let read = self.execute(Op::Read(Extent { lba, blocks: 1 }));
            let Ok(Reply::Data(found)) = read else { panic!("block {lba}: {read:?}") };
            assert!(found.to_bytes() == content(lba), "block {lba}");
        }
    }

    fn turns(&mut self, count: usize) {
        (0..count).for_each(|_| self.turn());
    }

    fn all_is_well(&self) -> bool {
        let status = self.shelf.status();
        self.engine.stopped().is_none()
            && status.tolerates == 2
            && status.drives.iter().all(|drive| drive.state == DriveState::Online)
    }
}

fn given(drives: &[Arc<SparseDrive>]) -> Vec<Arc<dyn Drive>> {
    drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
}

/// Drives of 128 MiB together in 80 MiB.
#[test]
fn a_file_system_smaller_than_its_drives_is_no_space_for_hosts_and_unmap_is_the_way_out() {
    let mut rig = Rig::new(80);
    let full = rig.fill(0);
    assert!(full > 1000, "{full}");
    assert!(rig.all_is_well());
    rig.check((0..full).step_by(7));
    rig.execute(Op::Unmap(vec![Extent { lba: 0, blocks: full / 2 }])).expect("an unmap");
    let released = |rig: &Rig| rig.engine.space().unique <= rig.engine.space().mapped;
    for _ in 0..ROUNDS {
        if released(&rig) {
            break;
        }
        rig.turn();
    }
    assert!(released(&rig), "{:?}", rig.engine.space());
    rig.turns(200);
    let again = rig.fill(full) - full;
    let (space, room) = (rig.engine.space(), rig.shelf.room());
    assert!(again > full / 4, "{again} after {full}: {space:?}, {room:?}, {:?}", rig.shelf.status());
    rig.check((full / 2..full + again).step_by(7));
    let mut rig = rig.restart();
    assert!(rig.all_is_well());
    rig.check((full / 2..full + again).step_by(7));
    rig.turns(50);
    let more = rig.fill(full + again) - full - again;
    assert!(more < full / 4, "it is nearly as full as before: {more} more");
    assert!(rig.all_is_well());
}

/// Another user of the file system takes all that is left, at once, while hosts write.
#[test]
fn a_file_system_that_somebody_fills_is_no_space_until_it_has_some() {
    let mut rig = Rig::new(200);
    for lba in 0..500 {
        rig.write(lba).expect("there is space");
    }
    let taken = rig.file_system.fill();
    let full = rig.fill(500);
    assert!(rig.all_is_well());
    rig.check((0..full).step_by(7));
    rig.execute(Op::Unmap(vec![Extent { lba: 0, blocks: 64 }])).expect("an unmap");
    rig.execute(Op::Flush).expect("nothing to do");
    assert!(rig.all_is_well());
    // After a restart it is as full, and has everything that was acknowledged.
    let mut rig = rig.restart();
    rig.turns(50);
    rig.check((64..full).step_by(7));
    assert!(rig.all_is_well());
    rig.file_system.set_free_pages(taken);
    rig.turns(100);
    for lba in full..full + 500 {
        rig.write(lba).expect("there is space again");
    }
    rig.check((64..full + 500).step_by(7));
    assert!(rig.all_is_well() && !rig.shelf.is_starved());
}

/// Drives of 1 GiB together in 150 MiB: an eighth of the former is as much as fits in the latter.
#[test]
fn what_drives_can_not_grow_to_needs_no_reserve() {
    let sizes = Sizes { segment_bytes: Some(512 << 10), journal_bytes: Some(1 << 20), ..Sizes::default() };
    let mut rig = Rig::sized(256 << 20, sizes, 150);
    rig.turns(50);
    let space = rig.engine.space();
    // Half of it is parity.
    let fits = rig.file_system.free_pages() as u64 * BLOCK / 2;
    assert!(space.total > fits / 2 && space.total < fits, "{space:?} of {fits}");
    let full = rig.fill(0);
    assert!(full * BLOCK > fits / 2, "{full} blocks of {fits} bytes");
    assert!(rig.all_is_well());
    rig.check((0..full).step_by(17));
}

#[test]
fn what_was_deleted_is_given_back_to_the_file_system_though_nothing_is_written_after_it() {
    let mut rig = Rig::new(200);
    rig.turns(50);
    let before = rig.file_system.free_pages();
    for lba in 0..6000 {
        rig.write(lba).expect("there is space");
    }
    rig.execute(Op::Flush).expect("written");
    rig.turns(2000);
    let taken = before - rig.file_system.free_pages();
    assert!(taken > 6000, "{taken} pages for 6,000 blocks");
    let engine = rig.engine.clone();
    rig.run(engine.delete_volume(DiskId(1), 0)).expect("deleted");
    rig.turns(2000);
    let left = before - rig.file_system.free_pages();
    assert!(left < taken / 4, "{left} pages of {taken} are still taken: {:?}", rig.engine.space());
    assert!(rig.all_is_well());
}
