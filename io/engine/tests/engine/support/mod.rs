//! A shelf in memory that loses unsynced writes on a crash, and a world that runs an engine on it.

pub mod inconsistent;

use block::{Data, Disk, DiskId, Extent, Geometry, Op, Reply};
use bytes::Bytes;
use engine::{Engine, Options, Rest, Tunables, Volume};
use parking_lot::Mutex;
use shelf::{
    AlignedBuf, Batch, Done, Error, Job, JournalPos, Layout, Result, SegmentId, Shelf, Superblock, Workers,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// Numbers that look random and depend on the seed alone.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(len).collect()
    }
}

#[derive(Default)]
struct Contents {
    journal: VecDeque<Batch>,
    next: u64,
    journal_bytes: u64,
    segments: BTreeMap<u32, BTreeMap<u32, Vec<u8>>>,
    durable: BTreeMap<u32, BTreeMap<u32, Vec<u8>>>,
    superblock: Option<Superblock>,
    /// Superblocks that are being written.
    superblocks: Vec<Superblock>,
    /// Stripes whose write was answered since the last sync.
    answered: Vec<(u32, u32)>,
    /// Appends that are held back, oldest first.
    held: VecDeque<(Batch, Done<JournalPos>)>,
    holds: bool,
    fails: bool,
    /// Everything but appends completes later, by [`MemShelf::answer`].
    slow: bool,
    waiting: Vec<Box<dyn FnOnce() + Send>>,
    /// Segments whose reads fail: see [`MemShelf::hide`].
    hidden: BTreeSet<u32>,
    /// Reads that may follow: more are taken to go on forever.
    reads_left: Option<u64>,
    pub segment_writes: u64,
    pub appended: u64,
    reads: u64,
}

/// The shelf.
pub struct MemShelf {
    layout: Layout,
    contents: Arc<Mutex<Contents>>,
}

impl MemShelf {
    pub fn new(layout: Layout) -> Arc<Self> {
        Arc::new(Self { layout, contents: Arc::new(Mutex::new(Contents { next: 1, ..Contents::default() })) })
    }

    /// 64 segments of 256 KiB.
    pub fn small() -> Arc<Self> {
        Self::new(small_layout())
    }

    /// Everything durable, as the fixture of a format keeps it.
    pub fn export(&self) -> Vec<u8> {
        let contents = self.contents.lock();
        let mut out = Vec::new();
        let mut put = |bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        let superblock = contents.superblock.as_ref().expect("formatted");
        put(&superblock.journal_from.0.to_le_bytes());
        put(&superblock.payload);
        put(&(contents.journal.len() as u32).to_le_bytes());
        for batch in &contents.journal {
            put(&batch.pos.0.to_le_bytes());
            put(&batch.head);
            put(&batch.body);
        }
        for (segment, stripes) in &contents.durable {
            for (offset, stripe) in stripes {
                let end = stripe.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                put(&[segment.to_le_bytes(), offset.to_le_bytes()].concat());
                put(&stripe[..end]);
            }
        }
        out
    }

    /// What [`MemShelf::export`] wrote.
    pub fn import(layout: Layout, mut bytes: &[u8]) -> Arc<Self> {
        let mut take = || {
            let (len, rest) = bytes.split_first_chunk().expect("a length");
            let (taken, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
            bytes = rest;
            (taken, bytes.is_empty())
        };
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let mut contents = Contents::default();
        let journal_from = JournalPos(number(take().0));
        contents.superblock = Some(Superblock { journal_from, payload: Bytes::copy_from_slice(take().0) });
        let batches = u32::from_le_bytes(take().0.try_into().expect("four bytes"));
        for _ in 0..batches {
            let pos = JournalPos(number(take().0));
            let (head, body) = (Bytes::copy_from_slice(take().0), Bytes::copy_from_slice(take().0));
            contents.keep(Batch { pos, head, body });
        }
        contents.next = contents.journal.back().map_or(journal_from.0, |last| last.pos.0 + 1);
        loop {
            let at = number(take().0);
            let (stripe, last) = take();
            let mut stripe = stripe.to_vec();
            stripe.resize(layout.stripe_bytes as usize, 0);
            contents.segments.entry(at as u32).or_default().insert((at >> 32) as u32, stripe);
            if last {
                break;
            }
        }
        contents.durable = contents.segments.clone();
        Arc::new(Self { layout, contents: Arc::new(Mutex::new(contents)) })
    }

    /// Holds appends back until [`MemShelf::release`].
    pub fn hold(&self) {
        self.contents.lock().holds = true;
    }

    /// From now on nothing is answered before [`MemShelf::answer`].
    pub fn slow(&self) {
        let mut contents = self.contents.lock();
        (contents.slow, contents.holds) = (true, true);
    }

    /// Completes one operation that waits: the oldest append, or any other.
    pub fn answer(&self, dice: &mut Dice) {
        let mut contents = self.contents.lock();
        let appends = usize::from(!contents.held.is_empty());
        let waiting = contents.waiting.len() + appends;
        if waiting == 0 {
            return;
        }
        let choice = dice.below(waiting as u64) as usize;
        if choice < contents.waiting.len() {
            let answer = contents.waiting.swap_remove(choice);
            drop(contents);
            answer();
        } else if let Some((batch, done)) = contents.held.pop_front() {
            let pos = batch.pos;
            contents.keep(batch);
            drop(contents);
            done(Ok(pos));
        }
    }

    /// Answers now, or later when the shelf is slow.
    fn reply<T: Send + 'static>(&self, done: Done<T>, outcome: Result<T>) {
        self.reply_after(done, outcome, |_| {});
    }

    /// What `effect` does is certain only when this is answered.
    fn reply_after<T: Send + 'static>(
        &self,
        done: Done<T>,
        outcome: Result<T>,
        effect: impl FnOnce(&mut Contents) + Send + 'static,
    ) {
        let shared = self.contents.clone();
        let mut contents = self.contents.lock();
        let answer = move || {
            effect(&mut shared.lock());
            done(outcome);
        };
        if contents.slow {
            contents.waiting.push(Box::new(answer));
        } else {
            drop(contents);
            answer();
        }
    }

    /// Answers the appends held back.
    pub fn release(&self) {
        loop {
            let next = {
                let mut contents = self.contents.lock();
                contents.holds = false;
                contents.held.pop_front()
            };
            let Some((batch, done)) = next else { return };
            let pos = batch.pos;
            self.contents.lock().keep(batch);
            done(Ok(pos));
        }
    }

    /// Nothing of the journal is there any more.
    pub fn lose_journal(&self) {
        let mut contents = self.contents.lock();
        let from = contents.superblock.as_ref().map_or(1, |superblock| superblock.journal_from.0);
        contents.journal.clear();
        (contents.journal_bytes, contents.next) = (0, from);
    }

    /// From now on this many reads complete; the next one panics.
    pub fn limit_reads(&self, count: u64) {
        self.contents.lock().reads_left = Some(count);
    }

    /// Reads of segments.
    pub fn reads(&self) -> u64 {
        self.contents.lock().reads
    }

    /// Until the next crash these segments can't be read, as when their drives are away.
    pub fn hide(&self, segments: impl IntoIterator<Item = u32>) {
        self.contents.lock().hidden.extend(segments);
    }

    /// Every write from now on fails.
    pub fn fail(&self) {
        self.contents.lock().fails = true;
    }

    /// What a power loss leaves: durable batches, perhaps some that were held, and of unsynced segment writes any.
    pub fn crash(&self, dice: &mut Dice) -> Arc<Self> {
        let mut old = self.contents.lock();
        let mut new = Contents {
            journal: old.journal.clone(),
            journal_bytes: old.journal_bytes,
            superblock: old.superblock.clone(),
            segments: old.durable.clone(),
            next: old.next,
            ..Contents::default()
        };
        for (batch, _) in &old.held {
            if dice.below(2) == 0 {
                break;
            }
            new.keep(batch.clone());
        }
        new.next = new.journal.back().map_or(new.next - old.held.len() as u64, |last| last.pos.0 + 1);
        for (segment, stripes) in &old.segments {
            for (offset, stripe) in stripes {
                let kept = old.durable.get(segment).and_then(|kept| kept.get(offset));
                if kept != Some(stripe) && dice.below(2) == 0 {
                    new.segments.entry(*segment).or_default().insert(*offset, stripe.clone());
                }
            }
        }
        new.durable = new.segments.clone();
        if let Some(superblock) = old.superblocks.pop()
            && dice.below(2) == 0
        {
            new.publish(superblock);
        }
        old.held.clear();
        old.waiting.clear();
        Arc::new(Self { layout: self.layout, contents: Arc::new(Mutex::new(new)) })
    }

    /// Changes a byte of every stripe that holds `needle`.
    pub fn corrupt(&self, needle: &[u8]) -> usize {
        let mut contents = self.contents.lock();
        let stripes = contents.segments.values_mut().flat_map(BTreeMap::values_mut);
        let mut hits = 0;
        for stripe in stripes {
            if let Some(at) = stripe.windows(needle.len()).position(|bytes| bytes == needle) {
                stripe[at] ^= 1;
                hits += 1;
            }
        }
        hits
    }

    /// Changes a byte of every batch whose body holds `needle`.
    pub fn corrupt_journal(&self, needle: &[u8]) -> usize {
        let mut contents = self.contents.lock();
        let mut hits = 0;
        for batch in &mut contents.journal {
            let mut body = batch.body.to_vec();
            if let Some(at) = body.windows(needle.len()).position(|bytes| bytes == needle) {
                body[at] ^= 1;
                batch.body = body.into();
                hits += 1;
            }
        }
        hits
    }

    /// Every object in the log, dead ones too: segment, offset, kind, length.
    pub fn objects(&self) -> Vec<(u32, u32, u8, u32)> {
        let contents = self.contents.lock();
        let mut objects = Vec::new();
        for (segment, stripes) in &contents.segments {
            let bytes: Vec<u8> = stripes.values().flatten().copied().collect();
            let mut at = 0;
            while let Some(header) = bytes.get(at..at + 24) {
                if header.starts_with(b"ALO1") {
                    let payload = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
                    objects.push((*segment, at as u32, header[8], 24 + payload));
                    at += 24 + payload as usize;
                } else {
                    at = (at / self.layout.stripe_bytes as usize + 1) * self.layout.stripe_bytes as usize;
                }
            }
        }
        objects
    }

    /// Changes one byte of the log.
    pub fn flip(&self, segment: u32, at: u32) {
        let mut contents = self.contents.lock();
        let (stripe, at) = (at / self.layout.stripe_bytes * self.layout.stripe_bytes, at);
        let stripe = contents.segments.get_mut(&segment).and_then(|stripes| stripes.get_mut(&stripe));
        stripe.expect("it is written")[(at % self.layout.stripe_bytes) as usize] ^= 1;
    }

    pub fn journal_batches(&self) -> usize {
        self.contents.lock().journal.len()
    }

    pub fn segment_writes(&self) -> u64 {
        self.contents.lock().segment_writes
    }

    pub fn appended_bytes(&self) -> u64 {
        self.contents.lock().appended
    }
}

pub fn small_layout() -> Layout {
    Layout {
        segment_bytes: 256 << 10,
        stripe_bytes: 16 << 10,
        segments: 64,
        journal_bytes: 1 << 20,
        batch_bytes: 128 << 10,
        superblock_bytes: 4096,
    }
}

/// Whole pages, with a header of 128 bytes in front.
fn journal_cost(head: usize, body: usize) -> u64 {
    ((128 + head).next_multiple_of(4096) + body) as u64
}

fn batch_bytes(batch: &Batch) -> u64 {
    journal_cost(batch.head.len(), batch.body.len())
}

impl Contents {
    fn keep(&mut self, batch: Batch) {
        self.journal_bytes += batch_bytes(&batch);
        self.appended += batch_bytes(&batch);
        self.journal.push_back(batch);
    }

    fn publish(&mut self, superblock: Superblock) {
        while self.journal.front().is_some_and(|batch| batch.pos < superblock.journal_from) {
            if let Some(batch) = self.journal.pop_front() {
                self.journal_bytes -= batch_bytes(&batch);
            }
        }
        self.superblocks.clear();
        self.superblock = Some(superblock);
    }

    fn drive_error<T>() -> Result<T> {
        Err(Error::Drive { what: "made to fail".into() })
    }
}

impl Shelf for MemShelf {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn journal_cost(&self, head: usize, body: usize) -> u64 {
        journal_cost(head, body)
    }

    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>) {
        let mut contents = self.contents.lock();
        if contents.fails {
            drop(contents);
            return done(Contents::drive_error());
        }
        let mut whole = Vec::new();
        for piece in &body {
            assert!(piece.len().is_multiple_of(4096) && piece.as_ptr().addr().is_multiple_of(4096));
            whole.extend_from_slice(piece);
        }
        assert!(head.len() + whole.len() <= self.layout.batch_bytes as usize);
        let batch = Batch { pos: JournalPos(contents.next), head, body: whole.into() };
        contents.next += 1;
        let waiting: u64 = contents.held.iter().map(|(batch, _)| batch_bytes(batch)).sum();
        if contents.journal_bytes + waiting + batch_bytes(&batch) > self.layout.journal_bytes {
            drop(contents);
            return done(Err(Error::JournalFull));
        }
        if contents.holds {
            contents.held.push_back((batch, done));
            return;
        }
        let pos = batch.pos;
        contents.keep(batch);
        drop(contents);
        done(Ok(pos));
    }

    fn journal_taken(&self, pos: JournalPos) -> u64 {
        let contents = self.contents.lock();
        let all = contents.journal.iter().chain(contents.held.iter().map(|(batch, _)| batch));
        all.filter(|batch| batch.pos < pos).map(batch_bytes).sum()
    }

    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>) {
        let found = self.contents.lock().journal.iter().filter(|batch| batch.pos >= from).cloned().collect();
        done(Ok(found));
    }

    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>) {
        let mut contents = self.contents.lock();
        if contents.fails {
            drop(contents);
            return done(Contents::drive_error());
        }
        let each = self.layout.stripe_bytes;
        assert!(offset.is_multiple_of(each) && (stripes.len() as u32).is_multiple_of(each));
        assert!(
            segment.0 < self.layout.segments && offset + stripes.len() as u32 <= self.layout.segment_bytes
        );
        contents.segment_writes += stripes.len() as u64;
        for (n, stripe) in stripes.chunks(each as usize).enumerate() {
            let written = contents.segments.entry(segment.0).or_default();
            let before = written.insert(offset + n as u32 * each, stripe.to_vec());
            assert!(before.is_none(), "stripe {offset} of {segment:?} is written twice");
        }
        drop(contents);
        let stripes = (0..stripes.len() as u32).step_by(each as usize).map(move |n| (segment.0, offset + n));
        self.reply_after(done, Ok(()), |contents| contents.answered.extend(stripes));
    }

    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        let mut contents = self.contents.lock();
        contents.reads += 1;
        if let Some(left) = &mut contents.reads_left {
            *left = left.checked_sub(1).expect("reading does not end");
        }
        if contents.hidden.contains(&segment.0) {
            drop(contents);
            return done(Contents::drive_error());
        }
        let each = self.layout.stripe_bytes;
        let first = offset / each * each;
        let mut bytes = Vec::new();
        for base in (first..offset + len).step_by(each as usize) {
            match contents.segments.get(&segment.0).and_then(|stripes| stripes.get(&base)) {
                Some(stripe) => bytes.extend_from_slice(stripe),
                None => {
                    drop(contents);
                    return done(Err(Error::Corrupt {
                        what: format!("{segment:?} at {base} is not written"),
                    }));
                }
            }
        }
        drop(contents);
        let skip = (offset - first) as usize;
        self.reply(done, Ok(Bytes::copy_from_slice(&bytes[skip..skip + len as usize])));
    }

    fn sync(&self, done: Done<()>) {
        let mut contents = self.contents.lock();
        for (segment, offset) in std::mem::take(&mut contents.answered) {
            let stripes = contents.segments.get(&segment);
            if let Some(stripe) = stripes.and_then(|stripes| stripes.get(&offset)).cloned() {
                contents.durable.entry(segment).or_default().insert(offset, stripe);
            }
        }
        drop(contents);
        self.reply(done, Ok(()));
    }

    fn discard(&self, segment: SegmentId) {
        let mut contents = self.contents.lock();
        contents.segments.remove(&segment.0);
        contents.durable.remove(&segment.0);
        contents.answered.retain(|(one, _)| *one != segment.0);
    }

    fn write_superblock(&self, superblock: Superblock, done: Done<()>) {
        let mut contents = self.contents.lock();
        if contents.fails {
            drop(contents);
            return done(Contents::drive_error());
        }
        assert!(superblock.payload.len() <= self.layout.superblock_bytes as usize);
        let last = contents.next - 1 - contents.held.len() as u64;
        assert!(superblock.journal_from.0 <= last + 1, "the journal ends before {superblock:?}");
        contents.superblocks.push(superblock.clone());
        drop(contents);
        self.reply_after(done, Ok(()), |contents| contents.publish(superblock));
    }

    fn superblock(&self) -> Option<Superblock> {
        self.contents.lock().superblock.clone()
    }
}

/// Small memory bounds, so that tests meet them.
pub fn options() -> Options {
    Options {
        seed: [7; 32],
        slot_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        index_bytes: 1 << 16,
        page_bytes: 1 << 20,
        map_pages: 1 << 20,
        recompress: true,
        formats: engine::FORMATS,
        tunables: Tunables::default(),
        workers: Workers::default(),
    }
}

/// An engine with its background, on one thread.
pub struct World {
    pub shelf: Arc<MemShelf>,
    pub engine: Arc<Engine>,
    background: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Of its workers, if it has any: one ends at each turn.
    pub jobs: Arc<Mutex<Vec<Job>>>,
    dice: Dice,
}

/// Polls a future once, with a waker that does nothing.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The output of a future over drives in memory, which never wait.
pub fn now<F: Future>(future: F) -> F::Output {
    match poll(pin!(future)) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("a drive in memory never waits"),
    }
}

/// Runs a test with each seed: four, or `SEEDS=from..to` of the environment.
pub fn each_seed(run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let range = match std::env::var("SEEDS") {
        Ok(range) => {
            let (from, to) = range.split_once("..").expect("SEEDS=from..to");
            let number = |text: &str| text.parse().expect("SEEDS=from..to");
            number(from)..number(to)
        }
        Err(_) => 0..4,
    };
    for seed in range {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

impl World {
    pub fn open(shelf: Arc<MemShelf>) -> Self {
        Self::open_with(shelf, options())
    }

    pub fn open_with(shelf: Arc<MemShelf>, options: Options) -> Self {
        Self::try_open(shelf, options).expect("the engine opens")
    }

    pub fn try_open(shelf: Arc<MemShelf>, options: Options) -> block::Result<Self> {
        let mut opening = Box::pin(Engine::open(shelf.clone(), options));
        let Poll::Ready(engine) = poll(opening.as_mut()) else { panic!("the shelf in memory never waits") };
        let engine = engine?;
        let background = Some(Box::pin(engine.background()) as Pin<Box<dyn Future<Output = ()>>>);
        Ok(Self { shelf, engine, background, jobs: Arc::default(), dice: Dice::new(1) })
    }

    /// A world with workers, whose jobs end in an order that depends on the seed.
    pub fn open_with_workers(shelf: Arc<MemShelf>, options: Options, count: usize, seed: u64) -> Self {
        let jobs = Arc::new(Mutex::new(Vec::new()));
        let handed = jobs.clone();
        let count = NonZeroUsize::new(count).expect("some workers");
        let workers = Workers::new(count, move |job| handed.lock().push(job));
        let world = Self::open_with(shelf, Options { workers, ..options });
        Self { jobs, dice: Dice::new(seed), ..world }
    }

    /// A world whose background is never left alone for long.
    pub fn open_restless(shelf: Arc<MemShelf>) -> Self {
        Self::open_resting(shelf, options(), |rest| {
            std::future::poll_fn(move |_| if rest == Rest::Long { Poll::Pending } else { Poll::Ready(()) })
        })
    }

    /// A world in which writes gather until `open`. Its background is never left alone for long.
    pub fn open_gated(shelf: Arc<MemShelf>, open: Arc<AtomicBool>) -> Self {
        Self::open_resting(shelf, options(), move |rest| {
            let open = open.clone();
            let is_over = move || match rest {
                Rest::Short => true,
                Rest::Gather => open.load(Ordering::Relaxed),
                Rest::Long => false,
            };
            std::future::poll_fn(move |_| if is_over() { Poll::Ready(()) } else { Poll::Pending })
        })
    }

    /// A world whose background rests for as many turns.
    pub fn open_slow(shelf: Arc<MemShelf>, options: Options, turns: usize) -> Self {
        Self::open_resting(shelf, options, move |_| {
            let mut left = turns;
            std::future::poll_fn(move |_| {
                left = left.saturating_sub(1);
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
        })
    }

    fn open_resting<R: Future<Output = ()> + Send + 'static>(
        shelf: Arc<MemShelf>,
        options: Options,
        rest: impl Fn(Rest) -> R + Send + 'static,
    ) -> Self {
        let mut opening = Box::pin(Engine::open(shelf.clone(), options));
        let Poll::Ready(Ok(engine)) = poll(opening.as_mut()) else { panic!("the engine opens") };
        let background =
            Some(Box::pin(engine.background_with_rest(rest)) as Pin<Box<dyn Future<Output = ()>>>);
        Self { shelf, engine, background, jobs: Arc::default(), dice: Dice::new(1) }
    }

    /// A new world from what a power loss leaves.
    pub fn crash(self, dice: &mut Dice) -> Self {
        self.crash_with(dice, options())
    }

    pub fn crash_with(self, dice: &mut Dice, options: Options) -> Self {
        let shelf = self.shelf.crash(dice);
        drop(self);
        Self::open_with(shelf, options)
    }

    /// Makes the shelf slow: it answers one thing each time that the background is polled, in an order that depends
    /// on the seed.
    pub fn slow(&mut self, seed: u64) {
        self.dice = Dice::new(seed);
        self.shelf.slow();
    }

    /// Polls the background a number of times.
    pub fn turn(&mut self, times: usize) {
        for _ in 0..times {
            self.shelf.answer(&mut self.dice);
            let count = self.jobs.lock().len() as u64;
            if count > 0 {
                let job = self.jobs.lock().swap_remove(self.dice.below(count) as usize);
                job();
            }
            if let Some(background) = &mut self.background
                && poll(background.as_mut()).is_ready()
            {
                self.background = None;
            }
        }
    }

    /// Runs a future to its end beside the background.
    pub fn run<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        for _ in 0..200_000 {
            if let Poll::Ready(outcome) = poll(future.as_mut()) {
                return outcome;
            }
            self.turn(1);
        }
        panic!("it waits forever")
    }

    pub fn create(&mut self, id: u128, block_bytes: u32, bytes: u64) -> Arc<Volume> {
        let geometry = Geometry { block_bytes, blocks: bytes / u64::from(block_bytes) };
        let engine = self.engine.clone();
        self.run(async move { engine.create_volume(DiskId(id), geometry, 0).await }).expect("created")
    }

    pub fn volume(&self, id: u128) -> Arc<Volume> {
        self.engine.volume(DiskId(id)).expect("the volume is there")
    }

    pub fn execute(&mut self, id: u128, op: Op) -> block::Result {
        let pending = self.volume(id).execute(op);
        self.run(pending)
    }

    pub fn write(&mut self, id: u128, lba: u64, bytes: &[u8]) {
        self.execute(id, Op::Write { lba, data: bytes.to_vec().into() }).expect("written");
    }

    pub fn read(&mut self, id: u128, lba: u64, blocks: u64) -> Vec<u8> {
        match self.execute(id, Op::Read(Extent::new(lba, blocks))) {
            Ok(Reply::Data(data)) => data.to_bytes().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Lets the background run until it has nothing to do.
    pub fn settle(&mut self) {
        self.turn(20_000);
    }

    /// Recomputes everything that is counted and compares.
    pub fn check(&mut self) {
        let engine = self.engine.clone();
        let findings = self.run(async move { engine.check().await }).expect("checked");
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

pub fn data(bytes: &[u8]) -> Data {
    bytes.to_vec().into()
}
