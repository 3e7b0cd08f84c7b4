//! Mirror: the changes of a group on their way to the other array, and the acknowledgements that wait for them.
//!
//! It is the tap of the group's volumes, so it sees changes in the order of the journal. Each that is held has a number, over all
//! connections. An acknowledgement waits until its number is *done*: the other array has the change, or the mirror has given up
//! the other array for now. [`Source::mirror`](crate::Source::mirror) moves the changes.

use block::DiskId;
use engine::{Hold, Part, Tap, Tapped};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Bytes of changes that were not sent yet: hosts have no more under way, unless they abort what they have sent.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// Bytes that a change takes besides its data.
const CHANGE_BYTES: usize = 256;

/// Policy for writes while the other array can't be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLinkLoss {
    /// They are acknowledged without it.
    Continue,
    /// They wait, and fail after [`Mirror::refuse`].
    Stop,
}

/// How far both arrays are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorState {
    /// Writes are acknowledged without the other array.
    CatchingUp,
    /// A point is on its way with which both will be the same: writes wait for it.
    Joining,
    /// Acknowledged writes are on both arrays.
    InSync,
    /// The other array is out of reach, and writes wait for it.
    Held,
    /// The other array is out of reach, and writes are refused.
    Stopped,
}

/// Progress of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorProgress {
    /// How far both arrays are the same.
    pub state: MirrorState,
    /// Changes that wait for the other array.
    pub waiting: u64,
    /// Time from sending a change until the other array had it durably, in nanoseconds, of the last one; `None`
    /// without a session.
    pub round_trip_ns: Option<u64>,
}

/// Position of a session's point in the order of changes.
#[derive(Debug, Default)]
enum Mark {
    #[default]
    None,
    /// The point will have these snapshots.
    Expected(Vec<DiskId>),
    /// It has all changes up to this number.
    Taken(u64),
}

/// A change that is to be sent.
#[derive(Debug)]
pub(crate) struct Queued {
    pub number: u64,
    pub parts: Vec<Tapped>,
}

struct Inner {
    on_loss: OnLinkLoss,
    /// Both arrays were the same once: from then on [`OnLinkLoss`] counts.
    armed: bool,
    state: MirrorState,
    /// Writes are refused until both arrays are the same again.
    refuses: bool,
    /// Number of the last change that is held.
    last: u64,
    /// Changes up to this number are acknowledged.
    done: u64,
    /// Of the others, those up to this number fail.
    failed: u64,
    mark: Mark,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    broken: Option<&'static str>,
    waiting: Vec<(u64, Waker)>,
    sender: Option<Waker>,
    round_trip_ns: Option<u64>,
    /// Waiters for another state, or for the last change.
    watching: Vec<Waker>,
}

/// The mirror of a group.
pub struct Mirror(Arc<Mutex<Inner>>);

/// A session of a mirror, which ends when this is dropped.
pub(crate) struct Session<'a>(&'a Mirror);

impl Inner {
    /// Takes the waiters that can continue now.
    fn answered(&mut self) -> Vec<Waker> {
        let until = self.done.max(self.failed);
        let answered = self.waiting.extract_if(.., |(number, _)| *number <= until).map(|(_, waker)| waker);
        answered.chain(self.watching.drain(..)).collect()
    }

    /// Changes that the other array does not have. In a session it gets those as well that were refused while it began.
    fn unanswered(&self) -> u64 {
        let refused = if self.state == MirrorState::InSync { 0 } else { self.failed };
        self.last - self.done.max(refused)
    }

    fn forget_queue(&mut self) {
        (self.mark, self.broken, self.round_trip_ns) = (Mark::None, None, None);
        self.queue.clear();
        self.queued_bytes = 0;
    }

    fn break_session(&mut self, why: &'static str) {
        self.broken.get_or_insert(why);
        self.queue.clear();
        self.queued_bytes = 0;
    }

    /// Policy for writes without the other array.
    fn fall_back(&mut self) {
        self.state = match self.on_loss {
            OnLinkLoss::Stop if self.armed && self.refuses => MirrorState::Stopped,
            OnLinkLoss::Stop if self.armed => MirrorState::Held,
            _ => {
                (self.armed, self.refuses, self.done) = (false, false, self.last);
                MirrorState::CatchingUp
            }
        };
    }

    /// Takes a change; false if it is not held.
    fn take(&mut self, parts: Vec<Tapped>) -> bool {
        if parts.is_empty() {
            return self.state != MirrorState::CatchingUp;
        }
        let is_mark =
            |part: &Tapped, ids: &[DiskId]| matches!(&part.part, Part::Cloned { id } if ids.contains(id));
        if let Mark::Expected(ids) = &self.mark
            && parts.iter().any(|part| is_mark(part, ids))
        {
            self.mark = Mark::Taken(self.last);
            return false;
        }
        let parts: Vec<_> = parts.into_iter().filter(|it| !matches!(it.part, Part::Cloned { .. })).collect();
        if parts.is_empty() || self.state == MirrorState::CatchingUp {
            return false;
        }
        self.last += 1;
        let is_taken = matches!(self.mark, Mark::Taken(_));
        if is_taken && parts.iter().any(|part| part.part == Part::Replaced) {
            self.break_session("the content of a volume was replaced");
        }
        if is_taken && self.broken.is_none() {
            self.queued_bytes += CHANGE_BYTES + parts.iter().map(data_bytes).sum::<usize>();
            self.queue.push_back(Queued { number: self.last, parts });
            if self.queued_bytes > MAX_QUEUED_BYTES {
                self.break_session("more is written than the other array takes");
            }
        }
        true
    }
}

fn data_bytes(tapped: &Tapped) -> usize {
    match &tapped.part {
        Part::Data { data, .. } | Part::Same { data, .. } => data.len(),
        _ => 0,
    }
}

impl Tap for Mirror {
    fn admit(&self) -> block::Result<()> {
        if self.0.lock().refuses { Err(block::Error::Unreplicated) } else { Ok(()) }
    }

    fn changed(&self, parts: Vec<Tapped>) -> Option<Hold> {
        let (number, sender) = {
            let mut inner = self.0.lock();
            let held = inner.take(parts);
            (held.then_some(inner.last), inner.sender.take())
        };
        sender.into_iter().for_each(Waker::wake);
        let (number, inner) = (number?, self.0.clone());
        Some(Box::pin(poll_fn(move |cx| poll_done(&inner, number, cx))))
    }
}

/// Whether a change is acknowledged.
fn poll_done(inner: &Mutex<Inner>, number: u64, cx: &Context<'_>) -> Poll<block::Result<()>> {
    let mut inner = inner.lock();
    if number <= inner.done {
        return Poll::Ready(Ok(()));
    }
    if number <= inner.failed {
        return Poll::Ready(Err(block::Error::Unreplicated));
    }
    inner.waiting.push((number, cx.waker().clone()));
    Poll::Pending
}

impl Mirror {
    /// A mirror without a session. `armed`: both arrays were the same when this one was stopped
    /// ([`is_armed`](crate::is_armed)); with [`OnLinkLoss::Stop`] nothing is acknowledged then before they are again.
    pub fn new(on_loss: OnLinkLoss, armed: bool) -> Self {
        let mut inner = Inner {
            on_loss,
            armed,
            state: MirrorState::CatchingUp,
            refuses: false,
            last: 0,
            done: 0,
            failed: 0,
            mark: Mark::None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            broken: None,
            waiting: Vec::new(),
            sender: None,
            round_trip_ns: None,
            watching: Vec::new(),
        };
        inner.fall_back();
        Self(Arc::new(Mutex::new(inner)))
    }

    /// How far both arrays are the same.
    pub fn state(&self) -> MirrorState {
        self.0.lock().state
    }

    /// Its progress.
    pub fn progress(&self) -> MirrorProgress {
        let inner = self.0.lock();
        let (state, round_trip_ns) = (inner.state, inner.round_trip_ns);
        MirrorProgress { state, waiting: inner.unanswered(), round_trip_ns }
    }

    /// Whether both arrays were the same, and nothing was acknowledged by this one alone since.
    pub fn is_armed(&self) -> bool {
        self.0.lock().armed
    }

    /// Whether writes are refused.
    pub fn refuses(&self) -> bool {
        self.0.lock().refuses
    }

    /// Returns once both arrays are the same.
    pub async fn in_sync(&self) {
        self.watch(|inner| (inner.state == MirrorState::InSync).then_some(())).await;
    }

    /// Returns true once no change waits for the other array, and false if both are not the same.
    pub async fn settled(&self) -> bool {
        self.watch(|inner| match inner.state {
            MirrorState::InSync => (inner.unanswered() == 0).then_some(true),
            _ => Some(false),
        })
        .await
    }

    async fn watch<T>(&self, look: impl Fn(&Inner) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut inner = self.0.lock();
            match look(&inner) {
                Some(seen) => Poll::Ready(seen),
                None => {
                    inner.watching.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Lets this array go on alone until both are the same again, whatever [`OnLinkLoss`] says: what waits is acknowledged. Only
    /// without a session, and after [`disarm`](crate::disarm) is durable: it would stop after a restart otherwise.
    pub fn go_alone(&self) {
        self.update(|inner| {
            inner.armed = false;
            if inner.state != MirrorState::InSync && inner.state != MirrorState::Joining {
                inner.fall_back();
            }
        });
    }

    /// Sets what happens when the other array is out of reach. With [`OnLinkLoss::Continue`] what waits for it is
    /// acknowledged now, if it is out of reach.
    pub fn set_on_link_loss(&self, on_loss: OnLinkLoss) {
        self.update(|inner| {
            inner.on_loss = on_loss;
            if matches!(inner.state, MirrorState::Held | MirrorState::Stopped) {
                inner.fall_back();
            }
        });
    }

    /// Refuses writes, also those that wait, until both arrays are the same again; only while they wait for an array
    /// that is out of reach, or for the point with which both will be the same again.
    pub fn refuse(&self) {
        self.update(|inner| match inner.state {
            MirrorState::Held => {
                (inner.state, inner.refuses, inner.failed) = (MirrorState::Stopped, true, inner.last);
            }
            MirrorState::Joining if inner.armed && inner.on_loss == OnLinkLoss::Stop => {
                (inner.refuses, inner.failed) = (true, inner.last);
            }
            _ => {}
        });
    }

    fn update(&self, change: impl FnOnce(&mut Inner)) {
        let wakers = {
            let mut inner = self.0.lock();
            change(&mut inner);
            inner.answered()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Begins a session: from now on writes wait.
    pub(crate) fn begin(&self) -> Session<'_> {
        let mut inner = self.0.lock();
        inner.forget_queue();
        inner.state = MirrorState::Joining;
        Session(self)
    }

    /// The next change to be sent.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<crate::Result<Queued>> {
        let mut inner = self.0.lock();
        if let Some(why) = inner.broken {
            return Poll::Ready(Err(crate::Error::Unmirrored(why)));
        }
        match inner.queue.pop_front() {
            Some(queued) => {
                inner.queued_bytes -= CHANGE_BYTES + queued.parts.iter().map(data_bytes).sum::<usize>();
                Poll::Ready(Ok(queued))
            }
            None => {
                inner.sender = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Session<'_> {
    /// The point of the session will have these snapshots.
    pub fn expect(&self, snapshots: Vec<DiskId>) {
        self.0.0.lock().mark = Mark::Expected(snapshots);
    }

    /// The other array has the point, and knows durably that it has everything that is acknowledged.
    pub fn join(&self) {
        self.0.update(|inner| {
            let Mark::Taken(number) = inner.mark else { unreachable!("the point was taken") };
            (inner.state, inner.armed, inner.refuses) = (MirrorState::InSync, true, false);
            inner.done = inner.done.max(number);
        });
    }

    /// The other array has all changes up to this number.
    pub fn acknowledge(&self, number: u64) {
        self.0.update(|inner| inner.done = inner.done.max(number));
    }

    /// A change was durable on the other array so long after it was sent.
    pub fn note_round_trip(&self, ns: u64) {
        self.0.0.lock().round_trip_ns = Some(ns);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.0.update(|inner| {
            inner.forget_queue();
            inner.fall_back();
        });
    }
}
