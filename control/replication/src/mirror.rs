//! Mirror of a synchronous group: the changes in transit to the other array, and the acknowledgements that wait for
//! them.
//!
//! The mirror is the tap of the group's volumes, so it sees changes in the order of the journal. It numbers the changes
//! that it holds, across all connections. An acknowledgement waits until its number is *done*: the other array has the
//! change, or the mirror has given up the other array for now. [`Source::mirror`](crate::Source::mirror) sends the
//! changes.

use block::DiskId;
use engine::{Hold, Part, Tap, Tapped};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Maximum bytes of unsent changes. Hosts exceed this only by aborting commands.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// Bytes of a change in addition to its data.
const CHANGE_BYTES: usize = 256;

/// Policy for writes while the other array can't be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLinkLoss {
    /// Writes are acknowledged without it.
    Continue,
    /// Writes wait, and fail after [`Mirror::refuse`].
    Stop,
}

/// Synchronization state of both arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorState {
    /// Writes are acknowledged without the other array.
    CatchingUp,
    /// A point that will bring both in sync is in transit: writes wait for it.
    Joining,
    /// Acknowledged writes are on both arrays.
    InSync,
    /// The other array is unreachable, and writes wait for it.
    Held,
    /// The other array is unreachable, and writes are refused.
    Stopped,
}

/// Progress of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorProgress {
    /// Synchronization state.
    pub state: MirrorState,
    /// Changes that wait for the other array.
    pub waiting: u64,
    /// Time from sending the last change until it was durable on the other array, in nanoseconds; `None` without a
    /// session.
    pub round_trip_ns: Option<u64>,
}

/// Position of a session's point in the order of changes.
#[derive(Debug, Default)]
enum Mark {
    #[default]
    None,
    /// The point will have these snapshots.
    Expected(Vec<DiskId>),
    /// The point has all changes up to this number.
    Taken(u64),
}

/// A change to send.
#[derive(Debug)]
pub(crate) struct Queued {
    pub number: u64,
    pub parts: Vec<Tapped>,
}

struct Inner {
    on_loss: OnLinkLoss,
    /// Both arrays were in sync: from then on [`OnLinkLoss`] applies.
    armed: bool,
    state: MirrorState,
    /// Writes are refused until both arrays are in sync again.
    refuses: bool,
    /// Number of the last held change.
    last: u64,
    /// Changes up to this number are acknowledged.
    done: u64,
    /// Of the remaining changes, those up to this number fail.
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

/// A session of a mirror; it ends on drop.
pub(crate) struct Session<'a>(&'a Mirror);

impl Inner {
    /// Takes the waiters that can continue now.
    fn answered(&mut self) -> Vec<Waker> {
        let until = self.done.max(self.failed);
        let answered = self.waiting.extract_if(.., |(number, _)| *number <= until).map(|(_, waker)| waker);
        answered.chain(self.watching.drain(..)).collect()
    }

    /// Number of changes that the other array does not have. In a session, this includes changes that were refused
    /// while it began.
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

    /// Applies the policy for writes without the other array.
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

    /// Takes a change; false if the mirror does not hold it.
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
    /// A mirror without a session. `armed`: both arrays were in sync when the last mirror ended
    /// ([`is_armed`](crate::is_armed)); with [`OnLinkLoss::Stop`], no write is acknowledged until they are in sync
    /// again.
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

    /// Synchronization state of both arrays.
    pub fn state(&self) -> MirrorState {
        self.0.lock().state
    }

    /// Progress of the mirror.
    pub fn progress(&self) -> MirrorProgress {
        let inner = self.0.lock();
        let (state, round_trip_ns) = (inner.state, inner.round_trip_ns);
        MirrorProgress { state, waiting: inner.unanswered(), round_trip_ns }
    }

    /// Whether both arrays were in sync, and this one has acknowledged nothing alone since.
    pub fn is_armed(&self) -> bool {
        self.0.lock().armed
    }

    /// Whether writes are refused.
    pub fn refuses(&self) -> bool {
        self.0.lock().refuses
    }

    /// Completes when both arrays are in sync.
    pub async fn in_sync(&self) {
        self.watch(|inner| (inner.state == MirrorState::InSync).then_some(())).await;
    }

    /// Returns true once no change waits for the other array, and false if both are not in sync.
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

    /// Lets this array continue alone until both are in sync again, regardless of [`OnLinkLoss`]: waiting writes are
    /// acknowledged. Only without a session, and after [`disarm`](crate::disarm) is durable; otherwise it would stop
    /// after a restart.
    pub fn go_alone(&self) {
        self.update(|inner| {
            inner.armed = false;
            if inner.state != MirrorState::InSync && inner.state != MirrorState::Joining {
                inner.fall_back();
            }
        });
    }

    /// Sets the policy for an unreachable array. With [`OnLinkLoss::Continue`], writes that wait for an unreachable
    /// array are acknowledged now.
    pub fn set_on_link_loss(&self, on_loss: OnLinkLoss) {
        self.update(|inner| {
            inner.on_loss = on_loss;
            if matches!(inner.state, MirrorState::Held | MirrorState::Stopped) {
                inner.fall_back();
            }
        });
    }

    /// Refuses new and waiting writes until both arrays are in sync again. Only while writes wait for an unreachable
    /// array, or for the point that will bring both in sync.
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

    /// The next change to send.
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
    /// Announces the snapshots of the session's point.
    pub fn expect(&self, snapshots: Vec<DiskId>) {
        self.0.0.lock().mark = Mark::Expected(snapshots);
    }

    /// Notes that the other array has the point, and a durable record that it has all acknowledged writes.
    pub fn join(&self) {
        self.0.update(|inner| {
            let Mark::Taken(number) = inner.mark else { unreachable!("the point was taken") };
            (inner.state, inner.armed, inner.refuses) = (MirrorState::InSync, true, false);
            inner.done = inner.done.max(number);
        });
    }

    /// Notes that the other array has all changes up to this number.
    pub fn acknowledge(&self, number: u64) {
        self.0.update(|inner| inner.done = inner.done.max(number));
    }

    /// Notes the time from sending a change until it was durable on the other array.
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
