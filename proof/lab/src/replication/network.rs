//! A network between two arrays that is cut, or changes a bit, after a number of bytes.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the network does to what goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Every connection ends.
    Cut,
    /// One bit is another one.
    Corrupt,
}

type Armed = Arc<Mutex<Option<(u64, Disturbance)>>>;

/// Forwards connections to an array.
pub struct Network {
    address: SocketAddr,
    armed: Armed,
}

impl Network {
    /// A network before this address.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn before(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let (address, armed) = (listener.local_addr()?, Armed::default());
        let rules = armed.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                // An array that is down refuses: so does the network.
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(target)) else { continue };
                let (Ok(near_end), Ok(far_end)) = (near.try_clone(), far.try_clone()) else { continue };
                let (one, other) = (rules.clone(), rules.clone());
                std::thread::spawn(move || carry(near, far, &one));
                std::thread::spawn(move || carry(far_end, near_end, &other));
            }
        });
        Ok(Self { address, armed })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Disturbs once, after this number of bytes in either direction.
    pub fn arm(&self, bytes: u64, disturbance: Disturbance) {
        *lock(&self.armed) = Some((bytes, disturbance));
    }

    /// Disturbs nothing any more; true if it has.
    pub fn disarm(&self) -> bool {
        lock(&self.armed).take().is_none()
    }
}

fn lock(armed: &Armed) -> std::sync::MutexGuard<'_, Option<(u64, Disturbance)>> {
    armed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn carry(mut from: TcpStream, mut to: TcpStream, armed: &Armed) {
    let mut part = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut part) {
        let due = lock(armed).take_if(|(left, _)| {
            let is_due = *left < count as u64;
            *left = left.saturating_sub(count as u64);
            is_due
        });
        match due {
            Some((_, Disturbance::Cut)) => break,
            Some((left, Disturbance::Corrupt)) => part[(left as usize).min(count - 1)] ^= 1,
            None => {}
        }
        if to.write_all(&part[..count]).is_err() {
            break;
        }
    }
    _ = from.shutdown(Shutdown::Both);
    _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_changed_once_and_a_cut_ends_connections() {
        let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let network = Network::before(far.local_addr().unwrap()).unwrap();
        let mut near = TcpStream::connect(network.address()).unwrap();
        let (mut end, _) = far.accept().unwrap();
        let mut through = |bytes: &[u8]| {
            near.write_all(bytes).unwrap();
            let mut got = vec![0; bytes.len()];
            end.read_exact(&mut got).map(|()| got)
        };
        assert_eq!(through(b"abcd").unwrap(), b"abcd");
        network.arm(2, Disturbance::Corrupt);
        let got = through(b"abcd").unwrap();
        assert_eq!(got.iter().zip(b"abcd").filter(|(got, sent)| got != sent).count(), 1);
        assert!(network.disarm());
        assert_eq!(through(b"abcd").unwrap(), b"abcd");
        network.arm(0, Disturbance::Cut);
        assert!(through(b"abcd").is_err());
    }
}
