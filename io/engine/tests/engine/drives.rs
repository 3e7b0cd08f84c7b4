//! Drives that fail and come back while hosts write: cleaning reclaims the space that a rebuild takes.

use crate::support::{now, poll};
use block::{Data, Disk, DiskId, Extent, Geometry, Op};
use engine::{Engine, Options};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening};
use rig::drive::{FailingDrive, Intercepted, Request};
use shelf::pool::{Consent, Pool, PoolStatus};
use shelf::{Drive, JournalPos, Shelf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

const BLOCK: usize = 4096;

/// Bytes that neither repeat nor compress.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state ^ *state >> 29
}

fn block_of(mut state: u64) -> Data {
    Data::from((0..BLOCK / 8).flat_map(|_| random(&mut state).to_le_bytes()).collect::<Vec<u8>>())
}

fn given(drives: &[Arc<FailingDrive>]) -> Vec<Arc<dyn Drive>> {
    drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
}

/// An array of eight drives, every other of which keeps what is discarded.
fn array() -> (Vec<Arc<FailingDrive>>, Arc<DriveShelf>, Arc<Engine>) {
    let drive = |number| {
        let drive = MemDrive::new(format!("memory {number}"), 16 << 20);
        FailingDrive::new(match number % 2 {
            0 => drive as Arc<dyn Drive>,
            _ => Arc::new(Intercepted::new(drive, |drive: &Arc<MemDrive>, request| match request {
                Request::Discard { done, .. } => done(Ok(())),
                request => request.submit(&**drive),
            })),
        })
    };
    let drives: Vec<Arc<FailingDrive>> = (0..8).map(drive).collect();
    let options = FormatOptions { array: 7, ..FormatOptions::default() };
    let shelf = now(DriveShelf::format(given(&drives), options)).expect("blank drives");
    let engine = now(Engine::open(shelf.clone(), Options::new([1; 32]))).expect("an engine");
    (drives, shelf, engine)
}

/// Does the engine's work beside its hosts, to their end.
fn serve(engine: &Engine, hosts: impl Future<Output = ()>) {
    let (mut hosts, mut background) = (pin!(hosts), pin!(engine.background()));
    let mut ended = false;
    while poll(hosts.as_mut()).is_pending() {
        assert!(!ended, "the engine runs until hosts have ended");
        ended = poll(background.as_mut()).is_ready();
    }
}

/// Half of the drives fail permanently, one after the other, and are not replaced.
#[test]
fn what_drives_that_are_left_have_room_for_is_what_can_be_written() {
    const BLOCKS: u64 = 24 << 10;
    let (drives, shelf, engine) = array();
    let before = engine.space();
    let hosts = async {
        let geometry = Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS };
        let volume = engine.create_volume(DiskId(1), geometry, 0).await.expect("a volume");
        for drive in &drives[..4] {
            drive.set_failed(true);
            volume.execute(Op::Write { lba: 0, data: block_of(1) }).await.expect("a write");
            shelf.settle().await;
        }
        let space = engine.space();
        assert_eq!((shelf.status().drives.len(), shelf.status().tolerates), (4, 2));
        assert!(space.total < before.total * 3 / 5, "{space:?} where {before:?} was before");
        let mut written = 0;
        for lba in 1..BLOCKS {
            match volume.execute(Op::Write { lba, data: block_of(lba + 1) }).await {
                Ok(_) => written += BLOCK as u64,
                Err(error) => {
                    assert_eq!(error, block::Error::NoSpace);
                    break;
                }
            }
        }
        assert!(written * 10 > space.free * 8 && written <= space.free, "{written} of {}", space.free);
        assert!(engine.space().free < 1 << 20, "{:?}", engine.space());
        assert_eq!(shelf.status().tolerates, 2, "all of it is protected as it should be");
    };
    serve(&engine, hosts);
}

/// A third of the array is overwritten over and over, and one drive after the other fails and is replaced: what is dead
/// is cleaned before the redundancy of anything is reduced.
#[test]
fn rebuilding_again_and_again_takes_no_space_from_hosts() {
    const BLOCKS: u64 = 6 << 10;
    let (drives, shelf, engine) = array();
    let hosts = async {
        let geometry = Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS };
        let volume = engine.create_volume(DiskId(1), geometry, 0).await.expect("a volume");
        let mut state = 1;
        for round in 0..7 {
            if let (1, Some(drive)) = (round % 2, drives.get(round / 2)) {
                drive.set_failed(true);
            }
            for number in 0..BLOCKS {
                let lba = if round == 0 { number } else { random(&mut state) % BLOCKS };
                let data = block_of(random(&mut state));
                let written = volume.execute(Op::Write { lba, data }).await;
                assert!(
                    written.is_ok(),
                    "{written:?} in round {round}: {:?}, {:?}",
                    engine.space(),
                    shelf.status()
                );
                if number % 64 == 0 {
                    shelf.settle().await;
                }
            }
            if let (1, Some(drive)) = (round % 2, drives.get(round / 2)) {
                let PoolStatus { degraded_segments, tolerates, .. } = shelf.status();
                assert_eq!(
                    (degraded_segments, tolerates),
                    (0, 2),
                    "everything is protected again in round {round}"
                );
                drive.set_failed(false);
                let consent = Consent { arrays: vec![7], ..Consent::default() };
                shelf.add_drive(drive.clone(), &consent).await.expect("a drive like the others");
            }
        }
    };
    serve(&engine, hosts);
}

/// Striped over eight drives, batches of twice what the ring of each has find room in the journal.
#[test]
fn a_striped_journal_holds_more_than_its_ring() {
    const EACH: u64 = 64;
    let (drives, shelf, engine) = array();
    let ring = shelf.layout().journal_bytes;
    let writes = 2 * ring / (EACH * BLOCK as u64);
    let data =
        |n: u64| (0..EACH).flat_map(|block| block_of(n * EACH + block).to_bytes()).collect::<Vec<u8>>();
    let geometry = Geometry { block_bytes: BLOCK as u32, blocks: writes * EACH };
    let mut background = Box::pin(engine.background());
    let volume = {
        let mut created = pin!(engine.create_volume(DiskId(1), geometry, 0));
        loop {
            if let Poll::Ready(created) = poll(created.as_mut()) {
                break created.expect("a volume");
            }
            assert!(poll(background.as_mut()).is_pending());
        }
    };
    // Nothing is flushed here: some acknowledgements wait for that, but all of it is in the journal.
    let mut asked: Vec<_> =
        (0..writes).map(|n| volume.execute(Op::Write { lba: n * EACH, data: Data::from(data(n)) })).collect();
    let answered = asked.iter_mut().filter_map(|asked| match poll(Pin::new(asked)) {
        Poll::Ready(outcome) => Some(outcome.expect("a write")),
        Poll::Pending => None,
    });
    assert!(answered.count() > 0);
    assert!(shelf.journal_taken(JournalPos(u64::MAX)) < ring / 2);
    drop((asked, volume, background, engine, shelf));
    let shelf = now(DriveShelf::open(given(&drives), Opening::default())).expect("the same drives");
    let engine = now(Engine::open(shelf, Options::new([1; 32]))).expect("the same array");
    let volume = engine.volume(DiskId(1)).expect("the same volume");
    let hosts = async {
        for n in 0..writes {
            let read = volume.execute(Op::Read(Extent { lba: n * EACH, blocks: EACH })).await;
            let Ok(block::Reply::Data(found)) = read else { panic!("{read:?}") };
            assert!(found.to_bytes() == data(n), "write {n}");
        }
    };
    serve(&engine, hosts);
}

/// What the last checkpoint freed is in the map of the drives until the next one, and half of them have it no more.
#[test]
fn what_an_array_freed_as_it_ended_is_no_defect() {
    const BLOCKS: u64 = 2 << 10;
    let (drives, shelf, engine) = array();
    let hosts = async {
        let geometry = Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS };
        let volume = engine.create_volume(DiskId(1), geometry, 0).await.expect("a volume");
        for lba in 0..BLOCKS {
            volume.execute(Op::Write { lba, data: block_of(lba) }).await.expect("a write");
        }
        volume.execute(Op::Unmap(vec![Extent { lba: 0, blocks: BLOCKS }])).await.expect("an unmap");
        engine.shutdown().await.expect("a last checkpoint");
    };
    serve(&engine, hosts);
    drop((shelf, engine));
    let shelf = now(DriveShelf::open(given(&drives), Opening::default())).expect("the same drives");
    let engine = now(Engine::open(shelf.clone(), Options::new([1; 32]))).expect("the same array");
    assert_eq!(now(engine.check()).expect("a check"), Vec::<String>::new());
    engine.discard_unused();
    let report = now(shelf.scrub());
    assert_eq!((report.errors, report.lost), (0, 0), "{report:?}");
}

/// Bytes that all drives have read since the store was opened.
fn read_bytes(shelf: &DriveShelf) -> u64 {
    shelf.status().drives.iter().map(|drive| drive.read_bytes).sum()
}

/// The defects that a check with a scrub finds, and the pages that were wrong below.
fn check(shelf: &Arc<DriveShelf>, engine: &Engine) -> (Vec<String>, u64) {
    let (mut defects, frames) = now(engine.begin_check(&mut |_| {})).expect("a check");
    let pool: &dyn Pool = &**shelf;
    let mut done = 0;
    while let Some(segments) = now(frames.step(Some(pool))) {
        done += 1;
        assert_eq!((segments, frames.done()), (done, done));
    }
    assert_eq!(done, frames.total());
    let findings = frames.end();
    defects.extend(findings.defects);
    (defects, findings.scrubbed.errors)
}

/// Of eight drives six have data and two parity.
#[test]
fn a_check_reads_what_is_stored_once_and_its_parity() {
    const BLOCKS: u64 = 6000;
    let mem: Vec<_> = (0..8).map(|number| MemDrive::new(format!("memory {number}"), 16 << 20)).collect();
    let drives = || mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect::<Vec<_>>();
    let options = FormatOptions { array: 7, ..FormatOptions::default() };
    let shelf = now(DriveShelf::format(drives(), options)).expect("blank drives");
    let engine = now(Engine::open(shelf.clone(), Options::new([1; 32]))).expect("an engine");
    let hosts = async {
        let geometry = Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS };
        let volume = engine.create_volume(DiskId(1), geometry, 0).await.expect("a volume");
        for lba in 0..BLOCKS {
            volume.execute(Op::Write { lba, data: block_of(lba) }).await.expect("a write");
        }
        engine.shutdown().await.expect("everything is written");
    };
    serve(&engine, hosts);
    drop((engine, shelf));
    let shelf = now(DriveShelf::open(drives(), Opening::default())).expect("the same drives");
    let engine = now(Engine::open(shelf.clone(), Options::new([1; 32]))).expect("an engine");
    engine.discard_unused();
    let before = read_bytes(&shelf);
    assert_eq!(check(&shelf, &engine), (Vec::new(), 0));
    let (read, space) = (read_bytes(&shelf) - before, engine.space());
    let stored = (space.physical + space.metadata) * 8 / 6;
    assert!(stored > BLOCKS * BLOCK as u64, "{space:?}");
    assert!(read <= stored * 6 / 5, "{read} bytes are read of {stored}");
    // What a check reads it also verifies: pages of parity, too, that no host's read looks at.
    let wrong = mem[3].with(|bytes| {
        let pages = (4 << 20..12 << 20)
            .step_by(256 << 10)
            .filter(|at| bytes[*at..at + BLOCK].iter().any(|byte| *byte != 0));
        let pages: Vec<usize> = pages.collect();
        pages.iter().for_each(|at| bytes[at + 100] ^= 1);
        pages.len() as u64
    });
    assert!(wrong > 8, "{wrong}");
    let (defects, errors) = check(&shelf, &engine);
    assert_eq!(defects, [""; 0], "parity gives everything back");
    assert!(errors > wrong / 2 && errors <= wrong, "{errors} of {wrong}");
}
