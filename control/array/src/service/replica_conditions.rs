//! Alert conditions of replications.

use crate::service::condition::{self, About, Conditions};
use crate::service::replicas::Replicas;
use crate::service::replication_status::{ReplicationState, ReplicationStatus};
use history::Severity;
use records::{Config, Identity, Named, ReplicationEntry};

/// Lag, in RPOs, from which an alert is critical.
const CRITICAL_RPOS: u64 = 2;

impl Replicas {
    /// Replications that miss their RPO, lack space, have two sources, or are not the same on both arrays.
    pub fn conditions(&self, config: &Config) -> Conditions {
        let mut found = Conditions::default();
        for entry in config.replications.iter() {
            let status = self.status(config, entry);
            let name = &entry.name;
            let key = entry.id.digits();
            let replication = About { noun: ReplicationEntry::NOUN, name, key: &key };
            let about = Some(replication);
            if status.state == ReplicationState::Split {
                condition::add(&mut found, "replication.split", Severity::Critical, about, &|| {
                    format!(
                        "replication {name:?} is split: the volumes of both arrays take writes. Decide which array loses \
                         its changes, and demote the replication there with --force"
                    )
                });
                continue;
            }
            add_sync_conditions(&mut found, &status, about, name);
            self.witnesses.add_condition(&mut found, entry, self.env.uptime_seconds());
            if status.state == ReplicationState::NoSpace {
                condition::add(&mut found, "replication.no-space", Severity::Warning, about, &|| {
                    format!(
                        "replication {name:?} waits for space on the target: free some, or add drives there"
                    )
                });
            }
            let rpo = entry.rpo_seconds;
            let Some(lag) = status.lag_seconds.filter(|lag| *lag > rpo) else { continue };
            let critical = lag > rpo.saturating_mul(CRITICAL_RPOS);
            let severity = if critical { Severity::Critical } else { Severity::Warning };
            let until = status.blackout_until.map(history::utc);
            let waits = until.map(|until| format!(": it waits until the blackout ends at {until}"));
            let why = waits.or_else(|| status.problem.as_deref().map(|why| format!(": {why}")));
            let slow =
                || status.throttled.then(|| ": its transfer is throttled while hosts are active".to_owned());
            let why = why.or_else(slow).unwrap_or_default();
            condition::add_missed_rpo(&mut found, replication, (rpo, lag), severity, &why);
        }
        found
    }
}

/// Adds that both arrays of a synchronous replication are not the same any more.
fn add_sync_conditions(
    found: &mut Conditions,
    status: &ReplicationStatus,
    about: Option<About<'_>>,
    name: &str,
) {
    let cause = status.sync.as_ref().and_then(|sync| sync.cause.clone());
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    match status.state {
        ReplicationState::OutOfSync => {
            condition::add(found, "replication.out-of-sync", Severity::Warning, about, &|| {
                format!(
                    "replication {name:?} is out of sync{cause}. It resumes by itself once the other array can be reached"
                )
            });
        }
        ReplicationState::WritesStopped => {
            condition::add(found, "replication.writes-stopped", Severity::Critical, about, &|| {
                format!(
                    "replication {name:?} is out of sync, and its volumes refuse writes{cause}. Restore the connection, or let \
                     this array go on alone: set what happens on the loss of the link to continue"
                )
            });
        }
        _ => {}
    }
}
