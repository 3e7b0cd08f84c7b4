use super::*;
use crate::engine::Engine;
use crate::options::Options;
use block::{Data, Disk, DiskId, Extent, Geometry, Op, Reply};
use raid::{DriveShelf, FormatOptions, MemDrive};
use shelf::Drive;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Runs a future that waits for memory alone.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..1000 {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
    }
    panic!("it waits forever")
}

/// What is read of a block whose fingerprint the index takes for that of another one.
fn read_after_a_collision(verify: bool) -> Vec<u8> {
    let drive: Arc<dyn Drive> = MemDrive::new("drive", 64 << 20);
    let shelf = run(DriveShelf::format(vec![drive], FormatOptions::default())).expect("formatted");
    let engine = run(Engine::open(shelf, Options::new([1; 32]))).expect("opened");
    let (mut reducer, mut appender) = (Reducer::new(engine.core.clone()), Appender::new(engine.core.clone()));
    let geometry = Geometry { block_bytes: 4096, blocks: 100 };
    let volume = run(engine.create_volume(DiskId(1), geometry, 0)).expect("created");
    let policy = Policy { verify, ..Policy::default() };
    run(engine.set_policy(DiskId(1), policy)).expect("set");
    let mut write = |lba: u64, byte: u8| {
        let data = Data::from(vec![byte; BLOCK]);
        run(volume.execute(Op::Write { lba, data })).expect("written");
        assert_eq!(run(reducer.flush(&mut appender, u64::MAX)).expect("flushed").step, Step::Done);
        reducer.index.insert(reducer.fingerprinter.of(&[2; BLOCK]), BlockId { frame: 0, index: 0 });
    };
    write(0, 1);
    write(9, 2);
    match run(volume.execute(Op::Read(Extent::new(9, 1)))) {
        Ok(Reply::Data(data)) => data.to_bytes().to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn verification_is_what_tells_blocks_with_the_same_fingerprint_apart() {
    assert_eq!(read_after_a_collision(true), [2; BLOCK]);
    assert_eq!(read_after_a_collision(false), [1; BLOCK], "without it the fingerprint alone decides");
}

#[test]
fn one_block_in_eight_is_a_sample_and_a_copy_of_it_is_too() {
    let mut state = 9u64;
    let mut block = || {
        let mut word = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
        };
        (0..BLOCK / 8).flat_map(|_| word()).collect::<Vec<u8>>()
    };
    let samples = (0..2000).filter(|_| is_sample(&block())).count();
    assert!((200..300).contains(&samples), "{samples}");
}
