//! The home's half of a link: performs each request of one front end once.

use crate::pulse::Pulse;
use crate::wire;
use crate::{LINGER_NS, MAX_AGE_NS, MAX_HELD_BYTES, MAX_NEXUSES, Result, malformed};
use block::{Known, Ledger, MAX_WINDOW, Piece, Sequence};
use bytes::Bytes;
use peer::message::{Attach, Command, Hello, Manage, Message, POWER_ON_UNKNOWN};
use peer::{Channel, Received};
use scsi::{
    Begin, Execution, InitiatorPort, Lun, ManagementFunction, ManagementResponse, Nexus, Origin, Power,
    Response, Target, iscsi_name,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use transport::Tasks;

/// The home's service for one front end. Dropping it ends all nexuses of the front end, whose process has ended or
/// which the cluster has expelled.
pub struct Service {
    target: Arc<Target>,
    /// Ledger of the store of the target's disks, if the store notes commands.
    ledger: Option<Arc<dyn Ledger>>,
    domain: u16,
    /// The instance of the front end.
    front: u64,
    /// Configuration for the front end.
    configuration: Bytes,
    link: Option<Link>,
    /// Time at which the link broke; `None` while the front end has a link on which it has named its nexuses.
    broken_ns: Option<u64>,
    nexuses: BTreeMap<u32, Attached>,
    tasks: Tasks<Running, Option<Response>>,
    /// Unit state changed by task management that is being saved, by request number.
    saves: Tasks<u64, ManagementResponse>,
    /// Requests from this number on are remembered.
    lowest: u64,
    /// Incarnation of the next nexus, unique at this home.
    next_incarnation: u64,
    /// The highest nexus number that this process has had.
    highest_nexus: Option<u32>,
    /// The front end has named all its nexuses once.
    has_named_nexuses: bool,
    requests: BTreeMap<u64, Request>,
    /// Bytes of the remembered answers.
    answer_bytes: u64,
}

struct Link {
    channel: Channel,
    pulse: Pulse,
    /// The front end has attached all its nexuses on this link.
    named_nexuses: bool,
}

struct Attached {
    nexus: Arc<Nexus>,
    incarnation: u64,
    /// The front end has named the nexus on this link.
    claimed: bool,
}

/// A running command.
struct Running {
    number: u64,
    nexus: u32,
    lun: Lun,
    tag: u64,
}

/// State of a begun request.
enum Request {
    Running,
    Answered(Message),
}

fn bytes_of(message: &Message) -> u64 {
    match message {
        Message::Response(response) => (response.data_in.len() + response.sense.len()) as u64,
        Message::Located(recipe) => recipe.pieces.iter().map(bytes_of_piece).sum(),
        _ => 0,
    }
}

/// Memory of a piece of a recipe.
fn bytes_of_piece(piece: &Piece) -> u64 {
    let own = size_of::<Piece>() as u64;
    match piece {
        Piece::Bytes(bytes) => own + bytes.len() as u64,
        Piece::Zeros(_) | Piece::Blocks(_) => own,
    }
}

impl Service {
    /// A service without a connection. `ledger` is that of all disks of the target, if there is one. `front` is the
    /// front end's instance, as in its hello; `id` is unique among the services of this process.
    pub fn new(
        (target, ledger): (Arc<Target>, Option<Arc<dyn Ledger>>),
        domain: u16,
        front: u64,
        id: u32,
    ) -> Self {
        Self {
            target,
            ledger,
            domain,
            front,
            configuration: Bytes::new(),
            link: None,
            broken_ns: None,
            nexuses: BTreeMap::new(),
            tasks: Tasks::default(),
            saves: Tasks::default(),
            highest_nexus: None,
            has_named_nexuses: false,
            lowest: 0,
            next_incarnation: u64::from(id) << 32,
            requests: BTreeMap::new(),
            answer_bytes: 0,
        }
    }

    /// Takes a new connection, whose other end sent `hello`; it replaces an earlier one.
    ///
    /// # Panics
    /// If the hello is from another front end, which would get this one's answers.
    pub fn connect(&mut self, mut channel: Channel, hello: &Hello, now: u64) {
        assert_eq!(hello.joined, self.front, "each front end has a service of its own");
        self.nexuses.values_mut().for_each(|attached| attached.claimed = false);
        channel.send(self.domain, 0, &Message::Configuration(self.configuration.clone()));
        channel.send(self.domain, 0, &Message::Pulse { clock_ns: now, power_on: self.power_on() });
        self.link = Some(Link { channel, pulse: Pulse::new(now), named_nexuses: false });
    }

    /// Sets the configuration for the front end.
    ///
    /// # Panics
    /// If it exceeds the maximum frame length.
    pub fn configure(&mut self, configuration: Bytes) {
        if self.configuration != configuration {
            self.send(0, &Message::Configuration(configuration.clone()));
            self.configuration = configuration;
        }
    }

    /// Handles the end of the connection.
    pub fn disconnect(&mut self, now: u64) {
        if self.link.take().is_some() {
            self.broken_ns.get_or_insert(now);
        }
    }

    /// Processes bytes of the connection.
    ///
    /// # Errors
    /// The cause, after which the connection has to be closed, with [`Service::disconnect`].
    pub fn receive(&mut self, bytes: Bytes, now: u64) -> Result<()> {
        let Some(link) = &mut self.link else { return Ok(()) };
        link.pulse.note(now);
        link.channel.receive(bytes);
        while let Some(link) = &mut self.link
            && let Some(received) = link.channel.next_message()?
        {
            if let Received::Message { domain, number, message } = received {
                self.take(domain, number, message, now)?;
            }
        }
        Ok(())
    }

    /// Bytes to write to the connection, if the home may answer hosts now.
    pub fn take_output(&mut self) -> Vec<Bytes> {
        self.link.as_mut().map(|link| link.channel.take_output()).unwrap_or_default()
    }

    /// True if the front end has named all its nexuses: it resumes no further one.
    pub fn has_named_nexuses(&self) -> bool {
        self.has_named_nexuses
    }

    /// The nexuses that the front end has named on this link, by number.
    pub(crate) fn named_nexuses(&self) -> impl Iterator<Item = (u32, &Arc<Nexus>)> {
        let named = self.nexuses.iter().filter(|(_, attached)| attached.claimed);
        named.map(|(number, attached)| (*number, &attached.nexus))
    }

    /// The power-on in pulses.
    fn power_on(&self) -> u64 {
        match self.target.power() {
            Power::EndsWithProcess => 0,
            Power::On(number) => number,
            Power::Unknown { .. } => POWER_ON_UNKNOWN,
        }
    }

    /// Notes that the front end has had a home in this power-on, if it is not zero.
    fn claim(&self, power_on: u64) {
        if power_on != 0 && matches!(self.target.power(), Power::Unknown { .. }) {
            self.target.resolve_power(Some(power_on));
        }
    }

    /// True if the service has no state for the front end and may be dropped.
    pub fn is_idle(&self) -> bool {
        self.link.is_none() && self.nexuses.is_empty()
    }

    /// Advances the time: sends signs of life, and ends state of a link that broke long ago.
    ///
    /// # Errors
    /// [`crate::Error::Silent`]: the connection is to be closed.
    pub fn tick(&mut self, now: u64) -> Result<()> {
        if self.broken_ns.is_some_and(|broken| broken + LINGER_NS <= now) {
            self.forget();
        }
        let state = (self.domain, self.power_on());
        let Some(link) = &mut self.link else { return Ok(()) };
        link.pulse.beat(&mut link.channel, state, now)
    }

    /// Aborts everything. The fate of aborted commands is unknown afterwards, so no answer is kept either.
    fn forget(&mut self) {
        self.tasks.remove_where(|_| true);
        self.saves.remove_where(|_| true);
        self.nexuses.clear();
        self.requests.clear();
        self.answer_bytes = 0;
        self.broken_ns = None;
    }

    /// Sends the answers of ended tasks; pending if there are none.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (ended, saved) = (self.tasks.poll(context), self.saves.poll(context));
        if let (Poll::Pending, Poll::Pending) = (&ended, &saved) {
            return Poll::Pending;
        }
        if let Poll::Ready(ended) = ended {
            for (running, response) in ended {
                self.answer(running.number, response.map_or(Message::Ended, wire::answer));
            }
        }
        if let Poll::Ready(saved) = saved {
            for (number, response) in saved {
                self.answer(number, Message::Managed { response: wire::management_code(response) });
            }
        }
        Poll::Ready(())
    }

    fn take(&mut self, domain: u16, number: u64, message: Message, now: u64) -> Result<()> {
        if domain != self.domain {
            self.send(number, &Message::Refused);
            return Ok(());
        }
        match message {
            Message::Pulse { power_on, .. } => {
                self.claim(power_on);
                self.end_unnamed_nexuses();
            }
            Message::Attach(attach) => return self.attach(number, attach),
            Message::Detach { nexus } => self.detach(nexus),
            Message::Command(command) => return self.command(number, command, now),
            Message::Manage(manage) => return self.manage(number, &manage),
            Message::Refused => {}
            _ => return malformed("an answer to nothing"),
        }
        Ok(())
    }

    /// Ends the nexuses that the front end has not named: it ended them while the link was broken. Naming all nexuses
    /// also shows that the front end has this link; before, it may count the time since the last break.
    fn end_unnamed_nexuses(&mut self) {
        let Some(link) = &mut self.link else { return };
        if std::mem::replace(&mut link.named_nexuses, true) {
            return;
        }
        self.broken_ns = None;
        let gone = self.nexuses.iter().filter(|(_, attached)| !attached.claimed).map(|(nexus, _)| *nexus);
        gone.collect::<Vec<_>>().into_iter().for_each(|nexus| self.detach(nexus));
        self.has_named_nexuses = true;
        self.target.release_unclaimed(self.front);
    }

    fn attach(&mut self, number: u64, attach: Attach) -> Result<()> {
        if let Some(known) = self.nexuses.get_mut(&attach.nexus) {
            known.claimed = true;
            let incarnation = known.incarnation;
            self.send_attached(number, incarnation);
            return Ok(());
        }
        let name = std::str::from_utf8(&attach.initiator).ok().and_then(iscsi_name);
        let Some(name) = name else { return malformed("an initiator whose name is none") };
        if self.nexuses.len() >= MAX_NEXUSES {
            return malformed("too many nexuses");
        }
        self.claim(attach.power_on);
        let begin = self.begin(&attach);
        let (initiator, origin) =
            (InitiatorPort::iscsi(name, attach.isid), Origin { front: self.front, nexus: attach.nexus });
        let nexus = self.target.attach_forwarded((initiator, attach.port), origin, begin);
        self.highest_nexus = self.highest_nexus.max(Some(attach.nexus));
        let incarnation = self.next_incarnation;
        self.next_incarnation += 1;
        self.nexuses.insert(attach.nexus, Attached { nexus: Arc::new(nexus), incarnation, claimed: true });
        self.send_attached(number, incarnation);
        Ok(())
    }

    /// Start of a nexus that is new to this process. Front ends number nexuses, and name them in that order.
    fn begin(&self, attach: &Attach) -> Begin {
        let is_same_power_on = self.target.power().number() == Some(attach.power_on);
        match attach.resume {
            true if self.highest_nexus >= Some(attach.nexus) => Begin::Lost,
            true if is_same_power_on && !self.has_named_nexuses => Begin::Resumed,
            _ => Begin::New,
        }
    }

    fn send_attached(&mut self, number: u64, incarnation: u64) {
        let notes = self.ledger.is_some();
        self.send(number, &Message::Attached { incarnation, notes });
    }

    /// Ends a nexus, after its tasks, which have no waiter any more.
    fn detach(&mut self, nexus: u32) {
        self.abort(|running| running.nexus == nexus);
        self.nexuses.remove(&nexus);
    }

    /// Drops tasks. Each one has taken effect completely, or never will.
    fn abort(&mut self, choose: impl Fn(&Running) -> bool) {
        for running in self.tasks.remove_where(choose) {
            self.answer(running.number, Message::Ended);
        }
    }

    /// Looks up a request of this process; true if it is new.
    fn is_new(&mut self, number: u64, sequence: Sequence) -> Result<bool> {
        let Sequence { front, lowest, .. } = sequence;
        if front != self.front || sequence.number != number {
            return malformed("a request of another front end");
        }
        if lowest > number || number - lowest >= MAX_WINDOW {
            return malformed("a request out of its window");
        }
        if lowest > self.lowest {
            self.lowest = lowest;
            let kept = self.requests.split_off(&lowest);
            for request in std::mem::replace(&mut self.requests, kept).into_values() {
                if let Request::Answered(answer) = request {
                    self.answer_bytes -= bytes_of(&answer);
                }
            }
        }
        match self.requests.get(&number) {
            Some(Request::Running) => return Ok(false),
            Some(Request::Answered(answer)) => {
                let answer = answer.clone();
                self.send(number, &answer);
                return Ok(false);
            }
            None => {}
        }
        // The front end has its answer.
        if number < self.lowest {
            self.send(number, &Message::Refused);
            return Ok(false);
        }
        Ok(true)
    }

    /// Answers a command that is new to this process, but has already taken effect; returns true if it has not.
    /// Commands that are too old to be performed are looked up, too.
    fn is_undone(&mut self, number: u64, sequence: Sequence, nexus: u32, command: &scsi::Command) -> bool {
        let Some(ledger) = self.ledger.clone() else { return true };
        match ledger.look_up(sequence) {
            Known::New => return true,
            Known::Done => {
                let Some(attached) = self.nexuses.get(&nexus) else { return true };
                let (response, settled) = (attached.nexus.done(command), ledger.settled());
                let task = Box::pin(async move {
                    // If the effect is not durable, the fate of the command is open again.
                    let response = settled.await.map_or_else(|_| Response::cleared_by_server(), |_| response);
                    Some(response)
                });
                let running = Running { number, nexus, lun: command.lun, tag: command.tag };
                self.requests.insert(number, Request::Running);
                self.tasks.insert(number as u32, running, 0, task);
            }
            // Its end may never have arrived, or may have been an error.
            Known::Part => {
                self.answer(number, wire::answer(Response::cleared_by_server()));
            }
            Known::Answered | Known::Invalid => self.send(number, &Message::Refused),
        }
        false
    }

    fn command(&mut self, number: u64, command: Command, now: u64) -> Result<()> {
        let (attribute, direction) =
            (wire::attribute(command.attribute)?, wire::direction(command.direction)?);
        let (sequence, nexus) = (command.sequence, command.nexus);
        if !self.is_new(number, sequence)? {
            return Ok(());
        }
        // Zero: older than the home's clock can express.
        let is_stale = command.read_ns == 0 || command.read_ns.saturating_add(MAX_AGE_NS) < now;
        let charge = (command.data.len() as u64).saturating_add(command.data_in_limit.min(1 << 20));
        let (lun, locates) = (Lun(command.lun.to_be_bytes()), command.locates);
        let running = Running { number, nexus, lun, tag: command.tag };
        let command = scsi::Command {
            tag: command.tag,
            lun,
            cdb: command.cdb,
            attribute,
            direction,
            data_out: command.data.into(),
            data_in_limit: command.data_in_limit,
        };
        if !command.is_repeatable() && !self.is_undone(number, sequence, nexus, &command) {
            return Ok(());
        }
        // The command is begun neither now nor later.
        if is_stale {
            self.send(number, &Message::Refused);
            return Ok(());
        }
        self.requests.insert(number, Request::Running);
        let Some(attached) = self.nexuses.get(&nexus) else {
            self.answer(number, wire::answer(wire::busy()));
            return Ok(());
        };
        if self.answer_bytes + self.tasks.charge() + charge > MAX_HELD_BYTES {
            self.answer(number, wire::answer(wire::busy()));
            return Ok(());
        }
        let noted = self.ledger.as_ref().map(|_| sequence);
        match attached.nexus.execute_forwarded(command, noted, locates) {
            Execution::Done(response) => {
                self.answer(number, wire::answer(response));
            }
            // Request numbers in a window differ in their lower halves.
            Execution::Task(task) => self.tasks.insert(number as u32, running, charge, task),
        }
        Ok(())
    }

    fn manage(&mut self, number: u64, manage: &Manage) -> Result<()> {
        let function = wire::function(manage.function, manage.tag)?;
        if !self.is_new(number, manage.sequence)? {
            return Ok(());
        }
        self.requests.insert(number, Request::Running);
        let (nexus, lun) = (manage.nexus, Lun(manage.lun.to_be_bytes()));
        let response = match self.nexuses.get(&nexus) {
            Some(attached) => attached.nexus.manage(lun, function),
            None => ManagementResponse::Rejected,
        };
        // After the response is sent, no aborted task sends one.
        if response == ManagementResponse::Complete {
            self.abort(|running| {
                running.nexus == nexus
                    && match function {
                        ManagementFunction::AbortTask { tag } => running.lun == lun && running.tag == tag,
                        ManagementFunction::TargetReset => true,
                        _ => running.lun == lun,
                    }
            });
        }
        let saved = self.nexuses.get(&nexus).and_then(|attached| attached.nexus.saved(lun, function));
        match saved.filter(|_| response == ManagementResponse::Complete) {
            None => self.answer(number, Message::Managed { response: wire::management_code(response) }),
            // Another home would still apply the state that was reset.
            Some(saved) => {
                let saved = async move { if saved.await { response } else { ManagementResponse::Rejected } };
                self.saves.insert(number as u32, number, 0, Box::pin(saved));
            }
        }
        Ok(())
    }

    /// Answers a request, and remembers the answer until the front end confirms it.
    fn answer(&mut self, number: u64, message: Message) {
        self.send(number, &message);
        if number >= self.lowest {
            self.answer_bytes += bytes_of(&message);
            self.requests.insert(number, Request::Answered(message));
        }
    }

    fn send(&mut self, number: u64, message: &Message) {
        if let Some(link) = &mut self.link {
            link.channel.send(self.domain, number, message);
        }
    }
}
