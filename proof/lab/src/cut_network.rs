//! A network namespace of one thread and its child processes, in which packets to or from a port are dropped: what goes over
//! loopback is cut in one direction or both, without a sign to either end.
//!
//! Routing rules do it, which every Linux with iproute2 has. A relay between both ends would close connections instead.

use anyhow::{Context, Result, bail, ensure};
use std::process::{Command, Stdio};

/// Which packets of connections to a port are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those to the port.
    To,
    /// Those from the port.
    From,
    /// All.
    Both,
}

/// The rules of drops, before that of the addresses of this machine.
const PREFERENCES: [(&str, &str); 2] = [("dport", "10"), ("sport", "11")];
/// The names of an interface and of its other end.
const INTERFACE: &str = "lab0";
const OTHER_END: &str = "lab1";
const LOCAL_PREFERENCE: &str = "100";

/// The namespace, which is that of this thread from now on.
pub struct CutNetwork {
    port: Option<(u16, Direction)>,
}

impl CutNetwork {
    /// Moves this thread into a new network with a loopback interface only.
    ///
    /// # Errors
    /// Why there can be none: the rights of root, or iproute2 are missing.
    pub fn enter() -> Result<Self> {
        // SAFETY: takes no pointer; sockets that are open stay in their network.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            let error = std::io::Error::last_os_error();
            return Err(error).context("no network namespace can be made, which needs root");
        }
        ip(&["link", "set", "lo", "up"])?;
        // The rules of drops have to come first.
        ip(&["rule", "add", "pref", LOCAL_PREFERENCE, "lookup", "local"])?;
        ip(&["rule", "del", "pref", "0"])?;
        Ok(Self { port: None })
    }

    /// Gives it an interface with an address, such as `192.0.2.1/24`. Its other end has none.
    ///
    /// # Errors
    /// When the kernel has no virtual Ethernet.
    pub fn add_interface(&self, address: &str) -> Result<()> {
        ip(&["link", "add", INTERFACE, "type", "veth", "peer", "name", OTHER_END])?;
        ip(&["address", "add", address, "dev", INTERFACE])?;
        ip(&["link", "set", OTHER_END, "up"])?;
        ip(&["link", "set", INTERFACE, "up"])
    }

    /// Drops packets of connections to a port from now on.
    ///
    /// # Errors
    /// When something is cut already, or the kernel has no such rules.
    pub fn cut(&mut self, port: u16, direction: Direction) -> Result<()> {
        ensure!(self.port.is_none(), "the network is cut already");
        self.port = Some((port, direction));
        rules(direction).try_for_each(|(end, preference)| {
            let port = port.to_string();
            ip(&["rule", "add", "pref", preference, "ipproto", "tcp", end, &port, "blackhole"])
        })
    }

    /// Drops nothing any more.
    ///
    /// # Errors
    /// When the rules can't be removed.
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

    /// Sends a byte, and waits for it unless it is dropped. A byte on loopback is there when it has been sent.
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
        // The thread of a test ends with its namespace.
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
            // TCP sends again what was dropped.
            for (end, is_due) in [(&mut far, to), (&mut near, from)] {
                if is_due {
                    end.read_exact(&mut [0]).unwrap();
                }
            }
        }
    }
}
