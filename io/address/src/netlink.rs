//! Interfaces and addresses of this machine, by rtnetlink(7).

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressScope, CacheInfo,
};
use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::IpAddr;
use std::time::Duration;

/// The largest datagram of a dump that the kernel sends.
const MAX_DATAGRAM: usize = 64 << 10;
/// How long the kernel may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Of rtnetlink messages in a datagram.
const ALIGNMENT: usize = 4;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its address as a station of an Ethernet; `None` if it is none.
    pub hardware: Option<[u8; 6]>,
}

/// An address on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The number of the interface.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Bits of its network.
    pub prefix: u8,
    /// How long the interface has it.
    pub valid: Duration,
}

impl Assigned {
    /// Whether its network has no other address.
    pub fn is_single(&self) -> bool {
        u32::from(self.prefix) >= bits(self.address).1
    }

    /// Whether an address is in its network.
    pub fn has_in_network(&self, address: IpAddr) -> bool {
        let ((own, length), (other, other_length)) = (bits(self.address), bits(address));
        let host = length.saturating_sub(self.prefix.into());
        let network = |address: u128| address.checked_shr(host).unwrap_or_default();
        length == other_length && network(own) == network(other)
    }
}

/// An address as a number, and its bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

/// The interfaces of this machine.
///
/// # Errors
/// The system's.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let found = request(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
    let interface = |message| match message {
        RouteNetlinkMessage::NewLink(link) => Some(interface(&link)),
        _ => None,
    };
    Ok(found.into_iter().filter_map(interface).collect())
}

fn interface(link: &LinkMessage) -> Interface {
    let is_ethernet = link.header.link_layer_type == LinkLayerType::Ether;
    let mut found = Interface { index: link.header.index, ..Interface::default() };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => found.name.clone_from(name),
            LinkAttribute::Address(address) if is_ethernet => {
                found.hardware = address.as_slice().try_into().ok();
            }
            _ => {}
        }
    }
    found
}

/// The addresses of this machine.
///
/// # Errors
/// The system's.
pub fn assigned() -> io::Result<Vec<Assigned>> {
    let found = request(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
    let assigned = |message| match message {
        RouteNetlinkMessage::NewAddress(address) => assignment(&address),
        _ => None,
    };
    Ok(found.into_iter().filter_map(assigned).collect())
}

fn assignment(message: &AddressMessage) -> Option<Assigned> {
    let (mut local, mut address, mut valid) = (None, None, Duration::MAX);
    for attribute in &message.attributes {
        match attribute {
            // Of an interface to one peer, ADDRESS is the peer's.
            AddressAttribute::Local(own) => local = Some(*own),
            AddressAttribute::Address(own) => address = Some(*own),
            AddressAttribute::CacheInfo(info) if info.ifa_valid != u32::MAX => {
                valid = Duration::from_secs(info.ifa_valid.into());
            }
            _ => {}
        }
    }
    let (index, prefix) = (message.header.index, message.header.prefix_len);
    local.or(address).map(|address| Assigned { index, address, prefix, valid })
}

/// Gives an interface an address for this time, or gives the one that it has this time.
///
/// # Errors
/// The system's: without CAP_NET_ADMIN it is refused.
pub fn put(index: u32, address: IpAddr, lifetime: Duration) -> io::Result<()> {
    let mut message = message(index, address);
    let mut validity = CacheInfo::default();
    let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
    (validity.ifa_valid, validity.ifa_preferred) = (seconds, seconds);
    message.attributes.push(AddressAttribute::CacheInfo(validity));
    if address.is_ipv6() {
        // The machine that had it before may not know yet that it has not.
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    request(RouteNetlinkMessage::NewAddress(message), flags).map(|_| ()).map_err(needs_rights)
}

/// Takes an address from an interface.
///
/// # Errors
/// The system's.
pub fn delete(index: u32, address: IpAddr) -> io::Result<()> {
    let message = RouteNetlinkMessage::DelAddress(message(index, address));
    request(message, NLM_F_ACK).map(|_| ()).map_err(needs_rights)
}

/// Forgets by which station an interface reaches an address, if it knows one.
///
/// # Errors
/// The system's.
pub fn forget_station(index: u32, address: IpAddr) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = index;
    message.header.family = family(address);
    message.attributes.push(NeighbourAttribute::Destination(address.into()));
    match request(RouteNetlinkMessage::DelNeighbour(message), NLM_F_ACK) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        forgotten => forgotten.map(|_| ()).map_err(needs_rights),
    }
}

/// The station by which an interface reaches an address, if one has answered.
///
/// # Errors
/// The system's.
pub fn station(index: u32, address: IpAddr) -> io::Result<Option<Vec<u8>>> {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    let found = request(RouteNetlinkMessage::GetNeighbour(message), NLM_F_DUMP)?;
    Ok(found.into_iter().find_map(|message| match message {
        RouteNetlinkMessage::NewNeighbour(it) if it.header.ifindex == index => answered(&it, address),
        _ => None,
    }))
}

fn answered(neighbour: &NeighbourMessage, address: IpAddr) -> Option<Vec<u8>> {
    let is_unknown = matches!(
        neighbour.header.state,
        NeighbourState::None | NeighbourState::Incomplete | NeighbourState::Failed
    );
    let is_it = |it: &NeighbourAttribute| *it == NeighbourAttribute::Destination(address.into());
    let station = neighbour.attributes.iter().find_map(|it| match it {
        NeighbourAttribute::LinkLayerAddress(station) => Some(station.clone()),
        _ => None,
    });
    station.filter(|_| !is_unknown && neighbour.attributes.iter().any(is_it))
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// A message on a single address: it adds no route of a network.
fn message(index: u32, address: IpAddr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.scope = AddressScope::Universe;
    message.header.family = family(address);
    message.header.prefix_len = if address.is_ipv4() { 32 } else { 128 };
    message.attributes.push(AddressAttribute::Local(address));
    message.attributes.push(AddressAttribute::Address(address));
    message
}

/// Says which right is missing.
pub fn needs_rights(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(
            error.kind(),
            format!("{error}: ashlard needs CAP_NET_ADMIN and CAP_NET_RAW for addresses that move"),
        ),
        _ => error,
    }
}

/// Sends a request to the kernel, and returns its answers.
fn request(message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let (domain, protocol) = (Domain::from(libc::AF_NETLINK), Protocol::from(libc::NETLINK_ROUTE));
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    // Without an address, it goes to the kernel.
    socket.send(&bytes)?;
    let (mut found, mut datagram) = (Vec::new(), vec![0; MAX_DATAGRAM]);
    loop {
        let received = (&socket).read(&mut datagram)?;
        let mut rest = datagram.get(..received).unwrap_or_default();
        while !rest.is_empty() {
            let answer =
                NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
            let length = usize::try_from(answer.header.length).unwrap_or(usize::MAX);
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => found.push(message),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(found),
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_network_of_another_by_its_first_bits() {
        let assigned = |address: &str, prefix| Assigned {
            index: 1,
            address: address.parse().unwrap(),
            prefix,
            valid: Duration::MAX,
        };
        let has = |assigned: &Assigned, address: &str| assigned.has_in_network(address.parse().unwrap());
        let v4 = assigned("192.0.2.11", 24);
        assert!(has(&v4, "192.0.2.200") && !has(&v4, "192.0.3.11") && !has(&v4, "::ffff:192.0.2.200"));
        assert!(has(&assigned("192.0.2.11", 0), "203.0.113.1"));
        let v6 = assigned("2001:db8::11", 64);
        assert!(has(&v6, "2001:db8::ffff:0:0:1") && !has(&v6, "2001:db8:0:1::1") && !has(&v6, "192.0.2.200"));
        assert!(has(&assigned("2001:db8::11", 0), "fe80::1"));
        assert!(!v4.is_single() && assigned("192.0.2.11", 32).is_single() && !v6.is_single());
    }

    #[test]
    fn this_machine_has_loopback_for_good() {
        let (interfaces, assigned) = (interfaces().unwrap(), assigned().unwrap());
        let local = assigned.iter().find(|it| it.address == IpAddr::from([127, 0, 0, 1])).unwrap();
        assert_eq!((local.prefix, local.valid), (8, Duration::MAX));
        let interface = interfaces.iter().find(|it| it.index == local.index).unwrap();
        assert_eq!((&*interface.name, interface.hardware), ("lo", None));
    }
}
