//! A network between two arrays with delays, which is cut or flips a bit after a number of bytes.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Parts of 16 KiB in transit in one direction of a delayed connection: more than any delay here needs.
const MAX_PARTS: usize = 4096;

/// A disturbance of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Ends every connection.
    Cut,
    /// Flips one bit.
    Corrupt,
}

type Armed = Arc<Mutex<Option<(u64, Disturbance)>>>;

/// Rules for all connections.
#[derive(Clone, Default)]
struct Rules {
    armed: Armed,
    /// Delay in each direction in nanoseconds.
    delay_ns: Arc<AtomicU64>,
}

/// Forwards connections to an array.
pub struct Network {
    address: SocketAddr,
    rules: Rules,
}

impl Network {
    /// A network in front of this address.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn before(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let (address, rules) = (listener.local_addr()?, Rules::default());
        let ours = rules.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                // If the array refuses connections, so does the network.
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(target)) else { continue };
                let (Ok(near_end), Ok(far_end)) = (near.try_clone(), far.try_clone()) else { continue };
                _ = (near.set_nodelay(true), far.set_nodelay(true));
                carry(near, far, &ours);
                carry(far_end, near_end, &ours);
            }
        });
        Ok(Self { address, rules })
    }

    /// Its listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a round trip of this length, half of it in each direction. Later data does not overtake data in transit.
    pub fn set_round_trip(&self, round_trip: Duration) {
        let each = u64::try_from(round_trip.as_nanos() / 2).unwrap_or(u64::MAX);
        self.rules.delay_ns.store(each, Ordering::SeqCst);
    }

    /// Disturbs once, after this number of bytes in either direction.
    pub fn arm(&self, bytes: u64, disturbance: Disturbance) {
        *lock(&self.rules.armed) = Some((bytes, disturbance));
    }

    /// Ends disturbances; true if there was one.
    pub fn disarm(&self) -> bool {
        lock(&self.rules.armed).take().is_none()
    }
}

fn lock(armed: &Armed) -> std::sync::MutexGuard<'_, Option<(u64, Disturbance)>> {
    armed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Forwards one direction of a connection until either end closes it.
fn carry(mut from: TcpStream, to: TcpStream, rules: &Rules) {
    let (parts, arriving) = sync_channel(MAX_PARTS);
    std::thread::spawn(move || deliver(&arriving, to));
    let rules = rules.clone();
    std::thread::spawn(move || {
        let mut part = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut part) {
            let due = lock(&rules.armed).take_if(|(left, _)| {
                let is_due = *left < count as u64;
                *left = left.saturating_sub(count as u64);
                is_due
            });
            match due {
                Some((_, Disturbance::Cut)) => break,
                Some((left, Disturbance::Corrupt)) => part[(left as usize).min(count - 1)] ^= 1,
                None => {}
            }
            let delay = Duration::from_nanos(rules.delay_ns.load(Ordering::SeqCst));
            if parts.send((Instant::now() + delay, part[..count].to_vec())).is_err() {
                break;
            }
        }
        _ = from.shutdown(Shutdown::Both);
    });
}

/// Delivers parts at their times.
fn deliver(arriving: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (due, part) in arriving {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&part).is_err() {
            break;
        }
    }
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
    #[test]
    fn what_is_sent_takes_its_round_trip_in_order() {
        let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let network = Network::before(far.local_addr().unwrap()).unwrap();
        let round_trip = Duration::from_millis(20);
        network.set_round_trip(round_trip);
        let mut near = TcpStream::connect(network.address()).unwrap();
        let (mut end, _) = far.accept().unwrap();
        let begun = Instant::now();
        (0..100u8).for_each(|byte| near.write_all(&[byte]).unwrap());
        let mut got = [0; 100];
        end.read_exact(&mut got).unwrap();
        assert_eq!(got.to_vec(), (0..100).collect::<Vec<u8>>());
        end.write_all(&got[..1]).unwrap();
        near.read_exact(&mut got[..1]).unwrap();
        assert!(begun.elapsed() >= round_trip, "{:?}", begun.elapsed());
    }
}
