//! Queue of reported log-ins. Connections of this process fill the queue, and the
//! controllers that forward send theirs to the home.

use iscsi::{LoginObserver, RefusedLogin, SessionInfo};
use nvmf::{ConnectObserver, RefusedConnect};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// Maximum number of different log-ins that wait; more are only counted.
pub(crate) const MAX_PENDING: usize = 1024;
/// Longest reason of a log-out that is shown, in characters.
const MAX_REASON: usize = 120;
/// Why a session ended that another connection took over.
pub(crate) const REINSTATED: &str = "session reinstated";

/// What connections reported.
#[derive(Default)]
pub struct LoginQueue(Mutex<LoginReports>);

/// Reports in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginReports {
    /// Each different one, with its count.
    pub reports: Vec<LoginReport>,
    /// Those that there was no room for.
    pub lost: u64,
}

/// A log-in, log-out or refusal, which may have happened several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginReport {
    pub(crate) what: What,
    /// The name that the host gave.
    pub(crate) initiator: Option<String>,
    /// The host's address.
    pub(crate) address: IpAddr,
    /// The portal's number.
    pub portal: u16,
    pub(crate) count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    LoggedIn,
    LoggedOut {
        reason: String,
        /// ISID of a session that another connection reinstated, in 48 bits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        displaced: Option<u64>,
    },
    Refused {
        cause: Cow<'static, str>,
        reason: String,
    },
}

impl LoginReport {
    /// Whether both are one entry with a count.
    fn is_like(&self, other: &Self) -> bool {
        let same = match (&self.what, &other.what) {
            (What::LoggedIn, What::LoggedIn) => true,
            (
                What::LoggedOut { reason: one, displaced },
                What::LoggedOut { reason: other, displaced: another },
            ) => one == other && displaced == another,
            (What::Refused { cause: one, .. }, What::Refused { cause: other, .. }) => one == other,
            _ => false,
        };
        same && self.initiator == other.initiator
            && self.address == other.address
            && self.portal == other.portal
    }
}

/// Adds a report to others; false when there is no room.
pub(crate) fn merge(reports: &mut Vec<LoginReport>, report: LoginReport) -> bool {
    if let Some(known) = reports.iter_mut().find(|known| known.is_like(&report)) {
        known.count = known.count.saturating_add(report.count);
        known.what = report.what;
        return true;
    }
    let has_room = reports.len() < MAX_PENDING;
    reports.extend(has_room.then_some(report));
    has_room
}

impl LoginReports {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.lost == 0
    }

    fn add(&mut self, report: LoginReport) {
        let count = report.count;
        if !merge(&mut self.reports, report) {
            self.lost = self.lost.saturating_add(count);
        }
    }
}

impl LoginQueue {
    /// Takes what was reported since the last time.
    pub fn take(&self) -> LoginReports {
        std::mem::take(&mut *self.0.lock())
    }

    /// Adds what another queue had, or what was taken and could not be reported.
    pub fn put(&self, more: LoginReports) {
        let mut waiting = self.0.lock();
        waiting.lost = waiting.lost.saturating_add(more.lost);
        more.reports.into_iter().for_each(|report| waiting.add(report));
    }

    fn record(&self, what: What, initiator: Option<String>, address: IpAddr, portal: u16) {
        self.0.lock().add(LoginReport { what, initiator, address, portal, count: 1 });
    }
}

fn logged_out(reason: &str) -> What {
    What::LoggedOut { reason: reason.chars().take(MAX_REASON).collect(), displaced: None }
}

impl LoginObserver for LoginQueue {
    fn logged_in(&self, session: &SessionInfo) {
        self.record(What::LoggedIn, Some(session.initiator.clone()), session.peer.ip(), session.portal);
    }

    fn logged_out(&self, session: &SessionInfo, reason: &str) {
        let initiator = Some(session.initiator.clone());
        let mut what = logged_out(reason);
        if let What::LoggedOut { displaced, .. } = &mut what
            && reason == REINSTATED
        {
            *displaced = Some(session.isid.iter().fold(0, |isid, byte| isid << 8 | u64::from(*byte)));
        }
        self.record(what, initiator, session.peer.ip(), session.portal);
    }

    fn refused(&self, refused: &RefusedLogin) {
        let what = What::Refused { cause: refused.cause.kind().into(), reason: refused.cause.to_string() };
        self.record(what, refused.initiator.clone(), refused.peer.ip(), refused.portal);
    }
}

impl ConnectObserver for LoginQueue {
    fn connected(&self, host: &str, peer: SocketAddr, portal: u16) {
        self.record(What::LoggedIn, Some(host.to_owned()), peer.ip(), portal);
    }

    fn disconnected(&self, host: &str, peer: SocketAddr, portal: u16, reason: &str) {
        self.record(logged_out(reason), Some(host.to_owned()), peer.ip(), portal);
    }

    fn refused(&self, refused: &RefusedConnect) {
        let what = What::Refused { cause: refused.cause.kind().into(), reason: refused.cause.to_string() };
        self.record(what, refused.host.clone(), refused.peer.ip(), refused.portal);
    }
}
