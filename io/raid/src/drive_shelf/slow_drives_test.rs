use super::*;
use crate::drive_shelf::tests::now;
use crate::{AlignedBuf, Done, Drive, FormatOptions, MemDrive, SegmentId, Shelf, Wait, wait};
use bytes::Bytes;
use parking_lot::Mutex;
use rig::drive::{Intercepted, Request};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// Milliseconds that a drive takes for everything, and requests with the time at which they are due.
#[derive(Default)]
struct Latency {
    takes: AtomicU64,
    queue: Mutex<Vec<(u64, Request)>>,
}

/// A drive that takes a number of simulated milliseconds for everything.
struct Slow {
    drive: Arc<dyn Drive>,
    memory: Arc<MemDrive>,
    latency: Arc<Latency>,
}

impl Slow {
    fn new(index: usize, clock: &Arc<AtomicU64>) -> Self {
        let (memory, latency, clock) =
            (MemDrive::new(format!("drive{index}"), 16 << 20), Arc::<Latency>::default(), clock.clone());
        let own = latency.clone();
        let delay = move |drive: &Arc<MemDrive>, request: Request| match own.takes.load(Ordering::Relaxed) {
            0 => request.submit(&**drive),
            takes => own.queue.lock().push((clock.load(Ordering::Relaxed) + takes, request)),
        };
        Self { drive: Arc::new(Intercepted::new(memory.clone(), delay)), memory, latency }
    }

    fn takes(&self, ms: u64) {
        self.latency.takes.store(ms, Ordering::Relaxed);
    }

    /// Answers what is due.
    fn answer(&self, now: u64) {
        let due: Vec<_> = self.latency.queue.lock().extract_if(.., |(due, _)| *due <= now).collect();
        due.into_iter().for_each(|(_, request)| request.submit(&*self.memory));
    }
}

/// A request of a host that is always under way, and how long each has taken.
struct Host<T> {
    in_flight: Option<(u64, Wait<T>)>,
    took: Vec<(u64, u64)>,
}

impl<T> Host<T> {
    fn new() -> Self {
        Self { in_flight: None, took: Vec::new() }
    }

    /// Asks again and again while answers come at once.
    fn serve(&mut self, now: u64, mut ask: impl FnMut(Done<T>))
    where
        T: Send + 'static,
    {
        for _ in 0..2 {
            let (since, waiting) = self.in_flight.get_or_insert_with(|| {
                let (done, answer) = wait();
                ask(done);
                (now, answer)
            });
            let Poll::Ready(answer) = Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) else {
                return;
            };
            answer.unwrap_or_else(|cause| panic!("{cause}"));
            self.took.push((now, now - *since));
            self.in_flight = None;
        }
    }

    fn longest(&self, during: std::ops::Range<u64>) -> u64 {
        let within = self.took.iter().filter(|(at, _)| during.contains(at));
        within.map(|(_, took)| *took).max().expect("something was acknowledged")
    }
}

struct Rig {
    drives: Vec<Slow>,
    clock: Arc<AtomicU64>,
    shelf: Arc<DriveShelf>,
    background: Pin<Box<dyn Future<Output = ()> + Send>>,
    appends: Host<crate::JournalPos>,
    reads: Host<Bytes>,
}

impl Rig {
    fn new(count: usize) -> Self {
        let clock = Arc::new(AtomicU64::new(1000));
        let drives: Vec<_> = (0..count).map(|index| Slow::new(index, &clock)).collect();
        let given = drives.iter().map(|slow: &Slow| slow.drive.clone()).collect();
        let shelf =
            now(DriveShelf::format(given, FormatOptions { array: 7, ..FormatOptions::default() })).unwrap();
        let background = Box::pin(shelf.background());
        let mut rig = Self { drives, clock, shelf, background, appends: Host::new(), reads: Host::new() };
        rig.write(0);
        rig
    }

    fn write(&mut self, segment: u32) {
        let bytes = Arc::new(AlignedBuf::zeroed(self.shelf.layout().segment_bytes as usize));
        let (done, written) = wait();
        self.shelf.write(SegmentId(segment), 0, bytes, done);
        now(written).unwrap();
    }

    /// The same, while the clock advances until the drives have taken it.
    fn write_slowly(&mut self, segment: u32) {
        let bytes = Arc::new(AlignedBuf::zeroed(self.shelf.layout().segment_bytes as usize));
        let (done, mut written) = wait();
        self.shelf.write(SegmentId(segment), 0, bytes, done);
        for _ in 0..100 {
            if let Poll::Ready(outcome) = Pin::new(&mut written).poll(&mut Context::from_waker(Waker::noop()))
            {
                return outcome.unwrap_or_else(|cause| panic!("segment {segment}: {cause}"));
            }
            self.pass(10);
        }
        panic!("segment {segment} is not written");
    }

    /// Reads a page of a drive.
    fn read_drive(&self, slot: usize) -> Wait<Bytes> {
        self.shelf.member(slot).expect("a member").read_with_write_timeout(0, 4096)
    }

    /// Advances the clock by this many milliseconds, with ten ticks a second.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis {
            let now = 1 + self.clock.fetch_add(1, Ordering::Relaxed);
            self.drives.iter().for_each(|drive| drive.answer(now));
            if now.is_multiple_of(100) {
                self.shelf.tick(Duration::from_millis(now));
            }
            let _ = self.background.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Advances the clock by seconds without I/O.
    fn idle(&mut self, seconds: u64) {
        self.pass(seconds * 1000);
    }

    /// A second in which a host appends this many batches.
    fn sparse_second(&mut self, batches: u64) {
        for _ in 0..batches {
            let (done, _) = wait();
            self.shelf.append(Bytes::from_static(b"batch"), Vec::new(), done);
            let next = self.shelf.journal.lock().acknowledged.max(crate::JournalPos(1));
            let superblock = crate::Superblock { journal_from: next, payload: Bytes::new() };
            self.shelf.write_superblock(superblock, Box::new(|_| {}));
            self.pass(1000 / batches);
        }
    }

    /// A second goes by with hosts that write and read all the time.
    fn second(&mut self) {
        for _ in 0..1000 {
            let now = 1 + self.clock.fetch_add(1, Ordering::Relaxed);
            self.drives.iter().for_each(|drive| drive.answer(now));
            let shelf = &self.shelf;
            // A checkpoint takes as long as the slowest drive.
            let taken = shelf.journal_taken(crate::JournalPos(u64::MAX));
            if self.appends.in_flight.is_some() || taken < shelf.layout().journal_bytes / 2 {
                self.appends.serve(now, |done| shelf.append(Bytes::from_static(b"batch"), Vec::new(), done));
            }
            let offset = (now * 4080 * 7) as u32 % (shelf.layout().segment_bytes - 4080);
            self.reads.serve(now, |done| shelf.read(SegmentId(0), offset, 4080, done));
            if now.is_multiple_of(100) {
                shelf.tick(Duration::from_millis(now));
                // The journal is small, and all that is in it may go.
                let next = shelf.journal.lock().acknowledged;
                let superblock = crate::Superblock { journal_from: next, payload: Bytes::new() };
                shelf.write_superblock(superblock, Box::new(|_| {}));
            }
            let _ = self.background.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Others take less than a tenth of a millisecond, this one twenty.
#[test]
fn hosts_are_served_round_a_drive_that_is_hundreds_of_times_slower() {
    let mut rig = Rig::new(8);
    (0..3).for_each(|_| rig.second());
    assert_eq!((rig.appends.longest(0..4000), rig.reads.longest(0..4000)), (0, 0));
    rig.drives[1].takes(20);
    (0..16).for_each(|_| rig.second());
    // No append waits longer than the drive takes for requests in flight, a change of the labels and a copy.
    let (appends, reads) = (rig.appends.longest(4000..17_000), rig.reads.longest(4000..17_000));
    assert!((20..400).contains(&appends) && reads < 400, "{appends} and {reads} ms");
    assert_eq!(
        (rig.appends.longest(17_000..20_000), rig.reads.longest(17_000..20_000)),
        (0, 0),
        "then no append waits"
    );
    let status = rig.shelf.status();
    assert!(status.drives[1].slow && !status.drives[1].journal);
    assert_eq!((rig.shelf.journal_copies().len(), status.tolerates, status.degraded_segments), (3, 2, 0));
    rig.write(1);
    let placed = rig.shelf.segments.lock().list[1].entry.clone().unwrap();
    assert!(placed.columns.iter().flatten().all(|column| column.slot != 1), "nothing new is placed there");

    rig.drives[1].takes(0);
    // Detection does not depend on status requests.
    rig.idle(50);
    assert!(!rig.shelf.status().drives[1].slow, "it gets another chance");
}

/// With four drives every segment needs all of them: nothing can be placed round the slow one without a loss of space or
/// of parity.
#[test]
fn a_slow_drive_of_four_costs_neither_room_nor_protection() {
    let mut rig = Rig::new(4);
    (0..3).for_each(|_| rig.second());
    let room = rig.shelf.room();
    rig.drives[2].takes(40);
    let mut found = 0;
    for _ in 0..20 {
        rig.second();
        let status = rig.shelf.status();
        found += u32::from(status.drives[2].slow);
        assert_eq!((rig.shelf.room(), status.tolerates, status.degraded_segments), (room, 2, 0));
    }
    assert!(found > 5, "it is found");
    // Everything that was promised is written in the meantime, as well protected as before.
    for segment in 1..=room.protected {
        rig.write_slowly(segment);
        let left = rig.shelf.room().protected;
        let slack = super::super::PLACEMENT_RESERVE_SEGMENTS;
        assert!(left + segment + slack >= room.protected, "{left} are left after {segment} of {room:?}");
    }
    let lost = {
        let segments = rig.shelf.segments.lock();
        segments.current().filter(|entry| entry.profile.parity < 2 || entry.lost(0b1111).count() > 0).count()
    };
    assert_eq!((lost, rig.shelf.status().tolerates), (0, 2));
}

/// A drive of eight that is slow costs neither parity nor room, however much is written while it is.
#[test]
fn what_is_promised_can_be_written_while_a_drive_of_eight_is_slow() {
    let mut rig = Rig::new(8);
    rig.drives[1].takes(40);
    (0..12).for_each(|_| rig.second());
    assert!(rig.shelf.status().drives[1].slow);
    let count = rig.shelf.layout().segments;
    let mut on_it = 0;
    for segment in 1..count {
        rig.write_slowly(segment);
        let (used, room) = (segment + 1, rig.shelf.room());
        assert!(
            used + room.any + super::super::PLACEMENT_RESERVE_SEGMENTS >= count,
            "{room:?} with {used} of {count}"
        );
        let placed = rig.shelf.segments.lock().list[segment as usize].entry.clone().unwrap();
        assert_eq!(placed.profile.parity, 2);
        on_it += u32::from(placed.columns.iter().flatten().any(|column| column.slot == 1));
    }
    assert!(
        on_it > count / 2 && on_it < count - 1,
        "{on_it} of {count}: at first it is avoided, then needed"
    );
}

/// Files on one disk that others use too: now this, now that one stands still for a moment, and there is little to do. The
/// median of what the drives take is zero all the time.
#[test]
fn moments_of_a_shared_disk_are_not_slowness() {
    let mut rig = Rig::new(4);
    for second in 0..120 {
        let stalls = (second % 4 == 0).then_some(second / 4 % 4);
        for (index, drive) in rig.drives.iter().enumerate() {
            let takes = if stalls == Some(index) { 900 } else { 0 };
            drive.takes(takes);
        }
        rig.sparse_second(5);
        assert!(rig.shelf.status().drives.iter().all(|drive| !drive.slow), "second {second}");
    }
}

/// The others have so little to do that nothing is known about them: a zero is no measure.
#[test]
fn a_drive_whose_peers_have_nothing_to_do_is_not_slow() {
    let mut rig = Rig::new(4);
    rig.drives[0].takes(30);
    for _ in 0..30 {
        for _ in 0..10 {
            let reads: Vec<Wait<Bytes>> = (0..2).map(|_| rig.read_drive(0)).collect();
            rig.pass(100);
            reads.into_iter().for_each(|read| _ = now(read).unwrap());
        }
        assert!(!rig.shelf.status().drives[0].slow);
    }
}

/// It is tried again now and then, later each time, and is called slow all the while.
#[test]
fn a_drive_that_stays_slow_is_one_alert() {
    let mut rig = Rig::new(8);
    rig.drives[1].takes(40);
    (0..14).for_each(|_| rig.second());
    let mut trials = 0;
    let mut avoided = true;
    for second in 0..60 {
        rig.second();
        assert!(rig.shelf.status().drives[1].slow, "second {second}");
        let now = rig.shelf.member(1).unwrap().is_placement_avoided();
        trials += u32::from(avoided && !now);
        avoided = now;
    }
    assert!(trials < 3, "{trials} trials");
}

/// Windows of a drive that is asked for nothing, and of one that is late.
#[test]
fn each_trial_of_a_drive_that_is_found_slow_again_comes_later() {
    let mut record = DriveHistory::new(1);
    let mut until_trial = || {
        record.step(true, false);
        let State::Slow(_) = record.state else { panic!("it is slow") };
        let windows = (1..).find(|_| {
            record.step(false, false);
            matches!(record.state, State::Trial(_))
        });
        windows.expect("a trial")
    };
    let waited: Vec<u32> = (0..8).map(|_| until_trial()).collect();
    assert_eq!(waited, [31, 61, 121, 241, 481, 961, 961, 961]);
    // Nothing is found in the trial, or it is prompt: that is the end of it.
    (0..=TRIAL_WINDOWS).for_each(|_| record.step(false, false));
    assert_eq!(record.state, State::Prompt);
    record.step(true, false);
    record.step(false, true);
    assert_eq!(record.state, State::Prompt);
}

#[test]
fn drives_that_are_all_slow_do_not_lag() {
    let mut rig = Rig::new(4);
    rig.drives.iter().for_each(|drive| drive.takes(10));
    (0..12).for_each(|_| rig.second());
    assert!(rig.shelf.status().drives.iter().all(|drive| !drive.slow));
}

/// The others have hardly anything to do: what the journal waits for is no measure of the drives that carry it.
#[test]
fn drives_that_carry_the_journal_and_are_all_slow_do_not_lag() {
    let mut rig = Rig::new(8);
    rig.drives[..3].iter().for_each(|drive| drive.takes(10));
    (0..12).for_each(|_| rig.second());
    assert!(rig.shelf.status().drives.iter().all(|drive| !drive.slow));
    assert_eq!(rig.shelf.journal_copies(), [0, 1, 2]);
}

#[test]
fn a_drive_that_makes_hosts_wait_is_reported_though_it_is_not_avoided() {
    let mut rig = Rig::new(8);
    let lagging = |rig: &Rig| {
        let drives = rig.shelf.status().drives;
        drives.iter().filter(|it| it.lags).map(|it| it.slot).collect::<Vec<_>>()
    };
    (0..70).for_each(|_| rig.second());
    assert_eq!(lagging(&rig), []);
    rig.drives[1].takes(5);
    (0..20).for_each(|_| rig.second());
    assert_eq!(lagging(&rig), [], "that may pass");
    (0..60).for_each(|_| rig.second());
    assert_eq!(lagging(&rig), [1]);
    assert!(rig.shelf.status().drives.iter().all(|it| !it.slow), "it is used like every other");
    rig.idle(120);
    assert_eq!(lagging(&rig), [1], "without work nothing is known");
    rig.drives[1].takes(0);
    (0..80).for_each(|_| rig.second());
    assert_eq!(lagging(&rig), []);
}

#[test]
fn drives_that_are_all_slow_are_reported() {
    let mut rig = Rig::new(4);
    (0..3).for_each(|_| rig.second());
    rig.drives.iter().for_each(|drive| drive.takes(120));
    (0..60).for_each(|_| rig.second());
    assert!(rig.shelf.status().drives.iter().all(|it| it.lags && !it.slow), "{:?}", rig.shelf.status());
}
