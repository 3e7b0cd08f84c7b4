//! Persistent reservations as values (SPC-5 5.14): registrations, the reservation, and what each service action of
//! PERSISTENT RESERVE OUT makes of them.

use crate::InitiatorPort;
use crate::sense::{Code, Fault};
use crate::unit::Path;

/// Most registrations of one unit.
pub(super) const MAX_REGISTRANTS: usize = 256;

/// The kinds of persistent reservations (SPC-5 table 72).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrants = 5,
    ExclusiveAccessRegistrants = 6,
    WriteExclusiveAll = 7,
    ExclusiveAccessAll = 8,
}

use Kind::{
    ExclusiveAccess, ExclusiveAccessAll, ExclusiveAccessRegistrants, WriteExclusive, WriteExclusiveAll,
    WriteExclusiveRegistrants,
};

impl Kind {
    pub(crate) fn from_code(code: u8) -> Option<Kind> {
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
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, WriteExclusiveAll | ExclusiveAccessAll)
    }

    /// Every registrant may use the unit.
    fn admits_registrants(self) -> bool {
        !matches!(self, WriteExclusive | ExclusiveAccess)
    }

    /// Those without rights may read.
    pub(crate) fn lets_others_read(self) -> bool {
        matches!(self, WriteExclusive | WriteExclusiveRegistrants | WriteExclusiveAll)
    }
}

/// An I_T nexus by its names, as a registration outlives its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) initiator: InitiatorPort,
    /// Relative target port identifier.
    pub(crate) target: u16,
}

impl Port {
    pub(crate) fn of(path: &Path) -> Port {
        Port { initiator: (*path.initiator).clone(), target: path.port }
    }

    /// Whether the path is of this nexus.
    pub(crate) fn is(&self, path: &Path) -> bool {
        self.target == path.port && self.initiator == *path.initiator
    }
}

/// A registered I_T nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) port: Port,
    pub(crate) key: u64,
    /// It was registered for every target port at once.
    pub(crate) all_ports: bool,
}

/// The persistent reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: Kind,
    /// Its holder; none for the kinds that every registrant holds.
    pub(crate) holder: Option<Port>,
}

/// Registrations and the reservation of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registry {
    /// PRGENERATION
    pub(crate) generation: u32,
    /// Kept through a loss of power (APTPL).
    pub(crate) persists: bool,
    registrants: Vec<Registrant>,
    held: Option<Held>,
}

/// A service action of PERSISTENT RESERVE OUT with its parameters, checked for form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Register {
        /// The key that must be registered; none to ignore what is.
        existing: Option<u64>,
        key: u64,
        /// The nexuses to register: the sender's, or those that SPEC_I_PT and ALL_TG_PT name besides.
        ports: Vec<Port>,
        all_ports: bool,
        persists: bool,
    },
    Reserve {
        kind: Kind,
    },
    Release {
        kind: Kind,
    },
    Clear,
    Preempt {
        kind: Option<Kind>,
        victim: u64,
    },
    Move {
        key: u64,
        unregister: bool,
        persists: bool,
        to: Port,
    },
}

/// What an action makes of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) next: Registry,
    /// Unit attentions to give.
    pub(crate) notices: Vec<(Port, Code)>,
    /// Nexuses that lost their registration to the sender.
    pub(crate) preempted: Vec<Port>,
}

impl Registry {
    /// A registry from saved parts; a holder that is not registered holds nothing.
    pub(crate) fn restore(generation: u32, registrants: Vec<Registrant>, held: Option<Held>) -> Registry {
        let mut registry = Registry { generation, persists: true, registrants, held };
        registry.drop_orphan();
        registry
    }

    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    pub(crate) fn registrants(&self) -> &[Registrant] {
        &self.registrants
    }

    /// Whether anybody is registered.
    pub(crate) fn is_used(&self) -> bool {
        !self.registrants.is_empty()
    }

    /// The key of a nexus.
    pub(crate) fn key(&self, port: &Port) -> Option<u64> {
        self.registrants.iter().find(|registrant| registrant.port == *port).map(|registrant| registrant.key)
    }

    /// Whether the nexus holds the reservation.
    pub(crate) fn holds(&self, port: &Port) -> bool {
        match &self.held {
            Some(Held { holder: Some(holder), .. }) => holder == port,
            Some(Held { holder: None, .. }) => self.key(port).is_some(),
            None => false,
        }
    }

    /// Whether the nexus has full rights under the reservation.
    pub(crate) fn admits(&self, port: &Port) -> bool {
        match &self.held {
            None => true,
            Some(held) => self.holds(port) || held.kind.admits_registrants() && self.key(port).is_some(),
        }
    }

    /// What `action`, sent by `sender` with `key`, makes of this; nothing changes here.
    pub(crate) fn perform(&self, sender: &Port, key: u64, action: &Action) -> Result<Outcome, Fault> {
        let mut outcome = Outcome { next: self.clone(), notices: Vec::new(), preempted: Vec::new() };
        if !matches!(action, Action::Register { .. }) && self.key(sender) != Some(key) {
            return Err(Fault::CONFLICT);
        }
        match action {
            Action::Register { existing, key, ports, all_ports, persists } => {
                outcome.register(sender, *existing, *key, (ports, *all_ports))?;
                outcome.next.persists = *persists;
            }
            Action::Reserve { kind } => outcome.reserve(sender, *kind)?,
            Action::Release { kind } => outcome.release(sender, *kind)?,
            Action::Clear => outcome.clear(sender),
            Action::Preempt { kind, victim } => outcome.preempt(sender, *kind, *victim)?,
            Action::Move { key, unregister, persists, to } => {
                outcome.move_registration(sender, *key, *unregister, to)?;
                outcome.next.persists = *persists;
            }
        }
        if !matches!(action, Action::Reserve { .. } | Action::Release { .. }) {
            outcome.next.generation = self.generation.wrapping_add(1);
        }
        Ok(outcome)
    }

    fn drop_orphan(&mut self) {
        let orphan = match &self.held {
            Some(Held { holder: Some(holder), .. }) => self.key(holder).is_none(),
            Some(Held { holder: None, .. }) => self.registrants.is_empty(),
            None => false,
        };
        if orphan {
            self.held = None;
        }
    }
}

impl Outcome {
    /// REGISTER and REGISTER AND IGNORE EXISTING KEY (SPC-5 5.14.7)
    fn register(
        &mut self,
        sender: &Port,
        existing: Option<u64>,
        key: u64,
        (ports, all_ports): (&[Port], bool),
    ) -> Result<(), Fault> {
        let known = self.next.key(sender);
        if existing.is_some_and(|existing| existing != known.unwrap_or(0)) {
            return Err(Fault::CONFLICT);
        }
        let own = |port: &&Port| port.initiator == sender.initiator;
        if key == 0 {
            // ALL_TG_PT: as if it had been sent through each port.
            ports.iter().filter(own).for_each(|port| self.unregister(port));
            return Ok(());
        }
        if known.is_some() && ports.iter().any(|port| port.initiator != sender.initiator) {
            // SPEC_I_PT is for a nexus that is not registered yet.
            return Err(Fault::list_byte(20));
        }
        for port in ports {
            // Of others only those are registered that are not yet (SPC-5 table 74).
            if own(&port) || self.next.key(port).is_none() {
                self.put(port, key, all_ports)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, port: &Port, key: u64, all_ports: bool) -> Result<(), Fault> {
        let registrants = &mut self.next.registrants;
        let is_full = registrants.len() >= MAX_REGISTRANTS;
        match registrants.iter_mut().find(|registrant| registrant.port == *port) {
            Some(registrant) => registrant.key = key,
            None if is_full => return Err(Code::NO_REGISTRATION_RESOURCES.into()),
            None => registrants.push(Registrant { port: port.clone(), key, all_ports }),
        }
        Ok(())
    }

    /// Takes one registration away, and the reservation where it ends with it (SPC-5 5.14.11.3).
    fn unregister(&mut self, port: &Port) {
        if self.next.key(port).is_none() {
            return;
        }
        self.next.registrants.retain(|registrant| registrant.port != *port);
        let kind = self.next.held.as_ref().map(|held| held.kind);
        self.next.drop_orphan();
        if self.next.held.is_none() && kind.is_some_and(Kind::admits_registrants) {
            self.notify_others(port, Code::RESERVATIONS_RELEASED);
        }
    }

    /// RESERVE (SPC-5 5.14.9)
    fn reserve(&mut self, sender: &Port, kind: Kind) -> Result<(), Fault> {
        match &self.next.held {
            None => self.next.held = Some(Held::new(kind, sender)),
            Some(held) if held.kind == kind && self.next.holds(sender) => (),
            Some(_) => return Err(Fault::CONFLICT),
        }
        Ok(())
    }

    /// RELEASE (SPC-5 5.14.11.2)
    fn release(&mut self, sender: &Port, kind: Kind) -> Result<(), Fault> {
        let Some(held) = self.next.held.as_ref().filter(|_| self.next.holds(sender)) else {
            return Ok(());
        };
        if held.kind != kind {
            return Err(Code::INVALID_RELEASE.into());
        }
        self.next.held = None;
        if kind.admits_registrants() {
            self.notify_others(sender, Code::RESERVATIONS_RELEASED);
        }
        Ok(())
    }

    /// CLEAR (SPC-5 5.14.11.6)
    fn clear(&mut self, sender: &Port) {
        self.notify_others(sender, Code::RESERVATIONS_PREEMPTED);
        self.next.registrants.clear();
        self.next.held = None;
    }

    /// PREEMPT and PREEMPT AND ABORT (SPC-5 5.14.11.4)
    fn preempt(&mut self, sender: &Port, kind: Option<Kind>, victim: u64) -> Result<(), Fault> {
        let shared = self.next.held.as_ref().is_some_and(|held| held.kind.is_shared());
        let holder_key = self.next.held.as_ref().and_then(|held| self.next.key(held.holder.as_ref()?));
        let takes_over = if shared { victim == 0 } else { holder_key == Some(victim) };
        if victim == 0 && !shared {
            return Err(Fault::list_byte(8));
        }
        // Key zero under a reservation that all hold means everybody else.
        let falls = |registrant: &Registrant| {
            registrant.port != *sender && (registrant.key == victim || shared && victim == 0)
        };
        let (fallen, left): (Vec<_>, Vec<_>) = self.next.registrants.drain(..).partition(falls);
        self.next.registrants = left;
        let own_key = self.next.key(sender) == Some(victim);
        if fallen.is_empty() && !takes_over && !own_key {
            return Err(Fault::CONFLICT);
        }
        self.preempted.extend(fallen.into_iter().map(|registrant| registrant.port));
        let lost = self.preempted.iter().map(|port| (port.clone(), Code::REGISTRATIONS_PREEMPTED));
        self.notices.extend(lost);
        if takes_over {
            // For a reservation to take over its kind must be one that there is (SPC-5 table 70).
            let kind = kind.ok_or(Fault::cdb_bit(2, 3))?;
            let before = self.next.held.replace(Held::new(kind, sender));
            if before.is_some_and(|held| held.kind != kind) {
                self.notify_others(sender, Code::RESERVATIONS_RELEASED);
            }
        }
        self.next.drop_orphan();
        Ok(())
    }

    /// REGISTER AND MOVE (SPC-5 5.14.8)
    fn move_registration(
        &mut self,
        sender: &Port,
        key: u64,
        unregister: bool,
        to: &Port,
    ) -> Result<(), Fault> {
        // Without a reservation there is nothing to move; that of another, or of all, is not the sender's to move.
        let held = self.next.held.clone().ok_or(Fault::cdb_bit(1, 4))?;
        if held.kind.is_shared() || !self.next.holds(sender) {
            return Err(Fault::CONFLICT);
        }
        if to == sender {
            return Err(Fault::list_byte(24));
        }
        self.put(to, key, false)?;
        self.next.held = Some(Held { kind: held.kind, holder: Some(to.clone()) });
        if unregister {
            self.next.registrants.retain(|registrant| registrant.port != *sender);
        }
        Ok(())
    }

    /// A unit attention for every registrant but the sender.
    fn notify_others(&mut self, sender: &Port, code: Code) {
        let others = self.next.registrants.iter().filter(|registrant| registrant.port != *sender);
        self.notices.extend(others.map(|registrant| (registrant.port.clone(), code)));
    }
}

impl Held {
    fn new(kind: Kind, sender: &Port) -> Held {
        Held { kind, holder: (!kind.is_shared()).then(|| sender.clone()) }
    }
}
