//! Two arrays in memory, and a connection between them.

use block::workload::Random;
use block::{Disk, DiskId, Extent, Geometry, Op, Reply};
use bytes::Bytes;
use engine::{Engine, Options, Stored, Volume};
use peer::frame;
use raid::{DriveShelf, FormatOptions, MemDrive, Opening};
use replication::{
    Env, HostIo, HostThrottle, Key, Limits, MAX_PAYLOAD_BYTES, Message, Point, Result, Source, Stream,
    Synced, Target, UserSnapshot,
};
use rig::block_on;
use shelf::Drive;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;

pub const REPLICATION: u128 = 0x77;

/// Blocks of a volume.
pub const BLOCKS: u64 = 1500;

/// 4 KiB of random data.
pub fn random_block(seed: u64) -> Vec<u8> {
    let mut random = block::workload::Random::new(seed ^ 0xabcd);
    (0..512).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// The array, its time for snapshots, and its clock in nanoseconds, which only sleeping and tests advance.
pub struct TestEnv(u128, AtomicU64, AtomicU64, Option<Hosts>);

/// Hosts with a long or short latency, regardless of the array. While there are some, each reading advances the clock.
struct Hosts {
    throttle: HostThrottle,
    done: Mutex<(Random, HostIo)>,
}

impl Env for TestEnv {
    fn now_ns(&self) -> u64 {
        let step = if self.3.is_some() { 60_000_000 } else { 0 };
        self.2.fetch_add(step, Ordering::Relaxed)
    }

    fn host_throttle(&self) -> Option<&HostThrottle> {
        Some(&self.3.as_ref()?.throttle)
    }

    fn host_io(&self) -> HostIo {
        let Some(hosts) = &self.3 else { return HostIo::default() };
        let mut done = hosts.done.lock().unwrap();
        let mean_us = [100, 500, 3000][done.0.below(3) as usize];
        done.1.writes.count += 40;
        done.1.writes.ns += 40 * mean_us * 1000;
        done.1
    }

    fn timestamp(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }

    fn sleep(&self, ns: u64) -> impl Future<Output = ()> + Send {
        self.2.fetch_add(ns, Ordering::Relaxed);
        std::future::ready(())
    }

    /// The limit is polled only together with the work that it limits.
    fn timer(&self, ns: u64) -> impl Future<Output = ()> + Send {
        let end = self.now_ns() + ns;
        poll_fn(move |_| if self.now_ns() >= end { Poll::Ready(()) } else { Poll::Pending })
    }

    fn fresh_id(&self) -> DiskId {
        DiskId((self.0 << 64) + u128::from(self.1.fetch_add(1, Ordering::Relaxed)))
    }
}

pub struct Array {
    pub array: u128,
    pub engine: Arc<Engine>,
    env: Arc<TestEnv>,
    pub sender: Source<TestEnv>,
    pub receiver: Target<TestEnv>,
    _background: Background,
}

/// The background of an array. Dropping it ends the background and frees its resources.
#[derive(Default)]
struct Background {
    ended: Arc<AtomicBool>,
    threads: Vec<Thread>,
}

impl Background {
    fn start(&mut self, mut work: impl Future<Output = ()> + Send + Unpin + 'static) {
        let ended = self.ended.clone();
        let until_ended = move || {
            block_on(poll_fn(|cx| match ended.load(Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Pin::new(&mut work).poll(cx),
            }));
        };
        self.threads.push(std::thread::spawn(until_ended).thread().clone());
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.threads.iter().for_each(Thread::unpark);
    }
}

impl Array {
    pub fn new(array: u128, secret: &[u8]) -> Self {
        Self::with_hosts(array, secret, None)
    }

    /// An array with hosts whose latencies change at random.
    pub fn with_busy_hosts(array: u128, secret: &[u8], seed: u64) -> Self {
        let done = Mutex::new((Random::new(seed), HostIo::default()));
        Self::with_hosts(array, secret, Some(Hosts { throttle: HostThrottle::default(), done }))
    }

    fn with_hosts(array: u128, secret: &[u8], hosts: Option<Hosts>) -> Self {
        let drives = vec![MemDrive::new("memory", 96 << 20) as Arc<dyn Drive>];
        let opening = Opening { salt: 1, key: None };
        let options = FormatOptions { array, opening, ..FormatOptions::default() };
        let shelf = block_on(DriveShelf::format(drives, options)).unwrap();
        let options =
            Options { index_bytes: 4 << 20, cache_bytes: 16 << 20, ..Options::new([array as u8; 32]) };
        let engine = block_on(Engine::open(shelf.clone(), options)).unwrap();
        let mut background = Background::default();
        background.start(Box::pin(shelf.background()));
        background.start(Box::pin(engine.background()));
        let env = Arc::new(TestEnv(array, AtomicU64::new(100), AtomicU64::new(0), hosts));
        let (key, limits) = (Key::new(secret), Limits { index_entries: 1 << 16, ..Limits::default() });
        let sender = Source::new(engine.clone(), env.clone(), key.clone(), array, limits);
        let receiver = Target::new(engine.clone(), env.clone(), key, array, limits);
        Self { array, engine, env, sender, receiver, _background: background }
    }

    pub fn create(&self, id: u128, blocks: u64, block_bytes: u32) -> Arc<Volume> {
        block_on(self.engine.create_volume(DiskId(id), Geometry { block_bytes, blocks }, 0)).unwrap()
    }

    pub fn do_it(&self, volume: &Volume, op: Op) {
        block_on(volume.execute(op)).unwrap();
    }

    pub fn write(&self, volume: &Volume, lba: u64, bytes: &[u8]) {
        self.do_it(volume, Op::Write { lba, data: bytes.to_vec().into() });
    }

    pub fn read(&self, volume: &Volume, lba: u64, blocks: u64) -> Vec<u8> {
        match block_on(volume.execute(Op::Read(Extent::new(lba, blocks)))).unwrap() {
            Reply::Data(data) => data.to_bytes().to_vec(),
            reply => panic!("{reply:?}"),
        }
    }

    pub fn volume(&self, id: u128) -> Arc<Volume> {
        self.engine.volume(DiskId(id)).unwrap()
    }

    /// Returns once the background has stored all writes to these volumes.
    pub fn until_stored(&self, volumes: &[u128]) {
        let waits = |id: &u128| {
            let blocks = self.volume(*id).geometry().bytes().div_ceil(4096);
            block_on(self.engine.stored(DiskId(*id), 0, blocks)).unwrap().contains(&Stored::Unknown)
        };
        while volumes.iter().any(waits) {
            std::thread::yield_now();
        }
    }

    pub fn take_point(&self, volumes: &[u128]) -> Point {
        let volumes: Vec<DiskId> = volumes.iter().map(|id| DiskId(*id)).collect();
        block_on(self.sender.take_point(REPLICATION, &volumes)).unwrap()
    }

    /// Takes a snapshot of a volume, as users do.
    pub fn snapshot(&self, volume: u128, id: u128, name: &str) -> UserSnapshot {
        let (volume, snapshot) = (DiskId(volume), DiskId(id));
        block_on(self.engine.snapshot(&[(volume, snapshot)], &[], self.env.timestamp(), 0)).unwrap();
        UserSnapshot { volume, snapshot, name: name.into() }
    }

    /// Points of this array: as a source, or published ones.
    pub fn points(&self) -> Vec<Point> {
        let sent = self.sender.points(REPLICATION).unwrap();
        if sent.is_empty() { self.receiver.points(REPLICATION).unwrap() } else { sent }
    }

    /// Reading of its clock, in nanoseconds.
    pub fn clock_ns(&self) -> u64 {
        self.env.now_ns()
    }

    /// Advances its clock.
    pub fn pass_ns(&self, ns: u64) {
        self.env.2.fetch_add(ns, Ordering::Relaxed);
    }

    pub fn advance(&self, time: u64) {
        self.env.1.fetch_add(time, Ordering::Relaxed);
    }
}

/// A source and its target with these secrets.
pub fn pair(source: &[u8], target: &[u8]) -> (Array, Array) {
    let (source, target) = (Array::new(1, source), Array::new(2, target));
    block_on(target.receiver.accept(REPLICATION, 0)).unwrap();
    (source, target)
}

/// Transfers a point over a new connection.
pub fn sync(source: &Array, target: &Array) -> Result<Synced> {
    sync_over(source, target, pipe())
}

/// Transfers a point over this connection.
pub fn sync_over(source: &Array, target: &Array, (one, other): (End, End)) -> Result<Synced> {
    let mut sync = pin!(source.sender.sync(REPLICATION, one));
    let mut serve = pin!(target.receiver.serve(REPLICATION, other));
    let (mut synced, mut served) = (None, false);
    block_on(poll_fn(move |cx| {
        if synced.is_none()
            && let Poll::Ready(result) = sync.as_mut().poll(cx)
        {
            synced = Some(result);
        }
        served = served || serve.as_mut().poll(cx).is_ready();
        match synced.take_if(|_| served) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }))
}

/// Polls a future once; it must not be ready.
pub fn poll_once<T>(future: &mut Pin<&mut impl Future<Output = T>>) {
    let ready = future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!ready, "it ended");
    std::thread::yield_now();
}

#[derive(Default)]
struct Way {
    bytes: VecDeque<Bytes>,
    closed: bool,
    waker: Option<Waker>,
}

/// One end of a connection.
pub struct End {
    /// The newest version that this end pretends to support.
    newest: Option<u16>,
    out: Arc<Mutex<Way>>,
    into: Arc<Mutex<Way>>,
}

/// A connection.
pub fn pipe() -> (End, End) {
    let ways: [Arc<Mutex<Way>>; 2] = Default::default();
    let end = |out: usize| End { newest: None, out: ways[out].clone(), into: ways[1 - out].clone() };
    (end(0), end(1))
}

/// A connection whose ends pretend to support these newest versions.
pub fn pipe_of([source, target]: [u16; 2]) -> (End, End) {
    let (mut one, mut other) = pipe();
    (one.newest, other.newest) = (Some(source), Some(target));
    (one, other)
}

impl End {
    /// Changes the version in a hello message.
    fn greet(&mut self, pieces: &[Bytes], most: u16) {
        let mut decoder = frame::Decoder::default();
        pieces.iter().for_each(|piece| decoder.push(piece.clone()));
        let first = decoder.next(MAX_PAYLOAD_BYTES).unwrap().unwrap();
        let Message::Hello { least, array, .. } = Message::decode(first.kind, first.payload).unwrap() else {
            panic!("hello is the first message")
        };
        self.push(&Message::Hello { least, most, array });
    }

    /// Sends a message in a frame.
    pub fn push(&mut self, message: &Message) {
        let payload = message.encode();
        let header = Bytes::copy_from_slice(&frame::header(message.kind(), 0, 0, &payload));
        let pieces = std::iter::once(header).chain(payload).filter(|piece| !piece.is_empty());
        self.out.lock().unwrap().bytes.extend(pieces);
    }
}

impl Stream for End {
    async fn send(&mut self, pieces: Vec<Bytes>) -> io::Result<()> {
        match self.newest.take() {
            Some(newest) => self.greet(&pieces, newest),
            None => self.out.lock().unwrap().bytes.extend(pieces),
        }
        let mut way = self.out.lock().unwrap();
        way.waker.take().into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn receive(&mut self) -> impl Future<Output = io::Result<Bytes>> + Send {
        poll_fn(|cx| {
            let mut way = self.into.lock().unwrap();
            match way.bytes.pop_front() {
                Some(bytes) => Poll::Ready(Ok(bytes)),
                None if way.closed => Poll::Ready(Ok(Bytes::new())),
                None => {
                    way.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut way = self.out.lock().unwrap();
        way.closed = true;
        way.waker.take().into_iter().for_each(Waker::wake);
    }
}
