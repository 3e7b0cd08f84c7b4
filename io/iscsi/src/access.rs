//! Access control: the target's name, its portals and the access table, which every connection reads at login.

use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use transport::Portal;

/// A CHAP name and secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// CHAP_N
    pub name: String,
    /// The shared secret; RFC 7143 requires at least 12 bytes.
    pub secret: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({:?}, secret withheld)", self.name)
    }
}

/// Authentication of an initiator that may log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Credentials of the initiator; `None` admits it by its name alone.
    pub chap: Option<Credentials>,
    /// Credentials of the target, if the initiator requests mutual authentication.
    pub mutual: Option<Credentials>,
}

/// The access table: initiators by their iSCSI names in canonical form ([`scsi::iscsi_name`]).
pub type AccessTable = BTreeMap<String, Access>;

/// The target's name, its portals and the access table.
#[derive(Debug)]
pub struct TargetConfig {
    /// The iSCSI name of the target.
    pub target_name: String,
    /// Each portal is a portal group of its own, so sessions through different portals are different I_T nexuses even
    /// when an initiator uses one ISID for all of them.
    portals: RwLock<Vec<Portal>>,
    /// Portals of the same target at other controllers.
    others: RwLock<Vec<Portal>>,
    access: RwLock<Admissions>,
}

/// The current access table.
#[derive(Debug, Default)]
struct Admissions {
    table: BTreeMap<String, Admission>,
    last: u64,
}

/// An entry of the access table, with a number that changes whenever the entry does.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub(crate) access: Access,
    pub(crate) number: u64,
}

impl TargetConfig {
    /// A configuration without portals and initiators.
    pub fn new(target_name: impl Into<String>) -> Self {
        let (portals, others, access) = Default::default();
        Self { target_name: target_name.into(), portals, others, access }
    }

    /// Replaces the access table. Returns the initiators whose entry was removed or whose credentials changed.
    pub fn set_access(&self, table: AccessTable) -> BTreeSet<String> {
        let mut admissions = self.access.write();
        let mut before = std::mem::take(&mut admissions.table);
        let mut changed = BTreeSet::new();
        for (initiator, access) in table {
            let admission = match before.remove(&initiator) {
                Some(same) if same.access == access => same,
                other => {
                    changed.extend(other.map(|_| initiator.clone()));
                    admissions.last += 1;
                    Admission { access, number: admissions.last }
                }
            };
            admissions.table.insert(initiator, admission);
        }
        changed.extend(before.into_keys());
        changed
    }

    /// Replaces the list of portals.
    pub fn set_portals(&self, portals: Vec<Portal>) {
        *self.portals.write() = portals;
    }

    /// Replaces the list of portals at other controllers.
    pub fn set_other_portals(&self, portals: Vec<Portal>) {
        *self.others.write() = portals;
    }

    /// The portals of this process.
    pub fn portals(&self) -> Vec<Portal> {
        self.portals.read().clone()
    }

    /// The portals that discovery reports.
    pub fn all_portals(&self) -> Vec<Portal> {
        let mut all = self.portals();
        all.extend_from_slice(&self.others.read());
        all
    }

    /// The current access table.
    pub fn access_table(&self) -> AccessTable {
        let admissions = self.access.read();
        admissions.table.iter().map(|(name, admission)| (name.clone(), admission.access.clone())).collect()
    }

    /// The access of an initiator; `None` if it is unknown.
    pub fn access(&self, initiator: &str) -> Option<Access> {
        self.admission(initiator).map(|admission| admission.access)
    }

    /// The access table entry of an initiator, with its number.
    pub(crate) fn admission(&self, initiator: &str) -> Option<Admission> {
        self.access.read().table.get(initiator).cloned()
    }
}
