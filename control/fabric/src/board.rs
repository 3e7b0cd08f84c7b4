//! The controllers as this process knows them: for the array, and for what a standby answers.

use api::standby::Referral;
use array::{Controller, ControllerChange, ControllerState, JoinToken, Phases, Takeover, TakeoverCause};
use cluster::{Cause, Change, Map, MapMember, Refusal, Standing, Succession};
use parking_lot::RwLock;
use shelf::arbiter::MemberId;
use shelf::pool::BoxFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The domain of the array.
pub const DOMAIN: u16 = 0;

/// How long a change of the map may take: it is a few operations of the store.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of the one controller of an array that is not shared.
const SINGLE: u16 = 1;

/// That this controller is the home of the array.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// The epoch with which it opens the store.
    pub epoch: u64,
    /// How that came.
    pub succession: Succession,
    /// Since when.
    pub since: Instant,
}

/// A change that an operator wants.
pub struct Order {
    /// The change.
    pub change: Change,
    /// Gets what came of it.
    pub done: oneshot::Sender<Result<(), Refusal>>,
}

/// Makes a token for a new controller, whose number is none of these.
pub type Admission = Arc<dyn Fn(&[u16]) -> array::Result<JoinToken> + Send + Sync>;

/// What is known of the controllers.
pub struct Board {
    /// The number of this one.
    own: u16,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    controllers: Vec<Controller>,
    takeover: Option<Takeover>,
    /// By what new controllers can join, while this one is the home.
    admission: Option<Admission>,
    /// The membership, if the array is shared.
    orders: Option<UnboundedSender<Order>>,
}

/// Seconds since 1970.
pub fn time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The name of this machine.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}

/// An address that is listened on as others reach it.
pub fn reachable(address: SocketAddr, machine: &str) -> String {
    match address.ip().is_unspecified() {
        true => format!("{machine}:{}", address.port()),
        false => address.to_string(),
    }
}

impl Board {
    /// Of an array that is not shared.
    pub fn single() -> Arc<Self> {
        let home = Controller {
            number: SINGLE,
            name: host_name(),
            version: env!("CARGO_PKG_VERSION").into(),
            reads: Some(*engine::FORMATS.end()),
            state: ControllerState::Home,
            since: Some(time()),
            api: None,
            portals: Vec::new(),
            nvme_portals: Vec::new(),
            sessions: 0,
            recent: Default::default(),
            drained: false,
            takeover: None,
        };
        let state = State { controllers: vec![home], ..State::default() };
        Arc::new(Self { own: SINGLE, state: RwLock::new(state) })
    }

    /// Of a cluster whose map is not known yet.
    pub fn shared(own: u16) -> Arc<Self> {
        Arc::new(Self { own, state: RwLock::default() })
    }

    /// Who makes changes from now on.
    pub fn set_orders(&self, orders: UnboundedSender<Order>) {
        self.state.write().orders = Some(orders);
    }

    /// By what new controllers can join from now on.
    pub fn set_admission(&self, admission: Admission) {
        self.state.write().admission = Some(admission);
    }

    /// Where the API of this controller is.
    pub fn set_api(&self, url: &str) {
        for own in self.state.write().controllers.iter_mut().filter(|it| it.number == self.own) {
            own.api = Some(url.into());
        }
    }

    /// Follows the cluster's map.
    pub fn follow(&self, map: &Map) {
        self.state.write().controllers = map.members.iter().map(|member| shown(map, member)).collect();
    }

    /// Notes that hosts are served: the store was open at one time, the journal replayed at another.
    pub fn note_service(&self, home: &Home, [opened, recovered]: [Instant; 2]) {
        let Home { succession, since, .. } = home;
        let cause = match succession.cause {
            Cause::First | Cause::Restarted => return,
            Cause::Left => TakeoverCause::Stopped,
            Cause::Expelled => TakeoverCause::Lost,
            Cause::GivenUp => TakeoverCause::Moved,
        };
        let Some(from) = succession.from else { return };
        let phases = Phases {
            silence: millis(Duration::from_nanos(succession.silent_ns)),
            agreement: millis(Duration::from_nanos(succession.agreed_ns)),
            store: millis(opened.duration_since(*since)),
            recovery: millis(recovered.duration_since(opened)),
            start: millis(recovered.elapsed()),
        };
        let why = match cause {
            TakeoverCause::Stopped => "it was stopped",
            TakeoverCause::Lost => "it was lost",
            TakeoverCause::Moved => "it gave the array to this one",
        };
        let Phases { silence, agreement, store, recovery, start } = phases;
        tracing::info!(
            from = from.0,
            why,
            silence_ms = silence,
            agreement_ms = agreement,
            store_ms = store,
            recovery_ms = recovery,
            start_ms = start,
            total_ms = phases.total(),
            "the array was taken over"
        );
        self.state.write().takeover = Some(Takeover { time: time(), from: from.0, cause, phases });
    }

    /// Why this controller does not serve the array, and where it is served.
    pub fn referral(&self) -> Referral {
        let (own, state) = (self.own, self.state.read());
        match state.controllers.iter().find(|it| it.state == ControllerState::Home) {
            Some(home) if home.number == own => Referral {
                detail: format!("controller {own} is taking over the array: try again in a few seconds"),
                home: None,
            },
            Some(home) => Referral {
                detail: format!(
                    "controller {own} is a standby: the array is served by controller {} ({}){}",
                    home.number,
                    home.name,
                    home.api.as_ref().map_or_else(String::new, |url| format!(" at {url}"))
                ),
                home: home.api.clone(),
            },
            None => Referral {
                detail: format!(
                    "controller {own} is a standby, and no controller serves the array: try again in a few seconds; if that \
                     lasts, see the log of ashlard on each machine"
                ),
                home: None,
            },
        }
    }
}

impl array::Controllers for Board {
    fn controllers(&self) -> Vec<Controller> {
        self.state.read().controllers.clone()
    }

    fn takeover(&self) -> Option<Takeover> {
        self.state.read().takeover.clone()
    }

    fn add(&self) -> array::Result<JoinToken> {
        let (admission, taken) = {
            let state = self.state.read();
            let taken: Vec<u16> = state.controllers.iter().map(|it| it.number).collect();
            (state.admission.clone(), taken)
        };
        let Some(admission) = admission else {
            return Err(array::Error::precondition(
                "this array has no link for other controllers: it has to be in Ceph; start ashlard with --controller N and \
                 --link ADDR",
            ));
        };
        admission(&taken)
    }

    fn change(&self, number: u16, change: ControllerChange) -> BoxFuture<'static, array::Result<()>> {
        let (id, orders) = (MemberId(number), self.state.read().orders.clone());
        let change = match change {
            ControllerChange::Remove => Change::Remove(id),
            ControllerChange::Drain => Change::Drain(id),
            ControllerChange::Resume => Change::Resume(id),
        };
        Box::pin(async move {
            let Some(orders) = orders else {
                return Err(array::Error::precondition(
                    "this array has one controller, which it does not share: there is no other one to serve hosts",
                ));
            };
            let (done, answer) = oneshot::channel();
            // Fails when the membership has ended, and then so does the answer.
            _ = orders.send(Order { change, done });
            match timeout(CHANGE_TIMEOUT, answer).await {
                Ok(Ok(Ok(()))) => Ok(()),
                Ok(Ok(Err(refusal))) => Err(array::Error::precondition(refusal.to_string())),
                Ok(Err(_)) => Err(failed("this controller is stopping")),
                Err(_) => Err(failed(
                    "the store does not answer; ashlar controller list shows whether it was done later",
                )),
            }
        })
    }
}

fn failed(why: &str) -> array::Error {
    array::Error::failed("the map of the controllers can't be changed", why)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn shown(map: &Map, member: &MapMember) -> Controller {
    let home = map.home(DOMAIN).filter(|home| home.home == member.id);
    let (state, since) = match (member.standing, home) {
        (Standing::Active, Some(home)) => (ControllerState::Home, home.since),
        (Standing::Active, None) => (ControllerState::Standby, member.since),
        (Standing::Left, _) => (ControllerState::Stopped, member.since),
        (Standing::Expelled, _) => (ControllerState::Lost, member.since),
    };
    Controller {
        number: member.id,
        name: member.name.clone(),
        version: member.release.clone(),
        reads: Some(member.reads()).filter(|format| *format > 0),
        state,
        drained: member.drained,
        since: Some(since).filter(|since| *since > 0),
        api: Some(member.service.api.clone()).filter(|url| !url.is_empty()),
        portals: member.service.iscsi.clone(),
        nvme_portals: member.service.nvme.clone(),
        sessions: 0,
        recent: Default::default(),
        takeover: None,
    }
}
