//! Commands whose data the home has located: they have ended at the home, and the front end reads their data.
//!
//! If the front end can't read the data, it asks the home for them with a new number, so the command is performed
//! again. Task management that was sent in between would not find the command there, and an ordered command of the host
//! would have overtaken it. In these cases the command ends with BUSY, and the host repeats it.

use super::{Event, Fetch, Front, Operation, Request};
use crate::{MAX_DATA_BYTES, MAX_FETCH_NS, Result, malformed, wire};
use block::{Data, Recipe};
use scsi::{Lun, ManagementFunction, Response, Status, TaskAttribute};

/// Whether a task management function reaches a command of the same nexus.
fn reaches(function: ManagementFunction, lun: Lun, command: &scsi::Command) -> bool {
    // A logical unit number has several encodings.
    let is_same_unit = command.lun.number() == lun.number();
    match function {
        ManagementFunction::TargetReset => true,
        ManagementFunction::AbortTask { tag } => is_same_unit && command.tag == tag,
        ManagementFunction::AbortTaskSet
        | ManagementFunction::ClearTaskSet
        | ManagementFunction::LogicalUnitReset => is_same_unit,
    }
}

impl Front {
    /// Commands whose data are being read.
    pub fn fetching(&self) -> usize {
        self.fetches.len()
    }

    /// Handles the location of a command's data.
    pub(super) fn located(&mut self, number: u64, recipe: Recipe, now: u64) -> Result<()> {
        let fits = match self.requests.get(&number).filter(|request| request.sent) {
            // The command has already ended.
            None => return Ok(()),
            Some(Request { operation: Operation::Command(command), locates: true, .. }) => {
                recipe.len() <= command.data_in_limit.min(MAX_DATA_BYTES as u64)
            }
            Some(_) => false,
        };
        if !fits {
            return malformed("a recipe that was not asked for");
        }
        if let Some(request) = self.remove(number) {
            self.fetches.insert(number, Fetch { request, since_ns: now });
            self.events.push_back(Event::Located(number, recipe));
        }
        Ok(())
    }

    /// Takes the data of a command, or `None` if they can't be read: the home is then asked for them, which is an
    /// event. Returns the response, unless the command has ended since.
    pub fn fetched(&mut self, number: u64, data: Option<Data>) -> Option<Response> {
        let Some(data_in) = data else {
            self.ask_again(number);
            return None;
        };
        self.fetches.remove(&number)?;
        Some(Response { data_in, ..Response::with_status(Status::Good) })
    }

    /// Handles the end of the waiter for a command's data.
    pub fn drop_fetch(&mut self, number: u64) {
        self.fetches.remove(&number);
    }

    fn ask_again(&mut self, number: u64) {
        let Some(Fetch { request, .. }) = self.fetches.remove(&number) else { return };
        let Operation::Command(command) = &request.operation else { return };
        let is_overtaken = self.requests.range(number..).any(|(_, other)| match &other.operation {
            Operation::Manage(lun, function) => {
                other.nexus == request.nexus && reaches(*function, *lun, command)
            }
            Operation::Command(_) => false,
        });
        let ordered = self.nexuses.get(&request.nexus).and_then(|nexus| nexus.ordered);
        if is_overtaken || ordered > Some(number) {
            self.events.push_back(Event::Completed(number, Some(wire::busy())));
            return;
        }
        let again = self.number();
        self.events.push_back(Event::AskedAgain(number, again));
        let request = Request { begun: false, noted: true, sent: false, locates: false, ..request };
        self.requests.insert(again, request);
        self.unsent.insert(again);
        self.send_requests();
    }

    /// Ends reads that take too long.
    pub(super) fn end_slow_fetches(&mut self, now: u64) {
        let is_slow = |fetch: &Fetch| fetch.since_ns + MAX_FETCH_NS <= now;
        let slow = self.fetches.iter().filter(|(_, fetch)| is_slow(fetch)).map(|(number, _)| *number);
        slow.collect::<Vec<_>>().into_iter().for_each(|number| self.ask_again(number));
    }

    /// Handles the end of a task management function: the commands that it reaches get no response afterwards.
    pub(super) fn end_aborted_fetches(&mut self, number: u64) {
        let Some(Request { nexus, operation: Operation::Manage(lun, function), .. }) =
            self.requests.get(&number)
        else {
            return;
        };
        let (nexus, lun, function) = (*nexus, *lun, *function);
        let is_aborted = |fetch: &Fetch| {
            fetch.request.nexus == nexus
                && matches!(&fetch.request.operation, Operation::Command(it) if reaches(function, lun, it))
        };
        let aborted = self.fetches.range(..number).filter(|(_, fetch)| is_aborted(fetch));
        for number in aborted.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.fetches.remove(&number);
            self.events.push_back(Event::Completed(number, None));
        }
    }

    /// Cancels the reads of a nexus that has ended.
    pub(super) fn detach_fetches(&mut self, nexus: u32) {
        self.fetches.retain(|_, fetch| fetch.request.nexus != nexus);
    }

    /// Records a command of a host for the ordering of later ones.
    pub(super) fn note_order(&mut self, nexus: u32, number: u64, operation: &Operation) {
        if let Operation::Command(command) = operation
            && command.attribute == TaskAttribute::Ordered
            && let Some(nexus) = self.nexuses.get_mut(&nexus)
        {
            nexus.ordered = Some(number);
        }
    }
}
