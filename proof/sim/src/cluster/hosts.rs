//! Hosts, and the volume that they use: numbers that are written once, in an object that the owner's epoch guards.

use super::{Action, Check, MS, Operation, Process, SECOND, World, immediate};
use rados::memory::{Client, Cluster};
use rados::objects::{Attributes, Name, ObjectError, Objects, Operation as Compound, Pool, Step};
use std::collections::BTreeMap;

const OWNER: &str = "owner";

/// A home whose store does not reply asks again after this.
const RETRY_NS: u64 = 2 * SECOND;

fn volume() -> Name {
    Name { pool: Pool::Meta, name: "volume".into() }
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// What a home does with the volume.
#[derive(Clone, Copy, Debug)]
pub enum JournalRequest {
    /// Makes the volume refuse older owners.
    Claim { epoch: u64 },
    /// Reads all that was written.
    Load { epoch: u64 },
    /// Writes a number.
    Append { epoch: u64, number: u64 },
}

/// What comes back.
pub enum JournalReply {
    Done(Result<(), ObjectError>),
    Loaded(Result<Attributes, ObjectError>),
}

impl JournalRequest {
    pub fn perform(&self, client: &Client) -> JournalReply {
        let operate = |steps| {
            let operation = Compound { steps, force: true };
            JournalReply::Done(immediate(client.operate(&volume(), operation)))
        };
        match *self {
            Self::Claim { epoch } => {
                operate(vec![Step::greater(OWNER, hex(epoch)), Step::set(OWNER, hex(epoch))])
            }
            Self::Load { .. } => JournalReply::Loaded(immediate(client.attributes(&volume()))),
            Self::Append { epoch, number } => operate(vec![
                Step::equal(OWNER, hex(epoch)),
                Step::set(format!("n.{}", hex(number)), hex(epoch)),
            ]),
        }
    }

    fn epoch(&self) -> u64 {
        match self {
            Self::Claim { epoch } | Self::Load { epoch } | Self::Append { epoch, .. } => *epoch,
        }
    }
}

/// A controller that is the home.
pub struct Serving {
    pub epoch: u64,
    /// Its store is open.
    pub open: bool,
    /// The largest number that it knows to be durable.
    known: u64,
    /// The number that is being written, and when it was sent.
    writing: Option<(u64, u64)>,
    /// When the store was last asked for something that an opening needs.
    asked: u64,
}

/// A read under way.
#[derive(Clone, Copy)]
pub struct Read {
    epoch: u64,
    /// What was acknowledged before it began.
    acknowledged: u64,
    found: u64,
    begun: u64,
}

/// What hosts know.
pub struct Hosts {
    next: u64,
    /// The largest number that was acknowledged.
    acknowledged: u64,
    all_acknowledged: Vec<u64>,
    /// When a write was acknowledged last.
    pub last_acknowledged: u64,
    /// Which process was given an epoch.
    owners: BTreeMap<u64, Process>,
    /// The newest epoch that has claimed the volume.
    claimed: u64,
}

impl Hosts {
    pub fn new(store: &Cluster) -> Self {
        let create = Compound { steps: vec![Step::CreateExclusive], force: true };
        immediate(store.client().operate(&volume(), create)).expect("a new object");
        let (owners, all_acknowledged) = (BTreeMap::new(), Vec::new());
        Self { next: 0, acknowledged: 0, all_acknowledged, last_acknowledged: 0, owners, claimed: 0 }
    }

    /// Notes what took effect in the store.
    pub fn note_effect(&mut self, request: &JournalRequest, reply: &JournalReply) {
        if let (JournalRequest::Claim { epoch }, JournalReply::Done(Ok(()))) = (request, reply) {
            self.claimed = self.claimed.max(*epoch);
        }
    }

    fn check_all(&self, found: &Attributes) -> Check {
        let lost =
            self.all_acknowledged.iter().find(|number| !found.contains_key(&format!("n.{}", hex(**number))));
        lost.map_or(Ok(()), |number| Err(format!("number {number} was acknowledged, and is lost")))
    }

    pub fn check_durable(&self, store: &Cluster) -> Check {
        let found = immediate(store.client().attributes(&volume())).map_err(|error| error.to_string())?;
        self.check_all(&found)
    }
}

impl World {
    fn journal(&mut self, process: Process, request: JournalRequest) {
        self.send(process, Operation::Journal(request));
    }

    fn serving(&mut self, process: Process) -> Option<&mut Serving> {
        self.running(process).and_then(|running| running.serving.as_mut())
    }

    pub fn begin_serving(&mut self, process: Process, epoch: u64) -> Check {
        if let Some(other) = self.hosts.owners.insert(epoch, process) {
            return Err(format!("epoch {epoch} was given to {other:?} and to {process:?}"));
        }
        let asked = self.now;
        if let Some(running) = self.running(process) {
            running.serving = Some(Serving { epoch, open: false, known: 0, writing: None, asked });
        }
        self.journal(process, JournalRequest::Claim { epoch });
        self.fence_someone(process);
        Ok(())
    }

    /// The new owner puts another client on the blocklist that is not a controller's any more; it takes long, or fails.
    fn fence_someone(&mut self, process: Process) {
        let gone = self.hosts.owners.values().rev().find(|owner| self.controllers[owner.0].life != owner.1);
        let client = gone.and_then(|owner| self.controllers[owner.0].client_of(owner.1));
        if let (Some((client, _)), true) = (client, self.random.chance(70)) {
            let late = self.random.below(20 * SECOND);
            self.trace(&[6, process.0 as u64]);
            self.at(self.now + late, Action::Fence(client.instance()));
        }
    }

    pub fn cease(&mut self, process: Process) {
        if let Some(running) = self.running(process) {
            running.serving = None;
        }
    }

    pub fn take_journal_reply(
        &mut self,
        process: Process,
        request: JournalRequest,
        reply: JournalReply,
    ) -> Check {
        let now = self.now;
        let Some(serving) = self.serving(process).filter(|serving| serving.epoch == request.epoch()) else {
            return Ok(());
        };
        serving.asked = now;
        match (request, reply) {
            // Refused: it was done before, or a newer owner was faster, which loading shows.
            (JournalRequest::Claim { epoch }, JournalReply::Done(Ok(()) | Err(ObjectError::Guard))) => {
                self.journal(process, JournalRequest::Load { epoch });
            }
            (JournalRequest::Load { epoch }, JournalReply::Loaded(Ok(found))) => {
                if serving.open {
                    // The answer to an earlier attempt came late: it lacks what was written since.
                    return Ok(());
                }
                if found.get(OWNER) != Some(&hex(epoch)) {
                    self.cease(process);
                    return Ok(());
                }
                let numbers =
                    found.keys().filter_map(|name| u64::from_str_radix(name.strip_prefix("n.")?, 16).ok());
                serving.known = serving.known.max(numbers.max().unwrap_or(0));
                serving.open = true;
                // One that slept since it asked may be followed by a newer owner already: it lacks what that one has written, and
                // can neither write nor, without a lease, answer.
                return if self.hosts.claimed > epoch { Ok(()) } else { self.hosts.check_all(&found) };
            }
            (JournalRequest::Append { number, epoch }, JournalReply::Done(Ok(()))) => {
                serving.known = serving.known.max(number);
                serving.writing = None;
                return self.acknowledge(process, epoch, number);
            }
            // A newer owner has the volume.
            (_, JournalReply::Done(Err(_)) | JournalReply::Loaded(Err(_))) => self.cease(process),
            _ => {}
        }
        Ok(())
    }

    /// A host learns that its write is durable. This needs no lease: the store has taken it.
    fn acknowledge(&mut self, process: Process, epoch: u64, number: u64) -> Check {
        let now = self.now;
        self.trace(&[7, process.0 as u64, number]);
        self.report.operations += 1;
        if self.hosts.owners.get(&epoch) != Some(&process) {
            return Err(format!("{process:?} acknowledged a write in epoch {epoch} of another"));
        }
        let hosts = &mut self.hosts;
        hosts.all_acknowledged.push(number);
        (hosts.acknowledged, hosts.last_acknowledged) = (hosts.acknowledged.max(number), now);
        if let Some(since) = self.taking_over.take() {
            self.report.longest_takeover_ms = self.report.longest_takeover_ms.max((now - since) / MS);
        }
        Ok(())
    }

    /// Every controller that serves is asked to write a number and to read.
    pub fn traffic(&mut self) -> Check {
        let next = self.now + 50 * MS + self.random.below(250 * MS);
        self.at(next, Action::Traffic);
        for at in 0..self.controllers.len() {
            let process = (at, self.controllers[at].life);
            if self.controllers[at].awake(self.now).is_some() {
                self.ask_home(process);
            }
        }
        Ok(())
    }

    fn ask_home(&mut self, process: Process) {
        let (now, next, acknowledged) = (self.now, self.hosts.next + 1, self.hosts.acknowledged);
        let Some(serving) = self.serving(process) else { return };
        let epoch = serving.epoch;
        let retry = serving.asked + RETRY_NS < now;
        if !serving.open {
            if retry {
                serving.asked = now;
                self.journal(process, JournalRequest::Claim { epoch });
            }
            return;
        }
        let read = Read { epoch, acknowledged, found: serving.known, begun: now };
        let number = match serving.writing {
            None => {
                serving.writing = Some((next, now));
                self.hosts.next = next;
                Some(next)
            }
            Some((number, sent)) if sent + RETRY_NS < now => {
                serving.writing = Some((number, now));
                Some(number)
            }
            Some(_) => None,
        };
        if let Some(number) = number {
            self.journal(process, JournalRequest::Append { epoch, number });
        }
        let turn = now + self.random.below(30 * MS);
        self.at(turn, Action::AnswerRead(process, read));
    }

    /// The turn of a connection after the command was executed: it is answered if the lease holds, and waits otherwise.
    pub fn answer_read(&mut self, process: Process, read: Read) -> Check {
        if let Some(until) = self.asleep(process) {
            self.at(until, Action::AnswerRead(process, read));
            return Ok(());
        }
        let clock = self.controllers[process.0].clock(self.now);
        let Some(running) = self.running(process) else { return Ok(()) };
        let serves = running.serving.as_ref().is_some_and(|serving| serving.epoch == read.epoch);
        if !serves {
            return Ok(());
        }
        if running.member.lease().holds(clock) {
            let way = self.random.below(5 * MS);
            self.at(self.now + way, Action::Received(process, read));
        } else if read.begun + 8 * SECOND > self.now {
            self.at(self.now + 100 * MS, Action::AnswerRead(process, read));
        }
        Ok(())
    }

    /// An answer reaches its host. The process may sleep by now: the answer had left it.
    pub fn receive(&mut self, process: Process, read: Read) -> Check {
        self.trace(&[8, process.0 as u64, read.found]);
        self.report.operations += 1;
        if read.found < read.acknowledged {
            return Err(format!(
                "a read that began at {} at {process:?} found {}, after {} was acknowledged; now {}, epoch {} of {}",
                read.begun, read.found, read.acknowledged, self.now, read.epoch, self.hosts.claimed
            ));
        }
        Ok(())
    }
}
