use super::*;
use crate::drive_shelf::tests::{call, mem, now};
use crate::limits::Limits;
use crate::{AlignedBuf, Drive, FormatOptions, MemDrive, SegmentId, Shelf};
use rig::drive::{Intercepted, Request};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Held = Arc<Mutex<Vec<(Arc<MemDrive>, Request)>>>;

/// How drives answer discards that are not held, and how deep such answers were nested.
#[derive(Default)]
struct AtOnce {
    is_set: AtomicBool,
    depth: AtomicUsize,
    deepest: AtomicUsize,
}

/// A shelf of four drives that hold discards until the test releases them.
fn shelf() -> (Arc<DriveShelf>, Held) {
    shelf_with(&Arc::default())
}

fn shelf_with(at_once: &Arc<AtOnce>) -> (Arc<DriveShelf>, Held) {
    let held = Held::default();
    let drive = |drive: Arc<MemDrive>| {
        let (held, at_once) = (held.clone(), at_once.clone());
        let intercept = move |drive: &Arc<MemDrive>, request| match request {
            Request::Discard { .. } if at_once.is_set.load(Ordering::SeqCst) => {
                let depth = at_once.depth.fetch_add(1, Ordering::SeqCst) + 1;
                at_once.deepest.fetch_max(depth, Ordering::SeqCst);
                request.submit(&**drive);
                at_once.depth.fetch_sub(1, Ordering::SeqCst);
            }
            Request::Discard { .. } => held.lock().push((drive.clone(), request)),
            other => other.submit(&**drive),
        };
        Arc::new(Intercepted::new(drive, intercept)) as Arc<dyn Drive>
    };
    let drives: Vec<_> = mem(4).into_iter().map(drive).collect();
    let format = DriveShelf::format(drives, FormatOptions { array: 7, ..FormatOptions::default() });
    let mut format = Box::pin(format);
    // Formatting discards, too.
    let shelf = loop {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match format.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(shelf) => break shelf.unwrap(),
            std::task::Poll::Pending => drop(release(&held)),
        }
    };
    (shelf, held)
}

/// Carries out the discards that are under way now; returns how many.
fn release(held: &Held) -> usize {
    let requests = std::mem::take(&mut *held.lock());
    let count = requests.len();
    requests.into_iter().for_each(|(drive, request)| request.submit(&*drive));
    count
}

fn write(shelf: &DriveShelf, segment: u32, byte: u8) -> crate::Wait<()> {
    let mut bytes = AlignedBuf::zeroed(shelf.layout().segment_bytes as usize);
    bytes.fill(byte);
    let (done, written) = crate::wait();
    shelf.write(SegmentId(segment), 0, Arc::new(bytes), done);
    written
}

fn check(shelf: &DriveShelf, segment: u32, byte: u8) {
    let read = call(|done| shelf.read(SegmentId(segment), 0, shelf.layout().segment_bytes, done)).unwrap();
    assert!(read.iter().all(|found| *found == byte), "segment {segment}");
}

fn is_done(wait: &mut crate::Wait<()>) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(wait).poll(&mut cx).is_ready()
}

#[test]
fn many_segments_are_discarded_few_at_a_time_and_count_as_room_at_once() {
    let (shelf, held) = shelf();
    let most = Limits::default().discarded_segments_max;
    let count = most + 20;
    let room = shelf.room();
    (0..count).for_each(|segment| now(write(&shelf, segment, 1)).unwrap());
    (0..count).for_each(|segment| shelf.discard(SegmentId(segment)));
    assert_eq!(held.lock().len(), 4 * most as usize, "of each drive a column of each segment");
    assert_eq!(shelf.room(), room, "what is to be discarded is room already");
    let mut discarded = 0;
    while let count @ 1.. = release(&held) {
        assert!(count <= 4 * most as usize);
        discarded += count;
    }
    assert_eq!(discarded, 4 * count as usize);
    assert_eq!((shelf.room(), shelf.status().segments), (room, 0));
}

#[test]
fn a_segment_that_is_to_be_discarded_is_discarded_before_it_is_written_again() {
    let (shelf, held) = shelf();
    let count = Limits::default().discarded_segments_max + 20;
    (0..count).for_each(|segment| now(write(&shelf, segment, 1)).unwrap());
    (0..count).for_each(|segment| shelf.discard(SegmentId(segment)));
    // The last one waits its turn, the first one's discard is under way.
    let mut written: Vec<_> = [count - 1, 0].map(|segment| write(&shelf, segment, 2)).into();
    assert!(written.iter_mut().all(|it| !is_done(it)), "a late discard would destroy it");
    // Not for all of them: writes of hosts come between.
    assert!(release(&held) > 0);
    assert!(written.iter_mut().all(is_done));
    while release(&held) > 0 {}
    [count - 1, 0].into_iter().for_each(|segment| check(&shelf, segment, 2));
    assert_eq!(shelf.status().segments, 2);
}

#[test]
fn discards_that_complete_at_once_do_not_nest() {
    let at_once = Arc::new(AtOnce::default());
    let (shelf, held) = shelf_with(&at_once);
    let count = Limits::default().discarded_segments_max + 30;
    (0..count).for_each(|segment| now(write(&shelf, segment, 1)).unwrap());
    (0..count).for_each(|segment| shelf.discard(SegmentId(segment)));
    // As drives do that turn out not to discard: a large array has very many segments that wait.
    at_once.is_set.store(true, Ordering::SeqCst);
    release(&held);
    assert_eq!(shelf.status().segments, 0);
    assert_eq!(at_once.deepest.load(Ordering::SeqCst), 1);
}
