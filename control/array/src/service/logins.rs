//! Log-ins of hosts over iSCSI and connects over NVMe/TCP, at all controllers: each log-in, log-out and refusal becomes an event, and refused ones are
//! listed by name and address, so that an operator sees why a host can't log in.
//!
//! Anyone who reaches a portal can make any number of log-ins fail. Equal ones are therefore one entry with a count,
//! entries are bounded, and events have a budget for each host and one for all unknown initiators together; what
//! exceeds it is logged later, with its count.

use crate::events::bus::EventBus;
use crate::parts::env::Env;
use crate::service::condition::Conditions;
use crate::service::displacements::Displacements;
use crate::service::login_queue::{LoginQueue, LoginReport, LoginReports, REINSTATED, What, merge};
use crate::shape::view::RefusedLogin;
use history::Severity;
use parking_lot::Mutex;
use records::{Config, HostId, Topic};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of refused log-ins that are listed.
const MAX_LISTED: usize = 256;
/// How long a refused log-in is listed, in seconds.
const REFUSED_LOGIN_LIFE_SECONDS: u64 = 7 * 86_400;
/// Events at once about one host, or about unknown initiators, and seconds until there may be another.
const EVENTS_BURST: u64 = 10;
const EVENT_SECONDS: u64 = 60;
/// Ends of a session that are no failure.
const WANTED_ENDS: [&str; 6] = [
    "logged out",
    REINSTATED,
    "access changed",
    "shutting down",
    "target cold reset",
    "the host disconnected",
];

/// The log-ins that connections report: queued by them, and turned into events and a list by [`Logins::watch`].
pub(crate) struct Logins {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    queue: Arc<LoginQueue>,
    log: Mutex<LoginLog>,
}

/// What was made of it.
#[derive(Default)]
struct LoginLog {
    refused: Vec<RefusedLogin>,
    budgets: BTreeMap<Option<HostId>, EventBudget>,
    /// Sessions that ended because another connection reinstated them.
    displaced: Displacements,
    /// Events that wait for their budget.
    waiting: Vec<LoginReport>,
    lost: u64,
}

/// How many events may be logged now.
#[derive(Clone, Copy)]
struct EventBudget {
    left: u64,
    since: u64,
}

impl EventBudget {
    /// Takes one of what may be logged at `now`.
    fn take(&mut self, now: u64) -> bool {
        let earned = now.saturating_sub(self.since) / EVENT_SECONDS;
        self.left = self.left.saturating_add(earned).min(EVENTS_BURST);
        self.since = if self.left == EVENTS_BURST { now } else { self.since + earned * EVENT_SECONDS };
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }
}

impl LoginLog {
    /// Records a refused log-in. In a full log the oldest entry is dropped, those of unknown initiators first, so that
    /// invented names do not displace the entries of a host.
    fn enter(&mut self, item: &LoginReport, host: Option<&str>, now: u64) {
        let What::Refused { cause, reason } = &item.what else { return };
        let is_like = |known: &&mut RefusedLogin| {
            known.initiator == item.initiator && known.address == item.address && known.cause == *cause
        };
        if let Some(known) = self.refused.iter_mut().find(is_like) {
            known.count += item.count;
            (known.last, known.portal) = (now, item.portal);
            known.reason.clone_from(reason);
            return;
        }
        if self.refused.len() >= MAX_LISTED {
            let order = |known: &RefusedLogin| (known.host.is_some(), known.last);
            let oldest = (0..self.refused.len()).min_by_key(|index| order(&self.refused[*index]));
            oldest.map(|index| self.refused.remove(index));
        }
        self.refused.push(RefusedLogin {
            initiator: item.initiator.clone(),
            host: host.map(str::to_owned),
            address: item.address,
            portal: item.portal,
            cause: cause.clone(),
            reason: reason.clone(),
            count: item.count,
            first: now,
            last: now,
        });
    }
}

/// The host of an initiator's iSCSI name or NQN.
fn host_of<'a>(config: &'a Config, initiator: Option<&str>) -> Option<&'a records::HostEntry> {
    let initiator = initiator?;
    let names =
        |host: &records::HostEntry| host.initiators.iter().chain(&host.nqns).any(|it| it == initiator);
    config.hosts.iter().find(|host| names(host))
}

impl Logins {
    /// Observes the log-ins of a server and the connects of a subsystem.
    pub fn observe(
        server: &iscsi::Server,
        subsystem: &nvmf::Subsystem,
        env: Arc<Env>,
        bus: Arc<EventBus>,
    ) -> Self {
        let queue = Arc::<LoginQueue>::default();
        server.observe(queue.clone());
        subsystem.observe(queue.clone());
        Self { env, bus, queue, log: Mutex::default() }
    }

    /// Takes what connections of other controllers reported.
    pub fn put(&self, reports: LoginReports) {
        self.queue.put(reports);
    }

    /// Logs events of what connections reported since the last call.
    pub fn watch(&self, config: &Config) {
        let now = self.env.seconds();
        let LoginReports { reports, lost } = self.queue.take();
        let changed = !reports.is_empty();
        let (mut logged, mut more) = (Vec::new(), 0);
        {
            let mut log = self.log.lock();
            let log = &mut *log;
            log.lost += lost;
            log.refused.retain(|known| now.saturating_sub(known.last) < REFUSED_LOGIN_LIFE_SECONDS);
            log.displaced.forget(now);
            for mut item in reports {
                let host = host_of(config, item.initiator.as_deref());
                match item.what {
                    What::Refused { .. } => log.enter(&item, host.map(|host| host.name.as_str()), now),
                    // What kept it out is over.
                    What::LoggedIn => log
                        .refused
                        .retain(|known| (&known.initiator, known.address) != (&item.initiator, item.address)),
                    What::LoggedOut { ref mut displaced, .. } => {
                        // Events do not depend on the session.
                        if let (Some(initiator), Some(isid)) = (&item.initiator, displaced.take()) {
                            log.displaced.note((initiator, isid), item.address, item.count, now);
                        }
                    }
                }
                let count = item.count;
                if !merge(&mut log.waiting, item) {
                    log.lost += count;
                }
            }
            log.budgets.retain(|host, _| host.is_none_or(|host| config.hosts.get(host).is_some()));
            let budgets = &mut log.budgets;
            let mut may = |host| {
                budgets.entry(host).or_insert(EventBudget { left: EVENTS_BURST, since: now }).take(now)
            };
            log.waiting.retain(|item| {
                let host = host_of(config, item.initiator.as_deref());
                let may_log = may(host.map(|host| host.id));
                if may_log {
                    logged.push((item.clone(), host.map(|host| host.name.clone())));
                }
                !may_log
            });
            if log.lost > 0 && may(None) {
                more = std::mem::take(&mut log.lost);
            }
        }
        if more > 0 {
            let message =
                format!("{more} more log-ins, log-outs and refusals happened that are not logged one by one");
            self.bus.log_event(Severity::Warning, "initiator.login-refused", None, message);
        }
        logged.iter().for_each(|(item, host)| self.log_host_login(item, host.as_deref()));
        if changed {
            self.bus.publish_change(Topic::Hosts);
            self.bus.publish_change(Topic::RefusedLogins);
        }
    }

    fn log_host_login(&self, item: &LoginReport, host: Option<&str>) {
        let LoginReport { what, initiator, address, portal, count } = item;
        let name = initiator.as_deref().unwrap_or("an initiator that gave no name");
        let often = if *count > 1 { format!(", {count} times") } else { String::new() };
        let way = format!("{name} from {address} at portal {portal}{often}");
        let subject = host.map(|host| ("host", host));
        let who = host.map_or("an unknown initiator".to_owned(), |host| format!("host {host:?}"));
        match what {
            What::LoggedIn => {
                self.bus.log_event(
                    Severity::Info,
                    "host.logged-in",
                    subject,
                    format!("{who} logged in: {way}"),
                );
            }
            What::LoggedOut { reason, .. } => {
                let wanted = WANTED_ENDS.contains(&reason.as_str());
                let severity = if wanted { Severity::Info } else { Severity::Warning };
                self.bus.log_event(
                    severity,
                    "host.logged-out",
                    subject,
                    format!("{who} logged out, {reason}: {way}"),
                );
            }
            What::Refused { reason, .. } => {
                let kind = if host.is_some() { "host.login-refused" } else { "initiator.login-refused" };
                let message = format!("{who} was refused, {reason}: {way}");
                self.bus.log_event(Severity::Warning, kind, subject, message);
            }
        }
    }

    /// Initiator names that several machines have at once.
    pub fn conditions(&self, config: &Config) -> Conditions {
        let host = |name: &str| host_of(config, Some(name)).map(|host| host.name.clone());
        self.log.lock().displaced.conditions(host)
    }

    /// Refused log-ins, the last one first: of a host, or all of them.
    pub fn refused(&self, config: &Config, host: Option<&str>) -> Vec<RefusedLogin> {
        let with_host = |refused: &RefusedLogin| RefusedLogin {
            host: host_of(config, refused.initiator.as_deref()).map(|host| host.name.clone()),
            ..refused.clone()
        };
        let mut refused: Vec<_> = self.log.lock().refused.iter().map(with_host).collect();
        refused.retain(|refused| host.is_none() || refused.host.as_deref() == host);
        refused.sort_by_key(|refused| std::cmp::Reverse(refused.last));
        refused
    }
}

#[cfg(test)]
#[path = "logins_test.rs"]
mod tests;
