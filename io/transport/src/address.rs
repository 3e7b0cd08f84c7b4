//! Addresses to listen on, and the addresses by which connections and failures are counted.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address to listen on, as users write it: `port` is the default TCP port; an IPv6 address may have brackets.
///
/// # Errors
/// The accepted forms.
pub fn listen_address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let alone = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = alone.parse::<IpAddr>().map(|address| SocketAddr::new(address, port));
    let wrong = |_| format!("write an address such as 10.0.0.1, 10.0.0.1:{port} or [fd00::1]:{port}");
    address.or_else(|_| text.parse().map_err(wrong))
}

/// The address by which connections and failures are counted: for IPv6 its /64 network, since one host may use all
/// addresses of it.
pub fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
        address => address,
    }
}
