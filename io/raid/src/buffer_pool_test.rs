use super::*;
use crate::ALIGN;

fn filled(spares: &BufferPool, len: usize, byte: u8) -> Bytes {
    let mut buffer = spares.take(len);
    buffer.fill(byte);
    spares.share(buffer)
}

#[test]
fn a_buffer_is_filled_again_once_nobody_reads_it() {
    let spares = BufferPool::default();
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
fn few_and_small_ones_are_kept() {
    let spares = BufferPool::default();
    drop(filled(&spares, MAX_KEPT_BUFFER_BYTES + 1, 1));
    assert!(spares.0.lock().is_empty());
    let read: Vec<Bytes> = (0..2 * MAX_KEPT_BUFFERS).map(|_| filled(&spares, ALIGN, 2)).collect();
    assert_eq!((spares.0.lock().len(), read.len()), (MAX_KEPT_BUFFERS, 2 * MAX_KEPT_BUFFERS));
}
