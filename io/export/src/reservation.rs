//! The registrant model of persistent reservations: registrations, the reservation, and the effect of each request.
//!
//! SCSI (SPC-5 5.14) and NVMe reservations are encodings of this model. All functions are pure: a request is evaluated
//! first, saved if it must survive a power loss, and only then put in force.

use crate::initiator::NexusName;

/// Maximum number of registrations of one volume.
pub const MAX_REGISTRANTS: usize = 256;

/// Types of reservations (SPC-5 table 72).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationType {
    /// Only the holder may write.
    WriteExclusive = 1,
    /// Only the holder may read and write.
    ExclusiveAccess = 3,
    /// Only registrants may write.
    WriteExclusiveRegistrants = 5,
    /// Only registrants may read and write.
    ExclusiveAccessRegistrants = 6,
    /// Only registrants may write; every registrant holds the reservation.
    WriteExclusiveAll = 7,
    /// Only registrants may read and write; every registrant holds the reservation.
    ExclusiveAccessAll = 8,
}

use ReservationType::{
    ExclusiveAccess, ExclusiveAccessAll, ExclusiveAccessRegistrants, WriteExclusive, WriteExclusiveAll,
    WriteExclusiveRegistrants,
};

impl ReservationType {
    /// The type with a code of SPC-5 table 72.
    pub fn from_code(code: u8) -> Option<ReservationType> {
        [
            WriteExclusive,
            ExclusiveAccess,
            WriteExclusiveRegistrants,
            ExclusiveAccessRegistrants,
            WriteExclusiveAll,
            ExclusiveAccessAll,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == code)
    }

    /// Every registrant holds the reservation.
    pub fn is_shared(self) -> bool {
        matches!(self, WriteExclusiveAll | ExclusiveAccessAll)
    }

    /// Every registrant has full access.
    fn admits_registrants(self) -> bool {
        !matches!(self, WriteExclusive | ExclusiveAccess)
    }

    /// Others may read.
    pub fn lets_others_read(self) -> bool {
        matches!(self, WriteExclusive | WriteExclusiveRegistrants | WriteExclusiveAll)
    }
}

/// A registered nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// The nexus.
    pub nexus: NexusName,
    /// Reservation key of the nexus.
    pub key: u64,
    /// Whether it was registered for every target port at once.
    pub all_ports: bool,
}

/// The reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its type.
    pub kind: ReservationType,
    /// The holder; `None` for types that every registrant holds.
    pub holder: Option<NexusName>,
}

/// Registrations and the reservation of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    /// Counts changes of registrations (PRGENERATION).
    pub generation: u32,
    /// Whether registrations persist through a loss of power (APTPL).
    pub persists: bool,
    registrants: Vec<Registrant>,
    reservation: Option<Reservation>,
}

/// A request of a host with its parameters, checked for form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Registers, changes or removes keys.
    Register {
        /// The key that the sender must have registered; `None` accepts any.
        existing: Option<u64>,
        /// The new key; zero unregisters.
        key: u64,
        /// The nexuses to register: the sender's, and additional ones.
        nexuses: Vec<NexusName>,
        /// Whether the registration applies to all target ports.
        all_ports: bool,
        /// Whether registrations persist from now on.
        persists: bool,
    },
    /// Establishes the reservation.
    Reserve {
        /// Its type.
        kind: ReservationType,
    },
    /// Releases the reservation.
    Release {
        /// Its type.
        kind: ReservationType,
    },
    /// Removes the reservation and all registrations.
    Clear,
    /// Removes registrations by key, and takes over the reservation if they held it.
    Preempt {
        /// Type of the new reservation; `None` if the request has an unknown one.
        kind: Option<ReservationType>,
        /// The key of the registrants to remove.
        victim: u64,
    },
    /// Moves the reservation to another nexus.
    Move {
        /// The key to register at the new holder.
        key: u64,
        /// Whether the sender's registration ends.
        unregister: bool,
        /// Whether registrations persist from now on.
        persists: bool,
        /// The new holder.
        to: NexusName,
    },
}

/// Reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The sender's key or rights do not allow it.
    #[error("reservation conflict")]
    Conflict,
    /// The maximum of [`MAX_REGISTRANTS`] registrations is reached.
    #[error("no room for another registration")]
    TooManyRegistrants,
    /// The type in a release is not that of the reservation.
    #[error("the reservation has another type")]
    WrongType,
    /// The type in a preemption does not exist.
    #[error("unknown reservation type")]
    UnknownType,
    /// The key in a preemption is zero, which is valid only for all registrants of a shared reservation.
    #[error("no key to preempt")]
    ZeroVictim,
    /// Only an unregistered nexus may name other nexuses.
    #[error("the sender is registered already")]
    AlreadyRegistered,
    /// There is no reservation to move.
    #[error("no reservation to move")]
    NothingToMove,
    /// The new holder is the sender.
    #[error("the reservation would move to its holder")]
    MoveToSelf,
}

/// Notification of a nexus after another one changed registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Reservation and registrations were removed.
    ReservationPreempted,
    /// The reservation was released.
    ReservationReleased,
    /// The registration of the nexus was removed.
    RegistrationPreempted,
}

/// The result of a request, not in force yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The registrations afterwards.
    pub next: Registrations,
    /// Nexuses to notify.
    pub notices: Vec<(NexusName, Notice)>,
    /// Nexuses whose registration was removed by the sender.
    pub preempted: Vec<NexusName>,
}

impl Registrations {
    /// Registrations from saved parts. A holder that is not registered is ignored.
    pub fn restore(
        generation: u32,
        registrants: Vec<Registrant>,
        reservation: Option<Reservation>,
    ) -> Registrations {
        let mut registrations = Registrations { generation, persists: true, registrants, reservation };
        registrations.drop_orphan();
        registrations
    }

    /// The reservation.
    pub fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    /// All registrants in the order of their registration.
    pub fn registrants(&self) -> &[Registrant] {
        &self.registrants
    }

    /// Whether any nexus is registered.
    pub fn is_used(&self) -> bool {
        !self.registrants.is_empty()
    }

    /// The key of a nexus.
    pub fn key(&self, nexus: &NexusName) -> Option<u64> {
        self.registrants.iter().find(|registrant| registrant.nexus == *nexus).map(|registrant| registrant.key)
    }

    /// Whether the nexus holds the reservation.
    pub fn holds(&self, nexus: &NexusName) -> bool {
        match &self.reservation {
            Some(Reservation { holder: Some(holder), .. }) => holder == nexus,
            Some(Reservation { holder: None, .. }) => self.key(nexus).is_some(),
            None => false,
        }
    }

    /// Whether the nexus has full access under the reservation.
    pub fn admits(&self, nexus: &NexusName) -> bool {
        match &self.reservation {
            None => true,
            Some(reservation) => {
                self.holds(nexus) || reservation.kind.admits_registrants() && self.key(nexus).is_some()
            }
        }
    }

    /// Whether the change to `next` affects the saved state.
    pub fn must_save(&self, next: &Registrations) -> bool {
        (self.persists || next.persists) && self != next
    }

    /// Evaluates a request that `sender` makes with `key`, without changing anything.
    ///
    /// # Errors
    /// The reason for refusing the request.
    pub fn evaluate(&self, sender: &NexusName, key: u64, request: &Request) -> Result<Change, Refusal> {
        let mut change = Change { next: self.clone(), notices: Vec::new(), preempted: Vec::new() };
        if !matches!(request, Request::Register { .. }) && self.key(sender) != Some(key) {
            return Err(Refusal::Conflict);
        }
        match request {
            Request::Register { existing, key, nexuses, all_ports, persists } => {
                change.register(sender, *existing, *key, (nexuses, *all_ports))?;
                change.next.persists = *persists;
            }
            Request::Reserve { kind } => change.reserve(sender, *kind)?,
            Request::Release { kind } => change.release(sender, *kind)?,
            Request::Clear => change.clear(sender),
            Request::Preempt { kind, victim } => change.preempt(sender, *kind, *victim)?,
            Request::Move { key, unregister, persists, to } => {
                change.move_reservation(sender, *key, *unregister, to)?;
                change.next.persists = *persists;
            }
        }
        if !matches!(request, Request::Reserve { .. } | Request::Release { .. }) {
            change.next.generation = self.generation.wrapping_add(1);
        }
        Ok(change)
    }

    fn drop_orphan(&mut self) {
        let orphan = match &self.reservation {
            Some(Reservation { holder: Some(holder), .. }) => self.key(holder).is_none(),
            Some(Reservation { holder: None, .. }) => self.registrants.is_empty(),
            None => false,
        };
        if orphan {
            self.reservation = None;
        }
    }
}

impl Change {
    /// REGISTER and REGISTER AND IGNORE EXISTING KEY (SPC-5 5.14.7)
    fn register(
        &mut self,
        sender: &NexusName,
        existing: Option<u64>,
        key: u64,
        (nexuses, all_ports): (&[NexusName], bool),
    ) -> Result<(), Refusal> {
        let known = self.next.key(sender);
        if existing.is_some_and(|existing| existing != known.unwrap_or(0)) {
            return Err(Refusal::Conflict);
        }
        let own = |nexus: &&NexusName| nexus.initiator == sender.initiator;
        if key == 0 {
            // ALL_TG_PT: as if the request had been sent through each port.
            nexuses.iter().filter(own).for_each(|nexus| self.unregister(nexus));
            return Ok(());
        }
        if known.is_some() && nexuses.iter().any(|nexus| nexus.initiator != sender.initiator) {
            return Err(Refusal::AlreadyRegistered);
        }
        for nexus in nexuses {
            // Other nexuses keep their registration (SPC-5 table 74).
            if own(&nexus) || self.next.key(nexus).is_none() {
                self.put(nexus, key, all_ports)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, nexus: &NexusName, key: u64, all_ports: bool) -> Result<(), Refusal> {
        let registrants = &mut self.next.registrants;
        let is_full = registrants.len() >= MAX_REGISTRANTS;
        match registrants.iter_mut().find(|registrant| registrant.nexus == *nexus) {
            Some(registrant) => registrant.key = key,
            None if is_full => return Err(Refusal::TooManyRegistrants),
            None => registrants.push(Registrant { nexus: nexus.clone(), key, all_ports }),
        }
        Ok(())
    }

    /// Removes one registration, and the reservation if that ends with it (SPC-5 5.14.11.3).
    fn unregister(&mut self, nexus: &NexusName) {
        if self.next.key(nexus).is_none() {
            return;
        }
        self.next.registrants.retain(|registrant| registrant.nexus != *nexus);
        let kind = self.next.reservation.as_ref().map(|reservation| reservation.kind);
        self.next.drop_orphan();
        if self.next.reservation.is_none() && kind.is_some_and(ReservationType::admits_registrants) {
            self.notify_others(nexus, Notice::ReservationReleased);
        }
    }

    /// RESERVE (SPC-5 5.14.9)
    fn reserve(&mut self, sender: &NexusName, kind: ReservationType) -> Result<(), Refusal> {
        match &self.next.reservation {
            None => self.next.reservation = Some(Reservation::new(kind, sender)),
            Some(reservation) if reservation.kind == kind && self.next.holds(sender) => (),
            Some(_) => return Err(Refusal::Conflict),
        }
        Ok(())
    }

    /// RELEASE (SPC-5 5.14.11.2)
    fn release(&mut self, sender: &NexusName, kind: ReservationType) -> Result<(), Refusal> {
        let Some(reservation) = self.next.reservation.as_ref().filter(|_| self.next.holds(sender)) else {
            return Ok(());
        };
        if reservation.kind != kind {
            return Err(Refusal::WrongType);
        }
        self.next.reservation = None;
        if kind.admits_registrants() {
            self.notify_others(sender, Notice::ReservationReleased);
        }
        Ok(())
    }

    /// CLEAR (SPC-5 5.14.11.6)
    fn clear(&mut self, sender: &NexusName) {
        self.notify_others(sender, Notice::ReservationPreempted);
        self.next.registrants.clear();
        self.next.reservation = None;
    }

    /// PREEMPT and PREEMPT AND ABORT (SPC-5 5.14.11.4)
    fn preempt(
        &mut self,
        sender: &NexusName,
        kind: Option<ReservationType>,
        victim: u64,
    ) -> Result<(), Refusal> {
        let reservation = self.next.reservation.as_ref();
        let shared = reservation.is_some_and(|reservation| reservation.kind.is_shared());
        let holder_key = reservation.and_then(|reservation| self.next.key(reservation.holder.as_ref()?));
        let takes_over = if shared { victim == 0 } else { holder_key == Some(victim) };
        if victim == 0 && !shared {
            return Err(Refusal::ZeroVictim);
        }
        // Key zero under a shared reservation means all other registrants.
        let is_victim = |registrant: &Registrant| {
            registrant.nexus != *sender && (registrant.key == victim || shared && victim == 0)
        };
        let (victims, left): (Vec<_>, Vec<_>) = self.next.registrants.drain(..).partition(is_victim);
        self.next.registrants = left;
        let own_key = self.next.key(sender) == Some(victim);
        if victims.is_empty() && !takes_over && !own_key {
            return Err(Refusal::Conflict);
        }
        self.preempted.extend(victims.into_iter().map(|registrant| registrant.nexus));
        let lost = self.preempted.iter().map(|nexus| (nexus.clone(), Notice::RegistrationPreempted));
        self.notices.extend(lost);
        if takes_over {
            // Only a preemption of the reservation needs a valid type (SPC-5 table 70).
            let kind = kind.ok_or(Refusal::UnknownType)?;
            let before = self.next.reservation.replace(Reservation::new(kind, sender));
            if before.is_some_and(|reservation| reservation.kind != kind) {
                self.notify_others(sender, Notice::ReservationReleased);
            }
        }
        self.next.drop_orphan();
        Ok(())
    }

    /// REGISTER AND MOVE (SPC-5 5.14.8)
    fn move_reservation(
        &mut self,
        sender: &NexusName,
        key: u64,
        unregister: bool,
        to: &NexusName,
    ) -> Result<(), Refusal> {
        let reservation = self.next.reservation.clone().ok_or(Refusal::NothingToMove)?;
        // The sender can't move a reservation of another nexus, or of all registrants.
        if reservation.kind.is_shared() || !self.next.holds(sender) {
            return Err(Refusal::Conflict);
        }
        if to == sender {
            return Err(Refusal::MoveToSelf);
        }
        self.put(to, key, false)?;
        self.next.reservation = Some(Reservation { kind: reservation.kind, holder: Some(to.clone()) });
        if unregister {
            self.next.registrants.retain(|registrant| registrant.nexus != *sender);
        }
        Ok(())
    }

    /// Notifies all registrants except the sender.
    fn notify_others(&mut self, sender: &NexusName, notice: Notice) {
        let others = self.next.registrants.iter().filter(|registrant| registrant.nexus != *sender);
        self.notices.extend(others.map(|registrant| (registrant.nexus.clone(), notice)));
    }
}

impl Reservation {
    fn new(kind: ReservationType, sender: &NexusName) -> Reservation {
        Reservation { kind, holder: (!kind.is_shared()).then(|| sender.clone()) }
    }
}

#[cfg(test)]
#[path = "reservation_test.rs"]
mod tests;
