//! Encryption is below the engine: nothing that it writes is on the drives in clear, and it saves as much as ever.

use crate::support::{now, poll};
use block::{Data, Disk, DiskId, Extent, Geometry, Op, Reply};
use engine::{Engine, Options};
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening};
use shelf::Drive;
use shelf::pool::KeySource;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

const BLOCK: usize = 4096;
const TEXT: &[u8] = b"what the host wrote and only it may ever read ";

/// Runs a future that waits for nothing but the engine.
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

fn drives(mem: &[Arc<MemDrive>]) -> Vec<Arc<dyn Drive>> {
    mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
}

/// Some of the blocks compress, some don't, and all are written twice.
fn block(number: u64) -> Vec<u8> {
    let mut block = TEXT.repeat(BLOCK / TEXT.len() + 1);
    block.truncate(BLOCK);
    block[..8].copy_from_slice(&number.to_le_bytes());
    if number % 2 == 1 {
        let mut state = number;
        for word in block[TEXT.len() + 8..].chunks_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.copy_from_slice(&(state ^ state >> 29).to_le_bytes()[..word.len()]);
        }
    }
    block
}

/// Writes through an engine on drives with this key, reads back after a start, and returns the physical bytes.
fn fill(mem: &[Arc<MemDrive>], key: Option<(DataKey, Envelope)>) -> u64 {
    let opening = |salt| Opening { salt, key: key.clone() };
    let options = FormatOptions { array: 7, opening: opening(1), ..FormatOptions::default() };
    let shelf = now(DriveShelf::format(drives(mem), options)).expect("formatted");
    let engine = now(Engine::open(shelf, Options::new([1; 32]))).expect("an engine");
    let used = engine.clone();
    run(&engine, async move {
        let volume = used
            .create_volume(DiskId(1), Geometry { block_bytes: 4096, blocks: 5000 }, 0)
            .await
            .expect("it is in order");
        for number in 0..100 {
            for lba in [number, number + 1000] {
                volume
                    .execute(Op::Write { lba, data: Data::from(block(number)) })
                    .await
                    .expect("it is in order");
            }
        }
        used.shutdown().await.expect("it is in order");
    });
    let physical = engine.space().physical;
    drop(engine);
    let shelf = now(DriveShelf::open(drives(mem), opening(2))).expect("opened");
    let engine = now(Engine::open(shelf, Options::new([1; 32]))).expect("an engine");
    let used = engine.clone();
    run(&engine, async move {
        let volume = used.volume(DiskId(1)).expect("it is in order");
        for number in 0..100 {
            let Ok(Reply::Data(data)) = volume.execute(Op::Read(Extent::new(number + 1000, 1))).await else {
                panic!("block {number} is not there")
            };
            assert_eq!(data.to_bytes(), block(number), "block {number}");
        }
    });
    physical
}

#[test]
fn no_drive_shows_what_was_written_and_nothing_takes_more_space() {
    let mem = |name| -> Vec<_> { (0..5).map(|_| MemDrive::new(name, 32 << 20)).collect() };
    let (clear, sealed) = (mem("clear"), mem("sealed"));
    let key = DataKey::new([9; 32]);
    let envelope = Envelope::wrap(7, &key, KeySource::File, &[8; 32], [7; 12]);
    assert_eq!(fill(&clear, None), fill(&sealed, Some((key, envelope))));
    let shows = |mem: &[Arc<MemDrive>]| {
        let text = &TEXT[TEXT.len() - 24..];
        mem.iter()
            .filter(|drive| drive.with(|bytes| bytes.windows(text.len()).any(|part| part == text)))
            .count()
    };
    assert!(shows(&clear) > 0, "or the search finds nothing");
    assert_eq!(shows(&sealed), 0);
}
