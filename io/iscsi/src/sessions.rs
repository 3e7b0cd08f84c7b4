//! Session table of a server: the initiators that are logged in with their portals, the control of their sessions, and
//! the limits on sessions.
//!
//! The limit is below that of connections, so a refused login gets a response with the cause, discovery stays possible,
//! and a host can always reinstate an existing session.

use crate::login::LoginIdentity;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use transport::{ConnectionLimits, Control};

/// The share of the connections that stays free for logins, discovery and reinstatement.
const FREE_DIVISOR: usize = 16;
/// The share of all sessions that one host may have, and its minimum.
const HOST_DIVISOR: usize = 4;
const HOST_MIN: usize = 16;

/// Limits on the number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionShares {
    /// For all hosts.
    pub total: usize,
    /// For one initiator name.
    pub host: usize,
}

impl SessionShares {
    /// The limits for a number of connections.
    pub fn of(limits: ConnectionLimits) -> Self {
        let total = limits.total - limits.total / FREE_DIVISOR;
        Self { total, host: (total / HOST_DIVISOR).max(HOST_MIN.min(total)) }
    }
}

/// A session, for display.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// ISID: the initiator's part of the session identifier.
    pub isid: [u8; 6],
    /// TSIH: the target's part of the session identifier.
    pub tsih: u16,
    /// Portal group tag and relative target port of the portal that the initiator connected to.
    pub portal: u16,
    /// The initiator's address.
    pub peer: SocketAddr,
    /// The local address.
    pub local: SocketAddr,
}

/// The initiator port and target port of an I_T nexus: at most one session exists between them (RFC 7143 4.4.3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NexusKey {
    initiator: String,
    isid: [u8; 6],
    portal: u16,
}

impl NexusKey {
    fn of(identity: &LoginIdentity, portal: u16) -> Self {
        Self { initiator: identity.initiator.clone(), isid: identity.isid, portal }
    }
}

struct Entry {
    info: SessionInfo,
    /// Identifier of its only connection.
    cid: u16,
    control: UnboundedSender<Control>,
}

/// All normal sessions.
pub(crate) struct Sessions {
    table: Mutex<Table>,
}

struct Table {
    shares: SessionShares,
    entries: BTreeMap<NexusKey, Entry>,
    /// Sessions by handle.
    by_tsih: BTreeMap<u16, NexusKey>,
    by_host: BTreeMap<String, usize>,
    last_tsih: u16,
}

/// The table entry of a session; removed on drop.
pub(crate) struct Registration {
    sessions: Arc<Sessions>,
    key: NexusKey,
    pub(crate) tsih: u16,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.sessions.table.lock().remove(&self.key);
    }
}

impl Table {
    /// The handle of a session: the one that its initiator sent, or an unused one. Zero, which means a new session, is
    /// never used.
    fn tsih(&mut self, named: u16) -> Option<u16> {
        let taken = |tsih: u16| self.by_tsih.contains_key(&tsih);
        if named != 0 {
            return (!taken(named)).then_some(named);
        }
        let after = self.last_tsih;
        let fresh =
            (1..=u16::MAX).map(|step| after.wrapping_add(step)).find(|tsih| *tsih != 0 && !taken(*tsih))?;
        self.last_tsih = fresh;
        Some(fresh)
    }

    /// Whether an initiator may have one more session.
    fn has_room(&self, initiator: &str) -> bool {
        let own = self.by_host.get(initiator).copied().unwrap_or(0);
        self.entries.len() < self.shares.total && own < self.shares.host
    }

    fn insert(&mut self, key: NexusKey, entry: Entry) {
        *self.by_host.entry(key.initiator.clone()).or_default() += 1;
        self.by_tsih.insert(entry.info.tsih, key.clone());
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &NexusKey) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.by_tsih.remove(&entry.info.tsih);
        if let Some(own) = self.by_host.get_mut(&key.initiator) {
            *own -= 1;
            if *own == 0 {
                self.by_host.remove(&key.initiator);
            }
        }
    }
}

impl Sessions {
    pub(crate) fn new(shares: SessionShares) -> Arc<Self> {
        let (entries, by_tsih, by_host) = Default::default();
        Arc::new(Self { table: Mutex::new(Table { shares, entries, by_tsih, by_host, last_tsih: 0 }) })
    }

    /// Replaces the limits on sessions; existing ones stay.
    pub(crate) fn set_shares(&self, shares: SessionShares) {
        self.table.lock().shares = shares;
    }

    pub(crate) fn count(&self) -> usize {
        self.table.lock().entries.len()
    }

    pub(crate) fn shares(&self) -> SessionShares {
        self.table.lock().shares
    }

    /// Registers a session. Session reinstatement (6.3.5): a session of the same initiator port at the same portal has
    /// ended when this returns. Connection reinstatement (6.3.4) works the same way, since a session ends with its only
    /// connection and its tasks with both, but the handle stays. `None` if no handle is free, or if a limit is reached
    /// and the session does not reinstate another one.
    pub(crate) async fn register(
        self: &Arc<Self>,
        identity: &LoginIdentity,
        mut info: SessionInfo,
        control: &UnboundedSender<Control>,
    ) -> Option<Registration> {
        let key = NexusKey::of(identity, info.portal);
        let mut reinstates = false;
        loop {
            let older = {
                let mut table = self.table.lock();
                match table.entries.get(&key) {
                    Some(entry) => entry.control.clone(),
                    None if !reinstates && !table.has_room(&identity.initiator) => return None,
                    None => {
                        let tsih = table.tsih(identity.tsih)?;
                        info.tsih = tsih;
                        let entry = Entry { info, cid: identity.cid, control: control.clone() };
                        table.insert(key.clone(), entry);
                        return Some(Registration { sessions: self.clone(), key, tsih });
                    }
                }
            };
            reinstates = true;
            let _gone = older.send(Control::Close("session reinstated"));
            older.closed().await;
        }
    }

    /// The connection of the session with the TSIH in a login at a portal.
    pub(crate) fn connection(&self, identity: &LoginIdentity, portal: u16) -> Option<u16> {
        let table = self.table.lock();
        let entry = table.entries.get(&NexusKey::of(identity, portal))?;
        (entry.info.tsih == identity.tsih).then_some(entry.cid)
    }

    pub(crate) fn list(&self) -> Vec<SessionInfo> {
        let mut list: Vec<_> = self.table.lock().entries.values().map(|entry| entry.info.clone()).collect();
        list.sort_by_key(|info| info.tsih);
        list
    }

    /// Ends the sessions of the initiators that `choose` selects.
    pub(crate) fn close(&self, reason: &'static str, choose: impl Fn(&str) -> bool) {
        for entry in self.table.lock().entries.values().filter(|entry| choose(&entry.info.initiator)) {
            // A connection that is ending does not receive any more.
            let _gone = entry.control.send(Control::Close(reason));
        }
    }
}
