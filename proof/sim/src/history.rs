//! History of actions and answers, checked for linearizability against the model.
//!
//! Concurrent actions on the same blocks, directly or through other actions, form a conflict group. A group is checked
//! when all its actions have ended: the written blocks are read back, and some order of the actions must explain every
//! answer and every byte. An action without an answer took effect completely or not at all.

use block::mem::{MemArray, MemDisk};
use block::suite;
use block::{Disk, DiskId, Error, Extent, Geometry, Op, Reply, Result};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Maximum number of actions in a conflict group: all their orders are tried.
pub const MAX_GROUP_ACTIONS: usize = 5;

/// Actions of an array.
#[derive(Clone, Debug)]
pub enum Action {
    /// An operation of a disk.
    Op(DiskId, Op),
    /// A new, empty disk.
    Create(DiskId, Geometry),
    /// A new disk with the contents of another.
    Clone(DiskId, DiskId),
    /// Snapshots of several disks at one moment, kept until a time.
    Snapshot(Vec<(DiskId, DiskId)>, u64),
    /// A disk gets the size and contents of another.
    Restore(DiskId, DiskId),
    /// Sets whether a disk takes changes, at a time.
    Access(DiskId, bool, u64),
    /// Sets the retention of a disk, at a time.
    Keep(DiskId, u64, u64),
    /// A disk grows.
    Resize(DiskId, u64),
    /// Deletes a disk, at a time.
    Delete(DiskId, u64),
}

/// A run of blocks of a disk that an action reads or writes.
#[derive(Clone, Copy, Debug)]
struct Touch {
    id: DiskId,
    extent: Extent,
    writes: bool,
}

impl Touch {
    /// Whether the action may change more of a disk than these blocks.
    fn changes_disk(&self) -> bool {
        self.writes && (self.extent.overlaps(&PRESENCE) || self.extent.overlaps(&STATE))
    }
}

const EVERYTHING: Extent = Extent { lba: 0, blocks: u64::MAX };

/// Represents the saved state, after every block.
const STATE: Extent = Extent { lba: u64::MAX - 1, blocks: 1 };

/// Represents the existence of the disk.
const PRESENCE: Extent = Extent { lba: u64::MAX - 2, blocks: 1 };

impl Action {
    fn touches(&self) -> Vec<Touch> {
        let mut touches = self.blocks();
        let Action::Op(id, op) = self else { return touches };
        let mut named = vec![*id];
        if let Op::Copy(segments) = op {
            // Disks in empty segments must exist as well.
            named.extend(segments.iter().flat_map(|segment| [segment.source, segment.target]));
        }
        named.sort_unstable();
        named.dedup();
        touches.extend(named.into_iter().map(|id| Touch { id, extent: PRESENCE, writes: false }));
        touches
    }

    fn blocks(&self) -> Vec<Touch> {
        let one = |id: DiskId, extent, writes| vec![Touch { id, extent, writes }];
        match self {
            Action::Op(id, op) => match op {
                Op::Read(extent) | Op::Locate(extent) | Op::Status(extent) => one(*id, *extent, false),
                Op::Write { lba, data } | Op::Or { lba, data } => {
                    one(*id, Extent::new(*lba, data.len().div_ceil(512) as u64), true)
                }
                Op::CompareAndWrite { lba, write, compare } => {
                    one(*id, Extent::new(*lba, write.len().max(compare.len()).div_ceil(512) as u64), true)
                }
                Op::Fill { extent, .. } => one(*id, *extent, true),
                Op::Unmap(extents) => extents.iter().flat_map(|extent| one(*id, *extent, true)).collect(),
                Op::Copy(segments) => {
                    let touches = segments.iter().flat_map(|segment| {
                        let (from, to) = (segment.source_lba, segment.target_lba);
                        [
                            Touch {
                                id: segment.source,
                                extent: Extent::new(from, segment.blocks),
                                writes: false,
                            },
                            Touch {
                                id: segment.target,
                                extent: Extent::new(to, segment.blocks),
                                writes: true,
                            },
                        ]
                    });
                    touches.collect()
                }
                Op::SaveState(_) => one(*id, STATE, true),
                Op::Image => one(*id, EVERYTHING, false),
                Op::Flush => Vec::new(),
            },
            Action::Create(id, _) | Action::Resize(id, _) | Action::Delete(id, _) => {
                one(*id, EVERYTHING, true)
            }
            Action::Clone(source, id) | Action::Restore(id, source) => {
                [one(*source, EVERYTHING, false), one(*id, EVERYTHING, true)].concat()
            }
            Action::Snapshot(pairs, _) => {
                let each = |(source, id): &(DiskId, DiskId)| {
                    [one(*source, EVERYTHING, false), one(*id, EVERYTHING, true)].concat()
                };
                pairs.iter().flat_map(each).collect()
            }
            Action::Access(id, ..) | Action::Keep(id, ..) => one(*id, PRESENCE, true),
        }
    }

    fn perform(&self, model: &MemArray) -> Result {
        match self {
            Action::Op(id, op) => {
                let disk = model.disk(*id).ok_or(Error::Deleted)?;
                match pin!(disk.execute(op.clone())).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(result) => result,
                    Poll::Pending => Err(Error::NotReady),
                }
            }
            Action::Create(id, geometry) => {
                model.create(*id, *geometry);
                Ok(Reply::Done)
            }
            Action::Clone(source, id) => {
                model.disk(*source).ok_or(Error::Deleted)?;
                model.clone_disk(*source, *id);
                Ok(Reply::Done)
            }
            Action::Snapshot(pairs, until) => {
                if pairs.iter().any(|(source, _)| model.disk(*source).is_none()) {
                    return Err(Error::Deleted);
                }
                for (source, id) in pairs {
                    let snapshot = model.clone_disk(*source, *id);
                    snapshot.set_read_only(true);
                    snapshot.keep(*until);
                }
                Ok(Reply::Done)
            }
            Action::Restore(id, source) => {
                let source = model.disk(*source).ok_or(Error::Deleted)?;
                let disk = writable(model, *id)?;
                if disk.id() == source.id() || disk.geometry().block_bytes != source.geometry().block_bytes {
                    return Err(Error::Malformed("restore from itself, or between different block lengths"));
                }
                disk.restore(source.id());
                Ok(Reply::Done)
            }
            Action::Access(id, read_only, now) => {
                let until = if *read_only { u64::MAX } else { 0 };
                let disk = free(model, *id, until, *now)?;
                disk.set_read_only(*read_only);
                if !read_only {
                    disk.keep(0);
                }
                Ok(Reply::Done)
            }
            Action::Keep(id, until, now) => {
                let disk = free(model, *id, *until, *now)?;
                if *until > 0 && !disk.is_read_only() {
                    return Err(Error::Malformed("only a read-only disk can be kept"));
                }
                disk.keep(*until);
                Ok(Reply::Done)
            }
            Action::Resize(id, blocks) => {
                writable(model, *id)?.resize(*blocks);
                Ok(Reply::Done)
            }
            Action::Delete(id, now) => {
                free(model, *id, 0, *now)?;
                model.remove(*id);
                Ok(Reply::Done)
            }
        }
    }

    fn show(&self) -> String {
        match self {
            Action::Op(id, op) => format!("disk {}: {}", id.0, suite::show(op)),
            other => format!("{other:?}"),
        }
    }
}

/// Checks that a disk is not retained longer than `until`.
fn free(model: &MemArray, id: DiskId, until: u64, now: u64) -> std::result::Result<MemDisk, Error> {
    let disk = model.disk(id).ok_or(Error::Deleted)?;
    match disk.kept_until() {
        kept if kept > now && kept > until => Err(Error::RetentionLocked { until: kept }),
        _ => Ok(disk),
    }
}

/// A disk that takes changes.
fn writable(model: &MemArray, id: DiskId) -> std::result::Result<MemDisk, Error> {
    let disk = model.disk(id).ok_or(Error::Deleted)?;
    if disk.is_read_only() { Err(Error::ReadOnly) } else { Ok(disk) }
}

fn meet(one: &[Touch], other: &[Touch]) -> bool {
    one.iter()
        .any(|a| other.iter().any(|b| a.id == b.id && (a.writes || b.writes) && a.extent.overlaps(&b.extent)))
}

/// Number of an action in the history.
pub type ActionId = u64;

struct Entry {
    id: ActionId,
    action: Action,
    touches: Vec<Touch>,
    asked: u64,
    ended: Option<u64>,
    /// `None` while it is in progress, and for an action that ended without an answer.
    answer: Option<Result>,
}

impl Entry {
    /// Whether it ended with an unknown outcome.
    fn may_be_absent(&self) -> bool {
        self.ended.is_some() && self.answer.is_none()
    }

    fn show(&self) -> String {
        let answer = match &self.answer {
            None => "not answered".to_owned(),
            Some(Ok(Reply::Data(data))) => format!("{} bytes", data.len()),
            Some(answer) => format!("{answer:?}"),
        };
        format!("[{}..{:?}] {} → {answer}", self.asked, self.ended, self.action.show())
    }
}

/// The model, and the actions that it does not include yet.
#[derive(Default)]
pub struct History {
    /// The state after all explained actions.
    pub model: MemArray,
    geometries: BTreeMap<DiskId, Geometry>,
    entries: Vec<Entry>,
    clock: u64,
    /// Number of ended actions.
    ended: u64,
    /// Numbers of ended and of unreadable actions when no action could be explained.
    settled: Option<(u64, usize)>,
    traced: bool,
}

/// Attributes of a disk that are known without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its size.
    pub geometry: Geometry,
    /// Whether it takes no changes.
    pub read_only: bool,
    /// End of its retention.
    pub kept_until: u64,
    /// Its saved state.
    pub state: Bytes,
}

/// Attributes of a disk that are compared besides its contents.
type Profile = (Geometry, bool, u64);

impl Known {
    /// Attributes of a disk, with the end of its retention.
    pub fn of(disk: &dyn Disk, kept_until: u64) -> Self {
        Self { geometry: disk.geometry(), read_only: disk.is_read_only(), kept_until, state: disk.state() }
    }

    /// Attributes of a disk in the model.
    pub fn of_model(disk: &MemDisk) -> Self {
        Self::of(disk, disk.kept_until())
    }

    fn form(&self) -> Profile {
        (self.geometry, self.read_only, self.kept_until)
    }
}

/// The existing disks.
pub type Present = BTreeMap<DiskId, Known>;

/// Reads that are needed to check a conflict group, or their results.
pub type Observations = Vec<(DiskId, Op)>;

impl History {
    /// An empty history; `traced` prints every event.
    pub fn new(traced: bool) -> Self {
        Self { traced, ..Self::default() }
    }

    /// The disks in the model.
    pub fn disks(&self) -> Vec<(DiskId, Geometry)> {
        self.geometries.iter().map(|(id, geometry)| (*id, *geometry)).collect()
    }

    /// Removes a deleted disk without unexplained actions.
    pub fn forget(&mut self, id: DiskId) {
        self.model.remove(id);
        self.learn();
    }

    /// True if the action would join a group that is not too large and not being read back.
    pub fn admits(&self, action: &Action) -> bool {
        self.group(&action.touches()).len() < MAX_GROUP_ACTIONS
    }

    /// Number of unexplained actions.
    pub fn open(&self) -> usize {
        self.entries.len()
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.traced {
            eprintln!("{}", what());
        }
    }

    /// Records an action.
    pub fn ask(&mut self, action: Action) -> ActionId {
        self.clock += 1;
        let touches = action.touches();
        let (id, asked) = (self.clock, self.clock);
        let entry = Entry { id, action, touches, asked, ended: None, answer: None };
        self.tell(|| entry.show());
        self.entries.push(entry);
        id
    }

    /// One-line description of an action.
    pub fn show(&self, id: ActionId) -> String {
        self.entries.iter().find(|entry| entry.id == id).map(Entry::show).unwrap_or_default()
    }

    /// Records an answer.
    pub fn answer(&mut self, id: ActionId, answer: Result) {
        self.clock += 1;
        self.ended += 1;
        let Some(index) = self.entries.iter().position(|entry| entry.id == id) else { return };
        let leaves = |other: &Entry| {
            let names = |id: &DiskId| self.entries[index].touches.iter().any(|touch| touch.id == *id);
            other.answer.is_none() && matches!(&other.action, Action::Delete(id, _) if names(id))
        };
        let leaving = self.entries.iter().any(leaves);
        let entry = &mut self.entries[index];
        entry.ended = Some(self.clock);
        if self.traced {
            eprintln!(
                "{} {}",
                entry.show(),
                answer.as_ref().map_or_else(|error| error.to_string(), |_| "ok".into())
            );
        }
        match answer {
            // Refused as a whole: no effect to explain.
            Err(Error::NoSpace | Error::NotReady) => _ = self.entries.remove(index),
            // A disk in deletion may refuse before the deletion is durable.
            Err(Error::Deleted | Error::Unreachable(_))
                if leaving && matches!(entry.action, Action::Op(..)) =>
            {
                _ = self.entries.remove(index);
            }
            // The array stopped: reading will show the effect. An unread block has no answer.
            Err(Error::Stopped(_) | Error::Medium { .. }) => {}
            answer => entry.answer = Some(answer),
        }
    }

    /// Records that an action was cancelled, or lost in a crash.
    pub fn give_up(&mut self, id: ActionId) {
        self.clock += 1;
        self.ended += 1;
        self.tell(|| format!("given up: {id}"));
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.ended = Some(self.clock);
        }
    }

    /// The entries connected with these touches.
    fn group(&self, touches: &[Touch]) -> BTreeSet<usize> {
        let mut group = BTreeSet::new();
        let mut reach: Vec<Touch> = touches.to_vec();
        loop {
            let found = (0..self.entries.len())
                .find(|index| !group.contains(index) && meet(&self.entries[*index].touches, &reach));
            let Some(index) = found else { return group };
            reach.extend_from_slice(&self.entries[index].touches);
            group.insert(index);
        }
    }

    /// False if [`History::settle`] would do nothing, since no action has ended since the last time.
    pub fn may_settle(&self, unreadable: &BTreeSet<ActionId>) -> bool {
        self.settled != Some((self.ended, unreadable.len()))
    }

    /// Explains single actions with an answer. Then returns the members of a group that has to be read back, with the
    /// reads, if there is one. Groups with a member in `unreadable` wait for the next start.
    ///
    /// # Errors
    /// An answer that differs from the model.
    pub fn settle(
        &mut self,
        present: &Present,
        unreadable: &BTreeSet<ActionId>,
    ) -> std::result::Result<Option<(Vec<ActionId>, Observations)>, String> {
        let mut next = 0;
        while next < self.entries.len() {
            let group = self.group(&self.entries[next].touches.clone());
            let members: Vec<usize> = if group.is_empty() { vec![next] } else { group.into_iter().collect() };
            let stays = |entry: &Entry| entry.ended.is_none() || unreadable.contains(&entry.id);
            if members.iter().any(|index| stays(&self.entries[*index])) {
                next += 1;
                continue;
            }
            if members.len() > 1 || self.entries[members[0]].may_be_absent() {
                let ids = members.iter().map(|index| self.entries[*index].id).collect();
                return Ok(Some((ids, self.observations(&members, present))));
            }
            let entry = self.entries.remove(members[0]);
            let made = entry.action.perform(&self.model);
            self.learn();
            let answer = entry.answer.clone().unwrap_or(Err(Error::NotReady));
            if !self.agrees(&self.model, &entry.action, &made, &answer) {
                let made = Entry { answer: Some(made), ..entry };
                return Err(format!("answered {answer:?} instead of {}", made.show()));
            }
        }
        self.settled = Some((self.ended, unreadable.len()));
        Ok(None)
    }

    /// Reads and states of everything that the members write, if it exists.
    fn observations(&self, members: &[usize], present: &Present) -> Observations {
        let mut observations = Vec::new();
        for touch in
            members.iter().flat_map(|index| &self.entries[*index].touches).filter(|touch| touch.writes)
        {
            let Some(Known { geometry, .. }) = present.get(&touch.id) else { continue };
            let end = touch.extent.lba.saturating_add(touch.extent.blocks).min(geometry.blocks);
            let extent = Extent::new(touch.extent.lba, end.saturating_sub(touch.extent.lba));
            if extent.blocks > 0 {
                observations.push((touch.id, Op::Read(extent)));
                observations.push((touch.id, Op::Status(extent)));
            }
        }
        observations
    }

    /// True if one of these actions creates, deletes or resizes a disk, or saves its state.
    pub fn names_disks(&self, ids: &[ActionId]) -> bool {
        let mut members = self.entries.iter().filter(|entry| ids.contains(&entry.id));
        members.any(|entry| entry.touches.iter().any(Touch::changes_disk))
    }

    /// True if an unexplained action creates, deletes or resizes this disk, or saves its state.
    pub fn changes_disk(&self, id: DiskId) -> bool {
        let mut touches = self.entries.iter().flat_map(|entry| &entry.touches);
        touches.any(|touch| touch.id == id && touch.changes_disk())
    }

    /// Finds an order of these actions that explains their answers and the reads afterwards, and applies it.
    ///
    /// # Errors
    /// If there is none.
    pub fn check_group(
        &mut self,
        ids: &[ActionId],
        seen: &[(DiskId, Op, Result)],
        present: &Present,
    ) -> std::result::Result<(), String> {
        let (members, rest) =
            std::mem::take(&mut self.entries).into_iter().partition(|entry| ids.contains(&entry.id));
        self.entries = rest;
        let members: Vec<Entry> = members;
        let left: Vec<&Entry> = members.iter().collect();
        let writes = |id: &DiskId, what: &Extent| {
            let mut touches = members.iter().flat_map(|entry| &entry.touches);
            touches.any(|touch| touch.writes && touch.id == *id && touch.extent.overlaps(what))
        };
        // Disks that the members may have created, deleted or resized, and states that they may have saved.
        let ids = members.iter().flat_map(|entry| &entry.touches).map(|touch| touch.id);
        let presence = ids.filter(|id| writes(id, &PRESENCE));
        let presence: Vec<_> = presence.map(|id| (id, present.get(&id).map(Known::form))).collect();
        let states: Vec<_> = present.iter().filter(|(id, _)| writes(id, &STATE)).collect();
        let states: Vec<_> = states.into_iter().map(|(id, known)| (*id, known.state.clone())).collect();
        let ids: Vec<ActionId> = members.iter().map(|entry| entry.id).collect();
        let seen = Seen { seen, presence, states };
        let mut why = Vec::new();
        match self.explain(&self.model, &left, &seen, &mut why) {
            Some(model) => {
                self.tell(|| format!("explained: {ids:?}"));
                self.model = model;
                self.learn();
                Ok(())
            }
            None => {
                let members: Vec<_> = members.iter().map(Entry::show).collect();
                why.dedup();
                why.truncate(12);
                Err(format!(
                    "no order explains:\n  {}\nfor one:\n  {}",
                    members.join("\n  "),
                    why.join("\n  ")
                ))
            }
        }
    }

    fn explain(
        &self,
        model: &MemArray,
        left: &[&Entry],
        seen: &Seen<'_>,
        why: &mut Vec<String>,
    ) -> Option<MemArray> {
        if left.iter().all(|entry| entry.may_be_absent()) {
            match self.fits(model, seen) {
                Ok(()) => return Some(model.fork()),
                Err(difference) => why.push(difference),
            }
        }
        for entry in left {
            let before =
                |other: &&&Entry| other.id != entry.id && other.ended.is_some_and(|end| end < entry.asked);
            if left.iter().filter(before).any(|other| !other.may_be_absent()) {
                continue;
            }
            let model = model.fork();
            let made = entry.action.perform(&model);
            if let Some(answer) = &entry.answer
                && !self.agrees(&model, &entry.action, &made, answer)
            {
                why.push(format!("the model answers {:?} to {}", made, entry.action.show()));
                continue;
            }
            let rest: Vec<&Entry> =
                left.iter().filter(|other| other.id != entry.id && !before(other)).copied().collect();
            if let Some(found) = self.explain(&model, &rest, seen, why) {
                return Some(found);
            }
        }
        None
    }

    fn fits(&self, model: &MemArray, seen: &Seen<'_>) -> std::result::Result<(), String> {
        for (id, op, real) in seen.seen {
            let expected = Action::Op(*id, op.clone()).perform(model);
            if let (Err(_), Err(_)) = (&expected, real) {
                continue;
            }
            let geometry =
                model.disk(*id).map_or(Geometry { block_bytes: 512, blocks: 0 }, |disk| disk.geometry());
            suite::compare(op, geometry, &expected, real)
                .map_err(|difference| format!("disk {}: {}: {difference}", id.0, suite::show(op)))?;
        }
        for (id, form) in &seen.presence {
            let expected = model.disk(*id).map(|disk| Known::of_model(&disk).form());
            if expected != *form {
                return Err(format!("disk {}: {form:?} instead of {expected:?}", id.0));
            }
        }
        for (id, state) in &seen.states {
            if model.disk(*id).is_some_and(|disk| disk.state() != *state) {
                return Err(format!("disk {}: another saved state", id.0));
            }
        }
        Ok(())
    }

    fn agrees(&self, model: &MemArray, action: &Action, made: &Result, answer: &Result) -> bool {
        match action {
            Action::Op(id, op) => {
                let geometry =
                    model.disk(*id).map_or(Geometry { block_bytes: 512, blocks: 0 }, |disk| disk.geometry());
                let away = |result: &Result| matches!(result, Err(Error::Deleted | Error::Unreachable(_)));
                away(made) && away(answer)
                    || suite::compare(op, geometry, made, answer).is_ok()
                    || made.is_err() && is_a_reason(model, op, answer)
            }
            _ => made.is_ok() == answer.is_ok(),
        }
    }

    fn learn(&mut self) {
        self.geometries = self.model.disks().into_iter().map(|disk| (disk.id(), disk.geometry())).collect();
    }
}

/// Whether an error is a valid reason for refusing a copy: if there are several, the copy may report any.
fn is_a_reason(model: &MemArray, op: &Op, answer: &Result) -> bool {
    let Op::Copy(segments) = op else { return false };
    let ends = |id: DiskId, lba: u64, blocks: u64| match Extent::new(lba, blocks).end() {
        Some(end) => model.disk(id).is_some_and(|disk| end > disk.geometry().blocks),
        None => true,
    };
    segments.iter().any(|segment| match answer {
        Err(Error::ReadOnly) => model.disk(segment.target).is_some_and(|disk| disk.is_read_only()),
        Err(Error::OutOfRange { .. }) => {
            ends(segment.source, segment.source_lba, segment.blocks)
                || ends(segment.target, segment.target_lba, segment.blocks)
        }
        Err(Error::Deleted | Error::Unreachable(_)) => {
            [segment.source, segment.target].into_iter().any(|id| model.disk(id).is_none())
        }
        _ => false,
    })
}

struct Seen<'a> {
    seen: &'a [(DiskId, Op, Result)],
    presence: Vec<(DiskId, Option<Profile>)>,
    states: Vec<(DiskId, Bytes)>,
}
