//! Portals: where hosts reach the array. Each has a number that it keeps, by which statistics, sessions, reservations and target
//! port groups know it.

use crate::Result;
use crate::array::Array;
use crate::configuration::{put, put_records};
use crate::ports::OwnPorts;
use records::{Edit, Endpoint, PortalEntry, PortalProtocol, Portals, Record};
use scsi::PortGroup;
use std::collections::BTreeSet;

impl Array {
    /// Gives each portal of this controller its number: those that the options of its start name, in that order, and those that the
    /// array keeps. To be called before hosts can connect; returns the portals.
    ///
    /// # Errors
    /// When the numbers can't be stored.
    ///
    /// # Panics
    /// When it is called a second time.
    pub async fn settle_portals(&self, own: OwnPorts, options: &[Endpoint]) -> Result<Vec<PortalEntry>> {
        let _one_at_a_time = self.configuration.change().await;
        let reserved = self.parts.exports.registered_ports();
        let numbers = self.config().portals.number((own.controller, own.numbers.clone()), options, &reserved);
        let edits = {
            let config = self.config();
            edits_of(&config.portals, (own.controller, self.env.seconds()), options, &numbers)
        };
        if !edits.is_empty() {
            let records = edits.iter().map(|edit| put(&self.parts.engine, edit.record().0)).collect();
            put_records(&self.parts.engine, records).await?;
            let mut config = self.configuration.write();
            edits
                .into_iter()
                .for_each(|edit| assert!(config.apply(edit), "portals contradict no other record"));
        }
        let controller = own.controller;
        assert!(self.own_ports.set(own).is_ok(), "portals are settled once");
        self.show_ports();
        let config = self.config();
        let rank = |entry: &PortalEntry| {
            numbers.iter().position(|it| *it == Some(entry.number)).unwrap_or(usize::MAX)
        };
        let mut portals: Vec<PortalEntry> = config.portals.of(controller).cloned().collect();
        portals.sort_by_key(rank);
        Ok(portals)
    }

    /// The portals of all controllers, with their numbers.
    pub fn portals(&self) -> Portals {
        self.config().portals.clone()
    }

    /// Makes the target port group of this controller that of its portals.
    fn show_ports(&self) {
        let Some(own) = self.own_ports.get() else { return };
        let config = self.config();
        let is_scsi = |entry: &&PortalEntry| entry.endpoint.protocol != PortalProtocol::NvmeTcp;
        let ports = config.portals.of(own.controller).filter(is_scsi).map(|entry| entry.number).collect();
        self.parts.target.set_port_groups(vec![PortGroup { id: own.group, ports, is_active: true }]);
    }
}

/// What to store so that the portals that options name have these numbers, and those that they do not name any more are removed.
fn edits_of(
    portals: &Portals,
    (controller, now): (u16, u64),
    options: &[Endpoint],
    numbers: &[Option<u16>],
) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (endpoint, number) in options.iter().zip(numbers) {
        let Some(number) = *number else {
            tracing::error!(
                address = endpoint.address,
                "the portal is not served: this controller has too many"
            );
            continue;
        };
        if !portals.of(controller).any(|entry| entry.number == number) {
            let (endpoint, by_option, created, removed) = (endpoint.clone(), true, now, None);
            let entry = PortalEntry { controller, number, endpoint, by_option, created, removed };
            edits.push(Edit::Put(Record::Portal(entry)));
        }
    }
    let named: BTreeSet<u16> = numbers.iter().copied().flatten().collect();
    for entry in portals.of(controller).filter(|entry| entry.by_option && !named.contains(&entry.number)) {
        edits.push(Edit::Put(Record::Portal(PortalEntry { removed: Some(now), ..entry.clone() })));
    }
    edits
}
