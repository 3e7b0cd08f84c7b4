//! The front end's half: sends the requests of its hosts to the home, again if the link broke, and says how each ended.

mod fetch;

use crate::pulse::Pulse;
use crate::wire;
use crate::{ABORTED_NS, HOLD_NS, MAX_DATA_BYTES, MAX_SENT_BYTES, OPEN_HOLD_NS, Result, malformed};
use block::{MAX_WINDOW, Recipe, Sequence};
use bytes::Bytes;
use peer::message::{Attach, Command, Hello, Manage, Message, POWER_ON_UNKNOWN};
use peer::{Channel, Received};
use scsi::{Lun, ManagementFunction, ManagementResponse, Response};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Events for the driver of the front end.
#[derive(Debug)]
pub enum Event {
    /// A command has ended; without a response if it was aborted.
    Completed(u64, Option<Response>),
    /// The home has located the data of a command. They are to be read, and [`Front::fetched`] is to be called,
    /// unless the command ends before.
    Located(u64, Recipe),
    /// The first of these commands continues as the second one: the home was asked for its data.
    AskedAgain(u64, u64),
    /// A task management function has ended.
    Managed(u64, ManagementResponse),
    /// Configuration that the home has sent.
    Configured(Bytes),
}

/// One front end and its link to the home.
pub struct Front {
    instance: u64,
    domain: u16,
    /// The power-on of the target that the last home had; zero if none said so.
    power_on: u64,
    link: Option<Link>,
    /// When the last link broke.
    broken_ns: u64,
    nexuses: BTreeMap<u32, Attachment>,
    next_nexus: u32,
    next_request: u64,
    /// Requests that have not ended, in the order in which hosts sent them.
    requests: BTreeMap<u64, Request>,
    /// Those that may have to be sent.
    unsent: BTreeSet<u64>,
    sent_bytes: u64,
    /// This end reads what homes locate.
    locates: bool,
    fetches: BTreeMap<u64, Fetch>,
    events: VecDeque<Event>,
}

struct Link {
    channel: Channel,
    /// The process of the home.
    home: u64,
    pulse: Pulse,
    /// The newest reading of the home's clock, and of the own one when it came.
    home_clock: Option<(u64, u64)>,
}

struct Attachment {
    attach: Attach,
    /// The home of this link has it.
    attached: bool,
    /// A home may have performed something for it, so that it is not new to its host.
    used: bool,
    /// Whether that home notes commands that took effect, and looks them up.
    notes: bool,
    /// The home's process and the incarnation that it gave the nexus; requests that were begun were begun there.
    identity: Option<(u64, u64)>,
    /// Its newest command that all before it must precede.
    ordered: Option<u64>,
}

enum Operation {
    Command(Box<scsi::Command>),
    Manage(Lun, ManagementFunction),
}

struct Request {
    nexus: u32,
    operation: Operation,
    /// When it came from its host.
    since_ns: u64,
    /// It changes nothing.
    is_repeatable: bool,
    /// It is a command all whose effect homes note that note commands.
    is_noted: bool,
    /// A home may have begun it.
    begun: bool,
    /// Each home that may have begun it notes commands.
    noted: bool,
    /// It is under way on this link.
    sent: bool,
    /// A home may locate its data, or has: it gives the same answer again.
    locates: bool,
}

/// A command whose data are being read.
struct Fetch {
    request: Request,
    /// When the home had located them.
    since_ns: u64,
}

impl Request {
    /// It may have taken effect, or do so yet.
    fn has_open_effect(&self) -> bool {
        self.begun && !self.is_repeatable && matches!(self.operation, Operation::Command(_))
    }

    /// How long it waits for a home. The next one can say whether it has taken effect, if every home notes commands that may have
    /// begun it.
    fn patience_ns(&self) -> u64 {
        if self.has_open_effect() && self.noted { OPEN_HOLD_NS } else { HOLD_NS }
    }

    fn bytes(&self) -> u64 {
        match &self.operation {
            Operation::Command(command) => {
                command.data_out.len() as u64 + command.data_in_limit.min(MAX_DATA_BYTES as u64)
            }
            Operation::Manage(..) => 0,
        }
    }
}

impl Front {
    /// A front end without nexuses and link. `instance` is the number of its process, which its hello names.
    pub fn new(domain: u16, instance: u64) -> Self {
        Self {
            instance,
            domain,
            power_on: 0,
            link: None,
            broken_ns: 0,
            nexuses: BTreeMap::new(),
            next_nexus: 0,
            next_request: 0,
            requests: BTreeMap::new(),
            unsent: BTreeSet::new(),
            sent_bytes: 0,
            locates: false,
            fetches: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Whether homes may locate data from now on, instead of sending them.
    pub fn locate(&mut self, locates: bool) {
        self.locates = locates;
    }

    /// Takes a connection whose other end, the home, said `hello`, instead of an earlier one.
    pub fn connect(&mut self, channel: Channel, hello: &Hello, now: u64) {
        self.disconnect(now);
        let home = hello.joined;
        self.link = Some(Link { channel, home, pulse: Pulse::new(now), home_clock: None });
        let nexuses: Vec<u32> = self.nexuses.keys().copied().collect();
        nexuses.into_iter().for_each(|nexus| self.send_attach(nexus));
        // It says as well that all nexuses are named.
        self.send(0, &Message::Pulse { clock_ns: now, power_on: self.power_on });
    }

    /// The connection has ended.
    pub fn disconnect(&mut self, now: u64) {
        if self.link.take().is_some() {
            self.broken_ns = now;
        }
        self.sent_bytes = 0;
        self.nexuses.values_mut().for_each(|nexus| nexus.attached = false);
        for (number, request) in &mut self.requests {
            request.sent = false;
            self.unsent.insert(*number);
        }
    }

    /// The power-on of the target that its last home had; `None` if that did not say so.
    pub fn power_on(&self) -> Option<u64> {
        (self.power_on != 0).then_some(self.power_on)
    }

    /// Begins a nexus.
    pub fn attach(&mut self, port: u16, isid: [u8; 6], initiator: &str) -> u32 {
        let nexus = self.next_nexus;
        self.next_nexus += 1;
        let attach = Attach {
            nexus,
            port,
            isid,
            resume: false,
            initiator: Bytes::copy_from_slice(initiator.as_bytes()),
            power_on: 0,
        };
        let (attached, used, notes, identity, ordered) = (false, false, false, None, None);
        self.nexuses.insert(nexus, Attachment { attach, attached, used, notes, identity, ordered });
        self.send_attach(nexus);
        nexus
    }

    fn send_attach(&mut self, nexus: u32) {
        let Some(attachment) = self.nexuses.get_mut(&nexus) else { return };
        attachment.attach.resume = attachment.used;
        attachment.attach.power_on = self.power_on;
        let message = Message::Attach(attachment.attach.clone());
        self.send(u64::from(nexus), &message);
    }

    /// Ends a nexus. No event comes of its requests.
    pub fn detach(&mut self, nexus: u32) {
        if self.nexuses.remove(&nexus).is_some() {
            self.send(0, &Message::Detach { nexus });
        }
        let gone: Vec<u64> = self
            .requests
            .iter()
            .filter(|(_, request)| request.nexus == nexus)
            .map(|(number, _)| *number)
            .collect();
        gone.into_iter().for_each(|number| _ = self.remove(number));
        self.detach_fetches(nexus);
    }

    /// Takes a command that came from its host now. Its end is an event with the number that this returns.
    pub fn execute(&mut self, nexus: u32, command: scsi::Command, now: u64) -> u64 {
        if command.data_out.len() > MAX_DATA_BYTES {
            let number = self.number();
            self.events.push_back(Event::Completed(number, Some(wire::busy())));
            return number;
        }
        self.begin(nexus, Operation::Command(Box::new(command)), now)
    }

    /// Takes a task management function that came from its host now.
    pub fn manage(&mut self, nexus: u32, lun: Lun, function: ManagementFunction, now: u64) -> u64 {
        self.begin(nexus, Operation::Manage(lun, function), now)
    }

    fn number(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request - 1
    }

    fn begin(&mut self, nexus: u32, operation: Operation, since_ns: u64) -> u64 {
        let number = self.number();
        let is_repeatable = matches!(&operation, Operation::Command(command) if command.is_repeatable());
        let is_noted = matches!(&operation, Operation::Command(command) if command.is_noted());
        let (begun, noted, sent, locates) = (false, true, false, self.locates);
        self.note_order(nexus, number, &operation);
        let request =
            Request { nexus, operation, since_ns, is_repeatable, is_noted, begun, noted, sent, locates };
        self.requests.insert(number, request);
        self.unsent.insert(number);
        self.send_requests();
        number
    }

    /// Events since the last call, in order.
    pub fn events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    /// Bytes to write to the connection.
    pub fn take_output(&mut self) -> Vec<Bytes> {
        self.link.as_mut().map(|link| link.channel.take_output()).unwrap_or_default()
    }

    /// Takes bytes of the connection.
    ///
    /// # Errors
    /// Why the connection is to be closed, with [`Front::disconnect`].
    pub fn receive(&mut self, bytes: Bytes, now: u64) -> Result<()> {
        let Some(link) = &mut self.link else { return Ok(()) };
        link.pulse.note(now);
        link.channel.receive(bytes);
        while let Some(link) = &mut self.link
            && let Some(received) = link.channel.next_message()?
        {
            if let Received::Message { domain, number, message } = received
                && domain == self.domain
            {
                self.take(number, message, now)?;
            }
        }
        self.send_requests();
        Ok(())
    }

    /// Lets the time pass: sends signs of life, and gives up requests that no home has taken for too long.
    ///
    /// # Errors
    /// [`crate::Error::Silent`]: the connection is to be closed.
    pub fn tick(&mut self, now: u64) -> Result<()> {
        self.give_up(now);
        self.end_slow_fetches(now);
        let Some(link) = &mut self.link else { return Ok(()) };
        link.pulse.beat(&mut link.channel, (self.domain, self.power_on), now)
    }

    /// Ends requests that no home has taken for too long. One that a home may have begun ends only after that home has aborted
    /// it: nothing takes effect after its end.
    fn give_up(&mut self, now: u64) {
        let was_aborted = self.link.is_none() && self.broken_ns + ABORTED_NS <= now;
        let is_old = |number: &&u64| {
            self.requests.get(number).is_some_and(|request| {
                let is_old = request.since_ns + request.patience_ns() <= now;
                is_old && !request.sent && (was_aborted || !request.begun)
            })
        };
        let old: Vec<u64> = self.unsent.iter().filter(is_old).copied().collect();
        for number in old {
            self.end(number);
        }
    }

    /// Ends a request without an answer of the home. If none has begun it, it did not take effect, which BUSY says.
    fn end(&mut self, number: u64) {
        let Some(request) = self.remove(number) else { return };
        let event = match request.operation {
            Operation::Command(_) if request.has_open_effect() => {
                Event::Completed(number, Some(Response::cleared_by_server()))
            }
            Operation::Command(_) => Event::Completed(number, Some(wire::busy())),
            Operation::Manage(..) => Event::Managed(number, ManagementResponse::Rejected),
        };
        self.events.push_back(event);
    }

    fn remove(&mut self, number: u64) -> Option<Request> {
        self.unsent.remove(&number);
        let request = self.requests.remove(&number)?;
        if request.sent {
            self.sent_bytes -= request.bytes();
        }
        Some(request)
    }

    fn take(&mut self, number: u64, message: Message, now: u64) -> Result<()> {
        match message {
            Message::Pulse { clock_ns, power_on } => {
                if power_on != POWER_ON_UNKNOWN {
                    self.power_on = power_on;
                }
                if let Some(link) = &mut self.link {
                    link.home_clock = Some((clock_ns, now));
                }
            }
            Message::Attached { incarnation, notes } => return self.attached(number, incarnation, notes),
            Message::Configuration(text) => self.events.push_back(Event::Configured(text)),
            Message::Refused => self.refused(number),
            Message::Response(response) => {
                let response = wire::response(response)?;
                return self.ended(number, Some(response));
            }
            Message::Located(recipe) => return self.located(number, recipe, now),
            Message::Ended => return self.ended(number, None),
            Message::Managed { response } => {
                let response = wire::management(response)?;
                match self.sent(number) {
                    None => {}
                    Some(Operation::Manage(..)) => {
                        if response == ManagementResponse::Complete {
                            self.end_aborted_fetches(number);
                        }
                        self.remove(number);
                        self.events.push_back(Event::Managed(number, response));
                    }
                    Some(Operation::Command(_)) => return malformed("an answer of another kind"),
                }
            }
            _ => return malformed("a request to a front end"),
        }
        Ok(())
    }

    fn sent(&self, number: u64) -> Option<&Operation> {
        self.requests.get(&number).filter(|request| request.sent).map(|request| &request.operation)
    }

    fn ended(&mut self, number: u64, response: Option<Response>) -> Result<()> {
        match self.sent(number) {
            // It was given up.
            None => {}
            Some(Operation::Command(_)) => {
                self.remove(number);
                self.events.push_back(Event::Completed(number, response));
            }
            Some(Operation::Manage(..)) => return malformed("an answer of another kind"),
        }
        Ok(())
    }

    fn refused(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number).filter(|request| request.sent) {
            request.begun = false;
            self.end(number);
        }
    }

    fn attached(&mut self, number: u64, incarnation: u64, notes: bool) -> Result<()> {
        let Ok(nexus) = u32::try_from(number) else { return malformed("a nexus without a number") };
        let identity = self.link.as_ref().map(|link| (link.home, incarnation));
        let Some(attachment) = self.nexuses.get_mut(&nexus) else { return Ok(()) };
        (attachment.attached, attachment.notes) = (true, notes);
        let before = std::mem::replace(&mut attachment.identity, identity);
        if before != identity {
            let home = |identity: Option<(u64, u64)>| identity.map(|(home, _)| home);
            self.end_lost_requests(nexus, home(before) == home(identity));
        }
        Ok(())
    }

    /// The nexus is a new one: of the former one nothing takes effect any more. Requests that change nothing, and
    /// task management, are sent again. So are commands whose effect the home can look up: what a former home noted,
    /// in the store; what it changed in its memory alone has ended with its process. Whether others took effect is
    /// not known, and they end.
    fn end_lost_requests(&mut self, nexus: u32, same_home: bool) {
        let looks_up = self.nexuses.get(&nexus).is_some_and(|attachment| attachment.notes);
        let mut open = Vec::new();
        for (number, request) in self.requests.iter_mut().filter(|(_, request)| request.nexus == nexus) {
            if !request.has_open_effect() {
                request.begun = false;
            } else if !looks_up || !request.noted || same_home && !request.is_noted {
                open.push(*number);
            }
        }
        open.into_iter().for_each(|number| self.end(number));
    }

    /// Sends what may be sent, in the order in which it came.
    fn send_requests(&mut self) {
        let Some((clock, at)) = self.link.as_ref().and_then(|link| link.home_clock) else { return };
        let Some(lowest) = self.requests.keys().next().copied() else { return };
        let candidates: Vec<u64> = self.unsent.iter().copied().collect();
        for number in candidates {
            let Some(request) = self.requests.get_mut(&number) else { continue };
            let Some(nexus) = self.nexuses.get_mut(&request.nexus).filter(|nexus| nexus.attached) else {
                continue;
            };
            let bytes = request.bytes();
            if number - lowest >= MAX_WINDOW
                || self.sent_bytes > 0 && self.sent_bytes + bytes > MAX_SENT_BYTES
            {
                break;
            }
            (request.sent, request.begun) = (true, true);
            request.noted &= nexus.notes;
            nexus.used = true;
            // Not more than the home's clock showed when the command came, if both run equally fast within 10 %. What changes
            // nothing is never too late.
            let age = if request.is_repeatable { 0 } else { at.saturating_sub(request.since_ns) };
            let read_ns = clock.saturating_sub(age.saturating_mul(5) / 4);
            let sequence = Sequence { front: self.instance, number, lowest };
            let message = message(request, sequence, (read_ns, self.locates));
            self.sent_bytes += bytes;
            self.unsent.remove(&number);
            self.send(number, &message);
        }
    }

    fn send(&mut self, number: u64, message: &Message) {
        if let Some(link) = &mut self.link {
            link.channel.send(self.domain, number, message);
        }
    }
}

fn message(request: &Request, sequence: Sequence, (read_ns, locates): (u64, bool)) -> Message {
    let nexus = request.nexus;
    match &request.operation {
        Operation::Command(command) => Message::Command(Command {
            sequence,
            read_ns,
            nexus,
            attribute: wire::attribute_code(command.attribute),
            direction: wire::direction_code(command.direction),
            lun: u64::from_be_bytes(command.lun.0),
            tag: command.tag,
            data_in_limit: command.data_in_limit,
            cdb: command.cdb.clone(),
            data: command.data_out.to_bytes(),
            locates: request.locates && locates,
        }),
        Operation::Manage(lun, function) => {
            let (function, tag) = wire::function_code(*function);
            Message::Manage(Manage { sequence, nexus, function, lun: u64::from_be_bytes(lun.0), tag })
        }
    }
}
