//! Browser sessions, in memory and saved for a restart, and the rate limit of failed log-ins.

use array::{Array, Credential, DirectoryId, ExpiringKind, Guest, Member, Role, UserId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;

/// Name of the session cookie.
pub const COOKIE: &str = "ashlar-session";

/// Idle time-out and maximum duration of a session, in seconds.
const IDLE_SECONDS: u64 = 30 * 60;
const MAX_SECONDS: u64 = 12 * 3600;

/// Interval at which the last use of a session is saved, in seconds: after a restart it can end earlier by this much.
const UNSAVED_SECONDS: u64 = 60;

/// Maximum number of sessions; beyond it the longest idle one ends.
const MAX_SESSIONS: usize = 1000;

/// Failed log-ins within the window after which an address is locked out for a user name, and for all names. A name alone
/// is never locked: anyone could lock out its owner.
const MAX_FAILURES: usize = 5;
const MAX_FAILURES_OF_ADDRESS: usize = 20;
const FAILURE_WINDOW_SECONDS: u64 = 60;

/// Maximum number of addresses, and pairs of address and name, whose failures are tracked; the oldest are dropped first.
const MAX_TRACKED: usize = 10_000;

#[derive(Serialize, Deserialize)]
struct Session {
    user: String,
    who: Who,
    begun: u64,
    used: u64,
    /// The `used` that is written down.
    #[serde(skip)]
    written: u64,
}

/// The user of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Who {
    /// A local user, by id and time of the password; the role is the current one.
    Member(UserId, u64),
    /// A directory user, by directory, and the role.
    Guest(DirectoryId, Role),
}

/// A session that continues.
pub struct Found {
    /// Whose it is.
    pub user: String,
    /// What may be done in it now.
    pub role: Role,
    /// What began it.
    pub credential: Credential,
    /// When it ends, in seconds since 1970.
    pub until: u64,
}

/// Who is logged in.
#[derive(Default)]
pub struct Sessions {
    /// By the hash of the secret: a look into memory does not give sessions away, and looking up takes the same time.
    sessions: Mutex<HashMap<blake3::Hash, Session>>,
    /// When log-ins failed, in seconds of uptime, by the hash of an address, or of an address and a name: who guesses
    /// chooses how long a name is.
    failures: Mutex<HashMap<blake3::Hash, Vec<u64>>>,
}

impl Sessions {
    /// Those of before a restart. What may be done in one, and whether it is over, is judged when it is used.
    pub fn kept(array: &Array) -> Self {
        let kept =
            array.sealed_store().load_all(ExpiringKind::Session).into_iter().filter_map(|(key, text)| {
                let session: Session = serde_json::from_str(&text).ok()?;
                Some((key.into(), Session { written: session.used, ..session }))
            });
        Self { sessions: Mutex::new(kept.collect()), failures: Mutex::default() }
    }

    /// Begins a session of a user: its secret, and when it ends.
    pub fn begin(&self, member: Member, array: &Array) -> (String, u64) {
        let Member { id, name, password_set, .. } = member;
        self.put(name, Who::Member(id, password_set), 0, array)
    }

    /// The same for a directory user.
    pub fn begin_guest(&self, guest: Guest, array: &Array) -> (String, u64) {
        let Guest { user, role, directory, since } = guest;
        self.put(user, Who::Guest(directory, role), since, array)
    }

    fn put(&self, user: String, who: Who, since: u64, array: &Array) -> (String, u64) {
        let (secret, now) = (array.accounts().secret(), array.now());
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.until() > now);
        if sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used).map(|(key, _)| *key);
            oldest.inspect(|key| remove(&mut sessions, key, array));
        }
        let key = blake3::hash(secret.as_bytes());
        let mut session = Session { user, who, begun: since.max(now), used: now, written: now };
        session.write(&key, array);
        let until = session.until();
        sessions.insert(key, session);
        (secret, until)
    }

    /// Whose session it is, what may be done in it, and when it ends; it ends later for being used.
    pub fn find(&self, secret: &str, array: &Array) -> Option<Found> {
        let (key, now) = (blake3::hash(secret.as_bytes()), array.now());
        let mut sessions = self.lock();
        let session = sessions.get_mut(&key)?;
        // A user that is gone, or has another password since, is out; a guest whose directory is gone or changed, too.
        let role = match session.who {
            Who::Guest(directory, role) => {
                array.directories().is_current(directory, session.begun).then_some(role)
            }
            Who::Member(user, password_set) => array.accounts().still_in(user, password_set),
        };
        match role.filter(|_| session.until() > now) {
            Some(role) => {
                session.used = now;
                if now >= session.written + UNSAVED_SECONDS {
                    session.write(&key, array);
                }
                let credential = match session.who {
                    Who::Guest(directory, _) => Credential::Guest(directory, session.begun),
                    Who::Member(user, password_set) => Credential::Session(user, password_set),
                };
                Some(Found { user: session.user.clone(), role, credential, until: session.until() })
            }
            None => {
                remove(&mut sessions, &key, array);
                None
            }
        }
    }

    /// Whether a session, by the hash of its secret, is valid. Asking is no use of it.
    pub fn is_valid(&self, key: &blake3::Hash, now: u64) -> bool {
        self.lock().get(key).is_some_and(|session| session.until() > now)
    }

    /// Ends a session.
    pub fn end(&self, secret: &str, array: &Array) {
        remove(&mut self.lock(), &blake3::hash(secret.as_bytes()), array);
    }

    /// Seconds to wait before another log-in may be tried from this address, as this user if there is a name; `None` if
    /// it may be.
    pub fn wait(&self, client: &[&str], now: u64) -> Option<u64> {
        let failures = self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let wait = |(key, most): (blake3::Hash, usize)| {
            let times = failures.get(&key)?;
            let recent = times.iter().filter(|at| **at + FAILURE_WINDOW_SECONDS > now).count();
            // The oldest that counts: when it is over, another one may be tried.
            let oldest = times.iter().rev().nth(most - 1).filter(|_| recent >= most)?;
            Some((oldest + FAILURE_WINDOW_SECONDS).saturating_sub(now).max(1))
        };
        locks(client).into_iter().filter_map(wait).max()
    }

    /// Notes that a log-in failed.
    pub fn failed(&self, client: &[&str], now: u64) {
        let mut failures = self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (key, most) in locks(client) {
            if failures.len() >= MAX_TRACKED && !failures.contains_key(&key) {
                make_room(&mut failures, now);
            }
            let times = failures.entry(key).or_default();
            times.retain(|at| at + FAILURE_WINDOW_SECONDS > now);
            times.push(now);
            // More than count are of no use.
            times.drain(..times.len().saturating_sub(most));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<blake3::Hash, Session>> {
        self.sessions.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What is locked by failures of a log-in from an address, as a user if there is a name, and after how many: the
/// address, and the pair of both.
fn locks(client: &[&str]) -> Vec<(blake3::Hash, usize)> {
    let Some((address, name)) = client.split_first() else { return Vec::new() };
    let address = network(address);
    let pair = (blake3::hash(format!("{address} {}", name.join(" ")).as_bytes()), MAX_FAILURES);
    match name {
        [] => vec![pair],
        _ => vec![(blake3::hash(address.as_bytes()), MAX_FAILURES_OF_ADDRESS), pair],
    }
}

/// An address, or its IPv6 network: a client has all addresses of its /64.
fn network(address: &str) -> String {
    match address.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V6(address)) => Ipv6Addr::from(u128::from(address) >> 64 << 64).to_string(),
        Ok(address) => address.to_string(),
        Err(_) => address.to_owned(),
    }
}

/// Forgets failures that are over, or else the ones that are over first.
fn make_room(failures: &mut HashMap<blake3::Hash, Vec<u64>>, now: u64) {
    failures.retain(|_, times| times.iter().any(|at| at + FAILURE_WINDOW_SECONDS > now));
    if failures.len() >= MAX_TRACKED {
        let oldest = failures.iter().min_by_key(|(_, times)| times.last().copied()).map(|(key, _)| *key);
        oldest.and_then(|key| failures.remove(&key));
    }
}

/// Under the lock: what is written down must not come after what was asked later.
fn remove(sessions: &mut HashMap<blake3::Hash, Session>, key: &blake3::Hash, array: &Array) {
    if sessions.remove(key).is_some() {
        array.sealed_store().delete(ExpiringKind::Session, key.as_bytes());
    }
}

impl Session {
    fn write(&mut self, key: &blake3::Hash, array: &Array) {
        self.written = self.used;
        let text = serde_json::to_string(self).expect("a session is JSON");
        array.sealed_store().store(ExpiringKind::Session, key.as_bytes(), self.until(), &text);
    }

    fn until(&self) -> u64 {
        (self.used + IDLE_SECONDS).min(self.begun + MAX_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_too_often_waits() {
        let sessions = Sessions::default();
        for at in 0..MAX_FAILURES as u64 {
            assert_eq!(sessions.wait(&["10.0.0.1", "user ada"], 100 + at), None);
            sessions.failed(&["10.0.0.1", "user ada"], 100 + at);
        }
        assert_eq!(sessions.wait(&["10.0.0.1", "user ada"], 105), Some(55), "the name from there");
        assert_eq!(sessions.wait(&["10.0.0.1", "user bob"], 105), None, "another name from there");
        assert_eq!(sessions.wait(&["10.0.0.1", "user ada"], 160), None, "the first is forgotten");
    }

    #[test]
    fn nobody_is_kept_out_by_failures_from_elsewhere() {
        let sessions = Sessions::default();
        for number in 0..250 {
            sessions.failed(&[&format!("10.0.0.{number}"), "user ada"], 100);
            sessions.failed(&["10.1.0.1", "user ada"], 100);
        }
        assert_eq!(sessions.wait(&["10.2.0.1", "user ada"], 101), None);
    }

    #[test]
    fn an_address_that_tries_many_names_waits() {
        let sessions = Sessions::default();
        for number in 0..MAX_FAILURES_OF_ADDRESS {
            assert_eq!(sessions.wait(&["2001:db8::1", "user ada"], 100), None);
            sessions.failed(&[&format!("2001:db8::{number}"), &format!("user {number}")], 100);
        }
        assert_eq!(sessions.wait(&["2001:db8::ffff", "user ada"], 101), Some(59), "its whole network");
        assert_eq!(sessions.wait(&["2001:db8:0:1::1", "user ada"], 101), None);
        let sessions = Sessions::default();
        (0..MAX_FAILURES).for_each(|_| sessions.failed(&["10.0.0.1"], 100));
        assert_eq!(sessions.wait(&["10.0.0.1"], 101), Some(59), "where there is no name");
    }

    #[test]
    fn what_is_remembered_of_failures_is_bounded() {
        let sessions = Sessions::default();
        for number in 0..MAX_TRACKED as u32 / 2 + 100 {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
            sessions.failed(&[&address, "user ada"], 100 + u64::from(number) / 1000);
        }
        (0..MAX_FAILURES).for_each(|_| sessions.failed(&["192.0.2.1", "user ada"], 111));
        let failures = sessions.failures.lock().unwrap();
        assert!(failures.len() <= MAX_TRACKED, "{}", failures.len());
        assert!(failures.values().all(|times| times.len() <= MAX_FAILURES_OF_ADDRESS));
        drop(failures);
        assert!(sessions.wait(&["192.0.2.1", "user ada"], 112).is_some());
    }

    #[test]
    fn a_session_ends_when_it_is_idle_and_in_any_case() {
        let session = |used| Session {
            user: "ada".into(),
            who: Who::Member(UserId(7), 900),
            begun: 1000,
            used,
            written: used,
        };
        assert_eq!(session(2000).until(), 2000 + IDLE_SECONDS);
        assert_eq!(session(1000 + MAX_SECONDS - 5).until(), 1000 + MAX_SECONDS);
    }

    #[test]
    fn a_guest_stays_a_guest_over_a_restart() {
        let who = Who::Guest(DirectoryId(7), Role::Operator);
        let session = Session { user: "corp/ada".into(), who, begun: 1000, used: 2000, written: 1990 };
        let text = serde_json::to_string(&session).unwrap();
        let read: Session = serde_json::from_str(&text).unwrap();
        assert_eq!((read.user, read.who, read.begun, read.used), (session.user, who, 1000, 2000));
    }
}
