use super::*;
use crate::cell::ALL;
use crate::entry::BLOCK;
use crate::frame::{Method, Packer, UNKNOWN, stored_mask, unpack};

/// Blocks that a shard of the cache holds.
const SHARD_BLOCKS: usize = 64;

fn cache() -> Cache {
    Cache::new(SHARDS * SHARD_BLOCKS * BLOCK)
}

/// The `n`th frame of one shard.
fn number(n: usize) -> u64 {
    (n * SHARDS) as u64
}

fn frame(blocks: usize) -> Decoded {
    let data = vec![7; blocks * BLOCK];
    let fingerprints = vec![UNKNOWN; blocks];
    let stored = stored_mask(blocks);
    let object = Packer::new(true).pack(1, stored, data.chunks(BLOCK), &fingerprints, Method::Lz4, false);
    unpack(&object, 1, ALL).unwrap()
}

fn front(blocks: usize) -> Decoded {
    let data = vec![7; 8 * BLOCK];
    let object = Packer::new(true).pack(1, 0xff, data.chunks(BLOCK), &[UNKNOWN; 8], Method::Lz4, false);
    unpack(&object, 1, stored_mask(blocks)).unwrap()
}

fn held(cache: &Cache, numbers: std::ops::Range<usize>) -> usize {
    numbers.filter(|n| cache.has(number(*n), 1)).count()
}

/// The queues and counts of a shard agree with its content.
fn check(cache: &Cache) {
    let shard = cache.shard(0).read();
    let bytes = |queue: &VecDeque<u64>| queue.iter().map(|n| shard.items[n].frame.bytes()).sum::<usize>();
    assert_eq!(shard.items.len(), shard.probation.len() + shard.order.len());
    assert_eq!(shard.probation_bytes, bytes(&shard.probation));
    assert_eq!(shard.bytes, shard.probation_bytes + bytes(&shard.order));
    assert!(shard.bytes <= cache.limit && shard.left.len() <= shard.left_order.len());
    assert!(shard.left_order.len() <= 2 * SHARD_BLOCKS);
}

#[test]
fn a_scan_leaves_what_is_used_again() {
    let cache = cache();
    for n in 0..32 {
        cache.insert(number(n), frame(1));
    }
    // Used again while they are there.
    (0..32).for_each(|n| assert!(cache.get(number(n), 0).is_some()));
    for n in 100..1100 {
        cache.insert(number(n), frame(1));
        check(&cache);
    }
    assert_eq!(held(&cache, 0..32), 32);
    assert_eq!(held(&cache, 100..1100), SHARD_BLOCKS - 32);
}

#[test]
fn what_comes_back_soon_after_it_left_stays() {
    let cache = cache();
    (0..SHARD_BLOCKS + 20).for_each(|n| cache.insert(number(n), frame(1)));
    assert_eq!(held(&cache, 0..20), 0);
    (0..20).for_each(|n| cache.insert(number(n), frame(1)));
    (1000..2000).for_each(|n| cache.insert(number(n), frame(1)));
    assert_eq!(held(&cache, 0..20), 20);
    check(&cache);
}

#[test]
fn another_working_set_takes_the_place_of_the_old_one() {
    let cache = cache();
    for set in [0, 1000] {
        // Three rounds, as of a database: each frame is missed, or hit.
        for n in (0..3).flat_map(|_| set..set + 48) {
            if cache.get(number(n), 0).is_none() {
                cache.insert(number(n), frame(1));
            }
        }
        assert_eq!(held(&cache, set..set + 48), 48, "set {set}");
        check(&cache);
    }
}

#[test]
fn frames_that_were_read_ahead_go_first_however_often_they_are_used() {
    let cache = cache();
    (0..32).for_each(|n| cache.insert(number(n), frame(1)));
    (0..32).for_each(|n| assert!(cache.get(number(n), 0).is_some()));
    for n in 100..600 {
        cache.insert_ahead(number(n), frame(1), false);
        (0..3).for_each(|_| assert!(cache.get(number(n), 0).is_some()));
    }
    assert_eq!(held(&cache, 0..32), 32);
    check(&cache);
}

#[test]
fn a_mark_is_met_once_and_only_by_a_use() {
    let cache = cache();
    cache.insert_ahead(number(1), frame(2), true);
    assert!(cache.peek(number(1), 1).is_some() && cache.has(number(1), 0b11));
    assert!(cache.get(number(1), 1).unwrap().marked);
    assert!(!cache.get(number(1), 1).unwrap().marked);
    // A frame that was there before begins a window, too.
    cache.insert_ahead(number(1), frame(2), true);
    assert!(cache.get(number(1), 0).unwrap().marked);
}

#[test]
fn blocks_of_a_frame_become_the_whole_and_never_less() {
    let cache = cache();
    let get = |index| cache.get(number(3), index).map(|hit| hit.frame.bytes() / BLOCK);
    cache.insert(number(3), front(2));
    assert_eq!((get(1), get(2)), (Some(2), None));
    cache.insert(number(3), front(8));
    cache.insert(number(3), front(1));
    assert_eq!(get(7), Some(8));
    check(&cache);
    // Cleaning has left out dead blocks since.
    cache.insert(number(3), frame(4));
    assert_eq!((get(3), get(4)), (Some(4), None));
    check(&cache);
}

#[test]
fn a_cache_without_room_holds_nothing() {
    let cache = Cache::new(0);
    cache.insert(number(1), frame(1));
    cache.insert_ahead(number(2), frame(8), true);
    assert_eq!((held(&cache, 0..3), cache.probation_bytes()), (0, 0));
    check(&cache);
}
