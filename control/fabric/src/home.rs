//! The home's end of the links: performs the commands of front ends while this controller may answer hosts.

use crate::admission::{self, Door, authenticate};
use crate::board::DOMAIN;
use crate::controller::MapWatch;
use crate::copies::{self, HISTORY, Progress};
use crate::join::{Grant, JOIN};
use crate::link::{HANDSHAKE_TIMEOUT, Link, PROTOCOL, TICK, now};
use crate::logins::{self, LOGINS, PutLogins};
use crate::mutual_tls::Session;
use crate::relay::{self, API, TakeApi};
use crate::wire::Wire;
use crate::{portals, ports};
use anyhow::{Context, Result, ensure};
use array::Portals;
use block::Ledger;
use bytes::Bytes;
use cluster::MapMember;
use forward::{FrontEnd, Service};
use history::Store;
use iscsi::AccessTable;
use parking_lot::Mutex;
use peer::message::Hello;
use peer::{Channel, Received};
use scsi::{Power, Target};
use shelf::arbiter::MemberId;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use transport::{Admitted, Permit};

/// Interval at which hosts may learn that a controller forwards, or does not.
const FOLLOW: Duration = Duration::from_millis(250);
/// How long a home that stops waits until others have its history.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Reads the portals that are recorded.
pub type RecordedPortals = Arc<dyn Fn() -> Portals + Send + Sync>;

/// What a home has of the process.
pub struct Parts {
    /// The link of this controller.
    pub link: Link,
    /// The cluster's map.
    pub map: MapWatch,
    /// The data folder, of which a new controller gets the keys.
    pub data: PathBuf,
    /// What performs commands; its configuration is complete.
    pub target: Arc<Target>,
    /// The store's, if it notes commands.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// Permission to answer hosts.
    pub permit: Permit,
    /// The portals that are recorded.
    pub portals: RecordedPortals,
    /// What front ends copy.
    pub history: Arc<Store>,
    /// Takes connections of the API.
    pub take_api: TakeApi,
    /// Takes log-ins.
    pub put_logins: PutLogins,
    /// Threads on which commands are performed.
    pub shards: Vec<Handle>,
}

/// The home of the array, for the front ends.
pub struct Home {
    parts: Parts,
    configuration: watch::Sender<Bytes>,
    /// The portals of other controllers that this one serves.
    moved: Mutex<BTreeSet<u16>>,
    /// What sends the history to front ends, by their numbers.
    copies: Mutex<BTreeMap<u16, Sending>>,
    fronts: Mutex<BTreeMap<u64, Front>>,
    /// Processes of front ends that have named all their nexuses.
    settled: Mutex<BTreeSet<u64>>,
    services: AtomicU32,
}

/// A front end.
struct Front {
    /// Its number.
    member: u16,
    arrivals: UnboundedSender<Arrival>,
    is_connected: bool,
}

/// The history on its way to a front end.
struct Sending {
    task: AbortHandle,
    progress: Arc<Progress>,
}

/// A connection whose other end is known.
struct Arrival {
    wire: Wire,
    channel: Channel,
    hello: Hello,
}

impl Home {
    /// The home of a target. `target_name`: its iSCSI name; `access`: who may log in.
    pub fn new(parts: Parts, target_name: &str, access: AccessTable) -> Arc<Self> {
        let (moved, copies, fronts, settled, services) = Default::default();
        let served = (&(parts.portals)(), &BTreeSet::new());
        let configuration = watch::Sender::new(portals::configuration(target_name, access, served));
        Arc::new(Self { parts, configuration, moved, copies, fronts, settled, services })
    }

    /// What this process does for one front end.
    fn service(&self, joined: u64) -> Service {
        let number = self.services.fetch_add(1, Ordering::Relaxed);
        Service::new((self.parts.target.clone(), self.parts.ledger.clone()), DOMAIN, joined, number)
    }

    /// Forgets the commands of processes that do not take part any more: none of them sends one again.
    pub async fn forget(&self, map: &cluster::Map) {
        let Some(ledger) = &self.parts.ledger else { return };
        for front in ledger.fronts() {
            if !map.active_members().any(|(_, joined)| joined == front) {
                // An engine that has stopped ends this process.
                _ = ledger.forget(front).await;
            }
        }
    }

    /// Follows what the map says of the target's power and of front ends that may resume nexuses, and saves what hosts do not
    /// wait for.
    pub async fn keep_state(&self, map: &cluster::Map) {
        let is_active = |front: u64| map.active_members().any(|(_, joined)| joined == front);
        let settled = {
            let mut settled = self.settled.lock();
            settled.retain(|front| is_active(*front));
            settled.clone()
        };
        let may_resume = |front: u64| is_active(front) && !settled.contains(&front);
        if let Power::Unknown { fresh } = self.parts.target.power() {
            // A process that joined later knows no former home, and this one does not know it.
            let before = |member: &&MapMember| member.joined < fresh && member.id != self.parts.link.own.id;
            let is_linked = |member: &MapMember| !member.link.address.is_empty();
            let mut others = map.members.iter().filter(before);
            if !others.any(|member| is_linked(member) && may_resume(member.joined)) {
                self.parts.target.resolve_power(None);
            }
        }
        let fronts = self.parts.target.unclaimed_fronts();
        fronts
            .into_iter()
            .filter(|front| !may_resume(*front))
            .for_each(|it| self.parts.target.release_unclaimed(it));
        if let Err(error) = self.parts.target.save_volatile().await {
            tracing::warn!(%error, "the state of units can't be saved for a takeover");
        }
    }

    fn note_settled(&self, service: &Service, front: u64) {
        if service.has_named_nexuses() {
            self.settled.lock().insert(front);
        }
    }

    /// Keeps front ends informed of who may log in, and hosts of which controllers forward, forever.
    pub async fn follow(self: Arc<Self>, server: Arc<iscsi::Server>, target_name: String) {
        let (mut access, mut ticks) = (server.access_changes(), interval(FOLLOW));
        let own = self.parts.link.own.id;
        loop {
            let (recorded, moved) = ((self.parts.portals)(), self.moved.lock().clone());
            let served = (&recorded, &moved);
            let configuration = portals::configuration(&target_name, server.access_table(), served);
            self.configuration.send_if_modified(|known| {
                let changed = *known != configuration;
                *known = configuration;
                changed
            });
            let map = self.parts.map.borrow().clone();
            if let Some(map) = map {
                self.parts.target.set_port_groups(ports::groups(&map, own, &self.connected(), served));
                server.set_other_portals(ports::others(&map, own, served));
                self.end_copies(&map);
                self.forget(&map).await;
                self.keep_state(&map).await;
            }
            tokio::select! {
                // Fails when the server has ended, and this task with it.
                _ = access.changed() => {}
                _ = ticks.tick() => {}
            }
        }
    }

    /// Front ends learn soon that these portals are served here.
    pub fn note_moved(&self, numbers: BTreeSet<u16>) {
        *self.moved.lock() = numbers;
    }

    /// The cluster's map, as far as it is known.
    pub fn map(&self) -> Option<Arc<cluster::Map>> {
        self.parts.map.borrow().clone()
    }

    /// The number of this controller.
    pub fn number(&self) -> u16 {
        self.parts.link.own.id
    }

    /// Numbers of the controllers whose hosts it serves now.
    pub fn connected(&self) -> Vec<u16> {
        let fronts = self.fronts.lock();
        fronts.values().filter(|front| front.is_connected).map(|front| front.member).collect()
    }

    /// Serves, forever, the sessions that this process had as a front end: what they have sent before the takeover passes through
    /// here, and soon each has its nexus directly.
    pub async fn serve_own(self: Arc<Self>, front_end: Arc<FrontEnd>) {
        let own = MemberId(self.parts.link.own.id);
        let joined = self.parts.map.borrow().as_ref().and_then(|map| map.active(own)).unwrap_or_default();
        let mut service = self.service(joined);
        loop {
            let Err(error) = self.forward_here(&front_end, &mut service, joined).await;
            // After a pause of this thread alone: what is under way is remembered on both sides.
            tracing::warn!(%error, "the sessions from before the takeover are attached again");
            front_end.disconnect();
            service.disconnect(now());
        }
    }

    /// Moves messages between a front end and its service until one of them takes the other for dead. Answers of the home need no
    /// permission here: sessions of this process have to have it for theirs.
    async fn forward_here(
        &self,
        front_end: &FrontEnd,
        service: &mut Service,
        joined: u64,
    ) -> forward::Result<Infallible> {
        let new = || Channel::new(self.parts.link.own.id, self.parts.link.own.array, joined);
        let (mut of_front, mut of_home) = (new(), new());
        of_front.take_output().iter().for_each(|bytes| of_home.receive(bytes.clone()));
        of_home.take_output().iter().for_each(|bytes| of_front.receive(bytes.clone()));
        let (home, front) = (hello(&mut of_front)?, hello(&mut of_home)?);
        front_end.connect(of_front, &home);
        service.connect(of_home, &front, now());
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (to_home, to_front) = (front_end.take_output(), service.take_output());
            let is_idle = to_home.is_empty() && to_front.is_empty();
            to_home.into_iter().try_for_each(|bytes| service.receive(bytes, now()))?;
            to_front.into_iter().try_for_each(|bytes| front_end.receive(bytes))?;
            tokio::select! {
                () = front_end.asked(), if is_idle => {}
                () = poll_fn(|context| service.poll(context)) => {}
                _ = ticks.tick() => {
                    front_end.tick()?;
                    service.tick(now())?;
                    front_end.shorten(service)?;
                    self.note_settled(service, joined);
                }
                // Others on this thread get their turn.
                () = tokio::task::yield_now(), if !is_idle => {}
            }
        }
    }

    /// Takes connections of front ends, forever.
    pub async fn serve(self: Arc<Self>) {
        let listener = match self.parts.link.listen() {
            Ok(listener) => listener,
            Err(error) => machine::fatal::stop(&format!("other controllers can't be listened for: {error}")),
        };
        admission::accept(listener, "another controller", |arrival| {
            let (home, address) = (self.clone(), arrival.address);
            // A socket belongs to the runtime that it is used on.
            self.shard(address).spawn(async move {
                let served =
                    arrival.serve(async |stream, admitted| home.take((stream, address), admitted).await);
                if let Err(why) = served.await {
                    let why = format!("{why:#}");
                    tracing::warn!(%address, why, "a connection for other controllers was closed");
                }
            });
        })
        .await;
    }

    /// The thread for the connections of an address.
    fn shard(&self, address: SocketAddr) -> &Handle {
        let mut hasher = DefaultHasher::new();
        address.ip().hash(&mut hasher);
        &self.parts.shards[hasher.finish() as usize % self.parts.shards.len()]
    }

    /// Finds out whose a connection is, and gives it to the service of that front end. From then on it does not count any more:
    /// a controller has one of each kind.
    async fn take(
        self: Arc<Self>,
        (stream, address): (TcpStream, SocketAddr),
        admitted: &Admitted,
    ) -> Result<()> {
        let (own, map) = (&self.parts.link.own, self.map());
        let protocols = [PROTOCOL, JOIN.tls, HISTORY.tls, API.tls, LOGINS.tls];
        let door = Door { own: &own.identity, protocols: &protocols, limit: HANDSHAKE_TIMEOUT };
        let member = |session: &Session| match session.protocol == JOIN.tls.name {
            true => Ok(None),
            false => {
                let map = map.as_deref().context("the cluster's map is not known yet")?;
                own.find(map, &session.certificate).map(Some)
            }
        };
        let (session, member) = authenticate((stream, admitted), door, member).await?;
        let Some(member) = member else {
            // It proves itself by its token.
            let grant = || Grant::of(&self.parts.data);
            return self.parts.link.tokens.answer(session, own.array, now(), grant).await;
        };
        if session.protocol == HISTORY.tls.name {
            self.send_history(session, member.id);
            return Ok(());
        }
        if session.protocol == LOGINS.tls.name {
            return logins::answer(session, member.id, &self.parts.put_logins).await;
        }
        if session.protocol == API.tls.name {
            return relay::answer(session, &self.parts.take_api, &self.parts.data).await;
        }
        let mut wire = Wire::new(session);
        let joined = map.as_ref().and_then(|map| map.active(MemberId(own.id))).unwrap_or_default();
        let mut channel = Channel::new(own.id, own.array, joined);
        let hello = wire.greet(&mut channel).await?;
        ensure!(
            (hello.member, hello.joined) == (member.id, member.joined),
            "it is another process than the one that takes part as controller {}",
            member.id
        );
        tracing::info!(controller = member.id, %address, "a front end has connected");
        let mut fronts = self.fronts.lock();
        let front = fronts.entry(hello.joined).or_insert_with(|| self.clone().start(member.id, hello.joined));
        // It ends only after the cluster has expelled the front end.
        _ = front.arrivals.send(Arrival { wire, channel, hello });
        Ok(())
    }

    /// Sends the history to a front end, instead of over an earlier connection.
    fn send_history(&self, session: Session, member: u16) {
        let (history, progress) = (self.parts.history.clone(), Arc::<Progress>::default());
        let noted = progress.clone();
        let sending = tokio::spawn(async move {
            if let Err(error) = copies::answer(session, history, &noted).await {
                let error = format!("{error:#}");
                tracing::info!(
                    controller = member,
                    error,
                    "the history is not copied any more over this connection"
                );
            }
        });
        let mut copies = self.copies.lock();
        if let Some(before) = copies.insert(member, Sending { task: sending.abort_handle(), progress }) {
            before.task.abort();
        }
    }

    /// Ends the copies of controllers that do not take part any more, such as removed ones.
    pub fn end_copies(&self, map: &cluster::Map) {
        let mut copies = self.copies.lock();
        copies.retain(|member, sending| {
            let takes_part = map.active(MemberId(*member)).is_some();
            if !takes_part {
                sending.task.abort();
            }
            takes_part
        });
    }

    /// True if every front end that copies the history has acknowledged everything that is in it now, or its connection has ended.
    pub fn has_sent_history(&self) -> bool {
        let changes = self.parts.history.changes();
        let copies = self.copies.lock();
        copies.values().all(|sending| sending.task.is_finished() || sending.progress.has(changes))
    }

    /// Waits until other controllers have the history, but not for long: one of them becomes the home.
    pub async fn hand_over_history(&self) {
        let sent = async {
            while !self.has_sent_history() {
                sleep(TICK).await;
            }
        };
        if timeout(HAND_OVER, sent).await.is_err() {
            tracing::warn!(
                "the last entries of the history may reach the other controllers only when this one is back"
            );
        }
    }

    /// True if it serves the hosts of the process that joined in this version of the map.
    #[cfg(test)]
    pub fn serves(&self, joined: u64) -> bool {
        self.fronts.lock().get(&joined).is_some_and(|front| front.is_connected)
    }

    /// True if a front end copies the history.
    #[cfg(test)]
    pub fn sends_history_to(&self, member: u16) -> bool {
        self.copies.lock().contains_key(&member)
    }

    /// Starts the service of a front end on this thread.
    fn start(self: Arc<Self>, member: u16, joined: u64) -> Front {
        let (arrivals, arrived) = unbounded_channel();
        let service = self.service(joined);
        tokio::spawn(async move {
            let home = self.clone();
            home.run(service, arrived, (MemberId(member), joined)).await;
            self.fronts.lock().remove(&joined);
        });
        Front { member, arrivals, is_connected: false }
    }

    /// Serves a front end until the cluster has expelled its process: then its nexuses are lost.
    async fn run(
        &self,
        mut service: Service,
        mut arrived: UnboundedReceiver<Arrival>,
        (member, joined): (MemberId, u64),
    ) {
        let mut wire: Option<Wire> = None;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut configuration = self.configuration.subscribe();
        service.configure(configuration.borrow_and_update().clone());
        while self.takes_part(member, joined) {
            let mut broken = None;
            tokio::select! {
                arrival = arrived.recv() => {
                    let Some(Arrival { wire: new, channel, hello }) = arrival else { return };
                    service.connect(channel, &hello, now());
                    wire = Some(new);
                    self.note(joined, true);
                }
                received = receive(&mut wire) => {
                    let taken = received.map_err(anyhow::Error::from).and_then(|bytes| {
                        Ok(service.receive(bytes, now())?)
                    });
                    broken = taken.err();
                }
                () = poll_fn(|context| service.poll(context)) => {}
                Ok(()) = configuration.changed() => {
                    service.configure(configuration.borrow_and_update().clone());
                }
                _ = ticks.tick() => broken = service.tick(now()).err().map(anyhow::Error::from),
            }
            if let Some(error) = broken {
                let error = format!("{error:#}");
                tracing::warn!(controller = member.0, error, "the link to a front end broke");
                service.disconnect(now());
                wire = None;
                self.note(joined, false);
            }
            self.note_settled(&service, joined);
            // Without permission answers wait, and signs of life too.
            if let Some(wire) = wire.as_mut().filter(|_| self.parts.permit.holds()) {
                wire.push(service.take_output());
            }
        }
        tracing::info!(controller = member.0, "a front end does not take part any more");
    }

    fn takes_part(&self, member: MemberId, joined: u64) -> bool {
        self.parts.map.borrow().as_ref().is_some_and(|map| map.active(member) == Some(joined))
    }

    fn note(&self, joined: u64, is_connected: bool) {
        if let Some(front) = self.fronts.lock().get_mut(&joined) {
            front.is_connected = is_connected;
        }
    }
}

/// The hello that a channel received.
fn hello(channel: &mut Channel) -> forward::Result<Hello> {
    match channel.next_message()? {
        Some(Received::Hello(hello)) => Ok(hello),
        _ => unreachable!("a channel begins with hello"),
    }
}

/// Takes the next bytes of a connection, and writes while it waits for them. Never ends without a connection.
async fn receive(wire: &mut Option<Wire>) -> io::Result<Bytes> {
    match wire {
        Some(wire) => wire.receive().await,
        None => pending().await,
    }
}
