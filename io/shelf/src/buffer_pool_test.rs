use super::*;
use crate::ALIGN;

fn filled(spares: &BufferPool, len: usize, byte: u8) -> Bytes {
    let mut buffer = spares.take(len);
    buffer.fill(byte);
    spares.share(buffer)
}

#[test]
fn a_buffer_is_filled_again_once_nobody_reads_it() {
    let spares = BufferPool::new(4);
    let first = filled(&spares, 2 * ALIGN, 1);
    let part = first.slice(ALIGN..);
    let memory = first.as_ptr();
    drop(first);
    let second = filled(&spares, 2 * ALIGN, 2);
    assert!(
        second.as_ptr() != memory && part.iter().all(|byte| *byte == 1),
        "a part of the first is still read"
    );
    drop(part);
    let third = filled(&spares, ALIGN, 3);
    assert_eq!((third.as_ptr(), third.len()), (memory, ALIGN), "a shorter content has room in it");
    assert!(second.iter().all(|byte| *byte == 2));
    drop(third);
    assert!(filled(&spares, 3 * ALIGN, 4).as_ptr() != memory, "a longer one has not");
}

#[test]
fn few_buffers_and_few_bytes_are_kept() {
    let spares = BufferPool::new(4);
    let read: Vec<Bytes> = (0..9).map(|_| filled(&spares, ALIGN, 2)).collect();
    assert_eq!((spares.kept.lock().len(), read.len()), (4, 9));
    let large = filled(&spares, KEPT_BYTES_MAX, 1);
    assert_eq!(spares.kept.lock().len(), 1, "it is all that is kept");
    let memory = large.as_ptr();
    drop(large);
    assert_eq!(filled(&spares, KEPT_BYTES_MAX, 2).as_ptr(), memory);
    drop(filled(&spares, KEPT_BYTES_MAX + 1, 1));
    assert!(spares.kept.lock().is_empty());
    drop(filled(&BufferPool::new(0), ALIGN, 1));
}
