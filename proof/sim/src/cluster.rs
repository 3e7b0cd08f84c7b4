//! World `cluster`: two to four controllers over one store, with the real membership over the model of RADOS.
//!
//! Time is simulated: the world has the true time, and each controller has a clock that runs up to 10 % too fast or too
//! slow. Operations of the store take time, and may be late by seconds, or lost with or without effect. Controllers are
//! killed, restarted, suspended, or cut off from the store in one or both directions. Single objects and the whole
//! store stall; the blocklist entry is late or missing. The volume is a set of numbers in one guarded object.
//!
//! Checked: an epoch has one owner; every acknowledged write is visible to all later owners; no read returns less than
//! was acknowledged before it began; an undisturbed controller is not expelled; a takeover takes at most
//! [`TAKEOVER_NS`]; when all faults are over, one controller serves, and all take part.

mod controller;
mod faults;
mod hosts;

use crate::Report;
use ::cluster::{Event, Request, RequestId, Timing};
use block::workload::Random;
use controller::{Controller, Running};
use faults::Faults;
use hosts::{Hosts, JournalReply, JournalRequest};
use rados::memory::Cluster;
use rados::objects::Objects;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// The array.
const ARRAY: u128 = 0xa5;

/// Maximum time from the death of a home, with an undisturbed store and controllers, to the first acknowledged write of
/// the next one.
const TAKEOVER_NS: u64 = 6 * SECOND;

/// Parameters of a world in addition to its seed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Intervals of all controllers.
    pub timing: Timing,
}

impl Default for Options {
    fn default() -> Self {
        Self { timing: Timing::PRODUCT }
    }
}

/// A process of a controller.
type Process = (usize, u64);

/// A scheduled event.
enum Action {
    /// A controller reads its clock.
    Wake(Process),
    /// An operation reaches the store.
    Arrive(Process, Operation),
    /// A reply reaches its controller.
    Reply(Process, Outcome),
    /// A turn of a connection: the answer to a read is ready.
    AnswerRead(Process, hosts::Read),
    /// An answer reaches the host.
    Received(Process, hosts::Read),
    /// Hosts begin a write and a read.
    Traffic,
    /// A fault begins.
    Fault,
    /// A controller restarts.
    Restart(usize),
    /// A client of the store is put on the blocklist.
    Fence(String),
    /// The home is killed, in the absence of other faults.
    Measure,
}

enum Operation {
    Arbiter(RequestId, Request),
    Journal(JournalRequest),
}

enum Outcome {
    Arbiter(RequestId, ::cluster::Reply),
    Journal(JournalRequest, JournalReply),
}

/// The world.
struct World {
    random: Random,
    options: Options,
    now: u64,
    queue: BTreeMap<(u64, u64), Action>,
    next: u64,
    store: Cluster,
    controllers: Vec<Controller>,
    faults: Faults,
    hosts: Hosts,
    /// Time at which the home was killed, until another one acknowledges a write.
    taking_over: Option<u64>,
    report: Report,
}

type Check = Result<(), String>;

/// Runs a seed.
pub fn run(seed: u64, options: Options) -> Result<Report, String> {
    let mut world = World::new(seed, options);
    let end = (40 + world.random.below(80)) * SECOND;
    world.run_until(end)?;
    world.heal();
    // Expelled controllers restart, and may have to wait for their predecessor.
    let healed = world.now;
    world.run_until(healed + 30 * SECOND)?;
    world.check_quiet()?;
    Ok(world.report)
}

/// The result of a model future, which is ready at once.
fn immediate<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the model holds nothing back"),
    }
}

impl World {
    fn new(seed: u64, options: Options) -> Self {
        let mut random = Random::new(seed ^ 0x636c_7573);
        let store = Cluster::default();
        let count = 2 + random.below(3) as usize;
        let controllers = (0..count).map(|at| Controller::new(at, &mut random)).collect();
        let mut world = Self {
            faults: Faults::new(&mut random),
            random,
            options,
            now: 0,
            queue: BTreeMap::new(),
            next: 0,
            hosts: Hosts::new(&store),
            store,
            controllers,
            taking_over: None,
            report: Report::default(),
        };
        for at in 0..count {
            let start = world.random.below(3 * SECOND);
            world.at(start, Action::Restart(at));
        }
        world.at(0, Action::Traffic);
        world.at(5 * SECOND, Action::Fault);
        world
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
            if self.taking_over.is_some_and(|since| self.now > since + TAKEOVER_NS) {
                return Err(format!("no takeover within {} s, at {}", TAKEOVER_NS / SECOND, self.now));
            }
        }
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Check {
        match action {
            Action::Wake(process) => self.step(process, |_, _| {}),
            Action::Arrive(process, operation) => self.arrive(process, operation),
            Action::Reply(process, outcome) => self.take_reply(process, outcome),
            Action::AnswerRead(process, read) => self.answer_read(process, read),
            Action::Received(process, read) => self.receive(process, read),
            Action::Traffic => self.traffic(),
            Action::Fault => self.fault(),
            Action::Restart(at) => self.restart(at),
            Action::Fence(instance) => {
                immediate(self.store.client().fence(&instance)).map_err(|e| e.to_string())
            }
            Action::Measure => self.measure(),
        }
    }

    /// Adds to the hash of all events.
    fn trace(&mut self, what: &[u64]) {
        for number in [&[self.now][..], what].concat() {
            self.report.trace = (self.report.trace ^ number).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The process if it still runs; work for a suspended one is deferred until it wakes.
    fn running(&mut self, process: Process) -> Option<&mut Running> {
        let controller = &mut self.controllers[process.0];
        if controller.life != process.1 { None } else { controller.running.as_mut() }
    }

    /// Time at which a suspended process wakes.
    fn asleep(&self, process: Process) -> Option<u64> {
        let controller = &self.controllers[process.0];
        controller.asleep_until.filter(|until| *until > self.now && controller.life == process.1)
    }

    fn restart(&mut self, at: usize) -> Check {
        if self.controllers[at].running.is_some() {
            return Ok(());
        }
        let client = self.store.client();
        let arbiter = immediate(rados::Arbiter::new(client.clone())).map_err(|error| error.to_string())?;
        let instance = self.random.next_u64();
        let timing = self.options.timing;
        let process = self.controllers[at].start(client, arbiter, instance, timing);
        self.trace(&[1, at as u64]);
        self.step(process, |_, _| {})
    }

    /// Runs work of a process, then all its due actions.
    fn step(&mut self, process: Process, work: impl FnOnce(&mut Running, u64) + 'static) -> Check {
        if let Some(until) = self.asleep(process) {
            // Deferred work runs first when it wakes.
            self.controllers[process.0].when_awake.push(Box::new(work));
            self.at(until, Action::Wake(process));
            return Ok(());
        }
        let clock = self.controllers[process.0].clock(self.now);
        let waiting = match self.controllers[process.0].life == process.1 {
            true => std::mem::take(&mut self.controllers[process.0].when_awake),
            false => Vec::new(),
        };
        let Some(running) = self.running(process) else { return Ok(()) };
        for job in waiting {
            job(running, clock);
        }
        work(running, clock);
        let requests = running.member.poll(clock);
        let events = running.member.events();
        let wake = running.member.next_wake(clock).max(clock + 1);
        for (id, request) in requests {
            self.report.requests += 1;
            self.send(process, Operation::Arbiter(id, request));
        }
        let wake = self.controllers[process.0].true_time(wake);
        if self.controllers[process.0].replaces_wake(wake, self.now) {
            self.at(wake, Action::Wake(process));
        }
        events.into_iter().try_for_each(|event| self.follow(process, event))
    }

    fn follow(&mut self, process: Process, event: Event) -> Check {
        match event {
            Event::Joined { .. } => self.trace(&[2, process.0 as u64]),
            Event::Changed(map) => self.trace(&[3, process.0 as u64, map.version]),
            Event::Serve { domain, epoch, .. } => {
                self.trace(&[4, process.0 as u64, epoch, u64::from(domain)]);
                return self.begin_serving(process, epoch);
            }
            Event::Cease { .. } => self.cease(process),
            Event::HandOver => {
                self.trace(&[12, process.0 as u64]);
                return self.leave(process.0);
            }
            Event::Settled(_, outcome) => {
                self.trace(&[13, process.0 as u64, u64::from(outcome.is_ok())]);
                self.report.settled += u64::from(outcome.is_ok());
            }
            Event::Ended(end) => {
                self.trace(&[5, process.0 as u64]);
                return self.take_out(process, &end);
            }
        }
        Ok(())
    }

    /// Handles the end of a process, and restarts it.
    fn take_out(&mut self, process: Process, end: &::cluster::MembershipEnd) -> Check {
        use ::cluster::MembershipEnd;
        let quiet = self.faults.quiet_since(process.0);
        match end {
            MembershipEnd::Left => {}
            MembershipEnd::Expelled | MembershipEnd::Fenced => {
                if quiet + 10 * SECOND < self.now {
                    return Err(format!(
                        "controller {} was expelled at {}, and nothing has disturbed it since {quiet}: {end}",
                        process.0, self.now
                    ));
                }
            }
            other => return Err(format!("controller {} ended: {other}", process.0)),
        }
        self.controllers[process.0].end();
        let pause = self.random.below(3 * SECOND);
        self.at(self.now + pause, Action::Restart(process.0));
        Ok(())
    }

    /// Sends an operation to the store.
    fn send(&mut self, process: Process, operation: Operation) {
        let object = operation.object();
        if let Some(time) = self.faults.arrival(&mut self.random, (self.now, process.0), object) {
            self.at(time, Action::Arrive(process, operation));
        }
    }

    /// Makes an operation take effect, even if its process has ended.
    fn arrive(&mut self, process: Process, operation: Operation) -> Check {
        let Some((client, arbiter)) = self.controllers[process.0].client_of(process.1) else { return Ok(()) };
        let outcome = match operation {
            Operation::Arbiter(id, request) => Outcome::Arbiter(id, immediate(request.perform(&*arbiter))),
            Operation::Journal(request) => {
                let reply = request.perform(&client);
                self.hosts.note_effect(&request, &reply);
                Outcome::Journal(request, reply)
            }
        };
        if let Some(time) = self.faults.delivery(&mut self.random, self.now, process.0) {
            self.at(time, Action::Reply(process, outcome));
        }
        Ok(())
    }

    fn take_reply(&mut self, process: Process, outcome: Outcome) -> Check {
        match outcome {
            Outcome::Arbiter(id, reply) => {
                self.step(process, move |running, clock| running.member.reply(clock, id, reply))
            }
            Outcome::Journal(request, reply) => match self.asleep(process) {
                None => self.take_journal_reply(process, request, reply),
                Some(until) => {
                    self.at(until, Action::Reply(process, Outcome::Journal(request, reply)));
                    Ok(())
                }
            },
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.faults.heal(self.now);
        self.taking_over = None;
        self.queue.retain(|_, action| !matches!(action, Action::Fault | Action::Measure | Action::Fence(_)));
        for at in 0..self.controllers.len() {
            self.controllers[at].asleep_until = None;
            let process = (at, self.controllers[at].life);
            match self.controllers[at].running {
                Some(_) => self.at(self.now, Action::Wake(process)),
                None => self.at(self.now, Action::Restart(at)),
            }
        }
    }

    /// Checks that one controller serves, and all take part and agree.
    fn check_quiet(&mut self) -> Check {
        let (now, mut serving, mut maps) = (self.now, 0, Vec::new());
        for controller in &self.controllers {
            let Some(running) = &controller.running else {
                return Err(format!("controller {} does not run at the end", controller.at));
            };
            let clock = controller.clock(now);
            if !running.member.lease().holds(clock) {
                return Err(format!("controller {} has no lease at the end", controller.at));
            }
            serving += u64::from(running.serving.as_ref().is_some_and(|serving| serving.open));
            maps.push(running.member.map().map(|map| map.version));
        }
        if serving != 1 || maps.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(format!("{serving} controllers serve at the end, with maps {maps:?}"));
        }
        if self.hosts.last_acknowledged + SECOND < now {
            return Err(format!("no write was acknowledged since {}", self.hosts.last_acknowledged));
        }
        self.hosts.check_durable(&self.store)
    }
}

impl Operation {
    /// The object of the operation: a witness, the map, or the journal.
    fn object(&self) -> usize {
        match self {
            Self::Arbiter(_, Request::Map | Request::Replace { .. }) => faults::MAP,
            Self::Arbiter(_, Request::Signs { witness }) => *witness,
            Self::Arbiter(_, Request::Beat { witness, .. } | Request::Mark { witness, .. }) => *witness,
            Self::Journal(_) => faults::JOURNAL,
        }
    }
}
