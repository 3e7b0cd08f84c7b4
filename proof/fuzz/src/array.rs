//! A small array on drives in memory, with some of everything in its checkpoint and its journal, in clear and encrypted.

use block::{Data, Disk, DiskId, Extent, Geometry, Op};
use bytes::Bytes;
use engine::{Engine, Options};
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening};
use shelf::Drive;
use shelf::pool::KeySource;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Bytes of each of the three drives.
const DRIVE_BYTES: u64 = 10 << 20;

/// Runs a future that depends on no other.
pub fn run<F: Future>(future: F) -> F::Output {
    drive(&mut None, future)
}

type Background = Pin<Box<dyn Future<Output = ()>>>;

fn drive<F: Future>(background: &mut Option<Background>, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..200_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        if background.as_mut().is_some_and(|running| running.as_mut().poll(&mut context).is_ready()) {
            *background = None;
        }
    }
    panic!("the future does not complete")
}

/// An engine with its background.
pub struct World {
    /// The engine.
    pub engine: Arc<Engine>,
    background: Option<Background>,
}

impl World {
    /// Opens it.
    pub fn open(shelf: Arc<DriveShelf>) -> block::Result<Self> {
        let engine = run(Engine::open(shelf, options()))?;
        let background: Background = Box::pin(engine.background());
        Ok(Self { engine, background: Some(background) })
    }

    /// Runs a future together with the background.
    pub fn run<F: Future>(&mut self, future: F) -> F::Output {
        drive(&mut self.background, future)
    }

    /// Shuts down cleanly.
    pub fn shut_down(mut self) -> block::Result<()> {
        let engine = self.engine.clone();
        self.run(async move { engine.shutdown().await })
    }
}

/// The array's drives with their initial images.
pub struct Array {
    key: Option<[u8; 32]>,
    images: Vec<Vec<u8>>,
    drives: Mutex<Vec<Arc<MemDrive>>>,
}

/// Small bounds.
pub fn options() -> Options {
    Options {
        slot_bytes: 4 << 20,
        cache_bytes: 1 << 20,
        index_bytes: 1 << 16,
        page_bytes: 1 << 20,
        ..Options::new([7; 32])
    }
}

impl Array {
    /// An array with volumes, a snapshot and a clone: shut down cleanly, so that opening loads no page, or with a
    /// journal after its checkpoint.
    pub fn new(encrypted: bool, stopped: bool) -> Self {
        let key = encrypted.then_some([3; 32]);
        let drives: Vec<Arc<MemDrive>> =
            (0..3).map(|n| MemDrive::new(format!("mem{n}"), DRIVE_BYTES)).collect();
        let array = Self { key, images: Vec::new(), drives: Mutex::new(drives) };
        let opening = Opening { salt: 1, key: array.key() };
        let options = FormatOptions { array: 7, opening, ..FormatOptions::default() };
        let shelf = run(DriveShelf::format(array.drives(), options)).expect("formatted");
        let mut world = World::open(shelf).expect("opened");
        fill(&mut world);
        world.shut_down().expect("shut down");
        let mut world = World::open(array.open(2).expect("opened")).expect("opened");
        write(&mut world, 1, 40, 12, 90);
        let engine = world.engine.clone();
        world.run(engine.snapshot(&[(DiskId(1), DiskId(5))], &[], 1, 0)).expect("taken");
        write(&mut world, 2, 3, 5, 200);
        match stopped {
            true => world.shut_down().expect("shut down"),
            false => drop(world),
        }
        let images = array
            .drives
            .lock()
            .expect("whole")
            .iter()
            .map(|drive| drive.with(|bytes| bytes.to_vec()))
            .collect();
        Self { images, ..array }
    }

    fn key(&self) -> Option<(DataKey, Envelope)> {
        let key = DataKey::new(self.key?);
        let envelope = Envelope::wrap(7, &key, KeySource::File, &[9; 32], [0; 12]);
        Some((key, envelope))
    }

    fn drives(&self) -> Vec<Arc<dyn Drive>> {
        self.drives.lock().expect("whole").iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
    }

    /// Restores the initial images of the drives.
    pub fn restore(&self) {
        for (drive, image) in self.drives.lock().expect("whole").iter().zip(&self.images) {
            drive.with(|bytes| bytes.copy_from_slice(image));
        }
    }

    /// The shelf.
    pub fn open(&self, salt: u64) -> shelf::Result<Arc<DriveShelf>> {
        run(DriveShelf::open(self.drives(), Opening { salt, key: self.key() }))
    }
}

fn write(world: &mut World, volume: u128, block: u64, count: u64, seed: u64) {
    let volume = world.engine.volume(DiskId(volume)).expect("there");
    let each = 4096 / u64::from(volume.geometry().block_bytes);
    let text = |n: u64| format!("block {} ", seed + n).into_bytes().into_iter().cycle().take(4096);
    let bytes: Vec<u8> = (0..count).flat_map(text).collect();
    world.run(volume.execute(Op::Write { lba: block * each, data: Data::from(bytes) })).expect("written");
}

fn fill(world: &mut World) {
    let engine = world.engine.clone();
    for (id, block_bytes) in [(1, 512), (2, 4096)] {
        let geometry = Geometry { block_bytes, blocks: (1 << 31) / u64::from(block_bytes) };
        world.run(engine.create_volume(DiskId(id), geometry, 0)).expect("created");
    }
    for block in [0, 700, 300_000] {
        write(world, 1, block, 20, block);
        write(world, 2, block + 5, 10, block);
    }
    world.run(engine.snapshot(&[(DiskId(1), DiskId(3))], &[], 1, 0)).expect("taken");
    world.run(engine.clone_volume(DiskId(2), DiskId(4), 0)).expect("cloned");
    world.run(engine.put_record("a/b", Some(Bytes::from_static(b"value")))).expect("kept");
    write(world, 1, 704, 4, 40);
}

/// Reads and changes something of every volume, and ignores the results.
pub fn use_all(world: &mut World) {
    for volume in world.engine.volumes() {
        let geometry = volume.geometry();
        let each = 4096 / u64::from(geometry.block_bytes);
        for block in [0, 5, 40, 700, 704, 300_000] {
            let _ = world.run(volume.execute(Op::Read(Extent::new(block * each, 8 * each))));
        }
        let bytes = vec![1; 8192];
        let _ = world.run(volume.execute(Op::Write { lba: 701 * each, data: Data::from(bytes) }));
        let _ = world.run(volume.execute(Op::Unmap(vec![Extent::new(2 * each, 4 * each)])));
    }
}
