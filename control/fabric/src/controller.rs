//! One of several controllers of an array, in Ceph or on drives that two servers share: it takes part in the cluster,
//! waits until it is the home of the array, and ends when it is not any more.
//!
//! The membership runs on a thread of its own, so that nothing else delays its beats. In Ceph it has its own client.

use crate::board::{self, Board, DOMAIN, Home, Order};
use anyhow::{Context, Result, anyhow, bail};
use cluster::{Config, Event, Identity, Lease, Map, Member, MembershipEnd, Service, Timing};
use machine::random;
use machine::threads::{self, Watched};
use rados::objects::Objects;
use rustix::time::{ClockId, clock_gettime};
use shelf::arbiter::{Arbiter, MemberId};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use transport::Permit;

/// How long a stop waits until the others know of it. They notice later by themselves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Exit code of a controller that the others have expelled. It is to be started again.
const EXPELLED: i32 = 75;

/// What the membership has come to.
#[derive(Clone, Debug)]
enum State {
    /// Another controller is the home, or none is yet.
    Standby,
    /// This one is.
    Home(Home),
    /// It has left.
    Left,
    /// It could not take part.
    Failed(String),
}

/// The map of the cluster, as it changes; `None` until it is known.
pub type MapWatch = watch::Receiver<Option<Arc<Map>>>;

/// The version of the map in which this process joined; `None` until it takes part. The map may name an earlier process of this
/// controller until then.
pub type JoinWatch = watch::Receiver<Option<u64>>;

/// The membership of this process.
pub struct Controller {
    lease: Arc<Lease>,
    state: watch::Receiver<State>,
    joined: JoinWatch,
    /// True when an operator has drained this controller while it was the home.
    drained: watch::Receiver<bool>,
    map: MapWatch,
    leave: UnboundedSender<()>,
    thread: JoinHandle<()>,
    handle: Handle,
}

/// Nanoseconds of a clock that counts while the machine sleeps.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0))
}

impl Controller {
    /// Begins to take part in the cluster of an array in Ceph that exists.
    pub async fn start(
        objects: Arc<dyn Objects>,
        array: u128,
        about: (u16, cluster::Link, Service),
        board: Arc<Board>,
    ) -> Result<Self> {
        let owner =
            rados::owner_epoch(&*objects, DOMAIN).await.context("the owner of the array is not known")?;
        let arbiter = rados::Arbiter::new(objects).await.context("the cluster's objects can't be made")?;
        Self::begin(arbiter, (array, owner), about, board)
    }

    /// Begins to take part in the cluster of an array that exists; `owner` is the newest epoch of its owners.
    pub fn begin(
        arbiter: Arc<dyn Arbiter>,
        (array, owner): (u128, u64),
        (id, link, service): (u16, cluster::Link, Service),
        board: Arc<Board>,
    ) -> Result<Self> {
        let identity = Identity {
            id: MemberId(id),
            name: board::host_name(),
            instance: u64::from_le_bytes(random()?),
            link,
            service,
            release: env!("CARGO_PKG_VERSION").into(),
            reads: *engine::FORMATS.end(),
        };
        let first_version = Some(owner + 1);
        let config = Config {
            identity,
            array,
            witnesses: arbiter.witnesses(),
            timing: Timing::PRODUCT,
            first_version,
        };
        let member = Member::new(config);
        let lease = member.lease();
        let (announce, state) = watch::channel(State::Standby);
        let (leave, asked_to_leave) = unbounded_channel();
        let (orders, ordered) = unbounded_channel();
        board.set_orders(orders);
        let (hand_over, drained) = watch::channel(false);
        let (show, map) = watch::channel(None);
        let (join, joined) = watch::channel(None);
        let announce = Announcements { state: announce, joined: join, hand_over, map: show, board };
        let runtime = threads::management()?;
        let handle = runtime.handle().clone();
        let thread = threads::named("cluster", move || {
            runtime.block_on(drive(member, arbiter, (asked_to_leave, ordered), announce));
        })?;
        Ok(Self { lease, state, joined, drained, map, leave, thread, handle })
    }

    /// Its thread, for the watchdog.
    pub fn watched(&self) -> Watched {
        ("cluster".into(), self.handle.clone())
    }

    /// The cluster's map, as it changes.
    pub fn map(&self) -> MapWatch {
        self.map.clone()
    }

    /// Since which version of the map this process takes part.
    pub fn joined(&self) -> JoinWatch {
        self.joined.clone()
    }

    /// Permission to answer hosts: while the lease holds.
    pub fn permit(&self) -> Permit {
        let lease = self.lease.clone();
        Permit::new(move || lease.holds(now()))
    }

    /// Waits until this controller is the home of the array.
    pub async fn home(&self) -> Result<Home> {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                State::Standby => {}
                State::Home(home) => return Ok(*home),
                State::Left => bail!("this controller has left the cluster"),
                State::Failed(why) => bail!("{why}"),
            }
            state.changed().await.map_err(|_| anyhow!("the thread of the cluster has ended"))?;
        }
    }

    /// Waits until this controller is to hand the array over.
    pub async fn drained(&self) {
        let mut drained = self.drained.clone();
        if drained.wait_for(|drained| *drained).await.is_err() {
            // The membership has ended, which is reported elsewhere.
            std::future::pending().await
        }
    }

    /// Whether it is to.
    pub fn is_drained(&self) -> bool {
        *self.drained.borrow()
    }

    /// Leaves in order: another controller becomes the home at once. Nothing is served any more.
    pub async fn leave(self) {
        let mut state = self.state.clone();
        // Fails when it has left already.
        _ = self.leave.send(());
        let gone = state.wait_for(|state| matches!(state, State::Left | State::Failed(_)));
        if timeout(LEAVE_TIMEOUT, gone).await.is_err() {
            tracing::warn!("the other controllers do not know yet that this one has stopped");
            return;
        }
        _ = self.thread.join();
    }
}

/// Where the membership reports.
struct Announcements {
    state: watch::Sender<State>,
    joined: watch::Sender<Option<u64>>,
    hand_over: watch::Sender<bool>,
    map: watch::Sender<Option<Arc<Map>>>,
    board: Arc<Board>,
}

/// Performs the requests of a member until it is none any more.
async fn drive(
    mut member: Member,
    arbiter: Arc<dyn Arbiter>,
    (mut asked_to_leave, mut ordered): (UnboundedReceiver<()>, UnboundedReceiver<Order>),
    announcements: Announcements,
) {
    let Announcements { state, .. } = &announcements;
    let (replies, mut arrived) = unbounded_channel();
    let mut orders: Vec<Order> = Vec::new();
    loop {
        member.set_time(board::time());
        for (id, request) in member.poll(now()) {
            let (reply, replies) = (request.perform(&*arbiter), replies.clone());
            tokio::spawn(async move { _ = replies.send((id, reply.await)) });
        }
        for event in member.events() {
            if announcements.follow(member.id(), event, &mut orders).is_break() {
                return;
            }
        }
        let now = now();
        let pause =
            Duration::from_nanos(member.next_wake(now).saturating_sub(now)).min(Duration::from_secs(1));
        tokio::select! {
            Some((id, reply)) = arrived.recv() => member.reply(self::now(), id, reply),
            Some(order) = ordered.recv() => {
                member.change(order.change);
                orders.push(order);
            }
            Some(()) = asked_to_leave.recv() => {
                // It serves nothing any more, and ends in order.
                _ = state.send_replace(State::Standby);
                member.leave();
            }
            () = sleep(pause) => {}
        }
    }
}

impl Announcements {
    /// Reports what has happened; breaks when the membership has ended.
    fn follow(&self, own: MemberId, event: Event, orders: &mut Vec<Order>) -> ControlFlow<()> {
        let Self { state, joined, hand_over, map: shown, board } = self;
        match event {
            Event::Joined { version } => {
                tracing::info!(controller = own.0, version, "this controller takes part");
                _ = joined.send_replace(Some(version));
            }
            Event::Changed(map) => {
                tracing::info!(version = map.version, "the cluster's map has changed");
                board.follow(&map);
                _ = shown.send_replace(Some(map));
            }
            Event::Serve { domain: DOMAIN, epoch, succession } => {
                tracing::info!(epoch, ?succession, "this controller is the home of the array");
                _ = state.send_replace(State::Home(Home { epoch, succession, since: Instant::now() }));
            }
            Event::Serve { domain, .. } => {
                tracing::warn!(domain, "a domain that this release does not know")
            }
            // Its store refuses this process, or will: what it has in memory is out of date.
            Event::Cease { .. } => end_if_home(state, "another controller is the home of the array now"),
            Event::HandOver => {
                tracing::info!("an operator has drained this controller: it hands the array over");
                _ = hand_over.send_replace(true);
            }
            Event::Settled(change, outcome) => {
                if let Some(at) = orders.iter().position(|order| order.change == change) {
                    // Who waited may have given up.
                    _ = orders.swap_remove(at).done.send(outcome);
                }
            }
            Event::Ended(MembershipEnd::Left) => {
                _ = state.send_replace(State::Left);
                return ControlFlow::Break(());
            }
            Event::Ended(end) => {
                end_if_home(state, &end.to_string());
                _ = state.send_replace(State::Failed(end.to_string()));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Ends the process if it serves hosts: sessions must not outlive the membership, and nothing in memory is of use. What was
/// acknowledged is durable.
fn end_if_home(state: &watch::Sender<State>, why: &str) {
    if matches!(*state.borrow(), State::Home(_)) {
        tracing::error!(why, "this controller stops at once; start it again, and it takes part again");
        std::process::exit(EXPELLED);
    }
}
