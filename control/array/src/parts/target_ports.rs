//! The target ports that a controller may have, and the sessions of hosts by them.

use export::InitiatorPort;
use std::ops::RangeInclusive;

/// Target ports of a controller that is one target with others.
pub const MAX_PORTS: u16 = 32;

/// The target ports that a controller may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPorts {
    /// The controller.
    pub controller: u16,
    /// Its target port group.
    pub group: u16,
    /// The numbers that its ports may have.
    pub numbers: RangeInclusive<u16>,
    /// The controllers of the array are one target, whose ports all have different numbers.
    pub is_shared: bool,
}

impl OwnPorts {
    /// Of a controller that is one target with others.
    pub fn shared(controller: u16) -> Self {
        Self { controller, group: controller, numbers: shared_numbers(controller), is_shared: true }
    }

    /// The numbers that ports of a controller may have.
    pub(crate) fn numbers_of(&self, controller: u16) -> RangeInclusive<u16> {
        if controller == self.controller { self.numbers.clone() } else { shared_numbers(controller) }
    }

    /// The controller that a port is of, as far as this one knows.
    pub(crate) fn controller_of(&self, port: u16) -> Option<u16> {
        match self.numbers.contains(&port) {
            true => Some(self.controller),
            false => self.is_shared.then(|| shared_controller(port)),
        }
    }
}

/// The iSCSI sessions by the portals of all controllers: the initiator's name, and the number of the portal.
pub(crate) fn iscsi_sessions(target: &scsi::Target) -> Vec<(String, u16)> {
    let iscsi = |(initiator, port)| match initiator {
        InitiatorPort::Iscsi { name, .. } => Some((name, port)),
        _ => None,
    };
    target.nexuses().into_iter().filter_map(iscsi).collect()
}

/// The controller whose [`shared_numbers`] have a number.
fn shared_controller(port: u16) -> u16 {
    port.saturating_sub(1) / MAX_PORTS + 1
}

/// The numbers that ports of a controller may have that is one target with others.
pub fn shared_numbers(controller: u16) -> RangeInclusive<u16> {
    let before = controller.saturating_sub(1).saturating_mul(MAX_PORTS);
    before + 1..=before + MAX_PORTS
}
