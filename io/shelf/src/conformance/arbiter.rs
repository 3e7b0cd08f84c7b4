//! Conformance suite of arbiters: tests that an implementation keeps the [`Arbiter`] contract.

use super::{Verdict, named};
use crate::Result;
use crate::arbiter::{Arbiter, Beat, MemberId, Sign};
use crate::pool::BoxFuture;
use bytes::Bytes;
use std::sync::Arc;

/// What controllers share, under test.
pub trait Subject {
    /// Begins again with a store in which there is nothing.
    fn clear(&mut self);

    /// The arbiter of a new process of a controller.
    ///
    /// # Errors
    /// When there is none, which fails the suite.
    fn arbiter(&mut self, member: MemberId) -> Result<Arc<dyn Arbiter>>;

    /// Runs the store until an operation completes.
    ///
    /// # Errors
    /// Those of the operation.
    fn finish<T>(&mut self, operation: BoxFuture<'static, Result<T>>) -> Result<T>;
}

const A: MemberId = MemberId(1);
const B: MemberId = MemberId(2);

/// Runs all checks.
///
/// # Errors
/// The name of the first check that failed, and how.
pub fn run(subject: &mut impl Subject) -> Verdict {
    named("maps", maps(subject))?;
    named("maps of two controllers", maps_of_two(subject))?;
    named("beats", beats(subject))?;
    named("marks", marks(subject))?;
    named("marks of a member without a beat", early_marks(subject))?;
    named("restarts", restarts(subject))
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn beat(joined: u64, count: u64) -> Beat {
    Beat { joined, count }
}

/// An outcome, and what it is to be.
fn expect<T: PartialEq + std::fmt::Debug>(outcome: Result<T>, wanted: &T, when: &str) -> Verdict {
    match outcome {
        Ok(found) if found == *wanted => Ok(()),
        other => Err(format!("{when}: {other:?} instead of {wanted:?}")),
    }
}

fn start(subject: &mut impl Subject, member: MemberId) -> std::result::Result<Arc<dyn Arbiter>, String> {
    subject.arbiter(member).map_err(|error| format!("no arbiter: {error}"))
}

fn maps(subject: &mut impl Subject) -> Verdict {
    subject.clear();
    let a = start(subject, A)?;
    expect(subject.finish(a.map()), &None, "there is no map yet")?;
    expect(subject.finish(a.replace(None, 7, text("first"))), &true, "the first map")?;
    expect(subject.finish(a.replace(None, 8, text("first again"))), &false, "there is one already")?;
    expect(subject.finish(a.replace(Some(6), 8, text("of an older one"))), &false, "another version")?;
    expect(subject.finish(a.replace(Some(7), 9, text("second"))), &true, "its version")?;
    expect(subject.finish(a.map()), &Some(text("second")), "the map")
}

fn maps_of_two(subject: &mut impl Subject) -> Verdict {
    subject.clear();
    let (a, b) = (start(subject, A)?, start(subject, B)?);
    expect(subject.finish(a.replace(None, 1, text("one"))), &true, "the first map")?;
    expect(subject.finish(b.map()), &Some(text("one")), "the other one sees it")?;
    expect(subject.finish(b.replace(Some(1), 2, text("two"))), &true, "the other one replaces it")?;
    expect(subject.finish(a.replace(Some(1), 2, text("two"))), &false, "equal bytes of another one")?;
    expect(subject.finish(a.replace(Some(2), 5, text("five"))), &true, "the first one again")?;
    for arbiter in [&a, &b] {
        expect(subject.finish(arbiter.map()), &Some(text("five")), "both see it")?;
    }
    Ok(())
}

fn beats(subject: &mut impl Subject) -> Verdict {
    subject.clear();
    let a = start(subject, A)?;
    if a.witnesses() % 2 == 0 {
        return Err(format!("{} witnesses", a.witnesses()));
    }
    let mut beats = |new, wanted, when| expect(subject.finish(a.beat(0, A, new, 2)), &wanted, when);
    beats(beat(2, 1), true, "the first beat")?;
    beats(beat(2, 1), false, "the same")?;
    beats(beat(1, 99), false, "of a process that joined before")?;
    beats(beat(2, 300), true, "a newer one")?;
    let signs = subject.finish(a.signs(0)).map(|signs| signs.get(&A).copied());
    expect(signs, &Some(Sign { beat: beat(2, 300), mark: 0 }), "its sign")?;
    let elsewhere = subject.finish(a.signs(1)).map(|signs| signs.get(&A).map(|sign| sign.beat));
    expect(elsewhere.map(Option::unwrap_or_default), &Beat::default(), "another witness")
}

fn marks(subject: &mut impl Subject) -> Verdict {
    subject.clear();
    let (a, b) = (start(subject, A)?, start(subject, B)?);
    let mut mark =
        |seen, mark, wanted: bool, when| expect(subject.finish(b.mark(1, A, seen, mark)), &wanted, when);
    mark(beat(2, 1), 5, false, "a beat that was never made")?;
    expect(subject.finish(a.beat(1, A, beat(2, 1), 4)), &true, "a beat after a mark that was refused")?;
    let mut mark =
        |seen, mark, wanted: bool, when| expect(subject.finish(b.mark(1, A, seen, mark)), &wanted, when);
    mark(beat(2, 0), 5, false, "it has beaten since")?;
    mark(beat(2, 1), 5, true, "its last beat")?;
    mark(beat(2, 1), 5, true, "repeated")?;
    mark(beat(2, 1), 4, false, "an older one")?;
    expect(subject.finish(a.beat(1, A, beat(2, 2), 4)), &false, "it is marked")?;
    let signs = subject.finish(b.signs(1)).map(|signs| signs.get(&A).copied());
    expect(signs, &Some(Sign { beat: beat(2, 1), mark: 5 }), "its sign and mark")?;
    expect(subject.finish(a.beat(1, A, beat(2, 2), 5)), &true, "it knows the map of the mark")?;
    expect(subject.finish(a.beat(0, A, beat(2, 2), 4)), &true, "another witness has no mark")
}

fn early_marks(subject: &mut impl Subject) -> Verdict {
    subject.clear();
    let (a, b) = (start(subject, A)?, start(subject, B)?);
    expect(subject.finish(b.mark(2, A, Beat::default(), 3)), &true, "a mark before any beat")?;
    expect(subject.finish(a.beat(2, A, beat(2, 1), 2)), &false, "it is marked")
}

fn restarts(subject: &mut impl Subject) -> Verdict {
    subject.clear();
    let (a, b) = (start(subject, A)?, start(subject, B)?);
    expect(subject.finish(a.replace(None, 3, text("three"))), &true, "a map")?;
    expect(subject.finish(a.beat(0, A, beat(3, 9), 3)), &true, "a beat")?;
    expect(subject.finish(b.mark(0, A, beat(3, 9), 4)), &true, "a mark")?;
    let (a, b) = (start(subject, A)?, start(subject, B)?);
    expect(subject.finish(a.map()), &Some(text("three")), "the map")?;
    expect(subject.finish(a.beat(0, A, beat(3, 10), 3)), &false, "the mark is there")?;
    expect(subject.finish(a.beat(0, A, beat(3, 9), 4)), &false, "the beat is there")?;
    expect(subject.finish(b.replace(Some(3), 4, text("four"))), &true, "the map can be replaced")?;
    expect(subject.finish(a.beat(0, A, beat(4, 1), 4)), &true, "a beat of the new process")
}
