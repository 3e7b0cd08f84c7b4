//! Hosts and their volume: numbers that are written once, in an object guarded by the owner's epoch.

use super::{Action, Check, MS, Operation, Process, SECOND, World, immediate};
use rados::memory::{Client, Cluster};
use rados::objects::{Attributes, Name, ObjectError, Objects, Operation as Compound, Pool, Step};
use std::collections::BTreeMap;

const OWNER: &str = "owner";

/// Time after which a home repeats a request to its store.
const RETRY_NS: u64 = 2 * SECOND;

fn volume() -> Name {
    Name { pool: Pool::Meta, name: "volume".into() }
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// A request of a home to the volume.
#[derive(Clone, Copy, Debug)]
pub enum JournalRequest {
    /// Makes the volume refuse older owners.
    Claim { epoch: u64 },
    /// Reads all numbers.
    Load { epoch: u64 },
    /// Writes a number.
    Append { epoch: u64, number: u64 },
}

/// A reply of the volume.
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
    /// The number in progress, and its send time.
    writing: Option<(u64, u64)>,
    /// Time of the last store request of an opening.
    asked: u64,
}

/// A read in progress.
#[derive(Clone, Copy)]
pub struct Read {
    epoch: u64,
    /// The largest number acknowledged before it began.
    acknowledged: u64,
    found: u64,
    begun: u64,
}

/// Knowledge of the hosts.
pub struct Hosts {
    next: u64,
    /// The largest acknowledged number.
    acknowledged: u64,
    all_acknowledged: Vec<u64>,
    /// Time of the last acknowledged write.
    pub last_acknowledged: u64,
    /// The owner of each epoch.
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

    /// Notes the effect of a request in the store.
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

    /// The new owner adds the client of a former controller to the blocklist, late or without success.
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
            // Refused: it was done before, or a newer owner was faster, as loading shows.
            (JournalRequest::Claim { epoch }, JournalReply::Done(Ok(()) | Err(ObjectError::Guard))) => {
                self.journal(process, JournalRequest::Load { epoch });
            }
            (JournalRequest::Load { epoch }, JournalReply::Loaded(Ok(found))) => {
                if serving.open {
                    // The answer to an earlier attempt arrived late: it lacks later writes.
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
                // A process that was suspended since its request may have a newer owner: it lacks the writes of that
                // owner, and can neither write nor answer without a lease.
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

    /// A host is informed that its write is durable. This needs no lease, since the store has the write.
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

    /// Every serving controller gets a write and a read.
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

    /// Turn of a connection after the execution of the command: it is answered if the lease holds, and waits otherwise.
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

    /// An answer reaches its host. The process may be suspended by now: it had sent the answer before.
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
