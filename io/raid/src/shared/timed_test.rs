use super::super::{Party, SharedArray, SharedMedium, find};
use super::*;
use crate::{DriveShelf, FormatOptions, JournalPos, Limits, Opening, Result, Shelf, wait};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

/// Timers that expire when the test says so.
#[derive(Default)]
struct Alarms(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

impl Alarms {
    fn timer(self: &Arc<Self>) -> Timer {
        let alarms = self.clone();
        Arc::new(move |_, call| alarms.0.lock().push(call))
    }

    /// Lets all timers expire.
    fn ring(&self) {
        let alarms = std::mem::take(&mut *self.0.lock());
        alarms.into_iter().for_each(|alarm| alarm());
    }
}

/// A drive that holds back requests from the `after`th one on until they are released.
struct Stalling {
    drive: Arc<dyn Drive>,
    after: AtomicUsize,
    kept: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Stalling {
    fn new(drive: Arc<dyn Drive>, after: usize) -> Arc<Self> {
        Arc::new(Self { drive, after: AtomicUsize::new(after), kept: Mutex::default() })
    }

    fn take(&self, request: impl FnOnce(&dyn Drive) + Send + 'static) {
        match self.after.load(Ordering::Relaxed) {
            0 => {
                let drive = self.drive.clone();
                self.kept.lock().push(Box::new(move || request(&*drive)));
            }
            after => {
                self.after.store(after - 1, Ordering::Relaxed);
                request(&*self.drive);
            }
        }
    }

    /// Releases all held requests; returns their number.
    fn let_go(&self) -> usize {
        let kept = std::mem::take(&mut *self.kept.lock());
        let count = kept.len();
        kept.into_iter().for_each(|request| request());
        count
    }
}

impl Drive for Stalling {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.take(move |drive| drive.read(offset, len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        self.take(move |drive| drive.write(offset, pieces, durable, done));
    }

    fn sync(&self, done: Done<()>) {
        self.take(move |drive| drive.sync(done));
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        self.take(move |drive| drive.discard(offset, len, done));
    }

    fn reserve(&self, step: ReservationStep, done: Done<bool>) {
        self.take(move |drive| drive.reserve(step, done));
    }
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Runs a future to completion; timers expire when it waits.
fn in_time<T>(alarms: &Alarms, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..100 {
        if let Some(value) = poll(future.as_mut()) {
            return value;
        }
        alarms.ring();
    }
    panic!("it waits for a drive without a limit");
}

fn media(count: usize) -> Vec<Arc<SharedMedium>> {
    let media: Vec<_> = (0..count).map(|at| SharedMedium::new(format!("drive {at}"), 16 << 20)).collect();
    let options = FormatOptions { array: 0xa5, ..FormatOptions::default() };
    in_time(&Alarms::default(), DriveShelf::format(ports(&media, 0), options)).unwrap();
    media
}

fn ports(media: &[Arc<SharedMedium>], server: u32) -> Vec<Arc<dyn Drive>> {
    media.iter().map(|medium| medium.port(server)).collect()
}

type Process = (SharedArray, Arc<Party>);

fn start(drives: &[Arc<dyn Drive>], alarms: &Arc<Alarms>, (own, key): (usize, u64)) -> Result<Process> {
    in_time(alarms, async {
        let mut array = find(drives, &alarms.timer()).await?;
        let party = Arc::new(array.party(own, key));
        party.take_part_in(&mut array).await?;
        Ok((array, party))
    })
}

fn open((array, party): &Process, alarms: &Alarms, epoch: u64) -> Result<Arc<DriveShelf>> {
    in_time(alarms, async {
        let ours = party.take_over_all(array).await?;
        let drives = ours.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
        let opening = Opening { salt: epoch, key: None };
        let shelf = DriveShelf::open_shared(drives, opening, Limits::default(), epoch).await?;
        ours.iter().for_each(|drive| drive.lift());
        Ok(shelf)
    })
}

fn recover(shelf: &DriveShelf) -> Vec<Bytes> {
    let (done, recovered) = wait();
    shelf.recover(JournalPos(1), done);
    let batches = poll(pin!(recovered)).expect("drives that reply").unwrap();
    batches.into_iter().map(|batch| batch.head).collect()
}

fn append(shelf: &DriveShelf, text: &'static str) -> Result {
    let (done, appended) = wait();
    shelf.append(Bytes::from_static(text.as_bytes()), Vec::new(), done);
    poll(pin!(appended)).expect("drives that reply").map(|_| ())
}

/// For every request that may get no reply: the takeover continues without the drive, and the late effect of the
/// request is harmless.
#[test]
fn a_drive_that_stalls_during_a_takeover_counts_as_missing_and_its_late_effect_is_harmless() {
    let mut late_requests = 0;
    for after in 0..12 {
        let (media, alarms) = (media(5), Arc::new(Alarms::default()));
        let first = start(&ports(&media, 0), &alarms, (0, 11)).unwrap();
        let old = open(&first, &alarms, 10).unwrap();
        recover(&old);
        append(&old, "one").unwrap();
        let mut drives = ports(&media, 1);
        let stalling = Stalling::new(drives[2].clone(), usize::MAX);
        drives[2] = stalling.clone();
        let second = start(&drives, &alarms, (1, 22)).unwrap();
        stalling.after.store(after, Ordering::Relaxed);
        let new = open(&second, &alarms, 12).unwrap();
        assert!(append(&old, "late").is_err());
        assert_eq!(recover(&new), ["one"], "after {after}");
        append(&new, "two").unwrap();
        late_requests += stalling.let_go();
        assert!(append(&old, "later").is_err());
        append(&new, "three").unwrap();
        // The next home finds all data, with the drive present again.
        let third = start(&ports(&media, 0), &alarms, (0, 33)).unwrap();
        let next = open(&third, &alarms, 14).unwrap();
        assert_eq!(recover(&next), ["one", "two", "three"], "after {after}");
        assert!(append(&new, "too late").is_err());
    }
    assert!(late_requests >= 8, "only {late_requests} requests were late");
}

/// A request to an omitted drive takes effect while the other controller is the home.
#[test]
fn a_controller_starts_without_a_drive_that_stalls_and_its_late_effect_is_harmless() {
    for after in 0..16 {
        let (media, alarms) = (media(5), Arc::new(Alarms::default()));
        let home = start(&ports(&media, 0), &alarms, (0, 11)).unwrap();
        let shelf = open(&home, &alarms, 10).unwrap();
        recover(&shelf);
        let mut drives = ports(&media, 1);
        let stalling = Stalling::new(drives[2].clone(), after);
        drives[2] = stalling.clone();
        let (array, _) = start(&drives, &alarms, (1, 22)).unwrap();
        append(&shelf, "one").unwrap();
        let is_without = array.drives.len() == 4;
        assert_eq!(stalling.let_go() > 0, is_without, "after {after}");
        append(&shelf, "two").unwrap();
        // The server restarts, and takes over with all drives.
        let again = start(&ports(&media, 1), &alarms, (1, 33)).unwrap();
        assert_eq!(again.0.drives.len(), 5);
        let next = open(&again, &alarms, 12).unwrap();
        assert_eq!(recover(&next), ["one", "two"]);
        assert!(append(&shelf, "late").is_err());
    }
}

#[test]
fn a_controller_does_not_start_when_more_drives_are_silent_than_may_be_missing() {
    let (media, alarms) = (media(7), Arc::new(Alarms::default()));
    let home = start(&ports(&media, 0), &alarms, (0, 11)).unwrap();
    drop(open(&home, &alarms, 10).unwrap());
    let mut drives = ports(&media, 1);
    for drive in &mut drives[..3] {
        // The labels of the drives are readable.
        *drive = Stalling::new(drive.clone(), 5);
    }
    let refused = start(&drives, &alarms, (1, 22)).err().unwrap();
    assert!(refused.to_string().contains("has not replied"), "{refused}");
}

/// The first home writes to all drives: an array can't become shared while one is missing.
#[test]
fn an_array_is_not_made_shared_while_a_drive_is_silent() {
    let (media, alarms) = (media(5), Arc::new(Alarms::default()));
    for after in [0, 7] {
        let mut drives = ports(&media, 0);
        drives[1] = Stalling::new(drives[1].clone(), after);
        assert!(start(&drives, &alarms, (0, 11)).is_err(), "after {after}");
    }
    start(&ports(&media, 0), &alarms, (0, 12)).unwrap();
}
