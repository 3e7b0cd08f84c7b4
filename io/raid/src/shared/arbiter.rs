//! Arbiter of two controllers on the drives that they share. [`shared`](super) proves its properties.

use super::record::{Ballot, Value};
use super::turns::Turns;
use super::witness::Witness;
use super::{CONTROLLERS, MAX_MAP_BYTES};
use crate::{Done, Error, Result, Wait, wait};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::arbiter::{Arbiter, Beat, MemberId, Sign, Signs};
use shelf::pool::BoxFuture;
use std::sync::{Arc, Weak};

/// Attempts to have a map decided while the other controller proposes one, too.
const MAX_ATTEMPTS: usize = 3;

/// The arbiter.
pub struct DriveArbiter {
    me: Weak<Self>,
    /// `None` for a drive that is missing.
    witnesses: Vec<Option<Arc<Witness>>>,
    /// Number of this controller, from 0, and the key of this process.
    own: usize,
    key: u64,
    /// One operation on the map at a time.
    turns: Arc<Turns>,
    memory: Mutex<Memory>,
}

/// State of this process.
struct Memory {
    /// The ballot of this controller: never older than on any drive.
    ballot: Ballot,
    /// Number of proposals of this process.
    proposals: u64,
}

/// Result of an attempt to have a map decided.
enum Attempt {
    /// The outcome of the instance.
    Decided(Value),
    /// The other controller has begun a higher ballot.
    Overtaken,
}

type Ballots = [Option<Ballot>; CONTROLLERS];

impl DriveArbiter {
    /// The arbiter of controller `own`, from 0, whose process has `key` on these witnesses.
    ///
    /// # Errors
    /// [`Error::Drive`] if a majority can't be read.
    pub(super) async fn start(
        witnesses: Vec<Option<Arc<Witness>>>,
        (own, key): (usize, u64),
    ) -> Result<Arc<Self>> {
        let memory = Mutex::new(Memory { ballot: Ballot::default(), proposals: 0 });
        let arbiter =
            Arc::new_cyclic(|me| Self { me: me.clone(), witnesses, own, key, turns: Arc::default(), memory });
        let found = arbiter.gather(|witness| async move { witness.ballots().await }).await?;
        let ours = found.into_iter().filter_map(|mut ballots| ballots[own].take());
        let newest = ours.max_by_key(|ballot| (ballot.version(), ballot.begun, ballot.accepted));
        arbiter.memory.lock().ballot = newest.unwrap_or_default();
        Ok(arbiter)
    }

    /// Performs an operation at all witnesses; returns the results of a majority.
    fn gather<T, F>(&self, work: impl Fn(Arc<Witness>) -> F) -> Wait<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (done, gathered) = wait();
        let total = self.witnesses.len();
        let gathering = Gathering { replies: Vec::new(), failures: 0, total, done: Some(done) };
        let gathering = Arc::new(Mutex::new(gathering));
        for witness in &self.witnesses {
            match witness {
                Some(witness) => {
                    let (work, gathering) = (work(witness.clone()), gathering.clone());
                    shelf::spawn(async move { Gathering::note(&gathering, work.await) });
                }
                None => Gathering::note(&gathering, Err(missing())),
            }
        }
        gathered
    }

    /// Adopts a decision of the other controller; returns whether it was new.
    fn learn(&self, ballots: &[Ballots]) -> bool {
        let decided = ballots.iter().flatten().flatten().filter_map(|ballot| ballot.decided.as_ref());
        let Some(newest) = decided.max_by_key(|value| value.version) else { return false };
        let mut memory = self.memory.lock();
        let is_new = newest.version > memory.ballot.version();
        if is_new {
            memory.ballot = Ballot { decided: Some(newest.clone()), ..Ballot::default() };
        }
        is_new
    }

    fn ballot(&self) -> Ballot {
        self.memory.lock().ballot.clone()
    }

    /// Writes the ballot of this controller to a majority of witnesses; returns their ballots afterwards.
    async fn vote(&self) -> Result<Vec<Ballots>> {
        let ballot = Arc::new(self.ballot());
        self.gather(|witness| {
            let ballot = ballot.clone();
            async move { witness.vote(&ballot).await }
        })
        .await
    }

    /// The current map, which is on a majority of witnesses.
    async fn current(&self) -> Result<Option<Bytes>> {
        let found = self.gather(|witness| async move { witness.ballots().await }).await?;
        self.learn(&found);
        let version = self.ballot().version();
        let has_it = |ballots: &&Ballots| ballots.iter().flatten().any(|ballot| ballot.version() >= version);
        if found.iter().filter(has_it).count() < found.len() {
            let found = self.vote().await?;
            self.learn(&found);
        }
        Ok(self.ballot().decided.map(|value| value.map))
    }

    async fn decide(&self, expected: Option<u64>, version: u64, map: Bytes) -> Result<bool> {
        if map.len() > MAX_MAP_BYTES {
            let what = format!(
                "the cluster's map has {} bytes, and a drive has room for {MAX_MAP_BYTES}: give controllers fewer portals, or \
                 shorter names",
                map.len()
            );
            return Err(Error::NoSpace { what });
        }
        self.current().await?;
        let ours = {
            let mut memory = self.memory.lock();
            memory.proposals += 1;
            Value { version, proposal: (self.key, memory.proposals), map }
        };
        for _ in 0..MAX_ATTEMPTS {
            let ballot = self.ballot();
            if ballot.version() != expected.unwrap_or(0) {
                // The other controller may have completed one of the attempts.
                return Ok(ballot.decided.is_some_and(|value| value.proposal == ours.proposal));
            }
            match self.attempt(&ours).await? {
                Attempt::Decided(value) => return Ok(value.proposal == ours.proposal),
                // Of two equal proposals, one yields.
                Attempt::Overtaken if self.own > 0 && self.ballot().version() == ballot.version() => break,
                Attempt::Overtaken => {}
            }
        }
        Err(Error::Drive { what: "the other controller is changing the cluster's map".into() })
    }

    /// One round with a new ballot.
    async fn attempt(&self, ours: &Value) -> Result<Attempt> {
        let version = self.ballot().version();
        let seen = self.gather(|witness| async move { witness.ballots().await }).await?;
        if self.learn(&seen) {
            return Ok(Attempt::Overtaken);
        }
        let number = {
            let mut memory = self.memory.lock();
            let others = seen.iter().flatten().flatten().filter(|ballot| ballot.version() == version);
            let highest = others.map(|ballot| ballot.begun).max().unwrap_or(0).max(memory.ballot.begun);
            let round = highest / CONTROLLERS as u64 + 1;
            memory.ballot.begun = round * CONTROLLERS as u64 + self.own as u64;
            memory.ballot.begun
        };
        let promised = self.vote().await?;
        if self.is_overtaken(&promised, (version, number)) {
            return Ok(Attempt::Overtaken);
        }
        let own = self.ballot();
        let accepted = promised.iter().flatten().flatten().filter(|ballot| ballot.version() == version);
        let accepted = accepted.chain([&own]).filter(|ballot| ballot.accepted > 0);
        let newest = accepted.max_by_key(|ballot| ballot.accepted).and_then(|ballot| ballot.value.clone());
        let value = newest.unwrap_or_else(|| ours.clone());
        {
            let mut memory = self.memory.lock();
            (memory.ballot.accepted, memory.ballot.value) = (number, Some(value.clone()));
        }
        let accepted = self.vote().await?;
        if self.is_overtaken(&accepted, (version, number)) {
            return Ok(Attempt::Overtaken);
        }
        self.memory.lock().ballot = Ballot { decided: Some(value.clone()), ..Ballot::default() };
        let found = self.vote().await?;
        self.learn(&found);
        Ok(Attempt::Decided(value))
    }

    /// Whether the other controller has begun a higher ballot, or knows that the instance is decided.
    fn is_overtaken(&self, found: &[Ballots], (version, number): (u64, u64)) -> bool {
        let mut others = found.iter().filter_map(|ballots| ballots[1 - self.own].as_ref());
        let overtaken = others
            .any(|other| other.version() > version || other.version() == version && other.begun > number);
        self.learn(found);
        overtaken
    }

    /// Runs an operation to completion, even if its waiter has ended: writes must keep their order.
    fn run<T: Send + 'static, F>(
        &self,
        operation: impl FnOnce(Arc<Self>) -> F,
    ) -> BoxFuture<'static, Result<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (done, ended) = wait();
        if let Some(me) = self.me.upgrade() {
            let operation = operation(me);
            shelf::spawn(async move { done(operation.await) });
        }
        Box::pin(ended)
    }

    /// Runs an operation at a witness.
    fn at<T: Send + 'static, F>(
        &self,
        witness: usize,
        operation: impl FnOnce(Arc<Witness>) -> F,
    ) -> BoxFuture<'static, Result<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        match self.witnesses.get(witness).cloned().flatten() {
            Some(found) => {
                let operation = operation(found);
                self.run(|_| operation)
            }
            None => Box::pin(std::future::ready(Err(missing()))),
        }
    }
}

fn missing() -> Error {
    Error::Drive { what: "a drive that is a witness is missing".into() }
}

/// The index of a controller.
fn index(member: MemberId) -> Result<usize> {
    let index = usize::from(member.0).checked_sub(1).filter(|index| *index < CONTROLLERS);
    index.ok_or_else(|| {
        Error::Unusable(format!("controller {}: those that share drives have the numbers 1 and 2", member.0))
    })
}

/// Replies of witnesses, until a majority has replied.
struct Gathering<T> {
    replies: Vec<T>,
    failures: usize,
    total: usize,
    done: Option<Done<Vec<T>>>,
}

impl<T> Gathering<T> {
    fn note(this: &Mutex<Self>, reply: Result<T>) {
        let (done, outcome) = {
            let mut state = this.lock();
            let majority = state.total / 2 + 1;
            let outcome = match reply {
                Ok(reply) => {
                    state.replies.push(reply);
                    (state.replies.len() == majority).then(|| Ok(std::mem::take(&mut state.replies)))
                }
                // One drive that refuses this process is enough: another process is about to take over.
                Err(error @ Error::Fenced { .. }) => Some(Err(error)),
                Err(error) => {
                    state.failures += 1;
                    (state.failures == state.total - majority + 1).then_some(Err(error))
                }
            };
            let Some(outcome) = outcome else { return };
            (state.done.take(), outcome)
        };
        if let Some(done) = done {
            done(outcome);
        }
    }
}

impl Arbiter for DriveArbiter {
    fn witnesses(&self) -> usize {
        self.witnesses.len()
    }

    fn map(&self) -> BoxFuture<'static, Result<Option<Bytes>>> {
        self.run(|me| async move {
            let _turn = me.turns.take().await?;
            me.current().await
        })
    }

    fn replace(&self, expected: Option<u64>, version: u64, map: Bytes) -> BoxFuture<'static, Result<bool>> {
        assert!(expected.is_none_or(|expected| expected < version), "versions grow");
        self.run(move |me| async move {
            let _turn = me.turns.take().await?;
            me.decide(expected, version, map).await
        })
    }

    fn signs(&self, witness: usize) -> BoxFuture<'static, Result<Signs>> {
        self.at(witness, |witness| async move {
            let found = witness.signs().await?;
            let sign = |(at, sign): (usize, Option<(Beat, u64)>)| {
                sign.map(|(beat, mark)| (MemberId(at as u16 + 1), Sign { beat, mark }))
            };
            Ok(found.into_iter().enumerate().filter_map(sign).collect())
        })
    }

    fn beat(
        &self,
        witness: usize,
        member: MemberId,
        beat: Beat,
        map_version: u64,
    ) -> BoxFuture<'static, Result<bool>> {
        assert_eq!(index(member), Ok(self.own), "a controller beats for itself");
        self.at(witness, move |witness| async move { witness.beat(beat, map_version).await })
    }

    fn mark(
        &self,
        witness: usize,
        member: MemberId,
        seen: Beat,
        mark: u64,
    ) -> BoxFuture<'static, Result<bool>> {
        match index(member) {
            Ok(victim) => {
                self.at(witness, move |witness| async move { witness.mark(victim, seen, mark).await })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

#[cfg(test)]
#[path = "arbiter_test.rs"]
mod tests;
