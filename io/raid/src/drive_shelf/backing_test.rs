use super::*;
use crate::drive_shelf::tests::{call, now, put};
use crate::{AlignedBuf, DriveState, FormatOptions, JournalPos, MemDrive, Opening, SegmentId, Shelf};
use bytes::Bytes;
use rig::drive::{FileSystem, SparseDrive};

const BYTES: u64 = 16 << 20;

struct Rig {
    drives: Vec<Arc<SparseDrive>>,
    file_system: Arc<FileSystem>,
    clock: u64,
}

impl Rig {
    /// Four drives on a file system with this many MiB.
    fn new(mib: i64) -> Self {
        let file_system = FileSystem::new(mib);
        let drive = |index| SparseDrive::new(MemDrive::new(format!("file{index}"), BYTES), &file_system);
        Self { drives: (0..4).map(drive).collect(), file_system, clock: 0 }
    }

    fn given(&self) -> Vec<Arc<dyn Drive>> {
        self.drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
    }

    fn format(&self) -> Result<Arc<DriveShelf>> {
        let options = FormatOptions { array: 7, ..FormatOptions::default() };
        let shelf = now(DriveShelf::format(self.given(), options))?;
        put(&shelf, 1, b"root")?;
        Ok(shelf)
    }

    fn open(&self) -> Arc<DriveShelf> {
        let shelf = now(DriveShelf::open(self.given(), Opening::default())).unwrap();
        call(|done| shelf.recover(JournalPos(1), done)).unwrap();
        shelf
    }

    /// Two seconds go by.
    fn pass(&mut self, shelf: &DriveShelf) {
        for _ in 0..20 {
            self.clock += 100;
            shelf.tick(Duration::from_millis(1000 + self.clock));
        }
    }
}

fn write(shelf: &DriveShelf, segment: u32) -> crate::Wait<()> {
    let mut bytes = AlignedBuf::zeroed(shelf.layout().segment_bytes as usize);
    bytes.fill(segment as u8 + 1);
    let (done, written) = wait();
    shelf.write(SegmentId(segment), 0, Arc::new(bytes), done);
    written
}

fn check(shelf: &DriveShelf, segment: u32) {
    let read = call(|done| shelf.read(SegmentId(segment), 0, shelf.layout().segment_bytes, done)).unwrap();
    assert!(read.iter().all(|byte| *byte == segment as u8 + 1), "segment {segment}");
}

fn all_in_use(shelf: &DriveShelf) -> bool {
    let status = shelf.status();
    shelf.check_running().is_ok()
        && status.tolerates == 2
        && status.drives.iter().all(|drive| drive.state == DriveState::Online)
}

#[test]
fn no_more_is_promised_than_the_file_system_has() {
    let mut rig = Rig::new(32);
    let shelf = rig.format().unwrap();
    let room = shelf.room();
    assert!(room.any < shelf.layout().segments, "{room:?}");
    let mut written = 0;
    while shelf.room().protected > 0 {
        now(write(&shelf, written)).unwrap();
        written += 1;
        rig.pass(&shelf);
    }
    assert!(written > 5, "{room:?}");
    // Cleaning works with what was kept for it.
    for segment in written..written + 4 {
        now(write(&shelf, segment)).unwrap();
    }
    assert!(all_in_use(&shelf) && !shelf.is_starved());
    let status = shelf.status();
    assert_eq!(status.file_systems.len(), 1);
    assert!(status.file_systems[0].growth > status.file_systems[0].free, "which is worth a warning");
    // What is given back is room again.
    (0..written).for_each(|segment| shelf.discard(SegmentId(segment)));
    rig.pass(&shelf);
    assert!(shelf.room().protected > 0);
}

#[test]
fn what_was_discarded_is_room_again_before_file_systems_are_examined_at_their_interval() {
    let rig = Rig::new(32);
    let shelf = rig.format().unwrap();
    let room = shelf.room().protected;
    for segment in (0..shelf.layout().segments).cycle().take(4 * room as usize) {
        now(write(&shelf, segment)).unwrap();
        shelf.discard(SegmentId(segment));
        assert!(shelf.room().protected > 0, "{room} segments, and none in use");
    }
}

#[test]
fn somebody_else_who_fills_the_file_system_makes_writes_wait_and_nothing_else() {
    let mut rig = Rig::new(100);
    let shelf = rig.format().unwrap();
    (0..3).for_each(|segment| now(write(&shelf, segment)).unwrap());
    let taken = rig.file_system.fill();
    let mut waiting: Vec<_> = (3..6).map(|segment| write(&shelf, segment)).collect();
    rig.pass(&shelf);
    for written in &mut waiting {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::pin::Pin::new(written).poll(&mut context).is_pending());
    }
    assert!(shelf.is_starved() && shelf.status().starved && all_in_use(&shelf));
    assert_eq!(shelf.room().protected, 0, "hosts are refused");
    // Reads go on, and what hosts give back is noted in the journal.
    (0..3).for_each(|segment| check(&shelf, segment));
    for _ in 0..20 {
        call(|done| shelf.append(Bytes::from_static(b"unmap"), Vec::new(), done)).unwrap();
    }
    call(|done| shelf.sync(done)).unwrap();
    rig.file_system.set_free_pages(taken);
    rig.pass(&shelf);
    waiting.into_iter().for_each(|written| now(written).unwrap());
    rig.pass(&shelf);
    assert!(!shelf.is_starved() && all_in_use(&shelf) && shelf.room().protected > 0);
    (0..6).for_each(|segment| check(&shelf, segment));
}

#[test]
fn a_full_file_system_is_no_reason_not_to_start() {
    let mut rig = Rig::new(100);
    let shelf = rig.format().unwrap();
    now(write(&shelf, 0)).unwrap();
    call(|done| shelf.sync(done)).unwrap();
    let taken = rig.file_system.fill();
    let waits = write(&shelf, 1);
    drop((shelf, waits));
    let shelf = rig.open();
    assert!(all_in_use(&shelf));
    check(&shelf, 0);
    call(|done| shelf.append(Bytes::from_static(b"batch"), Vec::new(), done)).unwrap();
    assert_eq!(shelf.room().protected, 0);
    rig.file_system.set_free_pages(taken);
    rig.pass(&shelf);
    assert!(shelf.room().protected > 0);
    now(write(&shelf, 2)).unwrap();
}

/// What was allocated may still be missing: a thin volume below the file system, or one that copies on write.
#[test]
fn a_write_that_finds_no_space_in_spite_of_everything_is_tried_again() {
    let mut rig = Rig::new(100);
    let shelf = rig.format().unwrap();
    now(write(&shelf, 0)).unwrap();
    let (taken, stripe) = (rig.file_system.free_pages(), shelf.layout().stripe_bytes);
    let part = |offset| {
        let (done, written) = wait();
        let bytes = Arc::new(AlignedBuf::zeroed(stripe as usize));
        shelf.write(SegmentId(1), offset, bytes, done);
        written
    };
    now(part(0)).unwrap();
    rig.file_system.copy_on_write_from(shelf.plan.granules_at());
    rig.file_system.set_free_pages(0);
    let written = part(stripe);
    rig.pass(&shelf);
    assert!(shelf.is_starved() && all_in_use(&shelf));
    rig.file_system.set_free_pages(taken);
    rig.pass(&shelf);
    now(written).unwrap();
    assert!(all_in_use(&shelf));
}

#[test]
fn a_journal_that_finds_no_space_stops_the_shelf_and_puts_no_drive_out() {
    let rig = Rig::new(100);
    let shelf = rig.format().unwrap();
    now(write(&shelf, 0)).unwrap();
    call(|done| shelf.sync(done)).unwrap();
    let taken = rig.file_system.fill();
    rig.file_system.copy_on_write_from(0);
    let refused = call(|done| shelf.append(Bytes::from_static(b"batch"), Vec::new(), done));
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    assert!(shelf.check_running().is_err());
    assert!(shelf.status().drives.iter().all(|drive| drive.state == DriveState::Online));
    drop(shelf);
    rig.file_system.set_free_pages(taken);
    let shelf = rig.open();
    assert!(all_in_use(&shelf));
    check(&shelf, 0);
}

#[test]
fn an_array_is_not_made_where_there_is_no_space_for_its_records() {
    let refused = Rig::new(1).format().err().expect("it fails");
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
}
