//! Recipes after the store has another owner, or after the home has moved, freed or rewritten their data: a front end
//! reads the same bytes, or none.

use block::{Data, Disk, DiskId, Error, Extent, Geometry, Op, Piece, Recipe, Reply, Resolver};
use engine::{Engine, Options, Reader};
use rados::memory::Cluster;
use rados::{FormatOptions, OpenOptions, Store};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const ARRAY: u128 = 9;
const DISK: DiskId = DiskId(1);
const BLOCK: usize = 4096;
const BLOCKS: u64 = 2048;

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = block::workload::Random::new(seed);
    (0..bytes / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// A home, and its background, which runs while the test waits.
struct Home {
    engine: Arc<Engine>,
    background: Pin<Box<dyn Future<Output = ()>>>,
}

/// The result of a model future, which is ready at once without other work.
fn immediate<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    for _ in 0..100 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("the model holds nothing back");
}

impl Home {
    /// The next owner of the store, which the first one creates. `opening` is its salt.
    fn open(cluster: &Cluster, opening: u64) -> Self {
        let open =
            OpenOptions { array: ARRAY, salt: opening, reserve_segments: Some(8), ..OpenOptions::default() };
        let format = FormatOptions {
            stripe_pages: 16,
            segment_stripes: 8,
            journal_bytes: 32 << 20,
            journal_object_bytes: 256 << 10,
            reserve_segments: 8,
            ..FormatOptions::new(64)
        };
        let store = match opening {
            1 => immediate(Store::format(cluster.client(), format, open)),
            _ => immediate(Store::open(cluster.client(), open)),
        };
        let engine = immediate(Engine::open(store.expect("a store"), Options::new([7; 32])));
        let engine = engine.expect("an array");
        let mut home = Self { background: Box::pin(engine.background()), engine };
        if opening == 1 {
            let geometry = Geometry { block_bytes: 512, blocks: BLOCKS * 8 };
            let engine = home.engine.clone();
            home.wait(async move { engine.create_volume(DISK, geometry, 0).await }).expect("a volume");
        }
        home
    }

    /// Waits for a result, while the background runs.
    fn wait<T>(&mut self, begun: impl Future<Output = T>) -> T {
        let (mut begun, mut context) = (pin!(begun), Context::from_waker(Waker::noop()));
        for _ in 0..1_000_000 {
            if let Poll::Ready(value) = begun.as_mut().poll(&mut context) {
                return value;
            }
            self.work();
        }
        panic!("it never ends");
    }

    fn work(&mut self) {
        _ = self.background.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }

    fn execute(&mut self, op: Op) -> block::Result {
        let volume = self.engine.volume(DISK).expect("it was made");
        self.wait(volume.execute(op))
    }

    /// Writes 4 KiB blocks, while the background is stopped.
    fn write(&mut self, block: u64, data: &[u8]) {
        let volume = self.engine.volume(DISK).expect("it was made");
        let write = Op::Write { lba: block * 8, data: data.to_vec().into() };
        immediate(volume.execute(write)).expect("it is durable");
    }

    /// Data of 4 KiB blocks, as read by a host.
    fn read(&mut self, block: u64, blocks: u64) -> Vec<u8> {
        match self.execute(Op::Read(Extent::new(block * 8, blocks * 8))) {
            Ok(Reply::Data(data)) => data.to_bytes().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn locate(&mut self, block: u64, blocks: u64) -> Reply {
        self.execute(Op::Locate(Extent::new(block * 8, blocks * 8))).expect("it succeeds")
    }

    /// Location of 4 KiB blocks, once the background has flushed them. Other blocks fill their stripe, and later ones.
    fn flushed(&mut self, block: u64, blocks: u64) -> Recipe {
        self.write(BLOCKS / 2, &random(99, 512 * BLOCK));
        for _ in 0..100_000 {
            let is_flushed = |recipe: &Recipe| recipe.pieces.iter().all(|it| matches!(it, Piece::Blocks(_)));
            match self.locate(block, blocks) {
                Reply::Located(recipe) if is_flushed(&recipe) => return recipe,
                _ => self.work(),
            }
        }
        panic!("it is never flushed");
    }

    fn checkpoint(&mut self) {
        let engine = self.engine.clone();
        self.wait(async move { engine.shutdown().await }).expect("a checkpoint");
    }
}

fn reader(cluster: &Cluster, cache_bytes: usize) -> Reader {
    let store = immediate(rados::Reader::open(cluster.client(), (ARRAY, 0), None)).expect("a store");
    Reader::new(Arc::new(store), cache_bytes)
}

fn resolve(reader: &Reader, recipe: &Recipe) -> Option<Vec<u8>> {
    immediate(reader.resolve(recipe.clone())).map(|data: Data| data.to_bytes().to_vec())
}

/// The recipe with the writings of another one.
fn with_writings_of(recipe: &Recipe, other: &Recipe) -> Recipe {
    let mut forged = recipe.clone();
    for (piece, from) in forged.pieces.iter_mut().zip(&other.pieces) {
        if let (Piece::Blocks(blocks), Piece::Blocks(from)) = (piece, from) {
            blocks.place.writing = from.place.writing;
        }
    }
    forged
}

/// A home dies after a flush and before a checkpoint: the next one assigns the same frame numbers, and writes to the
/// same locations. Only opening and writing differ.
#[test]
fn frames_of_an_owner_that_is_gone_are_not_taken_for_those_of_the_next() {
    let cluster = Cluster::default();
    let (before, after) = (random(1, 8 * BLOCK), random(2, 8 * BLOCK));
    let mut home = Home::open(&cluster, 1);
    home.checkpoint();
    let mut home = Home::open(&cluster, 2);
    home.write(0, &before);
    let old = home.flushed(0, 8);
    let (cached, bare) = (reader(&cluster, 1 << 20), reader(&cluster, 0));
    assert_eq!(
        [&cached, &bare].map(|reader| resolve(reader, &old)),
        [Some(before.clone()), Some(before.clone())]
    );
    drop(home);

    let mut home = Home::open(&cluster, 3);
    home.write(0, &after);
    let new = home.flushed(0, 8);
    assert_ne!((old.opening, &old), (new.opening, &new));
    let forged = Recipe { opening: new.opening, ..with_writings_of(&old, &new) };
    assert_eq!(forged, new, "the same numbers and places");
    assert_eq!(resolve(&bare, &old), None, "it is overwritten");
    // Without these two names, each would be mistaken for the other.
    assert_eq!(resolve(&bare, &with_writings_of(&old, &new)), Some(after.clone()));
    let misnamed = Recipe { opening: old.opening, ..new.clone() };
    assert_eq!(resolve(&cached, &misnamed), Some(before.clone()));
    // With them, cached data is distinguished.
    assert_eq!(resolve(&cached, &old), Some(before));
    assert_eq!([&cached, &bare].map(|reader| resolve(reader, &new)), [Some(after.clone()), Some(after)]);
    assert_eq!(resolve(&cached, &old), None);
}

#[test]
fn what_only_the_home_has_is_bytes_and_the_rest_is_located() {
    let cluster = Cluster::default();
    let mut home = Home::open(&cluster, 1);
    let reader = reader(&cluster, 1 << 20);
    let data = random(3, 16 * BLOCK);
    home.write(40, &data);
    // In the journal: its slots are in memory.
    let Reply::Located(recipe) = home.locate(38, 20) else { panic!("it is aligned") };
    assert!(
        matches!(recipe.pieces[..], [Piece::Zeros(_), Piece::Bytes(_), .., Piece::Zeros(_)]),
        "{recipe:?}"
    );
    assert_eq!(resolve(&reader, &recipe), Some(home.read(38, 20)));
    home.flushed(40, 16);
    home.write(44, &random(4, BLOCK));
    let Reply::Located(recipe) = home.locate(30, 30) else { panic!("it is aligned") };
    let count = |is: fn(&Piece) -> bool| recipe.pieces.iter().filter(|piece| is(piece)).count();
    assert_eq!(count(|it| matches!(it, Piece::Bytes(_))), 1);
    assert!(
        count(|it| matches!(it, Piece::Blocks(_))) >= 2 && count(|it| matches!(it, Piece::Zeros(_))) == 2
    );
    assert_eq!(resolve(&reader, &recipe), Some(home.read(30, 30)));
    // A recipe without frames in between leaves the cache unchanged.
    let fetches = reader.counters().fetches;
    let Reply::Located(hole) = home.locate(0, 8) else { panic!("it is aligned") };
    assert_eq!(resolve(&reader, &hole), Some(vec![0; 8 * BLOCK]));
    assert_eq!(resolve(&reader, &recipe), Some(home.read(30, 30)));
    assert_eq!(reader.counters().fetches, fetches);
    // Within a block of 4 KiB, beyond the volume, and empty.
    let within = home.execute(Op::Locate(Extent::new(321, 8)));
    assert!(matches!(within, Ok(Reply::Data(data)) if data.len() == 8 * 512));
    let beyond = home.execute(Op::Locate(Extent::new(BLOCKS * 8, 1)));
    assert!(matches!(beyond, Err(Error::OutOfRange { .. })));
    assert!(matches!(home.locate(0, 0), Reply::Data(data) if data.is_empty()));
}

#[test]
fn a_host_that_reads_in_order_gets_what_the_home_reads_ahead() {
    let cluster = Cluster::default();
    let mut home = Home::open(&cluster, 1);
    let data = random(5, 128 * BLOCK);
    home.write(0, &data);
    home.checkpoint();
    let mut home = Home::open(&cluster, 2);
    // Data of an earlier owner is known after it was read.
    assert_eq!(home.read(0, 128), data);
    let kinds: Vec<bool> = (0..128).map(|block| matches!(home.locate(block, 1), Reply::Located(_))).collect();
    assert!(kinds[0], "the first could be any read");
    assert!(kinds[3..127].iter().all(|located| !located), "{kinds:?}");
    // In random order.
    let apart = (0..16).map(|at| (at * 37) % 128);
    let located = apart.filter(|block| matches!(home.locate(*block, 1), Reply::Located(_))).count();
    assert!(located > 8, "{located}");
}

#[test]
fn what_another_owner_has_written_is_read_by_the_home_first() {
    let cluster = Cluster::default();
    let mut home = Home::open(&cluster, 1);
    let data = random(6, 8 * BLOCK);
    home.write(8, &data);
    home.checkpoint();
    let mut home = Home::open(&cluster, 2);
    assert!(matches!(home.locate(8, 8), Reply::Data(bytes) if bytes.to_bytes()[..] == data[..]));
    for _ in 0..10 {
        assert!(matches!(home.locate(8, 8), Reply::Located(_)), "the same again is no stream");
    }
    let Reply::Located(recipe) = home.locate(8, 8) else { panic!("it is known by now") };
    assert_eq!(resolve(&reader(&cluster, 0), &recipe), Some(data));
}

#[test]
fn recipes_that_no_home_makes_give_nothing() {
    let cluster = Cluster::default();
    let mut home = Home::open(&cluster, 1);
    home.write(0, &random(7, 8 * BLOCK));
    let right = home.flushed(0, 8);
    let Some(Piece::Blocks(blocks)) = right.pieces.first().cloned() else { panic!("{right:?}") };
    let reader = reader(&cluster, 1 << 20);
    let with = |change: &dyn Fn(&mut block::FrameBlocks)| {
        let mut blocks = blocks;
        change(&mut blocks);
        resolve(&reader, &Recipe { opening: 77, pieces: vec![Piece::Blocks(blocks)] })
    };
    for change in [
        &|it: &mut block::FrameBlocks| it.count = 0,
        &|it: &mut block::FrameBlocks| (it.first, it.count) = (255, 255),
        &|it: &mut block::FrameBlocks| it.stored = 0,
        &|it: &mut block::FrameBlocks| it.stored ^= 0x80,
        &|it: &mut block::FrameBlocks| it.frame += 1,
        &|it: &mut block::FrameBlocks| it.place.len = u32::MAX,
        &|it: &mut block::FrameBlocks| it.place.len = 0,
        &|it: &mut block::FrameBlocks| it.place.offset = u32::MAX - 5,
        &|it: &mut block::FrameBlocks| it.place.offset += 1,
        &|it: &mut block::FrameBlocks| it.place.segment = u32::MAX,
        &|it: &mut block::FrameBlocks| it.place.writing.0 += 1,
        &|it: &mut block::FrameBlocks| it.place.writing.1 += 1,
    ] as [&dyn Fn(&mut block::FrameBlocks); 12]
    {
        assert_eq!(with(change), None);
    }
    assert!(with(&|_| {}).is_some());
}
