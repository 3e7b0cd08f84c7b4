//! On interfaces of a network namespace, with a peer in another one. Skipped without the rights of root or iproute2.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use address::Addresses;
use std::io;
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far more than the kernel needs.
const PATIENCE: Duration = Duration::from_secs(60);
/// A station that is gone.
const FORMER: &str = "02:00:00:00:00:99";
const STATION: &str = "02:00:00:00:00:01";

/// A network of this thread with an interface `own`, whose other end is `other` in the network of a process.
struct Network(Child);

impl Network {
    fn enter() -> io::Result<Self> {
        // SAFETY: takes no pointer; it concerns this thread and those that it starts.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut command = Command::new("unshare");
        // It ends when its standard input does.
        let peer = command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let network = Self(peer);
        let process = network.0.id().to_string();
        // Until its network is not that of this thread any more.
        let end = Instant::now() + PATIENCE;
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
        while of(&process)? == of("thread-self")? {
            assert!(Instant::now() < end, "the peer has no network of its own");
            sleep(Duration::from_millis(10));
        }
        ip("link add own address 02:00:00:00:00:01 type veth peer name other")?;
        ip(&format!("link set other netns {process}"))?;
        ip("link set own up")?;
        ip("address add 192.0.2.1/24 dev own")?;
        ip("address add 2001:db8::1/64 dev own nodad")?;
        network.peer("link set other up")?;
        network.peer("address add 192.0.2.2/24 dev other")?;
        network.peer("address add 2001:db8::2/64 dev other nodad")?;
        Ok(network)
    }

    fn peer(&self, words: &str) -> io::Result<String> {
        let process = self.0.id().to_string();
        run(Command::new("nsenter").args(["--net", "--target", &process, "ip"]).args(words.split(' ')))
    }

    /// The station by which the peer knows an address.
    fn station(&self, address: &str) -> io::Result<String> {
        let text = self.peer(&format!("neigh show {address} dev other"))?;
        let mut words = text.split(' ').skip_while(|word| *word != "lladdr");
        Ok(words.nth(1).unwrap_or_default().to_owned())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn ip(words: &str) -> io::Result<String> {
    run(Command::new("ip").args(words.split(' ')))
}

fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?}: {error}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: it did not come to that");
        sleep(Duration::from_millis(50));
    }
}

fn has(address: &str) -> bool {
    ip("-oneline address show dev own").unwrap().contains(&format!(" {address}/"))
}

/// Runs on a thread of its own, as the network is that of the thread.
fn in_network(test: impl FnOnce(&Network) + Send + 'static) {
    let run = || match Network::enter() {
        Ok(network) => test(&network),
        Err(error) => eprintln!("skipped: there can be no network for the test: {error}"),
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn peers_reach_an_address_here_once_it_is_held() {
    in_network(|network| {
        let held = Addresses::new(|| true);
        for address in ["192.0.2.21", "2001:db8::21"] {
            network.peer(&format!("neigh replace {address} lladdr {FORMER} dev other nud stale")).unwrap();
            held.hold(address.parse().unwrap()).unwrap();
            assert!(has(address));
            until("the peer knows the new station", || network.station(address).unwrap() == STATION);
        }
        let v4: IpAddr = "192.0.2.21".parse().unwrap();
        held.hold(v4).unwrap();
        held.release(v4);
        assert!(has("192.0.2.21"), "another machine holds it");
        held.release(v4);
        assert!(!has("192.0.2.21") && has("2001:db8::21"));
        held.release_all();
        assert!(!has("2001:db8::21") && has("192.0.2.1") && has("2001:db8::1"));
    });
}

#[test]
fn an_address_ends_by_itself_when_its_holder_does_not_go_on() {
    in_network(|_| {
        let permit = Arc::new(AtomicBool::new(true));
        let granted = permit.clone();
        let held = Addresses::new(move || granted.load(Ordering::Relaxed));
        let address = "192.0.2.21".parse().unwrap();
        held.hold(address).unwrap();
        // Longer than it would last without being renewed.
        sleep(address::LIFETIME * 2);
        assert!(has("192.0.2.21"));
        permit.store(false, Ordering::Relaxed);
        until("the address ends", || !has("192.0.2.21"));
        permit.store(true, Ordering::Relaxed);
        until("it is added again", || has("192.0.2.21"));
        // A process that takes over what an earlier one left.
        let next = Addresses::new(|| true);
        next.hold(address).unwrap();
    });
}

#[test]
fn a_station_that_has_an_address_is_found() {
    in_network(|network| {
        let held = Addresses::new(|| true);
        let user = |address: &str| held.user_of(address.parse().unwrap()).unwrap();
        let other = network.peer("link show other").unwrap();
        let station = other.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
        for address in ["192.0.2.2", "2001:db8::2"] {
            assert_eq!(user(address).as_deref(), Some(station));
        }
        for address in ["192.0.2.99", "2001:db8::99", "192.0.2.1", "127.0.0.9"] {
            assert_eq!(user(address), None);
        }
        // No machine has it any more, although it was known.
        network.peer("address del 192.0.2.2/24 dev other").unwrap();
        assert_eq!(user("192.0.2.2"), None);
    });
}

#[test]
fn addresses_that_the_machine_has_for_good_are_left_alone() {
    in_network(|_| {
        let held = Addresses::new(|| true);
        let own = held.hold("192.0.2.1".parse().unwrap()).unwrap_err().to_string();
        assert!(own.contains("192.0.2.1 is configured on own"), "{own}");
        let foreign = held.hold("198.51.100.1".parse().unwrap()).unwrap_err().to_string();
        assert!(foreign.contains("no interface of this machine has an address in the network"), "{foreign}");
        held.release_all();
        assert!(has("192.0.2.1"));
        held.hold("127.0.0.9".parse().unwrap()).unwrap();
        assert!(!has("127.0.0.9"), "loopback needs nothing");
        // Once it may move, it does.
        held.hold("192.0.2.1".parse().unwrap()).unwrap_err();
        ip("address del 192.0.2.1/24 dev own").unwrap();
        ip("address add 192.0.2.3/24 dev own").unwrap();
        until("it is held", || ip("-oneline address show dev own").unwrap().contains("192.0.2.1/32"));
    });
}
