use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::Context;

const WINDOW_MAX: u64 = 128;

fn miss(streams: &mut Streams, volume: u32, read: Range<u64>) -> Option<Range<u64>> {
    streams.note(volume, read, false, WINDOW_MAX, &tunables(8))
}

fn tunables(streams: usize) -> Tunables {
    Tunables { read_ahead_streams: streams, ..Tunables::default() }
}

#[test]
fn the_third_read_in_order_begins_a_window_and_each_mark_one_twice_as_long() {
    let mut streams = Streams::default();
    assert_eq!(miss(&mut streams, 1, 100..116), None);
    assert_eq!(miss(&mut streams, 1, 116..132), None);
    assert_eq!(miss(&mut streams, 1, 132..148), Some(148..180));
    // What is being read ahead is no reason to read more.
    assert_eq!(miss(&mut streams, 1, 148..164), None);
    let mut mark = |read: Range<u64>| streams.note(1, read, true, WINDOW_MAX, &tunables(8));
    assert_eq!(mark(148..164), Some(180..244));
    assert_eq!(mark(180..196), Some(244..372));
    assert_eq!(mark(244..260), Some(372..500));
    // A host that is faster than the drives gets the next window at the end of the last one.
    assert_eq!(miss(&mut streams, 1, 490..506), Some(506..634));
}

#[test]
fn a_mark_begins_the_next_window_although_later_reads_were_seen_before_it() {
    let mut streams = Streams::default();
    let mut from = 0;
    while streams.0.back().is_none_or(|stream| stream.window < WINDOW_MAX) {
        miss(&mut streams, 1, from..from + 16);
        from += 16;
    }
    // Eight reads wait for the window, which has a mark at its front.
    let (window, end) = (from, streams.0[0].ahead);
    assert_eq!(end - window, WINDOW_MAX);
    (0..8).for_each(|n| assert_eq!(miss(&mut streams, 1, window + n * 16..window + n * 16 + 16), None));
    let mut mark = |from: u64| streams.note(1, from..from + 16, true, WINDOW_MAX, &tunables(8));
    assert_eq!(mark(window), Some(end..end + WINDOW_MAX));
    // A host that has met several marks gets one window more than it has begun.
    assert_eq!(mark(window + 16), Some(end + WINDOW_MAX..end + 2 * WINDOW_MAX));
    assert_eq!(mark(window + 32), None);
    assert_eq!(streams.0.len(), 1);
}

#[test]
fn a_window_that_was_cut_short_is_followed_by_one_as_soon_as_the_host_is_there() {
    let mut streams = Streams::default();
    (0..2).for_each(|n| assert_eq!(miss(&mut streams, 1, n * 16..n * 16 + 16), None));
    assert_eq!(miss(&mut streams, 1, 32..48), Some(48..80));
    streams.shorten(1, 80, 56);
    streams.shorten(2, 80, 10);
    assert_eq!(miss(&mut streams, 1, 48..64), Some(64..128));
    streams.shorten(1, 128, 64);
    assert_eq!(miss(&mut streams, 1, 64..80), Some(80..208));
}

#[test]
fn reads_at_random_are_no_stream() {
    let mut streams = Streams::default();
    for n in 0..1000 {
        assert_eq!(miss(&mut streams, 1, n * 7919 % 65536 * 3..n * 7919 % 65536 * 3 + 1), None);
        assert!(streams.0.len() <= 8);
    }
}

#[test]
fn reads_that_overtake_each_other_are_in_order_and_other_volumes_are_not() {
    let mut streams = Streams::default();
    assert_eq!(miss(&mut streams, 1, 0..16), None);
    assert_eq!(miss(&mut streams, 2, 16..32), None);
    assert_eq!(miss(&mut streams, 1, 32..48), None);
    assert_eq!(miss(&mut streams, 1, 16..32), None);
    assert_eq!(miss(&mut streams, 1, 48..64), Some(64..96));
}

#[test]
fn streams_go_on_beside_random_reads_and_are_forgotten_when_they_end() {
    let mut streams = Streams::default();
    for n in 0..3 {
        miss(&mut streams, 1, n * 16..n * 16 + 16);
    }
    (0..100)
        .for_each(|n| assert_eq!(miss(&mut streams, 1, 1_000_000 + n * 1000..1_000_001 + n * 1000), None));
    assert!(streams.note(1, 48..64, true, WINDOW_MAX, &tunables(8)).is_some());
    // Eight other streams.
    for volume in 10..18 {
        (0..3).for_each(|n| _ = miss(&mut streams, volume, n * 16..n * 16 + 16));
    }
    assert_eq!(streams.note(1, 80..96, true, WINDOW_MAX, &tunables(8)), None);
    assert_eq!(streams.0.len(), 8);
}

#[test]
fn one_stream_is_enough_and_numbers_may_be_the_largest() {
    let mut streams = Streams::default();
    for start in [0, u64::MAX - 20] {
        for n in 0..8 {
            let from = start.saturating_add(n * 4);
            streams.note(1, from..from.saturating_add(4), n % 2 == 0, 1, &tunables(1));
            assert_eq!(streams.0.len(), 1);
        }
    }
}

#[test]
fn the_number_of_reads_that_make_a_stream_is_a_tunable() {
    let eager = Tunables { read_ahead_min_reads: 1, ..Tunables::default() };
    let note = |streams: &mut Streams, read| streams.note(1, read, false, WINDOW_MAX, &eager);
    let mut streams = Streams::default();
    assert_eq!(note(&mut streams, 7..8), Some(8..40));
    assert_eq!(note(&mut streams, 8..9), None);
    assert_eq!(note(&mut streams, 500..501), Some(501..533));
}

#[test]
fn windows_are_as_large_as_there_is_memory_for() {
    let cache = Cache::new(16 << 20);
    let note = |tunables: &Tunables, in_flight| {
        let streams = ReadStreams::default();
        assert!(streams.in_flight.add(7, in_flight));
        (0..3).filter_map(|n| streams.note(tunables, &cache, 1, n * 64..n * 64 + 64, false)).last()
    };
    let measured = Tunables::default();
    assert_eq!(note(&measured, 0), Some(192..224));
    assert_eq!(note(&measured, measured.read_ahead_in_flight_bytes - 3 * BLOCK), Some(192..195));
    assert_eq!(note(&measured, measured.read_ahead_in_flight_bytes), None);
    // The stream has been followed since.
    let (streams, full) = (ReadStreams::default(), measured.read_ahead_in_flight_bytes);
    assert!(streams.in_flight.add(7, full));
    let read = |n: u64| streams.note(&measured, &cache, 1, n * 64..n * 64 + 64, false);
    (0..8).for_each(|n| assert_eq!(read(n), None));
    streams.in_flight.remove([7].into_iter(), full);
    assert_eq!(read(8), Some(576..608));
    assert_eq!(note(&Tunables { read_ahead_window_bytes: 2 * BLOCK, ..measured }, 0), Some(192..194));
    assert_eq!(note(&Tunables { read_ahead_window_bytes: BLOCK - 1, ..measured }, 0), None);
    let small = Cache::new(0);
    assert_eq!(ReadStreams::default().note(&measured, &small, 1, 0..1, true), None);
}

#[test]
fn who_waits_for_a_frame_is_woken_when_it_is_not_in_flight_any_more() {
    let in_flight = InFlight::default();
    assert!(in_flight.add(1, 100) && in_flight.add(2, 50) && !in_flight.add(1, 100));
    assert_eq!(in_flight.bytes.load(Ordering::Relaxed), 150);
    let mut context = Context::from_waker(Waker::noop());
    let (mut one, mut other) = (pin!(in_flight.wait_until_read(1)), pin!(in_flight.wait_until_read(3)));
    assert_eq!(other.as_mut().poll(&mut context), Poll::Ready(()));
    assert_eq!(one.as_mut().poll(&mut context), Poll::Pending);
    in_flight.remove([1, 2].into_iter(), 150);
    assert_eq!(one.as_mut().poll(&mut context), Poll::Ready(()));
    assert_eq!(in_flight.bytes.load(Ordering::Relaxed), 0);
}
