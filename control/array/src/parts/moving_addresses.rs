//! Addresses that move between controllers, as the array directs them: the process puts them on interfaces.

use crate::parts::target_ports::OwnPorts;
use crate::{Error, Result};
use parking_lot::Mutex;
use records::{Config, PortalEntry, PortalProtocol};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// In the place of a controller's number: the address is that of the home, whichever controller it is.
pub(crate) const OF_HOME: u16 = 0;

/// Addresses that this machine has as long as it holds them; other controllers may have them otherwise.
pub trait MovingAddresses: Send + Sync {
    /// Holds an address, until it is released as often as it was held. One that the machine can't have now is tried again.
    ///
    /// # Errors
    /// Why the machine does not have it yet.
    fn hold(&self, address: IpAddr) -> io::Result<()>;

    /// Holds it for one user less.
    fn release(&self, address: IpAddr);

    /// What on the network has it; `None` if nothing answers within a second. Blocks as long.
    ///
    /// # Errors
    /// Why nothing can be asked.
    fn user_of(&self, address: IpAddr) -> io::Result<Option<String>>;
}

/// What this controller serves only as long as it is the home.
#[derive(Default)]
pub(crate) struct Moved {
    /// Addresses of the API that move, and that it holds.
    pub api: Mutex<BTreeSet<SocketAddr>>,
    /// Portals of other controllers, by number.
    pub portals: Mutex<BTreeMap<u16, PortalEntry>>,
    /// Those that it can't serve.
    pub failed: Mutex<BTreeSet<u16>>,
}

/// Refuses an address that can't move.
pub(crate) fn check_movable(own: &OwnPorts, address: IpAddr) -> Result<()> {
    if !own.is_shared {
        return Err(Error::precondition(
            "an address moves between controllers that have a link to each other: this one has none",
        )
        .about("moves"));
    }
    if address.is_unspecified() {
        let message = format!("{address} stands for all addresses of a machine: name the one that moves");
        return Err(Error::invalid(message).about("moves"));
    }
    Ok(())
}

/// What is to have an address.
pub(crate) struct Movable {
    pub controller: u16,
    /// That of a portal; `None`: the API.
    pub protocol: Option<PortalProtocol>,
    pub moves: bool,
}

impl Movable {
    /// Whether it is always the home's: front ends serve iSCSI alone.
    fn is_of_home(&self) -> bool {
        self.protocol != Some(PortalProtocol::Iscsi)
    }
}

/// Refuses an address that something else has which need not be at the same machine: one that does not move, one of another
/// controller, or one that is always the home's.
pub(crate) fn check_owner(config: &Config, wanted: &Movable, address: IpAddr) -> Result<()> {
    let conflicts = |has: &Movable| match has.moves && wanted.moves {
        true => {
            has.is_of_home() != wanted.is_of_home()
                || !has.is_of_home() && has.controller != wanted.controller
        }
        false => has.moves != wanted.moves,
    };
    let portals = config.portals.iter().map(|it| {
        let (controller, protocol, moves) = (it.controller, Some(it.endpoint.protocol), it.moves);
        let name = format!("portal {} of controller {controller}", it.number);
        (name, it.endpoint.socket(), Movable { controller, protocol, moves })
    });
    let apis = config.api_addresses.iter().map(|(controller, socket)| {
        let has = Movable { controller: *controller, protocol: None, moves: *controller == OF_HOME };
        ("the API".to_owned(), Some(*socket), has)
    });
    let at_address = portals.chain(apis).filter(|(_, socket, _)| socket.is_some_and(|it| it.ip() == address));
    let Some((name, _, has)) = at_address.into_iter().find(|(_, _, has)| conflicts(has)) else {
        return Ok(());
    };
    let how = match (has.moves, has.is_of_home()) {
        (false, _) => "stays where it is",
        (true, true) => "moves with the home",
        (true, false) => "moves when its controller is away",
    };
    Err(Error::conflict(format!("{name} has the address {address}, which {how}: choose another address"))
        .about("address"))
}
