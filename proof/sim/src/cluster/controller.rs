//! A controller: its clock, and its process.

use super::hosts::Serving;
use super::{ARRAY, Process, SECOND};
use block::workload::Random;
use cluster::{Config, Identity, Member, Service, Timing};
use rados::memory::Client;
use shelf::arbiter::MemberId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Work of a process that is awake, at a time of its clock.
pub type Job = Box<dyn FnOnce(&mut Running, u64)>;

/// A process.
pub struct Running {
    pub member: Member,
    pub serving: Option<Serving>,
}

/// A client of the store with its arbiter.
type Connection = (Arc<Client>, Arc<rados::Arbiter>);

/// A controller.
pub struct Controller {
    pub at: usize,
    /// Incremented with every process.
    pub life: u64,
    pub running: Option<Running>,
    pub asleep_until: Option<u64>,
    /// Deferred work for the time it wakes.
    pub when_awake: Vec<Job>,
    /// Clients of all its processes: operations of an ended one may still take effect.
    connections: BTreeMap<u64, Connection>,
    /// Rate of its clock in thousandths, and its initial reading.
    rate: u64,
    offset: u64,
    /// Time of the next wake-up.
    wake: Option<u64>,
}

impl Controller {
    pub fn new(at: usize, random: &mut Random) -> Self {
        Self {
            at,
            life: 0,
            running: None,
            asleep_until: None,
            when_awake: Vec::new(),
            connections: BTreeMap::new(),
            rate: 900 + random.below(201),
            offset: SECOND + random.below(1000 * SECOND),
            wake: None,
        }
    }

    /// Reading of its clock at a true time.
    pub fn clock(&self, now: u64) -> u64 {
        self.offset + (u128::from(now) * u128::from(self.rate) / 1000) as u64
    }

    /// The true time of a reading of its clock.
    pub fn true_time(&self, clock: u64) -> u64 {
        let passed = u128::from(clock.saturating_sub(self.offset)) * 1000;
        passed.div_ceil(u128::from(self.rate)).min(u128::from(u64::MAX / 4)) as u64
    }

    /// Schedules a wake-up; false if an earlier one is scheduled.
    pub fn replaces_wake(&mut self, time: u64, now: u64) -> bool {
        let earlier = self.wake.is_some_and(|wake| wake > now && wake <= time);
        if !earlier {
            self.wake = Some(time);
        }
        !earlier
    }

    /// Starts a process.
    pub fn start(
        &mut self,
        client: Arc<Client>,
        arbiter: Arc<rados::Arbiter>,
        instance: u64,
        timing: Timing,
    ) -> Process {
        self.life += 1;
        let identity = Identity {
            id: MemberId(self.at as u16 + 1),
            name: format!("controller {}", self.at),
            instance,
            link: Default::default(),
            service: Service::default(),
            release: String::new(),
            reads: 0,
        };
        let config = Config { identity, array: ARRAY, witnesses: 3, timing, first_version: Some(1) };
        self.running = Some(Running { member: Member::new(config), serving: None });
        self.connections.insert(self.life, (client, arbiter));
        (self.asleep_until, self.wake) = (None, None);
        self.when_awake.clear();
        (self.at, self.life)
    }

    /// The client of a process.
    pub fn client_of(&self, life: u64) -> Option<Connection> {
        self.connections.get(&life).cloned()
    }

    /// Ends the process.
    pub fn end(&mut self) {
        self.running = None;
        self.asleep_until = None;
        self.when_awake.clear();
    }

    /// The process, if it is awake.
    pub fn awake(&self, now: u64) -> Option<&Running> {
        self.running.as_ref().filter(|_| self.asleep_until.is_none_or(|until| until <= now))
    }
}
