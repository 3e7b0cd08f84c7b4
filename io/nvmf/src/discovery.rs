//! The discovery log page (NVM Express Base 2.0 clause 5.16.1.23): the portals that a host may use.

use crate::controller::Controller;
use crate::encoding::Structure;
use crate::spec::{DISCOVERY_NQN, MAX_ADMIN_ENTRIES};
use std::net::{IpAddr, SocketAddr};
use transport::Portal;

/// Bytes of the header and of each entry.
const ENTRY_BYTES: usize = 1024;
/// TRTYPE of TCP.
const TCP: u8 = 3;
/// SUBTYPE: an I/O subsystem, and the current discovery subsystem.
const NVM_SUBSYSTEM: u8 = 2;
const CURRENT_DISCOVERY: u8 = 3;
/// TREQ: a secure channel is required, and flow control of submission queues may be disabled.
const SECURE_CHANNEL_REQUIRED: u8 = 1;
const FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;
/// Offset of TSAS, and its SECTYPE for TLS 1.3 (TCP Transport 1.0 clause 3.1.2).
const TSAS: usize = 768;
const TLS_1_3: u8 = 2;
/// EFLAGS of the entry of the discovery subsystem: explicit persistent connections are supported.
const PERSISTENT: u16 = 1 << 1;

/// The log page for the host of a discovery controller.
pub(crate) fn log_page(controller: &Controller) -> Vec<u8> {
    let (generation, portals) = controller.subsystem.discovery(&controller.nqn);
    let local = controller.port.local;
    let own_tls = controller.subsystem.requires_tls_at(controller.port.number);
    let nqn = &controller.subsystem.identity.nqn;
    let mut entries =
        vec![entry((CURRENT_DISCOVERY, controller.port.number), (local, own_tls), DISCOVERY_NQN, PERSISTENT)];
    for Portal { number, address, tls } in portals {
        // An unspecified address stands for every address of the machine; the host has reached one of them.
        let ip = if address.ip().is_unspecified() { local.ip() } else { address.ip() };
        let address = SocketAddr::new(ip, address.port());
        entries.push(entry((NVM_SUBSYSTEM, number), (address, tls), nqn, 0));
    }
    let header = Structure::new(ENTRY_BYTES).u64(0, generation).u64(8, entries.len() as u64);
    let mut out = header.into_vec();
    entries.iter().for_each(|entry| out.extend_from_slice(entry));
    out
}

/// A discovery log page entry (Base figure 265).
fn entry((subtype, portal): (u8, u16), (address, tls): (SocketAddr, bool), nqn: &str, flags: u16) -> Vec<u8> {
    let ip = address.ip().to_canonical();
    let family = match ip {
        IpAddr::V4(_) => 1,
        IpAddr::V6(_) => 2,
    };
    let mut out = Structure::new(ENTRY_BYTES)
        .bytes(
            0,
            &[TCP, family, subtype, FLOW_CONTROL_OPTIONAL | if tls { SECURE_CHANNEL_REQUIRED } else { 0 }],
        )
        .u16(4, portal)
        .u16(6, 0xFFFF) // any controller
        .u16(8, MAX_ADMIN_ENTRIES)
        .u16(10, flags)
        .bytes(TSAS, &[if tls { TLS_1_3 } else { 0 }])
        .into_vec();
    // Text of these fields is padded with spaces, unlike the name.
    for (at, length, text) in [(32, 32, address.port().to_string()), (512, 256, ip.to_string())] {
        out[at..at + length].fill(b' ');
        out[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    out[256..256 + nqn.len().min(223)].copy_from_slice(&nqn.as_bytes()[..nqn.len().min(223)]);
    out
}
