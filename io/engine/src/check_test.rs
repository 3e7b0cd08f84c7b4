use crate::codec::Put;
use crate::engine::Engine;
use crate::map::Maps;
use crate::options::Options;
use crate::space::Location;
use block::{Data, Disk, DiskId, Geometry, Op};
use raid::{DriveShelf, FormatOptions, MemDrive};
use shelf::Drive;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future that waits for the engine alone.
fn run<F: Future>(engine: &Engine, future: F) -> F::Output {
    let (mut future, mut background) = (pin!(future), pin!(engine.background()));
    let mut running = true;
    for _ in 0..100_000 {
        if let Poll::Ready(outcome) = poll(future.as_mut()) {
            return outcome;
        }
        running = running && poll(background.as_mut()).is_pending();
    }
    panic!("it waits forever")
}

/// An engine in order with two volumes, one a clone, whose background has ended.
fn engine() -> Arc<Engine> {
    let drive: Arc<dyn Drive> = MemDrive::new("drive", 64 << 20);
    let Poll::Ready(shelf) = poll(pin!(DriveShelf::format(vec![drive], FormatOptions::default()))) else {
        panic!("a drive in memory never waits")
    };
    let opening = Engine::open(shelf.expect("formatted"), Options::new([1; 32]));
    let Poll::Ready(Ok(engine)) = poll(pin!(opening)) else { panic!("it opens at once") };
    let used = engine.clone();
    run(&engine, async move {
        let geometry = Geometry { block_bytes: 4096, blocks: 5000 };
        let volume = used.create_volume(DiskId(1), geometry, 0).await?;
        for n in 0..40u64 {
            let mut bytes = vec![0; 8192];
            bytes[4096..].fill(n as u8 + 1);
            bytes[..4096]
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = ((at as u64 * (n + 7)) >> 3) as u8);
            volume.execute(Op::Write { lba: n * 100, data: Data::from(bytes) }).await?;
        }
        used.clone_volume(DiskId(1), DiskId(2), 0).await?;
        used.shutdown().await
    })
    .expect("written");
    engine
}

fn defects(engine: &Engine) -> Vec<String> {
    let Poll::Ready(defects) = poll(pin!(engine.check())) else { panic!("memory never waits") };
    defects.expect("checked")
}

/// What the check says about an engine in which `damage` was done.
fn after(damage: impl FnOnce(&mut Maps)) -> Vec<String> {
    let engine = engine();
    assert_eq!(defects(&engine), [""; 0]);
    damage(&mut engine.core.state.write().maps);
    defects(&engine)
}

fn first_page(maps: &Maps, level: u8) -> u64 {
    maps.page_index.iter().find(|(_, info)| info.level == level).expect("there is one").0
}

#[test]
fn every_count_that_is_wrong_is_found() {
    let one = |expected: &str, damage: &dyn Fn(&mut Maps)| {
        let defects = after(damage);
        assert!(defects.iter().any(|defect| defect.contains(expected)), "{expected}: {defects:#?}");
    };
    one("references, not 3", &|maps| {
        let root = first_page(maps, 1);
        maps.page_index.edit(root, |info| info.refs += 1);
    });
    one("its index entry says 6, ", &|maps| {
        let leaf = first_page(maps, 0);
        maps.page_index.edit(leaf, |info| info.tally.mapped = 6);
    });
    one("nothing refers to it", &|maps| {
        let (page, leaf) = (maps.next_page, first_page(maps, 0));
        let info = maps.page_index.get(leaf);
        maps.page_index.edit(page, |new| *new = info);
    });
    one("its number is free", &|maps| {
        let leaf = first_page(maps, 0);
        maps.free.push(leaf);
    });
    one("block 0 of frame 0 has 1 references, not 2", &|maps| {
        let block = crate::entry::BlockId { frame: 0, index: 0 };
        maps.table.refer(block, 1, &mut maps.usage);
    });
    one("data and metadata take", &|maps| maps.usage.physical += 1);
    one("distinct blocks", &|maps| maps.usage.unique_blocks -= 1);
    one("segment 0 holds", &|maps| {
        maps.usage.move_meta(Location::default(), Location { segment: 0, offset: 0, len: 9 })
    });
    one("outside of the log", &|maps| {
        let page = first_page(maps, 0);
        maps.page_index.edit(page, |one| one.location = Location { segment: 1 << 20, offset: 0, len: 9 });
    });
    one("overlap", &|maps| {
        let (leaf, root) = (first_page(maps, 0), first_page(maps, 1));
        let location = maps.page_index.get(root).location;
        maps.page_index.edit(leaf, |one| one.location = location);
    });
    one("is referred to, but not in the table", &|maps| {
        let (page, frames) = maps.table.pages.iter().next().expect("there is one");
        let (page, frames) = (page, frames.iter().count());
        assert!(frames > 1);
        let mut bytes = Vec::new();
        bytes.u8(0);
        maps.table.pages.remove(page);
        maps.table.pages.create(page, crate::frame_table::TablePage::default());
    });
}

#[test]
fn a_page_at_another_place_in_the_tree_is_found() {
    let defects = after(|maps| {
        let (root, leaf) = (first_page(maps, 1), first_page(maps, 0));
        let (node, _) = maps.nodes.edit(root).expect("in memory");
        node[9] = crate::entry::Entry::page(leaf);
        node[8] = crate::entry::Entry::slot(crate::entry::SlotId { batch: 1, page: 0 });
    });
    assert!(defects.iter().any(|defect| defect.contains("has 2 references, not 1")), "{defects:#?}");
    assert!(defects.iter().any(|defect| defect.contains("at level 1 names blocks of the journal")));
}
