use super::*;
use crate::drive_shelf::tests::now;
use crate::{AlignedBuf, Drive, FormatOptions, JournalPos, MemDrive, SegmentId, Shelf};
use bytes::Bytes;
use rig::drive::{Intercepted, Request};
use shelf::{Job, Workers};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

struct Rig {
    drives: Vec<Arc<dyn Drive>>,
    /// Slots of drives that keep what they are asked for to themselves.
    hanging: Arc<Mutex<BTreeSet<usize>>>,
    shelf: Arc<DriveShelf>,
    now: Duration,
}

impl Rig {
    fn new(count: usize) -> Self {
        let hanging = Arc::new(Mutex::new(BTreeSet::new()));
        let drive = |slot| {
            let (hanging, kept) = (hanging.clone(), Mutex::new(Vec::new()));
            let intercept =
                move |drive: &Arc<MemDrive>, request: Request| match hanging.lock().contains(&slot) {
                    true => kept.lock().push(request),
                    false => request.submit(&**drive),
                };
            let drive = MemDrive::new(format!("drive{slot}"), 16 << 20);
            Arc::new(Intercepted::new(drive, intercept)) as Arc<dyn Drive>
        };
        let drives: Vec<_> = (0..count).map(drive).collect();
        let options = FormatOptions { array: 7, ..FormatOptions::default() };
        let shelf = now(DriveShelf::format(drives.clone(), options)).unwrap();
        let mut rig = Self { drives, hanging, shelf, now: Duration::from_secs(1) };
        rig.pass(Duration::ZERO);
        rig
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.shelf.tick(self.now);
    }

    fn hang(&self, slots: &[usize]) {
        self.hanging.lock().extend(slots);
    }

    /// Writes one stripe; the answer may take its time.
    fn write(&self, segment: u32, row: u32) -> Wait<()> {
        let stripe = self.shelf.layout().stripe_bytes;
        let (done, written) = wait();
        let bytes = Arc::new(AlignedBuf::zeroed(stripe as usize));
        self.shelf.write(SegmentId(segment), row * stripe, bytes, done);
        written
    }

    fn append(&self) -> Wait<JournalPos> {
        let (done, appended) = wait();
        self.shelf.append(Bytes::from_static(b"batch"), Vec::new(), done);
        appended
    }

    fn out(&self) -> Vec<usize> {
        let drives = self.shelf.status().drives;
        drives.iter().filter(|drive| drive.state == DriveState::Failed).map(|drive| drive.slot).collect()
    }
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn two_drives_that_hang_are_put_out_where_two_can_be_spared() {
    let mut rig = Rig::new(5);
    now(rig.write(0, 0)).unwrap();
    rig.hang(&[0, 1]);
    let (written, appended) = (rig.write(0, 1), rig.append());
    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.out(), []);
    rig.pass(LONG);
    assert_eq!(rig.out(), [0, 1]);
    now(written).unwrap();
    now(appended).unwrap();
}

#[test]
fn drives_that_hang_are_waited_for_where_not_all_of_them_can_be_spared() {
    // Three of five; two of a mirror.
    for (count, hanging) in [(5, &[0, 1, 4][..]), (2, &[0, 1])] {
        let mut rig = Rig::new(count);
        rig.hang(hanging);
        let _written = rig.write(0, 0);
        rig.pass(LONG);
        rig.pass(LONG);
        assert_eq!(rig.out(), [], "{count} drives");
    }
}

/// While two drives were out, a segment was placed on the other two with what parity they have; with all four there
/// again it can bear less than four drives could.
#[test]
fn a_drive_that_holds_what_no_other_has_is_waited_for() {
    let mut rig = Rig::new(4);
    for slot in [2, 3] {
        rig.shelf.fail_drive(slot, &Error::Drive { what: "as the test says".into() });
    }
    now(rig.write(0, 0)).unwrap();
    let entry = rig.shelf.segments.lock().list[0].entry.clone().unwrap();
    let (parity, held) = (usize::from(entry.profile.parity), entry.columns.iter().flatten().count());
    assert!(parity < 2 && held == 2, "{entry:?}");
    rig.hang(&[0, 1]);
    let _appended = rig.append();
    rig.pass(LONG);
    assert_eq!(rig.out(), [2, 3]);
}

#[test]
fn the_last_copy_of_the_journal_is_waited_for() {
    let mut rig = Rig::new(5);
    rig.shelf.journal.lock().members = 1 << 2;
    rig.hang(&[2]);
    let _appended = rig.append();
    rig.pass(LONG);
    assert_eq!(rig.out(), []);
}

/// Between the last write to a new place and the moment at which it becomes the segment's, its drive goes. No drive has
/// marked it there, so it must not become the segment's: rows that are written later would be missing on it.
#[test]
fn a_place_whose_drive_goes_at_the_last_moment_is_not_taken() {
    let mut rig = Rig::new(6);
    now(rig.write(0, 0)).unwrap();
    // The background may write.
    rig.pass(Duration::from_secs(1));
    let shelf = &rig.shelf;
    let old = shelf.segments.lock().list[0].entry.clone().unwrap();
    assert!(old.columns.len() == 6);
    let gone = usize::from(old.columns[0].unwrap().slot);
    shelf.fail_drive(gone, &Error::Drive { what: "as the test says".into() });
    let old = shelf.segments.lock().list[0].entry.clone().unwrap();
    let lost: Vec<usize> = old.lost(shelf.in_use_drives()).collect();
    let Ok(Some((new, wanted))) = shelf.new_place(0, &old, &lost) else { panic!("there is room") };
    now(shelf.copy_rows(0, (&old, &new), &wanted, 1)).unwrap();
    let target =
        new.columns.iter().zip(&wanted).find_map(|(column, wanted)| column.filter(|_| *wanted)).unwrap();
    shelf.fail_drive(usize::from(target.slot), &Error::Drive { what: "as the test says".into() });
    assert!(shelf.install(0, &old, &new, &wanted, 1).is_err());
    let there = shelf.present().iter().fold(0, |set, member| set | 1 << member.slot);
    now(rig.write(0, 1)).unwrap();
    let entry = shelf.segments.lock().list[0].entry.clone().unwrap();
    assert!(
        entry.columns.iter().flatten().all(|column| column.stale || there >> column.slot & 1 == 1),
        "{entry:?}"
    );
}

/// A checkpoint wrote to a segment that a scrub held back for as long as the rate of the background asked for.
#[test]
fn a_write_does_not_wait_for_the_rate_of_the_scrub_that_reads_its_segment() {
    let rig = Rig::new(5);
    now(rig.write(0, 0)).unwrap();
    let mut scrub = pin!(rig.shelf.scrub());
    let mut poll = || scrub.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending() && poll().is_pending(), "nothing but the clock lets it go on");
    let written = rig.write(0, 1);
    let Poll::Ready(report) = poll() else { panic!("it waits for the rate, and the write for it") };
    now(written).unwrap();
    assert_eq!((report.segments, report.errors), (1, 0));
    assert!(pin!(rig.shelf.scrub()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// The second one that held back a segment forgot the writes that waited for the first.
#[test]
fn a_write_waits_for_everything_that_holds_its_segment_back() {
    let mut rig = Rig::new(5);
    now(rig.write(0, 0)).unwrap();
    let poll = |scrub: Pin<&mut dyn Future<Output = _>>| {
        scrub.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    let shelf = rig.shelf.clone();
    let (mut one, mut other) = (pin!(shelf.scrub()), pin!(shelf.scrub()));
    assert!(!poll(one.as_mut()));
    let written = rig.write(0, 1);
    assert!(!poll(other.as_mut()));
    assert!(poll(one.as_mut()) && !poll(other.as_mut()));
    now(written).unwrap();
    rig.pass(Duration::from_secs(1));
    assert!(poll(other.as_mut()));
}

/// A crash brings back what was discarded since the map was written last, and an opening wants it to be readable.
#[test]
fn what_was_discarded_is_counted_until_the_map_says_so() {
    let rig = Rig::new(6);
    now(rig.write(0, 0)).unwrap();
    now(rig.shelf.sync_all()).unwrap();
    for slot in [4, 5] {
        rig.shelf.fail_drive(slot, &Error::Drive { what: "as the test says".into() });
    }
    assert_eq!(rig.shelf.status().tolerates, 0);
    rig.shelf.discard(SegmentId(0));
    let status = rig.shelf.status();
    assert_eq!((status.segments, status.degraded_segments, status.tolerates), (0, 0, 0));
    assert!(!rig.shelf.can_spare(1 << 3));
    let reopened = |left: [usize; 3]| {
        let given = left.map(|index| rig.drives[index].clone()).to_vec();
        now(DriveShelf::open(given, crate::Opening::default()))
    };
    assert!(reopened([0, 1, 2]).is_err());
    now(rig.shelf.settle());
    assert_eq!(rig.shelf.status().tolerates, 2);
    assert!(reopened([0, 1, 2]).is_ok());
}

/// Polls background work of a shelf to its end. Of the jobs of its workers, `jobs`, the last one always ends first. Also returns
/// how many it had at first.
fn finish<F: Future>(rig: &mut Rig, jobs: &Mutex<Vec<Job>>, work: F) -> (F::Output, usize) {
    let (mut work, mut first) = (pin!(work), None);
    for _ in 0..1000 {
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return (outcome, first.unwrap_or(0));
        }
        first.get_or_insert(jobs.lock().len());
        let job = jobs.lock().pop();
        match job {
            Some(job) => job(),
            None => rig.pass(Duration::from_millis(100)),
        }
    }
    panic!("it waits forever")
}

#[test]
fn each_worker_has_a_segment_of_a_rebuild_and_of_a_scrub() {
    const SEGMENTS: u32 = 5;
    const WORKERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();
    let mut rig = Rig::new(6);
    for segment in 0..SEGMENTS {
        now(rig.write(segment, 0)).unwrap();
    }
    now(rig.shelf.sync_all()).unwrap();
    let jobs = Arc::new(Mutex::new(Vec::new()));
    let handed = jobs.clone();
    rig.shelf.use_workers(&Workers::new(WORKERS, move |job| handed.lock().push(job)));
    rig.shelf.fail_drive(5, &Error::Drive { what: "as the test says".into() });
    let degraded = rig.shelf.status().degraded_segments;
    assert!(degraded > 3, "{degraded}");
    let shelf = rig.shelf.clone();
    let ((), begun) = finish(&mut rig, &jobs, shelf.settle());
    let status = shelf.status();
    assert_eq!((status.degraded_segments, status.lost_pages, begun), (0, 0, WORKERS.get()));
    let (report, begun) = finish(&mut rig, &jobs, shelf.scrub());
    let segments = u64::from(SEGMENTS);
    assert_eq!((report.segments, report.errors, report.lost, begun), (segments, 0, 0, WORKERS.get()));
    assert!(shelf.segments.lock().list.iter().all(|segment| segment.gate.is_none()));
}

#[test]
fn the_background_slows_down_while_hosts_feel_it_and_comes_back() {
    let background = Background::default();
    let mut strikes = 0;
    // What is earned in a tenth of a second, with operations all the time.
    let mut earn = || {
        strikes += 1;
        background.0.lock().budget = 0;
        background.tick(Duration::from_millis(100 * strikes), strikes, &Limits::default());
        background.0.lock().budget as u64
    };
    earn();
    assert_eq!(earn(), Limits::default().busy_bytes_per_second / 10);
    (0..4).for_each(|_| background.observe_latency(2_000));
    for (median, parts) in [(4_001, [2, 4, 4]), (3_999, [2, 1, 1])] {
        for part in parts {
            background.0.lock().spent = 1;
            background.observe_latency(median);
            assert_eq!(earn(), Limits::default().busy_bytes_per_second / part / 10, "1/{part}");
        }
    }
}
