//! The session table of a server: which initiator is logged in through which portal, and how to end its session.

use crate::login::LoginIdentity;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use transport::Control;

/// A session, for display.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// Its part of the session identifier.
    pub isid: [u8; 6],
    /// Our part.
    pub tsih: u16,
    /// Portal group tag, and relative target port, that it came through.
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
    /// Identifier of its one connection.
    cid: u16,
    control: UnboundedSender<Control>,
}

/// All normal sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<NexusKey, Entry>,
    last_tsih: u16,
}

/// The entry of a session; removed when this is dropped.
pub(crate) struct Registration {
    sessions: Arc<Sessions>,
    key: NexusKey,
    pub(crate) tsih: u16,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.sessions.table.lock().entries.remove(&self.key);
    }
}

impl Table {
    /// The handle of a session: the one that its initiator names, or an unused one; never zero, which means a new
    /// session.
    fn tsih(&mut self, named: u16) -> Option<u16> {
        let taken = |tsih: u16| self.entries.values().any(|entry| entry.info.tsih == tsih);
        if named != 0 {
            return (!taken(named)).then_some(named);
        }
        let after = self.last_tsih;
        let fresh =
            (1..=u16::MAX).map(|step| after.wrapping_add(step)).find(|tsih| *tsih != 0 && !taken(*tsih))?;
        self.last_tsih = fresh;
        Some(fresh)
    }
}

impl Sessions {
    /// Registers a session. Reinstatement (6.3.5): a session of the same initiator port at the same portal is ended
    /// before this returns. Connection reinstatement (6.3.4) is the same here, since a session ends with its only
    /// connection and its tasks with both; but the handle stays. `None` if there is no free handle.
    pub(crate) async fn register(
        self: &Arc<Self>,
        identity: &LoginIdentity,
        mut info: SessionInfo,
        control: &UnboundedSender<Control>,
    ) -> Option<Registration> {
        let key = NexusKey::of(identity, info.portal);
        loop {
            let older = {
                let mut table = self.table.lock();
                match table.entries.get(&key) {
                    Some(entry) => entry.control.clone(),
                    None => {
                        let tsih = table.tsih(identity.tsih)?;
                        info.tsih = tsih;
                        let entry = Entry { info, cid: identity.cid, control: control.clone() };
                        table.entries.insert(key.clone(), entry);
                        return Some(Registration { sessions: self.clone(), key, tsih });
                    }
                }
            };
            let _gone = older.send(Control::Close("session reinstated"));
            older.closed().await;
        }
    }

    /// The connection of the session that a login at a portal names by its TSIH.
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
