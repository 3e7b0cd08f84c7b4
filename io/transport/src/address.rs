//! The address that limits on connections and failures count by.

use std::net::{IpAddr, Ipv6Addr};

/// The address by which connections and failures are counted: for IPv6 its /64 network, since one host may use all of it.
pub fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
        address => address,
    }
}
