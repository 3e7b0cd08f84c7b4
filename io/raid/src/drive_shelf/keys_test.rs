use super::*;
use crate::drive_shelf::tests::{call, now};
use crate::{Consent, FormatOptions, JournalPos, MemDrive, SegmentId, Shelf, Superblock};
use rig::drive::{Intercepted, Request};
use std::sync::atomic::{AtomicI64, Ordering};

const ARRAY: u128 = 7;
const TEXT: &[u8] = b"only the owner can read this";
const OLD: [u8; KEY_BYTES] = [1; KEY_BYTES];
const NEW: [u8; KEY_BYTES] = [2; KEY_BYTES];

fn mem(count: usize) -> Vec<Arc<MemDrive>> {
    (0..count).map(|index| MemDrive::new(format!("mem{index}"), 16 << 20)).collect()
}

fn drives(mem: &[Arc<MemDrive>]) -> Vec<Arc<dyn Drive>> {
    mem.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect()
}

fn sealing() -> (DataKey, Envelope) {
    let key = DataKey::new([9; KEY_BYTES]);
    let envelope = Envelope::wrap(ARRAY, &key, KeySource::File, &OLD, [1; 12]);
    (key, envelope)
}

fn format(mem: &[Arc<MemDrive>]) -> Arc<DriveShelf> {
    let opening = Opening { salt: 1, key: Some(sealing()) };
    let options = FormatOptions { array: ARRAY, opening, ..FormatOptions::default() };
    now(DriveShelf::format(drives(mem), options)).unwrap()
}

/// Opens with the envelope that this key opens.
fn open(mem: &[Arc<MemDrive>], salt: u64, with: &[u8; KEY_BYTES]) -> Result<Arc<DriveShelf>> {
    let envelopes = now(DriveShelf::envelopes(&drives(mem)))?.expect("the array is encrypted");
    let opened = envelopes.into_iter().find_map(|envelope| Some((envelope.open(with)?, envelope)));
    let key = Some(opened.ok_or_else(|| Error::Unusable("wrong key".into()))?);
    now(DriveShelf::open(drives(mem), Opening { salt, key }))
}

fn why<T>(outcome: Result<T>) -> String {
    outcome.err().expect("it fails").to_string()
}

fn write(shelf: &DriveShelf, segment: u32, text: &[u8]) {
    let stripe = shelf.layout().stripe_bytes as usize;
    let mut buffer = AlignedBuf::zeroed(stripe);
    buffer.chunks_mut(text.len()).for_each(|chunk| chunk.copy_from_slice(&text[..chunk.len()]));
    call(|done| shelf.write(SegmentId(segment), 0, Arc::new(buffer), done)).unwrap();
    call(|done| shelf.sync(done)).unwrap();
}

/// Text in the journal, a segment and the superblock.
fn fill(shelf: &DriveShelf) {
    let mut body = AlignedBuf::zeroed(ALIGN);
    body[..TEXT.len()].copy_from_slice(TEXT);
    let body = vec![Arc::new(body).share(0..ALIGN)];
    call(|done| shelf.append(Bytes::from_static(TEXT), body, done)).unwrap();
    write(shelf, 0, TEXT);
    let superblock = Superblock { journal_from: JournalPos(1), payload: Bytes::from_static(TEXT) };
    call(|done| shelf.write_superblock(superblock, done)).unwrap();
}

fn check(shelf: &DriveShelf) {
    assert_eq!(shelf.superblock().unwrap().payload, TEXT);
    let batches = call(|done| shelf.recover(JournalPos(1), done)).unwrap();
    assert_eq!((&batches[0].head[..], &batches[0].body[..TEXT.len()]), (TEXT, TEXT));
    let bytes = call(|done| shelf.read(SegmentId(0), 3, TEXT.len() as u32 - 3, done)).unwrap();
    assert_eq!(bytes, TEXT[3..]);
}

fn shows(mem: &[Arc<MemDrive>], text: &[u8]) -> bool {
    mem.iter().any(|drive| drive.with(|bytes| bytes.windows(text.len()).any(|window| window == text)))
}

#[test]
fn nothing_is_on_the_drives_in_clear_and_all_comes_back_with_the_key() {
    let mem = mem(5);
    fill(&format(&mem));
    assert!(!shows(&mem, TEXT) && !shows(&mem, &[9; KEY_BYTES]));
    check(&open(&mem, 2, &OLD).unwrap());
    // Any two may be missing.
    check(&open(&mem[2..], 3, &OLD).unwrap());
}

#[test]
fn without_its_key_an_array_is_not_opened_and_not_touched() {
    let mem = mem(3);
    fill(&format(&mem));
    let before: Vec<_> = mem.iter().map(|drive| drive.with(|bytes| bytes.to_vec())).collect();
    let bare = now(DriveShelf::open(drives(&mem), Opening::default()));
    assert!(why(bare).contains("encrypted"));
    assert_eq!(why(open(&mem, 2, &NEW)), "wrong key");
    let (_, envelope) = sealing();
    let key = Some((DataKey::new([8; KEY_BYTES]), envelope));
    let other = now(DriveShelf::open(drives(&mem), Opening { salt: 2, key }));
    assert!(why(other).contains("not the one of this array"));
    assert!(mem.iter().zip(&before).all(|(drive, before)| drive.with(|bytes| bytes == before)));
}

#[test]
fn the_key_that_wraps_is_changed_without_touching_data() {
    let mem = mem(4);
    fill(&format(&mem));
    let envelope = now(DriveShelf::envelopes(&drives(&mem))).unwrap().unwrap().remove(0);
    let changed =
        envelope.rewrap(&envelope.open(&OLD).unwrap(), KeySource::Kmip { id: "k".into() }, &NEW, [2; 12]);
    assert_eq!(now(DriveShelf::replace_envelope(&drives(&mem[1..]), &changed)), Ok(vec![0]));
    // One drive was not there. Both keys open, and the old one still works.
    check(&open(&mem, 2, &OLD).unwrap());
    check(&open(&mem, 3, &NEW).unwrap());
    assert_eq!(why(open(&mem, 4, &OLD)), "wrong key", "the newest is everywhere now");
    check(&open(&mem[..2], 4, &NEW).unwrap());
}

#[test]
fn after_a_crypto_erase_no_key_opens() {
    let mem = mem(3);
    fill(&format(&mem));
    let envelope = now(DriveShelf::envelopes(&drives(&mem))).unwrap().unwrap().remove(0);
    let page = envelope.encode();
    now(DriveShelf::replace_envelope(&drives(&mem), &envelope.erased())).unwrap();
    assert!(!shows(&mem, &page[2048..2124]), "the wrapped key is gone");
    let again = now(DriveShelf::open(drives(&mem), Opening { salt: 2, key: Some(sealing()) }));
    assert!(why(again).contains("crypto-erase"));
}

#[test]
fn an_envelope_that_rots_comes_from_another_drive_and_a_new_drive_gets_it() {
    let mem = mem(3);
    fill(&format(&mem));
    mem[1].with(|bytes| bytes[4096..3 * 4096].fill(5));
    let shelf = open(&mem, 2, &OLD).unwrap();
    assert_eq!(call(|done| shelf.recover(JournalPos(1), done)).unwrap().len(), 1);
    let added = MemDrive::new("added", 16 << 20);
    now(shelf.add_drive(added.clone(), &Consent::default())).unwrap();
    drop(shelf);
    let page = sealing().1.encode();
    for drive in [&mem[1], &added] {
        assert!(drive.with(|bytes| bytes[4096..8192] == page[..] && bytes[8192..12288] == page[..]));
    }
}

#[test]
fn what_fails_to_authenticate_is_rot_and_is_repaired() {
    let mem = mem(5);
    let shelf = format(&mem);
    fill(&shelf);
    let at = shelf.plan.granules_at() as usize;
    let right = mem[0].with(|bytes| bytes[at..at + ALIGN].to_vec());
    for drive in &mem[..2] {
        drive.with(|bytes| bytes[at + 100] ^= 1);
    }
    check_read(&shelf);
    let report = now(shelf.scrub());
    assert_eq!((report.lost, report.repaired > 0), (0, true));
    assert_eq!(mem[0].with(|bytes| bytes[at..at + ALIGN].to_vec()), right);
}

fn check_read(shelf: &DriveShelf) {
    let len = shelf.layout().stripe_bytes;
    let bytes = call(|done| shelf.read(SegmentId(0), 0, len, done)).unwrap();
    assert!(bytes.chunks(TEXT.len()).all(|chunk| chunk == &TEXT[..chunk.len()]));
}

/// An array that is started with one drive, and then with the others, has two owners of the same epoch, which give the
/// same generations.
#[test]
fn owners_of_the_same_epoch_never_seal_alike() {
    let mem = mem(3);
    drop(format(&mem));
    let sector = |mem: &[Arc<MemDrive>], salt, text: &[u8]| {
        let shelf = open(mem, salt, &OLD).unwrap();
        call(|done| shelf.recover(JournalPos(1), done)).unwrap();
        write(&shelf, 0, text);
        let generation = shelf.segments.lock().list[0].entry.as_ref().unwrap().generation;
        let at = shelf.plan.granules_at() as usize;
        (generation, mem[0].with(|bytes| bytes[at..at + ALIGN].to_vec()))
    };
    let (one, exclusively) = sector(&mem[..1], 20, &[0; 32]);
    let (two, others) = sector(&mem[1..], 21, &[0; 32]);
    assert_eq!(one, two, "or this shows nothing");
    assert_ne!(exclusively[..64], others[..64]);
}

#[test]
#[should_panic(expected = "is written once")]
fn a_stripe_is_not_sealed_twice() {
    let mem = mem(3);
    let shelf = format(&mem);
    write(&shelf, 0, TEXT);
    write(&shelf, 0, b"something else");
}

/// Drives that take this many more writes, all of them together; the next one is torn, and all after it fail.
fn fused(mem: &[Arc<MemDrive>], left: &Arc<AtomicI64>) -> Vec<Arc<dyn Drive>> {
    let fused = |drive: &Arc<MemDrive>| {
        let left = left.clone();
        let fuse = move |drive: &Arc<MemDrive>, request| match request {
            Request::Write { offset, pieces, done, durable } => match left.fetch_sub(1, Ordering::SeqCst) {
                1.. => drive.write(offset, pieces, durable, done),
                left => {
                    if left == 0 {
                        let torn = &pieces[0][..512];
                        drive.with(|bytes| bytes[offset as usize..][..torn.len()].copy_from_slice(torn));
                    }
                    done(Err(Error::Drive { what: "the power is gone".into() }));
                }
            },
            request => request.submit(&**drive),
        };
        Arc::new(Intercepted::new(drive.clone(), fuse)) as Arc<dyn Drive>
    };
    mem.iter().map(fused).collect()
}

#[test]
fn a_key_changed_while_the_shelf_serves_is_the_old_or_the_new_one_after_a_crash_at_any_write() {
    let (mut old, mut new, mut both) = (0, 0, 0);
    // Two places on each of four drives.
    for writes in 0..=8 {
        let mem = mem(4);
        fill(&format(&mem));
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let key = Some(sealing());
        let shelf = now(DriveShelf::open(fused(&mem, &left), Opening { salt: 2, key })).unwrap();
        call(|done| shelf.recover(JournalPos(1), done)).unwrap();
        left.store(writes, Ordering::SeqCst);
        let changed = now(shelf.rewrap(KeySource::Kmip { id: "k".into() }, &NEW, [2; 12]));
        drop(shelf);
        let envelopes = now(DriveShelf::envelopes(&drives(&mem))).unwrap().unwrap();
        let opens = |with| envelopes.iter().any(|envelope| envelope.open(with).is_some());
        let (by_old, by_new) = (opens(&OLD), opens(&NEW));
        assert!(by_old || by_new, "no key opens after {writes} writes");
        (old, new, both) =
            (old + i32::from(by_old), new + i32::from(by_new), both + i32::from(by_old && by_new));
        assert!(by_new || changed.is_err(), "{changed:?} after {writes} writes");
        if by_new {
            check(&open(&mem, 3, &NEW).unwrap());
            assert_eq!(why(open(&mem, 4, &OLD)), "wrong key", "the newest is everywhere now");
        } else {
            check(&open(&mem, 3, &OLD).unwrap());
        }
    }
    assert!(old > 1 && new > 1 && both > 1, "{old} {new} {both}: or this shows nothing");
}

#[test]
fn a_drive_that_is_not_there_is_named_and_gets_the_new_key_when_it_is_back() {
    let mem = mem(4);
    fill(&format(&mem));
    let shelf = open(&mem[1..], 2, &OLD).unwrap();
    call(|done| shelf.recover(JournalPos(1), done)).unwrap();
    assert_eq!(now(shelf.rewrap(KeySource::File, &NEW, [2; 12])), Ok(vec![0]));
    assert_eq!(shelf.envelope().unwrap().sequence, 2);
    let added = MemDrive::new("added", 16 << 20);
    now(shelf.add_drive(added.clone(), &Consent::default())).unwrap();
    let page = shelf.envelope().unwrap().encode();
    assert!(added.with(|bytes| bytes[4096..8192] == page[..]));
    drop(shelf);
    check(&open(&mem, 3, &NEW).unwrap());
    assert!(mem[0].with(|bytes| bytes[4096..8192] == page[..]));
    let options = FormatOptions { array: ARRAY, ..FormatOptions::default() };
    let clear = now(DriveShelf::format(drives(&self::mem(3)), options)).unwrap();
    assert!(why(now(clear.rewrap(KeySource::File, &NEW, [2; 12]))).contains("not encrypted"));
}

/// The page in both places.
fn places(drive: &MemDrive) -> [Vec<u8>; 2] {
    drive.with(|bytes| PLACES.map(|at| bytes[at as usize..][..ALIGN].to_vec()))
}

#[test]
fn a_drive_that_is_evacuated_keeps_no_wrapped_key() {
    let mem = mem(5);
    let shelf = format(&mem);
    write(&shelf, 0, TEXT);
    now(shelf.evacuate(1, 2)).unwrap();
    now(shelf.settle());
    assert!(shelf.member(1).is_none(), "it is no member any more");
    assert!(places(&mem[1]).iter().flatten().all(|byte| *byte == 0));
    assert!(shelf.status().unwiped_drives.is_empty());
}

/// It took no more writes, failed and was replaced. The wipe after that reaches it, or does not.
#[test]
fn a_drive_that_was_replaced_is_wiped_when_it_can_be_reached_and_named_otherwise() {
    for reachable in [true, false] {
        let mem = mem(4);
        drop(format(&mem));
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let mut given = drives(&mem);
        given[2] = fused(&mem[2..3], &left).remove(0);
        let shelf = now(DriveShelf::open(given, Opening { salt: 2, key: Some(sealing()) })).unwrap();
        call(|done| shelf.recover(JournalPos(1), done)).unwrap();
        left.store(-1, Ordering::SeqCst);
        write(&shelf, 0, TEXT);
        assert!(shelf.member(2).is_none(), "it has failed");
        if reachable {
            left.store(i64::MAX, Ordering::SeqCst);
        }
        now(shelf.add_drive(MemDrive::new("new", 16 << 20), &crate::Consent::default())).unwrap();
        now(shelf.settle());
        let wiped = places(&mem[2]).iter().flatten().all(|byte| *byte == 0);
        let named = shelf.status().unwiped_drives;
        assert_eq!((wiped, named.len()), (reachable, usize::from(!reachable)), "{named:?}");
        assert!(named.iter().all(|name| name.contains("slot 2") && name.contains("mem2")), "{named:?}");
    }
}

/// Out, but it takes pages: the old key opens nothing of it.
#[test]
fn a_drive_that_is_out_gets_the_new_key_when_it_takes_it() {
    let mem = mem(4);
    drop(format(&mem));
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let mut given = drives(&mem);
    given[2] = fused(&mem[2..3], &left).remove(0);
    let shelf = now(DriveShelf::open(given, Opening { salt: 2, key: Some(sealing()) })).unwrap();
    call(|done| shelf.recover(JournalPos(1), done)).unwrap();
    left.store(-1, Ordering::SeqCst);
    write(&shelf, 0, TEXT);
    assert_eq!(now(shelf.rewrap(KeySource::File, &NEW, [2; 12])), Ok(vec![2]), "it takes nothing");
    left.store(i64::MAX, Ordering::SeqCst);
    assert_eq!(now(shelf.rewrap(KeySource::File, &NEW, [3; 12])), Ok(vec![]));
    assert_eq!(places(&mem[2]), places(&mem[0]));
}

#[test]
fn an_erase_reaches_former_members_that_are_given() {
    let mem = mem(4);
    drop(format(&mem));
    // Away, replaced, and its label is lost, too.
    let shelf = open(&mem[1..], 2, &OLD).unwrap();
    call(|done| shelf.recover(JournalPos(1), done)).unwrap();
    now(shelf.add_drive(MemDrive::new("new", 16 << 20), &crate::Consent::default())).unwrap();
    now(shelf.settle());
    assert_eq!(shelf.status().unwiped_drives.len(), 1, "it could not be wiped");
    drop(shelf);
    mem[0].with(|bytes| bytes[..ALIGN].fill(0));
    let newest = now(DriveShelf::envelopes(&drives(&mem))).unwrap().unwrap().remove(0);
    now(DriveShelf::replace_envelope(&drives(&mem), &newest.erased())).unwrap();
    let array = ARRAY;
    let open_anywhere = mem
        .iter()
        .flat_map(|drive| places(drive))
        .any(|page| Envelope::decode(&page, array).is_some_and(|envelope| envelope.open(&OLD).is_some()));
    assert!(!open_anywhere);
}
