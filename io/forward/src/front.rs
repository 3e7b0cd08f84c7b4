//! The front end's half of a link: sends requests of hosts to the home, resends them after a link failure, and reports
//! their results.

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
    /// The home has located the data of a command. The driver must read them and call [`Front::fetched`], unless the
    /// command ends before.
    Located(u64, Recipe),
    /// The first command continues as the second one: the home was asked for its data.
    AskedAgain(u64, u64),
    /// A task management function has ended.
    Managed(u64, ManagementResponse),
    /// Configuration from the home.
    Configured(Bytes),
}

/// One front end and its link to the home.
pub struct Front {
    instance: u64,
    domain: u16,
    /// Power-on of the target, as reported by the last home; zero if none reported it.
    power_on: u64,
    link: Option<Link>,
    /// Time at which the last link broke.
    broken_ns: u64,
    nexuses: BTreeMap<u32, Attachment>,
    next_nexus: u32,
    next_request: u64,
    /// Open requests, in the order in which hosts sent them.
    requests: BTreeMap<u64, Request>,
    /// Requests that may have to be sent.
    unsent: BTreeSet<u64>,
    sent_bytes: u64,
    /// Whether this end reads data that homes locate.
    locates: bool,
    fetches: BTreeMap<u64, Fetch>,
    events: VecDeque<Event>,
}

struct Link {
    channel: Channel,
    /// The process of the home.
    home: u64,
    pulse: Pulse,
    /// The last reading of the home's clock, and the local time of its arrival.
    home_clock: Option<(u64, u64)>,
}

struct Attachment {
    attach: Attach,
    /// The home of this link has the nexus.
    attached: bool,
    /// A home may have performed a request of the nexus, so the host may know it.
    used: bool,
    /// Whether the home notes commands that took effect, and looks them up.
    notes: bool,
    /// The home's process, and its incarnation number of the nexus: the place where begun requests were begun.
    identity: Option<(u64, u64)>,
    /// The newest ordered command; all earlier commands must precede it.
    ordered: Option<u64>,
}

enum Operation {
    Command(Box<scsi::Command>),
    Manage(Lun, ManagementFunction),
}

struct Request {
    nexus: u32,
    operation: Operation,
    /// Time of arrival from the host.
    since_ns: u64,
    /// The request changes nothing.
    is_repeatable: bool,
    /// A home that notes commands notes the whole effect of this one.
    is_noted: bool,
    /// A home may have begun the request.
    begun: bool,
    /// Every home that may have begun the request notes commands.
    noted: bool,
    /// The request was sent on this link.
    sent: bool,
    /// A home may locate, or has located, the data: a repetition returns the same answer.
    locates: bool,
}

/// A command whose data are being read.
struct Fetch {
    request: Request,
    /// Time at which the home had located the data.
    since_ns: u64,
}

impl Request {
    /// Whether the request may have taken effect, or may still do so.
    fn has_open_effect(&self) -> bool {
        self.begun && !self.is_repeatable && matches!(self.operation, Operation::Command(_))
    }

    /// Time that the request waits for a home. The next home can determine whether it took effect, if every home that
    /// may have begun it notes commands.
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
    /// A front end without nexuses and link. `instance` is the number of its process, as in its hello.
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

    /// Whether requests of a nexus have not ended.
    pub(crate) fn has_requests(&self, nexus: u32) -> bool {
        let of_nexus = |request: &Request| request.nexus == nexus;
        self.requests.values().any(of_nexus) || self.fetches.values().any(|fetch| of_nexus(&fetch.request))
    }

    /// Whether requests of a nexus are still to be sent on this link.
    pub(crate) fn has_unsent_requests(&self, nexus: u32) -> bool {
        let of_nexus = |request: &Request| request.nexus == nexus;
        self.unsent.iter().filter_map(|number| self.requests.get(number)).any(of_nexus)
    }

    /// Sets whether homes may locate data instead of sending them.
    pub fn locate(&mut self, locates: bool) {
        self.locates = locates;
    }

    /// Takes a new connection to the home, which sent `hello`; it replaces an earlier one.
    pub fn connect(&mut self, channel: Channel, hello: &Hello, now: u64) {
        self.disconnect(now);
        let home = hello.joined;
        self.link = Some(Link { channel, home, pulse: Pulse::new(now), home_clock: None });
        let nexuses: Vec<u32> = self.nexuses.keys().copied().collect();
        nexuses.into_iter().for_each(|nexus| self.send_attach(nexus));
        // The pulse also means that all nexuses are named.
        self.send(0, &Message::Pulse { clock_ns: now, power_on: self.power_on });
    }

    /// Handles the end of the connection.
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

    /// Power-on of the target, as reported by the last home; `None` if it did not report one.
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

    /// Ends a nexus. Its requests cause no more events.
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

    /// Accepts a command from its host at time `now`. Returns its number, which the event of its end contains.
    pub fn execute(&mut self, nexus: u32, command: scsi::Command, now: u64) -> u64 {
        if command.data_out.len() > MAX_DATA_BYTES {
            let number = self.number();
            self.events.push_back(Event::Completed(number, Some(wire::busy())));
            return number;
        }
        self.begin(nexus, Operation::Command(Box::new(command)), now)
    }

    /// Accepts a task management function from its host at time `now`.
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

    /// Processes bytes of the connection.
    ///
    /// # Errors
    /// The cause, after which the connection has to be closed, with [`Front::disconnect`].
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

    /// Advances the time: sends signs of life, and ends requests that no home has accepted for too long.
    ///
    /// # Errors
    /// [`crate::Error::Silent`]: the connection is to be closed.
    pub fn tick(&mut self, now: u64) -> Result<()> {
        self.give_up(now);
        self.end_slow_fetches(now);
        let Some(link) = &mut self.link else { return Ok(()) };
        link.pulse.beat(&mut link.channel, (self.domain, self.power_on), now)
    }

    /// Ends requests that no home has accepted for too long. A request that a home may have begun ends only after that
    /// home has aborted it: it has no effect after its end.
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

    /// Ends a request without an answer of the home. If no home has begun it, it did not take effect, which BUSY
    /// reports.
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
            // The request has already ended.
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

    /// Handles a new nexus: requests of the former nexus no longer take effect. Requests that change nothing, and task
    /// management, are sent again. So are commands whose effect the home can look up: effects noted by a former home
    /// are in the store; effects in its memory alone have ended with its process. The fate of other commands is
    /// unknown, and they end.
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

    /// Sends the requests that may be sent, in order of arrival.
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
            // The result is never later than the home's clock at the arrival of the command, if both clocks agree
            // within 10 %. A command that changes nothing is never too late.
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
