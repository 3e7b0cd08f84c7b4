//! A front end, which survives, its service at the home, which does not, and the link between them.

use super::{ARRAY, MS};
use block::workload::Random;
use forward::{Event, Front, Service};
use peer::{Channel, Received, message::Hello};
use scsi::{Command, Data, Direction, Lun, Response, TaskAttribute};
use std::collections::BTreeMap;
use std::task::{Context, Waker};

/// Time after which a broken link is reconnected. Nexuses at the home outlive that.
const MAX_BROKEN_NS: u64 = 1000 * MS;

pub struct Side {
    pub front: Front,
    instance: u64,
    service: Option<Service>,
    /// Time since which there is no link.
    broken: Option<u64>,
    to_home: Vec<u8>,
    to_front: Vec<u8>,
    /// Whether answers are in transit for a long time.
    pub is_slow: bool,
    pub ended: BTreeMap<u64, Option<Response>>,
    tag: u64,
}

fn hello(channel: &mut Channel) -> Result<Hello, String> {
    match channel.next_message() {
        Ok(Some(Received::Hello(hello))) => Ok(hello),
        other => Err(format!("no hello: {other:?}")),
    }
}

impl Side {
    pub fn new(instance: u64) -> Self {
        Self {
            front: Front::new(0, instance),
            instance,
            service: None,
            broken: Some(0),
            to_home: Vec::new(),
            to_front: Vec::new(),
            is_slow: false,
            ended: BTreeMap::new(),
            tag: 0,
        }
    }

    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Connects a new home.
    pub fn serve(&mut self, service: Service) {
        self.service = Some(service);
    }

    /// Loses the home. Some of its answers may still arrive.
    pub fn lose_home(&mut self, random: &mut Random, now: u64) -> Result<(), String> {
        if random.chance(50) {
            self.bring_to_front(random.below(self.to_front.len() as u64 + 1) as usize, now)?;
        }
        self.cut(now);
        self.service = None;
        self.take_ended()
    }

    /// Cuts the connection: bytes in transit are lost.
    pub fn cut(&mut self, now: u64) {
        self.front.disconnect(now);
        self.service.iter_mut().for_each(|service| service.disconnect(now));
        self.to_home.clear();
        self.to_front.clear();
        self.broken.get_or_insert(now);
    }

    fn connect(&mut self, home: u64, now: u64) -> Result<(), String> {
        let Some(service) = &mut self.service else { return Ok(()) };
        let mut one = Channel::new(1, ARRAY, self.instance);
        let mut other = Channel::new(2, ARRAY, home);
        one.take_output().iter().for_each(|bytes| other.receive(bytes.clone()));
        other.take_output().iter().for_each(|bytes| one.receive(bytes.clone()));
        let (of_home, of_front) = (hello(&mut one)?, hello(&mut other)?);
        self.front.connect(one, &of_home, now);
        service.connect(other, &of_front, now);
        self.broken = None;
        Ok(())
    }

    /// True if the link is up and idle.
    pub fn is_quiet(&self) -> bool {
        self.broken.is_none() && self.to_home.is_empty() && self.to_front.is_empty()
    }

    /// Advances the time and moves some bytes. `home` is the process of the home.
    pub fn go_on(&mut self, random: &mut Random, home: u64, now: u64) -> Result<(), String> {
        let is_silent = self.front.tick(now).is_err()
            | self.service.as_mut().is_some_and(|service| service.tick(now).is_err());
        if is_silent {
            self.cut(now);
        }
        let is_due = self.broken.is_some_and(|since| since + MAX_BROKEN_NS <= now);
        if self.broken.is_some() && (is_due || random.chance(20)) {
            self.connect(home, now)?;
        }
        for _ in 0..1 + random.below(3) {
            let all = |bytes: usize, random: &mut Random| {
                if random.chance(20) { random.below(bytes as u64 + 1) as usize } else { bytes }
            };
            self.write();
            self.bring_to_home(all(self.to_home.len(), random), now)?;
            self.write();
            if !self.is_slow || random.chance(2) {
                self.bring_to_front(all(self.to_front.len(), random), now)?;
            }
        }
        self.take_ended()
    }

    /// Runs tasks, and moves output into transit.
    fn write(&mut self) {
        if self.broken.is_some() {
            return;
        }
        if let Some(service) = &mut self.service {
            while service.poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
            service.take_output().iter().for_each(|bytes| self.to_front.extend_from_slice(bytes));
        }
        self.front.take_output().iter().for_each(|bytes| self.to_home.extend_from_slice(bytes));
    }

    fn bring_to_home(&mut self, count: usize, now: u64) -> Result<(), String> {
        let bytes: Vec<u8> = self.to_home.drain(..count.min(self.to_home.len())).collect();
        let taken = self.service.as_mut().map_or(Ok(()), |service| service.receive(bytes.into(), now));
        taken.map_err(|error| format!("a request: {error}"))
    }

    fn bring_to_front(&mut self, count: usize, now: u64) -> Result<(), String> {
        let bytes: Vec<u8> = self.to_front.drain(..count.min(self.to_front.len())).collect();
        self.front.receive(bytes.into(), now).map_err(|error| format!("an answer: {error}"))
    }

    fn take_ended(&mut self) -> Result<(), String> {
        for event in self.front.events() {
            if let Event::Completed(number, response) = event
                && self.ended.insert(number, response).is_some()
            {
                return Err(format!("command {number} ended twice"));
            }
        }
        Ok(())
    }

    /// Begins a command; returns its number.
    pub fn start(&mut self, nexus: u32, lun: u8, (cdb, data): (&[u8], &[u8]), now: u64) -> u64 {
        let mut padded = cdb.to_vec();
        padded.resize(cdb.len().max(16), 0);
        self.tag += 1;
        let command = Command {
            tag: self.tag,
            lun: Lun([0, lun, 0, 0, 0, 0, 0, 0]),
            cdb: padded.into(),
            attribute: TaskAttribute::Simple,
            direction: if data.is_empty() { Direction::In } else { Direction::Out },
            data_out: Data::from(data.to_vec()),
            data_in_limit: if data.is_empty() { 1 << 16 } else { 0 },
        };
        self.front.execute(nexus, command, now)
    }
}
