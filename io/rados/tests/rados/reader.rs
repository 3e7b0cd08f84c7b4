//! Segments as a process reads them that does not own the store.

use super::{Ground, call, format, model, now, opening};
use media::encryption::DataKey;
use rados::Store;
use rados::objects::Objects;
use shelf::pool::KEY_BYTES;
use shelf::{AlignedBuf, Error, JournalPos, SegmentId, SegmentReader, Shelf, Writing};
use std::sync::Arc;

const SEGMENT: SegmentId = SegmentId(3);

/// Writes a whole segment; returns its bytes.
fn write(store: &Store, seed: u8) -> Vec<u8> {
    let layout = store.layout();
    let payload: Vec<u8> = (0..layout.segment_bytes).map(|at| (at / 7) as u8 ^ seed).collect();
    for (at, stripe) in (0..).zip(payload.chunks(layout.stripe_bytes as usize)) {
        let mut stripes = AlignedBuf::zeroed(stripe.len());
        stripes.copy_from_slice(stripe);
        call(|done| store.write(SEGMENT, at * layout.stripe_bytes, Arc::new(stripes), done)).unwrap();
    }
    payload
}

fn open(client: Arc<dyn Objects>, key: Option<u8>) -> shelf::Result<rados::Reader> {
    now(rados::Reader::open(client, (5, 0), key.map(|key| DataKey::new([key; KEY_BYTES]))))
}

fn read(reader: &rados::Reader, writing: Writing, range: (u32, u32)) -> shelf::Result<Vec<u8>> {
    call(|done| reader.read(SEGMENT, writing, range, done)).map(|bytes| bytes.to_vec())
}

/// Another process reads the writing that it names, or nothing.
pub fn writings(fresh: fn() -> Ground) {
    for encrypted in [false, true] {
        let ground = fresh();
        let store = format(ground(), encrypted);
        let reader = open(ground(), encrypted.then_some(7)).unwrap();
        assert_eq!(store.source(SEGMENT, 0, 1), None, "it does not exist");
        let first = write(&store, 1);
        let end = store.layout().segment_bytes;
        let source = store.source(SEGMENT, 0, end).unwrap();
        assert_eq!(source.opening, 1);
        for (offset, len) in [(0, end), (1, 1), (4079, 2), (8159, 8162), (end - 1, 1)] {
            let wanted = &first[offset as usize..(offset + len) as usize];
            assert_eq!(read(&reader, source.writing, (offset, len)).unwrap(), wanted);
        }
        let Writing { generation, salt } = source.writing;
        for other in [Writing { generation: generation + 1, salt }, Writing { generation, salt: salt + 1 }] {
            assert!(matches!(read(&reader, other, (0, 9)), Err(Error::Corrupt { .. })));
        }
        for (offset, len) in [(0, 0), (0, end + 1), (end, 1), (u32::MAX, u32::MAX), (1, u32::MAX)] {
            assert!(matches!(read(&reader, source.writing, (offset, len)), Err(Error::Corrupt { .. })));
        }
        let absent = call(|done| reader.read(SegmentId(u32::MAX), source.writing, (0, 1), done));
        assert!(matches!(absent, Err(Error::Corrupt { .. })));

        // Freed, and written again.
        store.discard(SEGMENT);
        assert_eq!(store.source(SEGMENT, 0, 1), None);
        // It is removed in the background.
        match read(&reader, source.writing, (0, 9)) {
            Ok(found) => assert_eq!(found, first[..9]),
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        }
        let second = write(&store, 2);
        let newer = store.source(SEGMENT, 0, end).unwrap();
        assert_ne!(newer.writing, source.writing);
        assert!(matches!(read(&reader, source.writing, (0, end)), Err(Error::Corrupt { .. })));
        assert_eq!(read(&reader, newer.writing, (0, end)).unwrap(), second);

        // The next owner knows the writing when it has read the segment.
        let next = now(Store::open(ground(), opening(2, encrypted))).unwrap();
        call(|done| next.recover(JournalPos(1), done)).unwrap();
        assert_eq!(next.source(SEGMENT, 0, end), None);
        let stripe = next.layout().stripe_bytes;
        call(|done| next.read(SEGMENT, 0, stripe, done)).unwrap();
        let known = next.source(SEGMENT, 0, stripe).unwrap();
        assert_eq!((known.opening, known.writing), (2, newer.writing));
        assert_eq!(next.source(SEGMENT, 0, stripe + 1), None, "of the next part it does not");
        assert_eq!(read(&reader, known.writing, (0, end)).unwrap(), second);
    }
}

#[test]
fn another_process_reads_the_writing_that_it_names_or_nothing() {
    writings(model);
}

#[test]
fn a_reader_needs_the_key_and_changes_nothing() {
    let ground = model();
    let store = format(ground(), true);
    for key in [None, Some(8)] {
        assert!(matches!(open(ground(), key), Err(Error::Unusable(_))), "{key:?}");
    }
    open(ground(), Some(7)).unwrap();
    assert!(matches!(open(model()(), None), Err(Error::Unusable(_))), "there is no store");
    // The owner continues.
    write(&store, 3);
    call(|done| store.append(vec![1; 100].into(), Vec::new(), done)).unwrap();
}
