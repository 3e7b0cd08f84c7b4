//! Transfers that give way to hosts.

use crate::support::{Array, BLOCKS, REPLICATION, pipe, random_block, sync};
use block::workload::Random;
use rig::block_on;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Transfers until the point is published, or for this number of looks at both ends; returns whether it is published.
fn sync_for_a_while(source: &Array, target: &Array, looks: u64) -> bool {
    let (one, other) = pipe();
    let mut sync = pin!(source.sender.sync(REPLICATION, one));
    let mut serve = pin!(target.receiver.serve(REPLICATION, other));
    let (mut cx, mut served) = (Context::from_waker(Waker::noop()), false);
    for _ in 0..looks {
        if let Poll::Ready(synced) = sync.as_mut().poll(&mut cx) {
            synced.unwrap();
            return true;
        }
        served = served || serve.as_mut().poll(&mut cx).is_ready();
        std::thread::yield_now();
    }
    false
}

/// After each break, parts have other sizes: applied data stays, and the digest over all parts is the same at both
/// ends.
#[test]
fn a_throttled_transfer_goes_on_after_any_break() {
    let mut breaks = 0;
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let source = Array::with_busy_hosts(1, b"key", seed);
        let target = Array::new(2, b"key");
        block_on(target.receiver.accept(REPLICATION, 0)).unwrap();
        let volume = source.create(1, BLOCKS, 4096);
        (0..BLOCKS).for_each(|block| source.write(&volume, block, &random_block(block)));
        source.take_point(&[1]);
        // Longer and longer, so the loop ends.
        let mut looks = 10;
        while !sync_for_a_while(&source, &target, random.below(looks)) {
            (breaks, looks) = (breaks + 1, looks + 5);
        }
        (0..BLOCKS).filter(|block| block % 3 == 0).for_each(|block| {
            source.write(&volume, block, &random_block(block + 9_999));
        });
        source.take_point(&[1]);
        let synced = sync(&source, &target).unwrap();
        assert_eq!(synced.sent_blocks, BLOCKS / 3);
        let copy = target.volume(target.points().pop().unwrap().volumes[0].snapshot);
        for block in 0..BLOCKS {
            let wanted = if block % 3 == 0 { block + 9_999 } else { block };
            assert_eq!(target.read(&copy, block, 1), random_block(wanted), "block {block}");
        }
        assert!(source.clock_ns() > 1_000_000_000, "windows have ended");
    }
    assert!(breaks > 0);
}
