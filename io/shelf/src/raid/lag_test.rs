use super::*;
use crate::raid::tests::now;
use crate::{AlignedBuf, Done, Drive, FormatOptions, MemDrive, SegmentId, Shelf, Wait, wait};
use bytes::Bytes;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

type Later = Box<dyn FnOnce() + Send>;

/// A drive that takes a number of simulated milliseconds for everything.
struct Slow {
    drive: Arc<MemDrive>,
    takes: AtomicU64,
    clock: Arc<AtomicU64>,
    queue: Mutex<Vec<(u64, Later)>>,
}

impl Slow {
    fn later(&self, ask: impl FnOnce(&MemDrive) + Send + 'static) {
        let (takes, now) = (self.takes.load(Ordering::Relaxed), self.clock.load(Ordering::Relaxed));
        if takes == 0 {
            return ask(&self.drive);
        }
        let drive = self.drive.clone();
        self.queue.lock().push((now + takes, Box::new(move || ask(&drive))));
    }

    fn answer(&self) {
        let now = self.clock.load(Ordering::Relaxed);
        let due: Vec<_> = self.queue.lock().extract_if(.., |(due, _)| *due <= now).collect();
        due.into_iter().for_each(|(_, ask)| ask());
    }
}

impl Drive for Slow {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.later(move |drive| drive.read(offset, len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        self.later(move |drive| drive.write(offset, pieces, durable, done));
    }

    fn sync(&self, done: Done<()>) {
        self.later(move |drive| drive.sync(done));
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        self.later(move |drive| drive.discard(offset, len, done));
    }
}

/// A request of a host that is always under way, and how long each has taken.
struct Host<T> {
    under_way: Option<(u64, Wait<T>)>,
    took: Vec<(u64, u64)>,
}

impl<T> Host<T> {
    fn new() -> Self {
        Self { under_way: None, took: Vec::new() }
    }

    /// Asks again and again while answers come at once.
    fn serve(&mut self, now: u64, mut ask: impl FnMut(Done<T>))
    where
        T: Send + 'static,
    {
        for _ in 0..2 {
            let (since, waiting) = self.under_way.get_or_insert_with(|| {
                let (done, answer) = wait();
                ask(done);
                (now, answer)
            });
            let Poll::Ready(answer) = Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) else {
                return;
            };
            answer.unwrap_or_else(|cause| panic!("{cause}"));
            self.took.push((now, now - *since));
            self.under_way = None;
        }
    }

    fn longest(&self, during: std::ops::Range<u64>) -> u64 {
        let within = self.took.iter().filter(|(at, _)| during.contains(at));
        within.map(|(_, took)| *took).max().expect("something was answered")
    }
}

struct Rig {
    drives: Vec<Arc<Slow>>,
    clock: Arc<AtomicU64>,
    shelf: Arc<DriveShelf>,
    background: Pin<Box<dyn Future<Output = ()> + Send>>,
    appends: Host<crate::JournalPos>,
    reads: Host<Bytes>,
}

impl Rig {
    fn new(count: usize) -> Self {
        let clock = Arc::new(AtomicU64::new(1000));
        let drive = |index| {
            let drive = MemDrive::new(format!("drive{index}"), 16 << 20);
            Arc::new(Slow { drive, takes: AtomicU64::new(0), clock: clock.clone(), queue: Mutex::default() })
        };
        let drives: Vec<_> = (0..count).map(drive).collect();
        let given = drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
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

    /// A second goes by with hosts that write and read all the time.
    fn second(&mut self) {
        for _ in 0..1000 {
            let now = 1 + self.clock.fetch_add(1, Ordering::Relaxed);
            self.drives.iter().for_each(|drive| drive.answer());
            let shelf = &self.shelf;
            self.appends.serve(now, |done| shelf.append(Bytes::from_static(b"batch"), Vec::new(), done));
            let offset = (now * 4080 * 7) as u32 % (shelf.layout().segment_bytes - 4080);
            self.reads.serve(now, |done| shelf.read(SegmentId(0), offset, 4080, done));
            if now.is_multiple_of(100) {
                shelf.tick(Duration::from_millis(now));
                // The journal is small, and all that is in it may go.
                let next = shelf.journal.lock().answered;
                let superblock = crate::Superblock { journal_from: next, payload: Bytes::new() };
                shelf.write_superblock(superblock, Box::new(|_| {}));
            }
            let _ = self.background.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Others take less than a tenth of a millisecond, this one ten.
#[test]
fn hosts_are_served_round_a_drive_that_is_a_hundred_times_slower() {
    let mut rig = Rig::new(8);
    (0..3).for_each(|_| rig.second());
    assert_eq!((rig.appends.longest(0..4000), rig.reads.longest(0..4000)), (0, 0));
    rig.drives[1].takes.store(10, Ordering::Relaxed);
    (0..5).for_each(|_| rig.second());
    // Nobody waits longer than the drive takes for what was under way, a change of the labels and a copy.
    let (appends, reads) = (rig.appends.longest(4000..7000), rig.reads.longest(4000..7000));
    assert!((10..200).contains(&appends) && reads < 200, "{appends} and {reads} ms");
    assert_eq!(
        (rig.appends.longest(7000..9000), rig.reads.longest(7000..9000)),
        (0, 0),
        "then nobody waits at all"
    );
    let status = rig.shelf.status();
    assert!(status.drives[1].slow && !status.drives[1].journal);
    assert_eq!((rig.shelf.journal_copies().len(), status.tolerates, status.at_risk), (3, 2, 0));
    rig.write(1);
    let placed = rig.shelf.segments.lock().list[1].entry.clone().unwrap();
    assert!(placed.columns.iter().flatten().all(|column| column.slot != 1), "nothing new is placed there");

    rig.drives[1].takes.store(0, Ordering::Relaxed);
    // Nobody has to look on.
    for _ in 0..400 {
        let now = 100 + rig.clock.fetch_add(100, Ordering::Relaxed);
        rig.drives.iter().for_each(|drive| drive.answer());
        rig.shelf.tick(Duration::from_millis(now));
    }
    assert!(!rig.shelf.status().drives[1].slow, "it gets another chance");
}

#[test]
fn drives_that_are_all_slow_do_not_lag() {
    let mut rig = Rig::new(4);
    rig.drives.iter().for_each(|drive| drive.takes.store(10, Ordering::Relaxed));
    (0..4).for_each(|_| rig.second());
    assert!(rig.shelf.status().drives.iter().all(|drive| !drive.slow));
}

/// The others have hardly anything to do: what the journal waits for is no measure of the drives that carry it.
#[test]
fn drives_that_carry_the_journal_and_are_all_slow_do_not_lag() {
    let mut rig = Rig::new(8);
    rig.drives[..3].iter().for_each(|drive| drive.takes.store(10, Ordering::Relaxed));
    (0..4).for_each(|_| rig.second());
    assert!(rig.shelf.status().drives.iter().all(|drive| !drive.slow));
    assert_eq!(rig.shelf.journal_copies(), [0, 1, 2]);
}
