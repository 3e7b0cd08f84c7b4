//! World `shared-drives`: two controllers on two servers that share drives. The real membership, arbiter, reservations
//! and store run over drives in memory ([`raid::shared::SharedMedium`]); the served data is a set of numbers in the
//! journal.
//!
//! Requests and replies take time; some are late by seconds, and requests of a killed process still arrive. Processes
//! are killed, suspended, stopped in order, and restarted, sometimes on another server while requests of the former
//! process are outstanding. Drives stall, fail for some time, report errors for writes that took effect, or do not
//! reply at all, with the effect of a request at once, late or never. A server loses its path to all drives.
//!
//! Checked: an epoch has one owner; every acknowledged number is visible to all later owners; no read returns less than
//! was acknowledged before it began; a takeover takes at most [`TAKEOVER_NS`], and [`REPLY_TIMEOUT`] more if a drive is
//! silent; when all faults are over, one controller serves, both take part, and the other one can take over.

mod faults;
mod home;
mod ports;

use crate::Report;
use ::cluster::{Config, Event, Identity, Member, Service, Timing};
use block::workload::Random;
use faults::Faults;
use home::{Home, Hosts, Read};
use ports::{Alarm, Net, Sent};
use raid::shared::{DriveArbiter, Party, REPLY_TIMEOUT, SharedArray, SharedMedium, Timer, find};
use raid::{DriveShelf, FormatOptions};
use shelf::Drive;
use shelf::arbiter::{Arbiter, MemberId};
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

const ARRAY: u128 = 0xa5;
const DRIVE_BYTES: u64 = 16 << 20;

/// Maximum time from the death of a home, with undisturbed drives and controllers, to the first acknowledged write of
/// the next one.
const TAKEOVER_NS: u64 = 7 * SECOND;

/// Whether the drives enforce reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservations {
    /// Reservations as of real drives.
    Enforced,
    /// Drives report success without enforcing reservations: the world must detect this.
    Ignored,
}

/// A scheduled event.
enum Action {
    /// A process reads its clock.
    Wake,
    /// A request reaches its drive.
    Arrive(Sent),
    /// A reply reaches its process.
    Complete(u64, Box<dyn FnOnce()>),
    /// A turn of a connection: the answer to a read is ready.
    AnswerRead(u64, Read),
    /// Hosts begin a write and a read.
    Traffic,
    /// A fault begins.
    Fault,
    /// A controller restarts.
    Restart(usize),
    /// The home is killed, in the absence of other faults.
    Measure,
}

/// A slot that a task fills.
type Slot<T> = Arc<Mutex<T>>;

fn lock<T>(slot: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Result of the start of a process.
type Started = (SharedArray, Arc<Party>, Arc<DriveArbiter>);

/// A process that takes part.
struct Running {
    member: Member,
    arbiter: Arc<DriveArbiter>,
    party: Arc<Party>,
    array: Arc<SharedArray>,
    replies: Slot<VecDeque<(::cluster::RequestId, ::cluster::Reply)>>,
    home: Option<Home>,
}

/// A process of a controller.
struct Process {
    id: u64,
    started: Slot<Option<shelf::Result<Started>>>,
    running: Option<Running>,
    asleep_until: u64,
}

/// A controller, with its clock.
struct Controller {
    server: u32,
    process: Option<Process>,
    /// Rate of its clock in thousandths, and its initial reading.
    rate: u64,
    offset: u64,
    wake: u64,
}

impl Controller {
    fn clock(&self, now: u64) -> u64 {
        self.offset + (u128::from(now) * u128::from(self.rate) / 1000) as u64
    }

    fn true_time(&self, clock: u64) -> u64 {
        let passed = u128::from(clock.saturating_sub(self.offset)) * 1000;
        passed.div_ceil(u128::from(self.rate)).min(u128::from(u64::MAX / 4)) as u64
    }

    /// The process, if it is awake.
    fn awake(&mut self, now: u64) -> Option<&mut Process> {
        self.process.as_mut().filter(|process| process.asleep_until <= now)
    }

    fn running(&mut self, now: u64) -> Option<&mut Running> {
        self.awake(now)?.running.as_mut()
    }

    fn holds_lease(&self, now: u64) -> bool {
        let running = self.process.as_ref().and_then(|process| process.running.as_ref());
        running.is_some_and(|running| running.member.lease().holds(self.clock(now)))
    }
}

/// The world.
struct World {
    random: Random,
    now: u64,
    queue: BTreeMap<(u64, u64), Action>,
    next: u64,
    media: Vec<Arc<SharedMedium>>,
    net: Net,
    controllers: Vec<Controller>,
    processes: u64,
    servers: u32,
    /// Number of outstanding requests of each server.
    under_way: BTreeMap<u32, u64>,
    faults: Faults,
    hosts: Hosts,
    /// Time at which the home was killed, and the time limit, until another one acknowledges a write.
    taking_over: Option<(u64, u64)>,
    report: Report,
}

type Check = Result<(), String>;

/// Runs a seed.
pub fn run(seed: u64, reservations: Reservations) -> Result<Report, String> {
    let mut world = World::new(seed, reservations)?;
    let end = (30 + world.random.below(60)) * SECOND;
    world.run_until(end)?;
    world.heal();
    for _ in 0..2 {
        // Expelled controllers restart, and may have to wait for their predecessor.
        let healed = world.now;
        world.run_until(healed + 30 * SECOND)?;
        let home = world.check_quiet()?;
        // The other controller can read everything.
        world.kill(home);
        world.at(world.now + 8 * SECOND, Action::Restart(home));
    }
    Ok(world.report)
}

/// The result of a future over drives that reply at once.
fn immediate<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the model holds nothing back"),
    }
}

impl World {
    fn new(seed: u64, reservations: Reservations) -> Result<Self, String> {
        let mut random = Random::new(seed ^ 0x7368_6172);
        let count = 3 + random.below(4) as usize;
        let media: Vec<_> =
            (0..count).map(|at| SharedMedium::new(format!("drive {at}"), DRIVE_BYTES)).collect();
        let ports = media.iter().map(|medium| medium.port(u32::MAX)).collect();
        let options = FormatOptions { array: ARRAY, ..FormatOptions::default() };
        immediate(DriveShelf::format(ports, options)).map_err(|error| error.to_string())?;
        if reservations == Reservations::Ignored {
            media.iter().for_each(|medium| medium.ignore_reservations());
        }
        let mut controller = |server| Controller {
            server,
            process: None,
            rate: 900 + random.below(201),
            offset: SECOND + random.below(1000 * SECOND),
            wake: 0,
        };
        let controllers = vec![controller(0), controller(1)];
        let mut world = Self {
            faults: Faults::new(&mut random, count),
            random,
            now: 0,
            queue: BTreeMap::new(),
            next: 0,
            media,
            net: Net::default(),
            controllers,
            processes: 0,
            servers: 2,
            under_way: BTreeMap::new(),
            hosts: Hosts::default(),
            taking_over: None,
            report: Report::default(),
        };
        for at in 0..2 {
            let start = world.random.below(3 * SECOND);
            world.at(start, Action::Restart(at));
        }
        world.at(0, Action::Traffic);
        world.at(8 * SECOND, Action::Fault);
        Ok(world)
    }

    /// Schedules an action.
    fn at(&mut self, time: u64, action: Action) {
        self.next += 1;
        self.queue.insert((time.max(self.now), self.next), action);
    }

    fn run_until(&mut self, end: u64) -> Check {
        while let Some(entry) = self.queue.first_entry() {
            let (time, _) = *entry.key();
            if time > end {
                self.now = end;
                break;
            }
            let action = entry.remove();
            self.now = time;
            self.perform(action)?;
            self.settle()?;
            if let Some((_, most)) = self.taking_over.filter(|(since, most)| self.now > since + most) {
                return Err(format!("no takeover within {} s, at {}", most / SECOND, self.now));
            }
        }
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Check {
        match action {
            Action::Wake => {}
            Action::Arrive(sent) => self.arrive(sent),
            Action::Complete(process, reply) => match self.find(process) {
                Some(at) => {
                    let until = self.controllers[at].process.as_ref().map_or(0, |it| it.asleep_until);
                    match until > self.now {
                        true => self.at(until, Action::Complete(process, reply)),
                        false => reply(),
                    }
                }
                // The process has ended.
                None => drop(reply),
            },
            Action::AnswerRead(process, read) => return self.answer_read(process, read),
            Action::Traffic => self.traffic(),
            Action::Fault => self.fault(),
            Action::Restart(at) => self.restart(at),
            Action::Measure => return self.measure(),
        }
        Ok(())
    }

    /// Adds to the hash of all events.
    fn trace(&mut self, what: &[u64]) {
        for number in [&[self.now][..], what].concat() {
            self.report.trace = (self.report.trace ^ number).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The controller of a running process.
    fn find(&self, process: u64) -> Option<usize> {
        let is = |controller: &Controller| controller.process.as_ref().is_some_and(|it| it.id == process);
        self.controllers.iter().position(is)
    }

    /// Starts a process: it finds the array, registers, and reads the arbiter's state.
    fn restart(&mut self, at: usize) {
        if self.controllers[at].process.is_some() {
            return;
        }
        let server = self.controllers[at].server;
        let busy = self.under_way.get(&server).is_some_and(|count| *count > 0);
        if busy && self.random.chance(70) {
            // The kernel ends a process after its requests.
            return self.at(self.now + 100 * MS, Action::Restart(at));
        }
        if busy || self.random.chance(10) {
            self.controllers[at].server = self.servers;
            self.servers += 1;
        }
        self.processes += 1;
        let (id, server) = (self.processes, self.controllers[at].server);
        self.trace(&[1, at as u64, u64::from(server)]);
        let key = self.random.next_u64() | 1;
        let drives: Vec<_> = (0..self.media.len())
            .map(|drive| self.net.port(&self.media[drive], (drive, server, id)))
            .collect();
        let (started, timer) = (Slot::default(), self.net.timer(id));
        let filled = started.clone();
        self.controllers[at].process = Some(Process { id, started, running: None, asleep_until: 0 });
        shelf::spawn(async move { *lock(&filled) = Some(start(drives, timer, (at, key)).await) });
    }

    /// Ends the process; its sent requests remain outstanding.
    fn end(&mut self, at: usize) {
        self.controllers[at].process = None;
        self.controllers[at].wake = 0;
    }

    fn kill(&mut self, at: usize) {
        self.report.crashes += 1;
        self.end(at);
    }

    /// Runs all due actions of all processes.
    fn settle(&mut self) -> Check {
        loop {
            for at in 0..2 {
                self.step(at)?;
            }
            let (sent, alarms) = self.net.take();
            for Alarm { process, after, call } in alarms {
                let until = self.now + after.as_nanos() as u64;
                self.at(until, Action::Complete(process, call));
            }
            if sent.is_empty() {
                return Ok(());
            }
            sent.into_iter().for_each(|sent| self.send(sent));
        }
    }

    fn step(&mut self, at: usize) -> Check {
        let (now, clock) = (self.now, self.controllers[at].clock(self.now));
        let Some(process) = self.controllers[at].awake(now) else { return Ok(()) };
        if process.running.is_none() {
            let started = lock(&process.started).take();
            match started {
                None => return Ok(()),
                Some(Ok(started)) => process.running = Some(run_process(at, process.id, started)),
                Some(Err(_)) => {
                    self.end(at);
                    let pause = self.random.below(2 * SECOND);
                    self.at(now + 200 * MS + pause, Action::Restart(at));
                    return Ok(());
                }
            }
        }
        let Some(running) = &mut process.running else { return Ok(()) };
        loop {
            let reply = lock(&running.replies).pop_front();
            let Some((request, reply)) = reply else { break };
            running.member.reply(clock, request, reply);
        }
        for (request, what) in running.member.poll(clock) {
            let (reply, replies) = (what.perform(&*running.arbiter), running.replies.clone());
            shelf::spawn(async move {
                let reply = reply.await;
                lock(&replies).push_back((request, reply));
            });
        }
        let events = running.member.events();
        let wake = running.member.next_wake(clock).max(clock + 1);
        let wake = self.controllers[at].true_time(wake);
        let planned = self.controllers[at].wake;
        if planned <= now || planned > wake {
            self.controllers[at].wake = wake;
            self.at(wake, Action::Wake);
        }
        for event in events {
            self.follow(at, event)?;
        }
        self.follow_home(at)
    }

    fn follow(&mut self, at: usize, event: Event) -> Check {
        match event {
            Event::Joined { .. } => self.trace(&[2, at as u64]),
            Event::Changed(map) => self.trace(&[3, at as u64, map.version]),
            Event::Serve { epoch, .. } => return self.begin_serving(at, epoch),
            // As in the product: a former home ends its process.
            Event::Cease { .. } => self.start_again(at),
            Event::HandOver => self.leave(at),
            Event::Settled(_, outcome) => self.report.settled += u64::from(outcome.is_ok()),
            Event::Ended(end) => {
                self.trace(&[5, at as u64]);
                let quiet = self.faults.quiet_since(at) + 10 * SECOND < self.now;
                if quiet && end == ::cluster::MembershipEnd::Expelled {
                    return Err(format!("controller {at} was expelled at {}, undisturbed: {end}", self.now));
                }
                self.start_again(at);
            }
        }
        Ok(())
    }

    /// Ends the process, and starts another one.
    fn start_again(&mut self, at: usize) {
        if self.controllers[at].process.is_some() {
            self.end(at);
            let pause = self.random.below(3 * SECOND);
            self.at(self.now + pause, Action::Restart(at));
        }
    }

    /// Sends a request to a drive.
    fn send(&mut self, sent: Sent) {
        if self.find(sent.process).is_none() {
            // Never sent, since its process has ended.
            return;
        }
        self.report.requests += 1;
        *self.under_way.entry(sent.server).or_default() += 1;
        let time = self.faults.arrival(&mut self.random, self.now, &sent);
        self.at(time, Action::Arrive(sent));
    }

    /// Makes a request take effect, even if its process has ended.
    fn arrive(&mut self, sent: Sent) {
        let (process, server, drive) = (sent.process, sent.server, sent.drive);
        *self.under_way.entry(server).or_default() -= 1;
        let failure = self.faults.failure(&mut self.random, self.now, &sent);
        let reply = sent.perform(&self.media, failure);
        let time = self.faults.delivery(&mut self.random, self.now, drive);
        self.at(time, Action::Complete(process, reply));
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.faults.heal(self.now);
        self.taking_over = None;
        self.queue.retain(|_, action| !matches!(action, Action::Fault | Action::Measure));
        for at in 0..2 {
            match &mut self.controllers[at].process {
                Some(process) => process.asleep_until = 0,
                None => self.at(self.now, Action::Restart(at)),
            }
        }
    }

    /// Checks that one controller serves, and both take part and agree. Returns the home.
    fn check_quiet(&mut self) -> Result<usize, String> {
        let now = self.now;
        let mut maps = Vec::new();
        for at in 0..2 {
            if !self.controllers[at].holds_lease(now) {
                return Err(format!("controller {at} has no lease at the end"));
            }
            let running = self.controllers[at].running(now);
            maps.push(running.and_then(|running| running.member.map().map(|map| map.version)));
        }
        let homes: Vec<usize> = (0..2).filter(|at| self.is_open(*at)).collect();
        let [home] = homes[..] else { return Err(format!("{homes:?} serve at the end, with maps {maps:?}")) };
        if maps[0] != maps[1] {
            return Err(format!("the maps differ at the end: {maps:?}"));
        }
        if self.hosts.last_acknowledged + SECOND < now {
            return Err(format!("no write was acknowledged since {}", self.hosts.last_acknowledged));
        }
        Ok(home)
    }

    /// Kills the home in the absence of other faults.
    fn measure(&mut self) -> Check {
        let now = self.now;
        let well = |at: usize| {
            self.controllers[at].holds_lease(now) && self.faults.quiet_since(at) + 10 * SECOND < now
        };
        if !(well(0) && well(1)) {
            return Ok(());
        }
        let Some(home) = (0..2).find(|at| self.is_open(*at)) else {
            return Err(format!("no controller serves at {now}, and nothing has been wrong for a while"));
        };
        self.trace(&[11, home as u64]);
        let mut most = TAKEOVER_NS;
        if self.random.chance(40) {
            let drive = self.random.below(self.media.len() as u64) as usize;
            let until = now + most + REPLY_TIMEOUT.as_nanos() as u64 + self.random.below(60 * SECOND);
            // A drive that the home has lost stays lost here, and a controller has the drives that replied when it
            // started. Without another one, too few may be left to take over.
            if self.have_all_drives() {
                most += REPLY_TIMEOUT.as_nanos() as u64;
                self.faults.silence(drive, until);
            }
        }
        self.taking_over = Some((now, most));
        self.report.takeovers += 1;
        self.kill(home);
        self.at(now + most + SECOND, Action::Restart(home));
        Ok(())
    }
}

/// Start of a process until it takes part.
async fn start(
    drives: Vec<Arc<dyn Drive>>,
    timer: Timer,
    (own, key): (usize, u64),
) -> shelf::Result<Started> {
    let mut array = find(&drives, &timer).await?;
    let party = Arc::new(array.party(own, key));
    party.take_part_in(&mut array).await?;
    let arbiter = party.arbiter(&array).await?;
    Ok((array, party, arbiter))
}

fn run_process(at: usize, instance: u64, (array, party, arbiter): Started) -> Running {
    let identity = Identity {
        id: MemberId(at as u16 + 1),
        name: format!("controller {at}"),
        instance,
        link: Default::default(),
        service: Service::default(),
        release: String::new(),
        reads: 0,
    };
    let witnesses = arbiter.witnesses();
    let first_version = Some(array.epoch + 1);
    let config = Config { identity, array: ARRAY, witnesses, timing: Timing::PRODUCT, first_version };
    let array = Arc::new(array);
    Running { member: Member::new(config), arbiter, party, array, replies: Slot::default(), home: None }
}
