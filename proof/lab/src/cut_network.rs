//! A network namespace of one thread and its child processes, which drops packets to or from a port: loopback traffic
//! is cut in one direction or both, unnoticed by either end.
//!
//! It uses routing rules, which every Linux with iproute2 has. A relay between both ends would close connections
//! instead.

use anyhow::{Context, Result, bail, ensure};
use std::process::{Command, Stdio};

/// Dropped packets of connections to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Packets to the port.
    To,
    /// Packets from the port.
    From,
    /// All packets.
    Both,
}

/// Preferences of the drop rules, before the rule for local addresses.
const PREFERENCES: [(&str, &str); 2] = [("dport", "10"), ("sport", "11")];
/// Names of an interface and of its other end.
const INTERFACE: &str = "lab0";
const OTHER_END: &str = "lab1";
const LOCAL_PREFERENCE: &str = "100";

/// The namespace, which this thread has entered.
pub struct CutNetwork {
    port: Option<(u16, Direction)>,
}

impl CutNetwork {
    /// Moves this thread into a new network with only a loopback interface.
    ///
    /// # Errors
    /// The reason why this is impossible: root permissions or iproute2 are missing.
    pub fn enter() -> Result<Self> {
        // SAFETY: the call takes no pointer; open sockets stay in their network.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            let error = std::io::Error::last_os_error();
            return Err(error).context("no network namespace can be made, which needs root");
        }
        ip(&["link", "set", "lo", "up"])?;
        // The drop rules must come first.
        ip(&["rule", "add", "pref", LOCAL_PREFERENCE, "lookup", "local"])?;
        ip(&["rule", "del", "pref", "0"])?;
        Ok(Self { port: None })
    }

    /// Adds an interface with an address, such as `192.0.2.1/24`. Its other end has none.
    ///
    /// # Errors
    /// If the kernel has no virtual Ethernet.
    pub fn add_interface(&self, address: &str) -> Result<()> {
        ip(&["link", "add", INTERFACE, "type", "veth", "peer", "name", OTHER_END])?;
        ip(&["address", "add", address, "dev", INTERFACE])?;
        ip(&["link", "set", OTHER_END, "up"])?;
        ip(&["link", "set", INTERFACE, "up"])
    }

    /// Drops packets of connections to a port.
    ///
    /// # Errors
    /// If packets are already dropped, or the kernel lacks such rules.
    pub fn cut(&mut self, port: u16, direction: Direction) -> Result<()> {
        ensure!(self.port.is_none(), "the network is cut already");
        self.port = Some((port, direction));
        rules(direction).try_for_each(|(end, preference)| {
            let port = port.to_string();
            ip(&["rule", "add", "pref", preference, "ipproto", "tcp", end, &port, "blackhole"])
        })
    }

    /// Ends the dropping.
    ///
    /// # Errors
    /// If the rules can't be removed.
    pub fn mend(&mut self) -> Result<()> {
        let (_, direction) = self.port.take().context("the network is not cut")?;
        rules(direction).try_for_each(|(_, preference)| ip(&["rule", "del", "pref", preference]))
    }
}

fn rules(direction: Direction) -> impl Iterator<Item = (&'static str, &'static str)> {
    let [to, from] = PREFERENCES;
    let (to, from) = match direction {
        Direction::To => (Some(to), None),
        Direction::From => (None, Some(from)),
        Direction::Both => (Some(to), Some(from)),
    };
    to.into_iter().chain(from)
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output.context("can't start ip (package iproute2)")?;
    if !output.status.success() {
        bail!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Sends a byte, and waits for it unless it is dropped. A byte on loopback arrives with the send.
    fn send(from: &mut TcpStream, to: &mut TcpStream, is_dropped: bool) {
        from.write_all(b"x").unwrap();
        to.set_nonblocking(is_dropped).unwrap();
        match to.read_exact(&mut [0]) {
            Err(error) if is_dropped => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            received => assert!(received.is_ok() && !is_dropped, "{received:?}"),
        }
        to.set_nonblocking(false).unwrap();
    }

    #[test]
    fn packets_are_dropped_in_one_direction_and_come_when_it_is_mended() {
        // The test's thread ends with its namespace.
        let mut network = match CutNetwork::enter() {
            Ok(network) => network,
            Err(reason) => return println!("left out: {reason:#}"),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut near = TcpStream::connect(address).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let all =
            [(Direction::To, true, false), (Direction::From, false, true), (Direction::Both, true, true)];
        for (direction, to, from) in all {
            network.cut(address.port(), direction).unwrap();
            send(&mut near, &mut far, to);
            send(&mut far, &mut near, from);
            network.mend().unwrap();
            // TCP retransmits dropped packets.
            for (end, is_due) in [(&mut far, to), (&mut near, from)] {
                if is_due {
                    end.read_exact(&mut [0]).unwrap();
                }
            }
        }
    }
}
