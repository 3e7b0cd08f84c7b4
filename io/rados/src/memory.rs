//! A model of RADOS in memory: what the store may rely on, in a form that is short enough to check by reading.
//!
//! Operations take effect at once, or are held until [`Cluster::release`] lets one take effect: those on different
//! objects in any order, those on one object in the order of one client. The answer comes with the effect or, with
//! [`Cluster::set_late_answers`], at a later release. Operations of a client that is gone stay: each takes effect later, or
//! never.

use crate::objects::{Attributes, Name, ObjectError, Objects, Operation, Pool, Step, Usage};
use bytes::Bytes;
use parking_lot::Mutex;
use shelf::pool::BoxFuture;
use shelf::{Done, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Outcome<T> = Result<T, ObjectError>;

/// That of an erasure-coded pool with two data chunks.
const ALIGNMENT: u64 = 8192;

/// A cluster with one namespace.
#[derive(Clone, Default)]
pub struct Cluster(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<Name, Object>,
    clients: u64,
    fenced: BTreeSet<String>,
    holds: bool,
    late_answers: bool,
    fencing_fails: bool,
    fencing_hangs: bool,
    held: Vec<Held>,
    /// Bytes that all objects may take together.
    capacity: Option<u64>,
}

/// An object.
#[derive(Clone, Default)]
pub(crate) struct Object {
    pub(crate) bytes: Vec<u8>,
    pub(crate) attributes: Attributes,
}

impl Object {
    /// At most `len` bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Bytes {
        let end = self.bytes.len();
        let (from, to) = (end.min(offset as usize), end.min(offset.saturating_add(len) as usize));
        Bytes::copy_from_slice(&self.bytes[from..to])
    }
}

/// Does a compound operation on an object, or on the place where there is none.
pub(crate) fn change(before: Option<&Object>, steps: &[Step]) -> Outcome<Option<Object>> {
    let mut after = before.cloned();
    for step in steps {
        apply(step, before.is_some(), &mut after)?;
    }
    Ok(after)
}

struct Held {
    client: String,
    name: Name,
    operation: Operation,
    done: Done<Outcome<()>>,
    /// It has taken effect, or was refused, and only its answer is missing.
    outcome: Option<Outcome<()>>,
}

/// A client of a [`Cluster`].
pub struct Client {
    cluster: Cluster,
    instance: String,
}

impl Cluster {
    /// A new client.
    pub fn client(&self) -> Arc<Client> {
        let mut state = self.0.lock();
        state.clients += 1;
        Arc::new(Client { cluster: self.clone(), instance: format!("memory/{}", state.clients) })
    }

    /// From now on operations wait for [`Cluster::release`], or take effect at once.
    pub fn set_holding(&self, holds: bool) {
        self.0.lock().holds = holds;
    }

    /// From now on the answers of held operations come with a release of their own.
    pub fn set_late_answers(&self, late: bool) {
        self.0.lock().late_answers = late;
    }

    /// From now on who fences a client waits forever.
    pub fn set_fencing_hangs(&self, hangs: bool) {
        self.0.lock().fencing_hangs = hangs;
    }

    /// From now on no client can be fenced: the monitors do not answer.
    pub fn set_fencing_fails(&self, fails: bool) {
        self.0.lock().fencing_fails = fails;
    }

    /// Limits the bytes of all objects together.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = Some(bytes);
    }

    /// Bytes of all objects together.
    pub fn stored(&self) -> u64 {
        self.0.lock().stored()
    }

    /// Names of all objects.
    pub fn names(&self) -> Vec<Name> {
        self.0.lock().objects.keys().cloned().collect()
    }

    /// Changes the content of an object, as the store would never do.
    pub fn tamper(&self, name: &Name, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.0.lock().objects.get_mut(name).expect("an object").bytes);
    }

    /// Removes an object, as the store would never do.
    pub fn lose(&self, name: &Name) {
        self.0.lock().objects.remove(name).expect("an object");
    }

    /// Operations that are held.
    pub fn held(&self) -> usize {
        self.0.lock().held.len()
    }

    /// Lets a held operation take effect, or its answer arrive; `which` chooses among those that may be next. False if none
    /// is held.
    pub fn release(&self, which: usize) -> bool {
        let (done, outcome) = {
            let mut state = self.0.lock();
            let first = |at: &usize| {
                let held = &state.held[*at];
                !state.held[..*at].iter().any(|other| other.client == held.client && other.name == held.name)
            };
            let ready: Vec<usize> = (0..state.held.len()).filter(first).collect();
            let Some(at) = ready.get(which % ready.len().max(1)) else { return false };
            let mut held = state.held.remove(*at);
            match held.outcome.take() {
                Some(outcome) => (held.done, outcome),
                None => {
                    let outcome = state.operate(&held.client, &held.name, &held.operation);
                    if state.late_answers {
                        held.outcome = Some(outcome);
                        state.held.insert(*at, held);
                        return true;
                    }
                    (held.done, outcome)
                }
            }
        };
        done(Ok(outcome));
        true
    }

    /// Ends the held operations of a client that is gone. Those for which `keep` is false never take
    /// effect.
    pub fn forget(&self, instance: &str, mut keep: impl FnMut() -> bool) {
        // Dropped without the lock: whatever waits for an answer runs when it is dropped.
        let mut answers: Vec<Done<Outcome<()>>> = Vec::new();
        let forgotten: Vec<Held> = {
            let mut state = self.0.lock();
            let of = |held: &Held| held.client == instance;
            let forgotten = state.held.extract_if(.., |held| of(held) && (held.outcome.is_some() || !keep()));
            let forgotten = forgotten.collect();
            for held in state.held.iter_mut().filter(|held| of(held)) {
                answers.push(std::mem::replace(&mut held.done, Box::new(drop)));
            }
            forgotten
        };
        drop((forgotten, answers));
    }
}

impl State {
    fn stored(&self) -> u64 {
        self.objects.values().map(|object| object.bytes.len() as u64).sum()
    }

    fn operate(&mut self, client: &str, name: &Name, operation: &Operation) -> Outcome<()> {
        if self.fenced.contains(client) {
            return Err(ObjectError::Blocklisted);
        }
        let before = self.objects.get(name);
        let after = change(before, &operation.steps)?;
        let len = |object: Option<&Object>| object.map_or(0, |object| object.bytes.len() as u64);
        let grown = len(after.as_ref()).saturating_sub(len(before));
        if grown > 0 && !operation.force && self.capacity.is_some_and(|most| self.stored() + grown > most) {
            return Err(ObjectError::Full);
        }
        match after {
            Some(object) => self.objects.insert(name.clone(), object),
            None => self.objects.remove(name),
        };
        Ok(())
    }
}

fn apply(step: &Step, existed: bool, object: &mut Option<Object>) -> Outcome<()> {
    if let Step::CreateExclusive = step {
        return match existed {
            true => Err(ObjectError::Exists),
            false => {
                *object = Some(Object::default());
                Ok(())
            }
        };
    }
    let Some(found) = object else { return Err(ObjectError::Absent) };
    let value = |name: &str| found.attributes.get(name).map_or("", String::as_str);
    match step {
        Step::CreateExclusive => {}
        Step::Equal(name, expected) if value(name) != expected => return Err(ObjectError::Guard),
        Step::Greater(name, given) if given.as_str() <= value(name) => return Err(ObjectError::Guard),
        Step::Equal(..) | Step::Greater(..) => {}
        Step::Set(name, value) => drop(found.attributes.insert(name.to_string(), value.clone())),
        Step::Write(offset, pieces) => {
            let (offset, bytes) = (*offset as usize, pieces.concat());
            found.bytes.resize(found.bytes.len().max(offset + bytes.len()), 0);
            found.bytes[offset..][..bytes.len()].copy_from_slice(&bytes);
        }
        Step::WriteFull(bytes) => found.bytes = bytes.to_vec(),
        Step::Remove => *object = None,
    }
    Ok(())
}

impl Client {
    fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&State) -> Outcome<T>,
    ) -> BoxFuture<'static, Outcome<T>> {
        let state = self.cluster.0.lock();
        let outcome = match state.fenced.contains(&self.instance) {
            true => Err(ObjectError::Blocklisted),
            false => look(&state),
        };
        Box::pin(std::future::ready(outcome))
    }
}

fn object<'a>(state: &'a State, name: &Name) -> Outcome<&'a Object> {
    state.objects.get(name).ok_or(ObjectError::Absent)
}

impl Objects for Client {
    fn operate(&self, name: &Name, operation: Operation) -> BoxFuture<'static, Outcome<()>> {
        let mut state = self.cluster.0.lock();
        if !state.holds {
            let outcome = state.operate(&self.instance, name, &operation);
            return Box::pin(std::future::ready(outcome));
        }
        let (done, answer) = wait();
        let (client, name) = (self.instance.clone(), name.clone());
        state.held.push(Held { client, name, operation, done, outcome: None });
        Box::pin(async move {
            match answer.await {
                Ok(outcome) => outcome,
                // A client that is gone gets no answer.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn read(&self, name: &Name, offset: u64, len: u64) -> BoxFuture<'static, Outcome<Bytes>> {
        self.look(|state| Ok(object(state, name)?.read(offset, len)))
    }

    fn attributes(&self, name: &Name) -> BoxFuture<'static, Outcome<Attributes>> {
        self.look(|state| Ok(object(state, name)?.attributes.clone()))
    }

    fn list(&self, pool: Pool) -> BoxFuture<'static, Outcome<Vec<String>>> {
        self.look(|state| {
            Ok(state.objects.keys().filter(|name| name.pool == pool).map(|name| name.name.clone()).collect())
        })
    }

    fn usage(&self, _pool: Pool) -> BoxFuture<'static, Outcome<Usage>> {
        self.look(|state| {
            let stored = state.stored();
            let available = state.capacity.unwrap_or(1 << 40).saturating_sub(stored);
            Ok(Usage { available, stored })
        })
    }

    fn alignment(&self) -> u64 {
        ALIGNMENT
    }

    fn pool_name(&self, pool: Pool) -> String {
        match pool {
            Pool::Meta => "meta".into(),
            Pool::Data => "data".into(),
        }
    }

    fn namespace(&self) -> String {
        "memory".into()
    }

    fn tolerates(&self) -> usize {
        2
    }

    fn instance(&self) -> String {
        self.instance.clone()
    }

    fn fence(&self, instance: &str) -> BoxFuture<'static, Outcome<()>> {
        let mut state = self.cluster.0.lock();
        if state.fencing_hangs {
            return Box::pin(std::future::pending());
        }
        let outcome = match state.fencing_fails {
            true => Err(ObjectError::Failed("the monitors do not answer".into())),
            false => {
                state.fenced.insert(instance.into());
                Ok(())
            }
        };
        Box::pin(std::future::ready(outcome))
    }
}
