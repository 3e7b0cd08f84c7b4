//! Conformance suite: tests that an implementation keeps the [`Shelf`] contract.
//!
//! It is part of the library so that every implementation runs the same tests: crates that implement [`Shelf`] provide a
//! [`Subject`] and call [`run`]. Each check starts with a new store.

pub mod arbiter;

use crate::{
    ALIGN, AlignedBuf, Batch, Done, Error, JournalPos, Layout, Result, SegmentId, Shelf, Superblock, Wait,
    wait,
};
use bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A store under test.
pub trait Subject {
    /// Makes a new, empty store and opens it.
    ///
    /// # Errors
    /// When that fails, which fails the suite.
    fn format(&mut self) -> Result<Arc<dyn Shelf>>;

    /// Opens the store as a new owner.
    ///
    /// # Errors
    /// When that fails, which fails the suite.
    fn open(&mut self) -> Result<Arc<dyn Shelf>>;

    /// Simulates a power loss: no owner remains, and data that is not durable may be lost.
    fn lose_power(&mut self);

    /// Runs the store until an operation completes.
    ///
    /// # Errors
    /// Those of the operation.
    fn finish<T: Send + 'static>(&mut self, operation: Wait<T>) -> Result<T>;
}

/// [`Subject::finish`] for stores that complete every operation before the call returns.
///
/// # Errors
/// Those of the operation, and [`Error::Unusable`] when it has not completed.
pub fn poll_once<T>(operation: Wait<T>) -> Result<T> {
    match pin!(operation).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(Error::Unusable("the operation has not completed".into())),
    }
}

/// An error describes the first violation.
type Verdict = std::result::Result<(), String>;

/// Runs all checks.
///
/// # Errors
/// The name of the first check that failed, and how.
pub fn run(subject: &mut impl Subject) -> Verdict {
    named("sizes", sizes(subject))?;
    named("a new store is empty", new_store(subject))?;
    named("batches replay in order", replay(subject))?;
    named("superblocks", superblocks(subject))?;
    named("a superblock trims the journal", trim(subject))?;
    named("a full journal", full_journal(subject))?;
    named("segments", segments(subject))?;
    named("room", room(subject))?;
    named("fencing", fencing(subject))
}

fn named(name: &str, verdict: Verdict) -> Verdict {
    verdict.map_err(|what| format!("{name}: {what}"))
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

fn failed(error: Error) -> String {
    error.to_string()
}

fn call<T: Send + 'static>(
    subject: &mut impl Subject,
    start: impl FnOnce(Done<T>),
) -> std::result::Result<T, String> {
    try_call(subject, start).map_err(failed)
}

fn try_call<T: Send + 'static>(subject: &mut impl Subject, start: impl FnOnce(Done<T>)) -> Result<T> {
    let (done, operation) = wait();
    start(done);
    subject.finish(operation)
}

/// Head and body of batch `number`. Sizes vary, and no two batches have equal contents.
fn batch(number: u64, layout: &Layout) -> (Bytes, Vec<Bytes>) {
    let pages = [0, 1, 5, 2][number as usize % 4].min(layout.batch_bytes as usize / ALIGN - 2);
    let head: Vec<u8> = (0..10 + number as usize * 700 % 4096).map(|at| (at as u64 + number) as u8).collect();
    let mut body = AlignedBuf::zeroed(pages * ALIGN);
    body.chunks_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
    let body = Arc::new(body);
    (head.into(), (0..pages).map(|page| body.share(page * ALIGN..(page + 1) * ALIGN)).collect())
}

fn append(subject: &mut impl Subject, shelf: &Arc<dyn Shelf>, number: u64) -> Result<JournalPos> {
    let (head, body) = batch(number, &shelf.layout());
    try_call(subject, |done| shelf.append(head, body, done))
}

/// Opens the store again after a power loss and replays its journal.
fn reopen(subject: &mut impl Subject) -> std::result::Result<(Arc<dyn Shelf>, Vec<Batch>), String> {
    subject.lose_power();
    let shelf = subject.open().map_err(failed)?;
    let from = shelf.superblock().map_or(JournalPos(1), |superblock| superblock.journal_from);
    let batches = call(subject, |done| shelf.recover(from, done))?;
    Ok((shelf, batches))
}

fn expect_batches(batches: &[Batch], expected: std::ops::RangeInclusive<u64>, layout: &Layout) -> Verdict {
    let found: Vec<u64> = batches.iter().map(|batch| batch.pos.0).collect();
    ensure(expected.clone().eq(found.iter().copied()), || format!("{found:?} instead of {expected:?}"))?;
    for found in batches {
        let (head, body) = batch(found.pos.0, layout);
        ensure(found.head == head && found.body == body.concat(), || {
            format!("batch {} differs", found.pos.0)
        })?;
    }
    Ok(())
}

fn superblock(from: u64, payload: Vec<u8>) -> Superblock {
    Superblock { journal_from: JournalPos(from), payload: payload.into() }
}

fn sizes(subject: &mut impl Subject) -> Verdict {
    let shelf = subject.format().map_err(failed)?;
    let layout = shelf.layout();
    ensure(
        layout.stripe_bytes > 0
            && layout.segment_bytes.is_multiple_of(layout.stripe_bytes)
            && layout.segments > 1
            && layout.batch_bytes as usize >= 4 * ALIGN,
        || format!("{layout:?}"),
    )?;
    let cost = shelf.journal_cost(0, layout.batch_bytes as usize / ALIGN * ALIGN);
    ensure(cost >= u64::from(layout.batch_bytes / 4096 * 4096) && cost <= layout.journal_bytes, || {
        format!("a batch of the maximum size takes {cost} of {}", layout.journal_bytes)
    })
}

fn new_store(subject: &mut impl Subject) -> Verdict {
    let shelf = subject.format().map_err(failed)?;
    let batches = call(subject, |done| shelf.recover(JournalPos(1), done))?;
    ensure(batches.is_empty(), || format!("{} batches are in its journal", batches.len()))?;
    append(subject, &shelf, 1).map_err(failed)?;
    let shelf = subject.format().map_err(failed)?;
    ensure(shelf.superblock().is_none(), || "it has a superblock".into())?;
    ensure(shelf.journal_taken(JournalPos(u64::MAX)) == 0, || "its journal is not empty".into())?;
    let (shelf, batches) = reopen(subject)?;
    ensure(shelf.superblock().is_none() && batches.is_empty(), || "it is not empty after opening".into())
}

fn replay(subject: &mut impl Subject) -> Verdict {
    let mut shelf = subject.format().map_err(failed)?;
    let layout = shelf.layout();
    let mut next = 1;
    for round in 1..=3 {
        // All are in flight before the first completes.
        let mut operations = Vec::new();
        for number in next..next + 5 {
            let (head, body) = batch(number, &layout);
            let (done, operation) = wait();
            shelf.append(head, body, done);
            operations.push((number, operation));
        }
        // The last completes after all before it.
        operations.reverse();
        for (number, operation) in operations {
            let pos = subject.finish(operation).map_err(failed)?;
            ensure(pos.0 == number, || format!("append {number} got position {}", pos.0))?;
        }
        next += 5;
        let batches;
        (shelf, batches) = reopen(subject)?;
        named(&format!("opening {round}"), expect_batches(&batches, 1..=next - 1, &layout))?;
    }
    Ok(())
}

fn superblocks(subject: &mut impl Subject) -> Verdict {
    let mut shelf = subject.format().map_err(failed)?;
    let max_bytes = shelf.layout().superblock_bytes as usize;
    for (round, len) in [0, 1, max_bytes, 100].into_iter().enumerate() {
        let written = superblock(1, vec![round as u8; len]);
        let copy = written.clone();
        call(subject, |done| shelf.write_superblock(copy, done))?;
        ensure(shelf.superblock().as_ref() == Some(&written), || {
            format!("the superblock of {len} bytes is not the newest")
        })?;
        (shelf, _) = reopen(subject)?;
        ensure(shelf.superblock().as_ref() == Some(&written), || {
            format!("the superblock of {len} bytes is lost")
        })?;
    }
    Ok(())
}

fn trim(subject: &mut impl Subject) -> Verdict {
    let shelf = subject.format().map_err(failed)?;
    let layout = shelf.layout();
    for number in 1..=6 {
        append(subject, &shelf, number).map_err(failed)?;
    }
    let (all, first) = (shelf.journal_taken(JournalPos(7)), shelf.journal_taken(JournalPos(4)));
    ensure(first > 0 && first < all, || format!("{first} of {all} bytes are before batch 4"))?;
    call(subject, |done| shelf.write_superblock(superblock(4, Vec::new()), done))?;
    let left = shelf.journal_taken(JournalPos(7));
    ensure(left == all - first, || format!("{left} bytes remain after trimming {first} of {all}"))?;
    let (shelf, batches) = reopen(subject)?;
    expect_batches(&batches, 4..=6, &layout)?;
    let pos = append(subject, &shelf, 7).map_err(failed)?;
    ensure(pos.0 == 7, || format!("the next batch is {}", pos.0))
}

fn full_journal(subject: &mut impl Subject) -> Verdict {
    let mut shelf = subject.format().map_err(failed)?;
    let layout = shelf.layout();
    let mut number = 1;
    for round in 0..3 {
        let first = number;
        loop {
            let before = shelf.journal_taken(JournalPos(u64::MAX));
            match append(subject, &shelf, number) {
                Ok(pos) => ensure(pos.0 == number, || format!("batch {number} got position {}", pos.0))?,
                Err(Error::JournalFull) => break,
                Err(other) => return Err(failed(other)),
            }
            let (head, body) = batch(number, &layout);
            let bound = shelf.journal_cost(head.len(), body.iter().map(Bytes::len).sum());
            let taken = shelf.journal_taken(JournalPos(u64::MAX)) - before;
            ensure(taken <= bound, || {
                format!("batch {number} took {taken} bytes, more than its maximum of {bound}")
            })?;
            number += 1;
        }
        ensure(number > first, || format!("it has no room in round {round}"))?;
        let taken = shelf.journal_taken(JournalPos(u64::MAX));
        ensure(taken <= layout.journal_bytes, || format!("{taken} of {} bytes", layout.journal_bytes))?;
        let batches;
        (shelf, batches) = reopen(subject)?;
        expect_batches(&batches, first..=number - 1, &layout)?;
        call(subject, |done| shelf.write_superblock(superblock(number, Vec::new()), done))?;
    }
    Ok(())
}

/// A stripe of this segment and number, as `owner` writes it.
fn stripe(segment: u32, index: u32, owner: u8, layout: &Layout) -> AlignedBuf {
    let mut stripe = AlignedBuf::zeroed(layout.stripe_bytes as usize);
    for (at, byte) in stripe.iter_mut().enumerate() {
        *byte = (at / 3) as u8 ^ (segment * 31 + index * 7) as u8 ^ owner;
    }
    stripe
}

fn write(subject: &mut impl Subject, shelf: &Arc<dyn Shelf>, at: (u32, u32), owner: u8) -> Verdict {
    let layout = shelf.layout();
    let bytes = Arc::new(stripe(at.0, at.1, owner, &layout));
    call(subject, |done| shelf.write(SegmentId(at.0), at.1 * layout.stripe_bytes, bytes, done))
}

fn expect_stripe(subject: &mut impl Subject, shelf: &Arc<dyn Shelf>, at: (u32, u32), owner: u8) -> Verdict {
    let layout = shelf.layout();
    let expected = stripe(at.0, at.1, owner, &layout);
    let len = layout.stripe_bytes;
    for (from, to) in [(0, len), (0, 1), (len - 1, len), (len / 3, len / 2)] {
        let offset = at.1 * len + from;
        let read = call(subject, |done| shelf.read(SegmentId(at.0), offset, to - from, done))?;
        ensure(read == expected[from as usize..to as usize], || {
            format!("bytes {from}..{to} of stripe {} of segment {} differ", at.1, at.0)
        })?;
    }
    Ok(())
}

fn segments(subject: &mut impl Subject) -> Verdict {
    let shelf = subject.format().map_err(failed)?;
    let layout = shelf.layout();
    let last = layout.segment_bytes / layout.stripe_bytes - 1;
    let stripes = [(0, 0), (1, 0), (1, last)];
    // Front to back, with a segment between.
    for at in [(0, 0)].into_iter().chain((0..=last).map(|index| (1, index))) {
        write(subject, &shelf, at, 1)?;
        expect_stripe(subject, &shelf, at, 1)?;
    }
    call(subject, |done| shelf.sync(done))?;
    // A store with data and without a superblock may refuse to open.
    call(subject, |done| shelf.write_superblock(superblock(1, Vec::new()), done))?;
    let (shelf, _) = reopen(subject)?;
    for at in stripes {
        named("after a power loss", expect_stripe(subject, &shelf, at, 1))?;
    }
    // The new owner writes a segment again after it has discarded it, and others stay.
    shelf.discard(SegmentId(1));
    shelf.discard(SegmentId(1));
    write(subject, &shelf, (1, 0), 2)?;
    call(subject, |done| shelf.sync(done))?;
    let (shelf, _) = reopen(subject)?;
    named("next to a discarded segment", expect_stripe(subject, &shelf, (0, 0), 1))?;
    named("rewritten", expect_stripe(subject, &shelf, (1, 0), 2))
}

fn room(subject: &mut impl Subject) -> Verdict {
    let shelf = subject.format().map_err(failed)?;
    let layout = shelf.layout();
    let count = layout.segments.min(shelf.room().any);
    ensure(count == layout.segments, || format!("a new store has room for {count} of {layout:?}"))?;
    for round in 1..=2 {
        for segment in 0..count {
            ensure(shelf.room().any > 0, || format!("no room for segment {segment} of {count}"))?;
            write(subject, &shelf, (segment, 0), round)?;
        }
        call(subject, |done| shelf.sync(done))?;
        for segment in 0..count {
            expect_stripe(subject, &shelf, (segment, 0), round)?;
            shelf.discard(SegmentId(segment));
        }
    }
    Ok(())
}

fn fencing(subject: &mut impl Subject) -> Verdict {
    let old = subject.format().map_err(failed)?;
    let layout = old.layout();
    append(subject, &old, 1).map_err(failed)?;
    let new = subject.open().map_err(failed)?;
    let batches = call(subject, |done| new.recover(JournalPos(1), done))?;
    expect_batches(&batches, 1..=1, &layout)?;
    let refused = try_call(subject, |done| old.write_superblock(superblock(1, vec![9]), done));
    ensure(matches!(refused, Err(Error::Fenced { .. })), || {
        format!("the older owner was not fenced: {refused:?}")
    })?;
    append(subject, &new, 2).map_err(failed)?;
    drop((old, new));
    let (shelf, batches) = reopen(subject)?;
    expect_batches(&batches, 1..=2, &layout)?;
    ensure(shelf.superblock().is_none(), || "the older owner's superblock took effect".into())
}
