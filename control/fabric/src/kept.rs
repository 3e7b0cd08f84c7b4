//! The sessions of a front end that becomes the home: its iSCSI server keeps running, so hosts stay logged in.
//!
//! A session from before the takeover keeps its device server. Its commands cross to the home until the home has named its
//! nexus, and go to that nexus directly afterwards. A session from after the takeover has a nexus of the home's target, like those of an array with
//! one controller.

use crate::front;
use crate::held::Held;
use array::LoginQueue;
use forward::FrontEnd;
use iscsi::{NexusLost, Server, TargetDevice};
use scsi::{DeviceServer, InitiatorPort, Target};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use transport::Budget;

/// The target as the sessions of a front end see it.
pub struct Forwarded {
    front_end: Arc<FrontEnd>,
    /// Since this controller is the home.
    here: OnceLock<Arc<Target>>,
}

impl Forwarded {
    /// Of a front end.
    pub fn new(front_end: Arc<FrontEnd>) -> Arc<Self> {
        Arc::new(Self { front_end, here: OnceLock::new() })
    }
}

impl TargetDevice for Forwarded {
    fn attach(
        self: Arc<Self>,
        initiator: InitiatorPort,
        port: u16,
        lost: NexusLost,
    ) -> Box<dyn DeviceServer> {
        if let Some(target) = self.here.get() {
            return TargetDevice::attach(target.clone(), initiator, port, lost);
        }
        let InitiatorPort::Iscsi { name, isid } = initiator else { unreachable!("a session of iSCSI") };
        Box::new(self.front_end.attach(port, isid, &name, lost))
    }

    /// Only the home knows what is shared: a cold reset through another portal ends no session of another host.
    fn hosts_sharing_with(&self, host: &str) -> BTreeSet<String> {
        match self.here.get() {
            Some(target) => target.hosts_sharing_with(host),
            None => [host.to_owned()].into(),
        }
    }
}

/// An iSCSI server that listens.
#[derive(Clone)]
pub struct Served {
    /// The server.
    pub server: Arc<Server>,
    /// The iSCSI name of its target.
    pub name: String,
    /// What its sessions attach to.
    pub target: Arc<Forwarded>,
    /// The memory of its sessions.
    pub budget: Arc<Budget>,
    /// Log-ins that were reported to no home.
    pub logins: Arc<LoginQueue>,
    /// The addresses of its portals that move.
    pub held: Arc<Held>,
}

/// What a front end leaves to the home in its process.
pub struct Kept {
    /// Its server.
    pub served: Served,
    running: front::Running,
}

impl Kept {
    pub(crate) fn new(served: Served, running: front::Running) -> Self {
        Self { served, running }
    }

    /// The power-on of the target that the former home had, if it said so.
    pub fn power_on(&self) -> Option<u64> {
        self.running.front_end.power_on()
    }

    /// This controller is the home: sessions attach to its target from now on. Returns what those from before use.
    pub fn attach_to(self, target: Arc<Target>) -> Arc<FrontEnd> {
        assert!(self.served.target.here.set(target).is_ok(), "a controller becomes the home once");
        // The array holds them now.
        self.served.held.keep_only(&BTreeSet::new());
        let front_end = self.running.front_end.clone();
        // The home has all of it, and its own cache.
        front_end.resolve_with(None);
        self.running.stop();
        front_end
    }
}
