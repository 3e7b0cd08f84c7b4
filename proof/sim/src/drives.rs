//! Simulated drives that tear, lose and reorder writes: implements the fault model in the crate's documentation.

use block::workload::Random;
use bytes::Bytes;
use shelf::{ALIGN, AlignedBuf, Backing, Done, Drive, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SECTOR: usize = 512;

/// Maximum latency of a healthy drive, below the time-outs of the store: a slower drive counts as failed.
const PROMPT: Duration = Duration::from_secs(10);

type Page = Arc<[u8]>;

/// Fault of a running drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// Writes that touch these bytes fail.
    Writes(Range<u64>),
    /// Every request fails.
    Dead,
    /// No request completes.
    Stuck,
}

/// Percentages of writes that a drive acknowledges without performing them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteFaults {
    /// Writes that are lost, completely or except for some pages.
    pub lost: u64,
    /// Writes that go to another location of the drive.
    pub misdirected: u64,
}

/// The file system of drives that are sparse files.
#[derive(Clone, Copy, Debug)]
struct FileSystem {
    bytes: u64,
    /// Pages of other files.
    others: u64,
}

/// Durable pages of every drive.
pub struct Contents(Vec<BTreeMap<u64, Page>>);

/// All drives of a world, and their outstanding requests.
pub struct Drives(Mutex<State>);

struct State {
    random: Random,
    trace: DefaultHasher,
    completed: u64,
    /// Incarnation of the machine; handles of older incarnations are invalid.
    incarnation: u64,
    /// The world's clock.
    now: Duration,
    media: Vec<Medium>,
    file_system: Option<FileSystem>,
}

struct Medium {
    bytes: u64,
    /// Pages allocated in the file system, for a sparse file.
    allocated: BTreeSet<u64>,
    durable: BTreeMap<u64, Page>,
    /// Acknowledged pages that are not durable, in the order of acknowledgement.
    cache: Vec<Cached>,
    answers: u64,
    pending: Vec<Request>,
    fault: Fault,
    /// Kept over crashes.
    write_faults: WriteFaults,
    faulty_writes: u64,
    /// Weight of its requests in the random choice.
    speed: u64,
    /// Minimum latency of its requests.
    latency: Duration,
}

struct Cached {
    page: u64,
    data: Page,
    /// Number of the write's acknowledgement on this drive.
    answer: u64,
}

struct Request {
    offset: u64,
    since: Duration,
    work: Work,
}

enum Work {
    Read(u32, Done<Bytes>),
    Write(Vec<Bytes>, bool, Done<()>),
    /// After this sync, writes acknowledged before it are durable.
    Sync(u64, Done<()>),
    Discard(u64, Done<()>),
    Allocate(u64, Done<()>),
}

impl Drives {
    /// Blank drives of these sizes.
    pub fn new(seed: u64, sizes: &[u64]) -> Arc<Self> {
        let mut random = Random::new(seed ^ 0x6472_6976);
        let medium = |bytes: &u64| Medium {
            bytes: *bytes,
            allocated: BTreeSet::new(),
            durable: BTreeMap::new(),
            cache: Vec::new(),
            answers: 0,
            pending: Vec::new(),
            fault: Fault::None,
            write_faults: WriteFaults::default(),
            faulty_writes: 0,
            speed: [1, 5, 10, 10][random.below(4) as usize],
            latency: Duration::ZERO,
        };
        let media = sizes.iter().map(medium).collect();
        Arc::new(Self(Mutex::new(State {
            random,
            trace: DefaultHasher::new(),
            completed: 0,
            incarnation: 0,
            now: Duration::ZERO,
            media,
            file_system: None,
        })))
    }

    /// Makes the drives sparse files of one file system of `bytes`.
    pub fn make_sparse(&self, bytes: u64) {
        self.lock().file_system = Some(FileSystem { bytes, others: 0 });
    }

    /// Lets other files take up to `percent` of the bytes of the file system that the drives do not have.
    pub fn fill_file_system(&self, percent: u64) {
        let mut state = self.lock();
        let allocated = state.allocated();
        if let Some(file_system) = &mut state.file_system {
            file_system.others = file_system.bytes.saturating_sub(allocated) / 100 * percent;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles for the current incarnation.
    pub fn handles(self: &Arc<Self>) -> Vec<Arc<dyn Drive>> {
        let state = self.lock();
        let handle = |(index, medium): (usize, &Medium)| {
            let (name, drives) = (format!("drive{index}"), self.clone());
            Arc::new(Handle { name, drives, index, incarnation: state.incarnation, bytes: medium.bytes })
                as Arc<dyn Drive>
        };
        state.media.iter().enumerate().map(handle).collect()
    }

    /// Number of outstanding requests that may complete now.
    pub fn pending(&self) -> usize {
        let state = self.lock();
        state.media.iter().map(|medium| medium.due(state.now).count()).sum()
    }

    /// Whether a healthy drive has a request: it replies as time passes.
    pub fn will_reply(&self) -> bool {
        self.lock().media.iter().any(|medium| medium.fault == Fault::None && !medium.pending.is_empty())
    }

    /// Advances the clock by `time`, but only as long as healthy drives must reply; returns the current time.
    pub fn pass(&self, time: Duration) -> Duration {
        let mut state = self.lock();
        let well = state.media.iter().filter(|medium| medium.fault == Fault::None);
        let oldest = well.flat_map(|medium| &medium.pending).map(|request| request.since).min();
        let latest = oldest.map_or(Duration::MAX, |since| since + PROMPT);
        state.now = (state.now + time).min(latest).max(state.now);
        state.now
    }

    /// Number of completed requests since the start of the world.
    pub fn completed(&self) -> u64 {
        self.lock().completed
    }

    /// Adds an event of the world to the trace.
    pub fn note(&self, event: impl Hash) {
        event.hash(&mut self.lock().trace);
    }

    /// The hash of all events so far.
    pub fn trace(&self) -> u64 {
        self.lock().trace.finish()
    }

    /// Sets the fault of a drive.
    pub fn set_fault(&self, drive: usize, fault: Fault) {
        self.lock().media[drive].fault = fault;
    }

    /// Sets the minimum latency of a drive.
    pub fn set_latency(&self, drive: usize, latency: Duration) {
        self.lock().media[drive].latency = latency;
    }

    /// Makes a drive lose or misdirect some of its writes.
    pub fn set_write_faults(&self, drive: usize, write_faults: WriteFaults) {
        self.lock().media[drive].write_faults = write_faults;
    }

    /// Number of writes that drives acknowledged and lost or misdirected, since the start of the world.
    pub fn faulty_writes(&self) -> u64 {
        self.lock().media.iter().map(|medium| medium.faulty_writes).sum()
    }

    /// Completes one request; false when there is none.
    pub fn step(&self) -> bool {
        let answer = {
            let mut state = self.lock();
            let now = state.now;
            let weight = |medium: &Medium| match medium.due(now).next() {
                Some(_) => medium.speed,
                None => 0,
            };
            let weights: Vec<u64> = state.media.iter().map(weight).collect();
            if weights.iter().all(|weight| *weight == 0) {
                return false;
            }
            let drive = state.random.weighted(&weights);
            let due: Vec<usize> = state.media[drive].due(now).collect();
            let index = due[state.random.below(due.len() as u64) as usize];
            let request = state.media[drive].pending.swap_remove(index);
            state.completed += 1;
            state.note(drive, &request);
            let taken = state.take_space(drive, &request);
            let State { random, media, .. } = &mut *state;
            let failure = taken.and_then(|()| media[drive].fails(drive, &request));
            media[drive].complete(request, failure, random)
        };
        // With the lock released, since the callback may submit more.
        answer();
        true
    }

    /// Cuts the power: volatile pages are kept, lost or torn individually, and outstanding requests are dropped.
    pub fn crash(&self) {
        let dropped: Vec<_> = {
            let mut state = self.lock();
            state.incarnation += 1;
            let State { random, media, .. } = &mut *state;
            media.iter_mut().flat_map(|medium| medium.crash(random)).collect()
        };
        // Their callbacks see the end of the incarnation, and new requests of theirs are refused.
        drop(dropped);
    }

    /// The durable contents of all drives.
    pub fn contents(&self) -> Contents {
        Contents(self.lock().media.iter().map(|medium| medium.durable.clone()).collect())
    }

    /// Restores earlier contents of all drives, while the power is off.
    pub fn restore(&self, contents: Contents) {
        for (medium, durable) in self.lock().media.iter_mut().zip(contents.0) {
            medium.cache.clear();
            medium.durable = durable;
        }
    }

    /// Deletes all contents at the end of a world. Work cut off by a crash may hold its drives forever, like a killed
    /// process; its memory must not accumulate over thousands of worlds.
    pub fn end(&self) {
        for medium in &mut self.lock().media {
            medium.durable.clear();
            medium.cache.clear();
            medium.allocated.clear();
        }
    }

    /// The current fault of a drive.
    pub fn fault(&self, drive: usize) -> Fault {
        self.lock().media[drive].fault.clone()
    }

    /// Replaces a drive by a blank one.
    pub fn wipe(&self, drive: usize) {
        let medium = &mut self.lock().media[drive];
        medium.durable.clear();
        medium.cache.clear();
        medium.allocated.clear();
    }

    /// Corrupts some durable pages of a drive within `range`.
    pub fn corrupt(&self, drive: usize, range: Range<u64>) {
        let mut state = self.lock();
        let State { random, media, .. } = &mut *state;
        let pages = range.start / ALIGN as u64..range.end / ALIGN as u64;
        for (_, page) in media[drive].durable.range_mut(pages) {
            if random.chance(20) {
                let at = random.below(ALIGN as u64) as usize;
                Arc::make_mut(page)[at] ^= 1 + random.below(255) as u8;
            }
        }
    }
}

impl State {
    /// Bytes of the file system that the drives take.
    fn allocated(&self) -> u64 {
        self.media.iter().map(|medium| medium.allocated.len() as u64).sum::<u64>() * ALIGN as u64
    }

    /// Allocates the pages of the file system that a request needs.
    fn take_space(&mut self, drive: usize, request: &Request) -> Result {
        let Some(FileSystem { bytes, others }) = self.file_system else { return Ok(()) };
        let len = match &request.work {
            Work::Write(pieces, ..) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Work::Allocate(len, _) => *len,
            _ => return Ok(()),
        };
        let free = bytes.saturating_sub(others + self.allocated()) / ALIGN as u64;
        let allocated = &mut self.media[drive].allocated;
        let pages = request.offset / ALIGN as u64..(request.offset + len) / ALIGN as u64;
        let missing: Vec<u64> = pages.filter(|page| !allocated.contains(page)).collect();
        if missing.len() as u64 > free {
            return Err(Error::NoSpace { what: format!("drive{drive}: its file system is full") });
        }
        allocated.extend(missing);
        Ok(())
    }

    fn note(&mut self, drive: usize, request: &Request) {
        let trace = &mut self.trace;
        (drive, request.offset).hash(trace);
        match &request.work {
            Work::Read(len, _) => (0, len).hash(trace),
            Work::Write(pieces, durable, _) => {
                let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
                pieces.iter().for_each(|piece| sum.update(piece));
                (1, durable, sum.finalize()).hash(trace);
            }
            Work::Sync(..) => 2.hash(trace),
            Work::Discard(len, _) => (3, len).hash(trace),
            Work::Allocate(len, _) => (4, len).hash(trace),
        }
    }
}

/// The pages that a write touches.
fn split(offset: u64, pieces: &[Bytes]) -> impl Iterator<Item = (u64, Page)> {
    let chunks = pieces.iter().flat_map(|piece| piece.chunks_exact(ALIGN));
    (offset / ALIGN as u64..).zip(chunks.map(Page::from))
}

impl Medium {
    /// Indices of the outstanding requests that may complete now.
    fn due(&self, now: Duration) -> impl Iterator<Item = usize> {
        let answers = self.fault != Fault::Stuck;
        let due = move |request: &Request| answers && request.since + self.latency <= now;
        self.pending.iter().enumerate().filter(move |(_, request)| due(request)).map(|(place, _)| place)
    }

    fn fails(&self, drive: usize, request: &Request) -> Result {
        let failing = match (&self.fault, &request.work) {
            (Fault::None | Fault::Stuck, _) => false,
            (Fault::Dead, _) => true,
            (Fault::Writes(bytes), Work::Write(pieces, ..)) => {
                let len = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                request.offset < bytes.end && bytes.start < request.offset + len
            }
            (Fault::Writes(_), _) => false,
        };
        if failing {
            Err(Error::Drive { what: format!("drive{drive} failed as the seed says") })
        } else {
            Ok(())
        }
    }

    /// Performs a request and returns its completion.
    fn complete(&mut self, request: Request, failure: Result, random: &mut Random) -> Box<dyn FnOnce()> {
        let Request { offset, work, .. } = request;
        match (work, failure) {
            (Work::Read(_, done), Err(cause)) => Box::new(move || done(Err(cause))),
            (
                Work::Write(.., done)
                | Work::Sync(_, done)
                | Work::Discard(_, done)
                | Work::Allocate(_, done),
                Err(cause),
            ) => Box::new(move || done(Err(cause))),
            (Work::Allocate(_, done), Ok(())) => Box::new(move || done(Ok(()))),
            (Work::Read(len, done), Ok(())) => {
                let bytes = self.read(offset, len);
                Box::new(move || done(Ok(bytes)))
            }
            (Work::Write(pieces, durable, done), Ok(())) => {
                self.answers += 1;
                for (page, data) in self.inject_write_faults(split(offset, &pieces).collect(), random) {
                    if durable {
                        self.cache.retain(|cached| cached.page != page);
                        self.durable.insert(page, data);
                    } else {
                        self.cache.push(Cached { page, data, answer: self.answers });
                    }
                }
                Box::new(move || done(Ok(())))
            }
            (Work::Sync(answers, done), Ok(())) => {
                let all = std::mem::take(&mut self.cache);
                let (reached, rest) = all.into_iter().partition(|cached| cached.answer <= answers);
                self.cache = rest;
                let reached: Vec<Cached> = reached;
                self.durable.extend(reached.into_iter().map(|cached| (cached.page, cached.data)));
                Box::new(move || done(Ok(())))
            }
            (Work::Discard(len, done), Ok(())) => {
                let pages = offset / ALIGN as u64..(offset + len) / ALIGN as u64;
                self.cache.retain(|cached| !pages.contains(&cached.page));
                for page in pages {
                    self.durable.remove(&page);
                    self.allocated.remove(&page);
                }
                Box::new(move || done(Ok(())))
            }
        }
    }

    /// The pages that are written instead of those of a write.
    fn inject_write_faults(&mut self, mut write: Vec<(u64, Page)>, random: &mut Random) -> Vec<(u64, Page)> {
        let WriteFaults { lost, misdirected } = self.write_faults;
        let Some((first, _)) = write.first().filter(|_| lost + misdirected > 0) else { return write };
        let fate = random.below(100);
        if fate >= lost + misdirected {
            return write;
        }
        self.faulty_writes += 1;
        if fate < lost {
            let whole = random.chance(60);
            write.retain(|_| !whole && random.chance(50));
            return write;
        }
        // Nearby, or over existing data.
        let (first, count) = (*first, write.len() as u64);
        let to = if self.durable.is_empty() || random.chance(50) {
            (first + random.below(128)).saturating_sub(64)
        } else {
            let index = random.below(self.durable.len() as u64) as usize;
            self.durable.keys().nth(index).map_or(0, |page| *page)
        };
        let to = to.min(self.bytes / ALIGN as u64 - count);
        write.into_iter().map(|(page, data)| (page - first + to, data)).collect()
    }

    fn read(&self, offset: u64, len: u32) -> Bytes {
        let mut buffer = AlignedBuf::zeroed(len as usize);
        for (page, out) in (offset / ALIGN as u64..).zip(buffer.chunks_exact_mut(ALIGN)) {
            let cached =
                self.cache.iter().rev().find(|cached| cached.page == page).map(|cached| &cached.data);
            if let Some(data) = cached.or_else(|| self.durable.get(&page)) {
                out.copy_from_slice(&data[..]);
            }
        }
        Arc::new(buffer).share(0..len as usize)
    }

    fn crash(&mut self, random: &mut Random) -> Vec<Request> {
        let pending = std::mem::take(&mut self.pending);
        let mut faults: Vec<(u64, Page)> =
            std::mem::take(&mut self.cache).into_iter().map(|cached| (cached.page, cached.data)).collect();
        for request in &pending {
            // Some requests have not reached the drive.
            if let Work::Write(pieces, ..) = &request.work
                && random.chance(70)
            {
                faults.extend(split(request.offset, pieces));
            }
        }
        for (page, new) in faults {
            match random.weighted(&[45, 40, 15]) {
                0 => _ = self.durable.insert(page, new),
                1 => {}
                _ => {
                    let torn = self.durable.entry(page).or_insert_with(|| [0; ALIGN].into());
                    for (old, new) in Arc::make_mut(torn).chunks_mut(SECTOR).zip(new.chunks(SECTOR)) {
                        if random.chance(50) {
                            old.copy_from_slice(new);
                        }
                    }
                }
            }
        }
        (self.fault, self.latency) = (Fault::None, Duration::ZERO);
        pending
    }
}

/// A drive from the view of one incarnation of the machine.
struct Handle {
    name: String,
    drives: Arc<Drives>,
    index: usize,
    incarnation: u64,
    bytes: u64,
}

impl Handle {
    fn ask(&self, offset: u64, len: u64, work: Work) {
        let aligned = offset.is_multiple_of(ALIGN as u64) && len.is_multiple_of(ALIGN as u64);
        assert!(aligned && offset + len <= self.bytes, "{}: {len} bytes at {offset}", self.name);
        let mut state = self.drives.lock();
        if state.incarnation == self.incarnation {
            let since = state.now;
            state.media[self.index].pending.push(Request { offset, since, work });
        } else {
            drop(state);
            drop(work);
        }
    }
}

impl Drive for Handle {
    fn name(&self) -> &str {
        &self.name
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.ask(offset, u64::from(len), Work::Read(len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        for piece in &pieces {
            assert!(piece.as_ptr().addr().is_multiple_of(ALIGN), "{}: memory is not aligned", self.name);
        }
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.ask(offset, len, Work::Write(pieces, durable, done));
    }

    fn allocate(&self, offset: u64, len: u64, done: Done<()>) {
        if self.drives.lock().file_system.is_some() {
            self.ask(offset, len, Work::Allocate(len, done));
        } else {
            done(Ok(()));
        }
    }

    fn backing(&self) -> Option<Backing> {
        let state = self.drives.lock();
        let FileSystem { bytes: total, others } = state.file_system?;
        let free = total.saturating_sub(others + state.allocated());
        let allocated = state.media[self.index].allocated.len() as u64 * ALIGN as u64;
        Some(Backing { file_system: 1, free, total, allocated })
    }

    fn sync(&self, done: Done<()>) {
        let answers = self.drives.lock().media[self.index].answers;
        self.ask(0, 0, Work::Sync(answers, done));
    }

    fn discard(&self, offset: u64, len: u64, done: Done<()>) {
        self.ask(offset, len, Work::Discard(len, done));
    }
}
