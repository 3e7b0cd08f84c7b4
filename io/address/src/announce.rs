//! Announcements of an address (ARP, Neighbor Discovery), by which peers learn that it has moved to this machine.

use crate::netlink::needs_rights;
use libc::{AF_PACKET, ETH_P_ARP, sockaddr_ll};
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6};

/// All nodes of the link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Receivers drop what a router has passed on (RFC 4861, 7.1.2).
const HOP_LIMIT: u32 = 255;

/// Announces that the station `hardware` of the interface has an address.
///
/// # Errors
/// The system's: without CAP_NET_RAW it is refused.
pub fn send(index: u32, hardware: [u8; 6], address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(address) => send_arp(index, hardware, address),
        IpAddr::V6(address) => send_advertisement(index, hardware, address),
    }
    .map_err(needs_rights)
}

fn send_arp(index: u32, hardware: [u8; 6], address: Ipv4Addr) -> io::Result<()> {
    // In network order, as the system wants it in both places.
    let protocol = u16::try_from(ETH_P_ARP).unwrap_or_default().to_be();
    let domain = Domain::from(AF_PACKET);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::from(i32::from(protocol))))?;
    socket.send_to(&arp(hardware, address), &broadcast(index, protocol)?)?;
    Ok(())
}

/// Every station on the link of an interface.
fn broadcast(index: u32, protocol: u16) -> io::Result<SockAddr> {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: all zeros are a valid address of a packet socket, which is shorter than the storage.
    let address = unsafe { storage.view_as::<sockaddr_ll>() };
    address.sll_family = u16::try_from(AF_PACKET).map_err(io::Error::other)?;
    address.sll_protocol = protocol;
    address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    address.sll_halen = 6;
    address.sll_addr = [0xff; 8];
    let length = size_of::<sockaddr_ll>() as libc::socklen_t;
    // SAFETY: its family and its length are those of a packet socket.
    Ok(unsafe { SockAddr::new(storage, length) })
}

/// An announcement: a request whose sender and target are the address (RFC 826, RFC 5227, 3).
fn arp(hardware: [u8; 6], address: Ipv4Addr) -> [u8; 28] {
    let mut packet = [0; 28];
    // Ethernet, IPv4, their lengths, request.
    packet[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    packet[8..14].copy_from_slice(&hardware);
    packet[14..18].copy_from_slice(&address.octets());
    packet[24..].copy_from_slice(&address.octets());
    packet
}

fn send_advertisement(index: u32, hardware: [u8; 6], address: Ipv6Addr) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.set_multicast_hops_v6(HOP_LIMIT)?;
    let to = SocketAddrV6::new(ALL_NODES, 0, 0, index);
    socket.send_to(&advertisement(hardware, address), &to.into())?;
    Ok(())
}

/// A Neighbor Advertisement that overrides what is known (RFC 4861, 4.4). The kernel adds its checksum (RFC 3542, 3.1).
fn advertisement(hardware: [u8; 6], address: Ipv6Addr) -> [u8; 32] {
    const TYPE: u8 = 136;
    const OVERRIDE: u8 = 0x20;
    const TARGET_LINK_LAYER_ADDRESS: u8 = 2;
    let mut packet = [0; 32];
    (packet[0], packet[4]) = (TYPE, OVERRIDE);
    packet[8..24].copy_from_slice(&address.octets());
    // The option, and its length in units of eight bytes.
    (packet[24], packet[25]) = (TARGET_LINK_LAYER_ADDRESS, 1);
    packet[26..].copy_from_slice(&hardware);
    packet
}
