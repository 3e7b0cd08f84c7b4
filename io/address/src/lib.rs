//! Addresses that move between machines: this one has the addresses that it holds on its network interfaces, for as
//! long as it keeps holding them.
//!
//! Each is added with a lifetime of a few seconds and renewed every second. So the kernel removes the addresses of a
//! process that was killed or frozen, and another machine can have them. Peers learn of the change by announcements:
//! of ARP (RFC 5227, 3) for IPv4, by unsolicited Neighbor Advertisements (RFC 4861, 7.2.6) for IPv6. The kernel has
//! to grant CAP_NET_ADMIN and CAP_NET_RAW.
//!
//! Loopback addresses need none of this: every machine has all of 127.0.0.0/8.

mod announce;
mod netlink;

use netlink::Interface;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an address stays on an interface after it was renewed for the last time.
pub const LIFETIME: Duration = Duration::from_secs(4);
/// Interval of renewals.
const RENEWAL: Duration = Duration::from_secs(1);
/// How long a station may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// The discard port (RFC 863), on which nothing listens.
const DISCARD: u16 = 9;
/// Announcements of an address, one with each renewal: any of them may be lost.
const ANNOUNCEMENTS: u8 = 3;

type Permit = dyn Fn() -> bool + Send + Sync;

/// The addresses that this process holds. Its clones are the same.
#[derive(Clone)]
pub struct Addresses(Arc<Shared>);

struct Shared {
    /// Whether addresses may be renewed: the others take this machine for dead without.
    permit: Box<Permit>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    held: BTreeMap<IpAddr, Held>,
    /// The thread that renews has started.
    renews: bool,
}

/// An address that is held.
struct Held {
    /// By how many.
    uses: usize,
    announcements: u8,
    /// It could not be added or renewed the last time.
    failed: bool,
}

impl Addresses {
    /// None yet. They are renewed while `permit` returns true.
    pub fn new(permit: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { permit: Box::new(permit), state, changed }))
    }

    /// Holds an address until it is released as often as it was held. One that can't be added is tried again every second.
    ///
    /// # Errors
    /// Why this machine does not have it yet.
    pub fn hold(&self, address: IpAddr) -> io::Result<()> {
        if address.is_loopback() {
            return Ok(());
        }
        let mut state = self.0.state.lock();
        if !state.renews {
            let shared = self.0.clone();
            std::thread::Builder::new().name("addresses".into()).spawn(move || shared.renew())?;
            state.renews = true;
        }
        let held = state.held.entry(address).or_insert(Held {
            uses: 0,
            announcements: ANNOUNCEMENTS,
            failed: false,
        });
        held.uses += 1;
        let added = if (self.0.permit)() { held.renew(address) } else { Ok(()) };
        self.0.changed.notify_one();
        added
    }

    /// Holds an address for one user less. Without any, this machine does not have it any more.
    pub fn release(&self, address: IpAddr) {
        let mut state = self.0.state.lock();
        let Some(held) = state.held.get_mut(&address) else { return };
        held.uses -= 1;
        if held.uses == 0 {
            state.held.remove(&address);
            remove(address);
        }
    }

    /// The station on the network that has an address, such as `02:00:00:00:00:01`; `None` if none answers within a second, or
    /// this machine has it. Blocks as long.
    ///
    /// # Errors
    /// Why neighbours can't be asked.
    pub fn user_of(&self, address: IpAddr) -> io::Result<Option<String>> {
        if address.is_loopback() || netlink::assigned()?.iter().any(|it| it.address == address) {
            return Ok(None);
        }
        let interface = interface_for(address)?;
        // What is known may be of a machine that is gone. The kernel asks for it as soon as something is sent.
        netlink::forget_station(interface.index, address)?;
        let own: SocketAddr = match address {
            IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        UdpSocket::bind(own)?.send_to(&[], (address, DISCARD))?;
        let end = Instant::now() + ANSWER_TIME;
        while Instant::now() < end {
            if let Some(station) = netlink::station(interface.index, address)? {
                let bytes: Vec<String> = station.iter().map(|byte| format!("{byte:02x}")).collect();
                return Ok(Some(bytes.join(":")));
            }
            std::thread::sleep(ANSWER_TIME / 50);
        }
        Ok(None)
    }

    /// Releases all of them.
    pub fn release_all(&self) {
        let held = std::mem::take(&mut self.0.state.lock().held);
        held.into_keys().for_each(remove);
    }
}

impl Shared {
    /// Renews what is held, forever.
    fn renew(&self) {
        let mut state = self.state.lock();
        loop {
            // A release must not find an address that is being renewed: the state stays locked.
            if (self.permit)() {
                for (address, held) in &mut state.held {
                    held.renew_and_log(*address);
                }
            }
            if state.held.is_empty() {
                self.changed.wait(&mut state);
            } else {
                self.changed.wait_for(&mut state, RENEWAL);
            }
        }
    }
}

impl Held {
    fn renew(&mut self, address: IpAddr) -> io::Result<()> {
        let interface = interface_for(address)?;
        netlink::put(interface.index, address, LIFETIME)?;
        if self.announcements > 0 {
            self.announcements -= 1;
            if let Some(hardware) = interface.hardware {
                announce::send(interface.index, hardware, address)?;
            }
        }
        Ok(())
    }

    fn renew_and_log(&mut self, address: IpAddr) {
        let renewed = self.renew(address);
        match &renewed {
            Ok(()) if self.failed => tracing::info!(%address, "this machine has the address now"),
            Err(error) if !self.failed => {
                tracing::error!(%address, %error, "this machine can't have the address, and tries again every second");
            }
            _ => {}
        }
        self.failed = renewed.is_err();
    }
}

/// Takes an address off its interface. If that fails, its lifetime ends anyway.
fn remove(address: IpAddr) {
    let removed = interface_for(address).and_then(|interface| netlink::delete(interface.index, address));
    if let Err(error) = removed {
        tracing::warn!(%address, %error, "an address of this machine ends by itself, as it can't be removed");
    }
}

/// The interface that has an address, or is to have it: that of its network.
///
/// # Errors
/// When there is none, or the address is not one of those that end by themselves.
fn interface_for(address: IpAddr) -> io::Result<Interface> {
    let (interfaces, assigned) = (netlink::interfaces()?, netlink::assigned()?);
    let find = |index| interfaces.iter().find(|it: &&Interface| it.index == index).cloned();
    if let Some(known) = assigned.iter().find(|it| it.address == address) {
        let interface = find(known.index).unwrap_or_default();
        if known.valid > LIFETIME {
            return Err(io::Error::other(format!(
                "{address} is configured on {} of this machine: remove it there, so that it can move to another machine",
                interface.name
            )));
        }
        return Ok(interface);
    }
    let networks = assigned.iter().filter(|it| !it.is_single() && it.has_in_network(address));
    let nearest = networks.max_by_key(|it| it.prefix).and_then(|it| find(it.index));
    nearest.ok_or_else(|| {
        io::Error::other(format!(
            "no interface of this machine has an address in the network of {address}: configure one there, which stays"
        ))
    })
}
