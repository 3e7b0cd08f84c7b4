//! Alert rules: conditions computed from values. Rules keep no state.

use crate::events::catalogue;
use crate::parts::membership::{Controller, ControllerState};
use crate::service::metering::{PathUse, forecast, imbalance};
use engine::SpaceReport;
use history::{Condition, Severity, SpacePoint};
use records::Scrub;
use shelf::pool::{DriveState, DriveStatus, FileSystem, ObjectStore, PoolStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Conditions by what never changes about them.
pub(crate) type Conditions = BTreeMap<String, Condition>;

/// Imbalance of a host's paths, from 0 to 1, beyond which a condition reports it.
const MAX_IMBALANCE: f64 = 0.5;
/// Number of commands below which the imbalance is not judged.
const MIN_JUDGED_COMMANDS: u64 = 10_000;
/// Number of drives that may fail without loss when there are three or more drives.
const FULL_PROTECTION_DRIVES: usize = 2;

/// Map pages in use in percent of the limit, with severity: the first that holds.
const MAP_PERCENT: [(u64, Severity); 2] = [(95, Severity::Critical), (80, Severity::Warning)];

/// iSCSI sessions in percent of the maximum, with severity: the first that holds.
const SESSIONS_PERCENT: [(usize, Severity); 2] = [(100, Severity::Critical), (80, Severity::Warning)];

/// Less than this part of a file system free is few.
const FEW_FREE_DIVISOR: u64 = 10;

/// Use of a pool of the store in percent, with severity: the first that holds.
const POOL_PERCENT: [(u128, Severity); 2] = [(90, Severity::Critical), (80, Severity::Warning)];

const DAY: u64 = 86_400;
/// Days left, of the certificate or of the space, with severity: the first that holds.
const DAYS_LEFT: [(u64, Severity); 2] = [(7, Severity::Critical), (30, Severity::Warning)];
/// A trend of less time says nothing about a month, in seconds.
const TREND_MIN_SECONDS: u64 = DAY;

/// What a condition is about.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub noun: &'static str,
    pub name: &'a str,
    /// Its identity, which a rename does not change.
    pub key: &'a str,
}

/// Adds a condition.
pub(crate) fn add(
    found: &mut Conditions,
    kind: &str,
    severity: Severity,
    about: Option<About<'_>>,
    message: &dyn Fn() -> String,
) {
    debug_assert!(catalogue::is_alert(kind), "the catalogue of messages has no alert {kind}");
    let key = about.map_or_else(|| kind.to_owned(), |about| format!("{kind}/{}", about.key));
    let (noun, name) = (about.map(|about| about.noun.to_owned()), about.map(|about| about.name.to_owned()));
    found.insert(key, Condition { kind: kind.into(), severity, message: message(), noun, name });
}

/// What the maps on the drives say that can't be.
pub(crate) fn of_contradictions(contradictions: &[String]) -> Conditions {
    let mut found = Conditions::default();
    if let Some(first) = contradictions.first() {
        add(&mut found, "metadata.contradiction", Severity::Critical, None, &|| {
            format!(
                "metadata on the drives contradict each other in {} places ({first}): some blocks may read as errors; stop \
                 the array and run `ashlard check`, then `ashlard check --repair`",
                contradictions.len()
            )
        });
    }
    found
}

/// A drive that is not what it should be.
fn of_drive(found: &mut Conditions, drive: &DriveStatus) {
    let slot = drive.slot.to_string();
    let path = drive.name.as_deref().unwrap_or("no drive");
    let about = Some(About { noun: "drive", name: &slot, key: &format!("{:032x}", drive.drive) });
    match drive.state {
        DriveState::Failed => add(found, "drive.failed", Severity::Warning, about, &|| {
            format!("the drive of slot {slot} failed or is missing ({path}): replace it")
        }),
        DriveState::Online if drive.name.is_none() => {
            add(found, "drive.failed", Severity::Warning, about, &|| {
                format!("the drive of slot {slot} is missing: reconnect it, or replace it")
            });
        }
        DriveState::Evacuating => add(found, "drive.evacuating", Severity::Info, about, &|| {
            format!("the drive of slot {slot} ({path}) is being evacuated")
        }),
        DriveState::Online | DriveState::Empty => {}
    }
    if drive.slow {
        add(found, "drive.slow", Severity::Warning, about, &|| {
            format!(
                "the drive of slot {slot} ({path}) is much slower than the others, which are read in its place: \
                 replace it if that lasts"
            )
        });
    }
    if drive.lags && !drive.slow {
        add(found, "drive.slow", Severity::Warning, about, &|| {
            format!(
                "the drive of slot {slot} ({path}) has been slow for most of the last minute, and hosts wait for it: see to its \
                 health (ashlar drive show {slot}) and to what else uses it, and replace it if that lasts"
            )
        });
    }
    if drive.bad_pages > 0 && drive.state != DriveState::Failed {
        add(found, "drive.checksum-errors", Severity::Warning, about, &|| {
            format!("the drive of slot {slot} ({path}) returned data with wrong checksums: replace it soon")
        });
    }
}

/// Drives that are not what they should be, and what that means for the data.
pub(crate) fn of_drives(status: &PoolStatus) -> Conditions {
    let mut found = Conditions::default();
    for drive in &status.drives {
        of_drive(&mut found, drive);
    }
    for path in &status.former_drives {
        let about = Some(About { noun: "drive", name: path, key: path });
        add(&mut found, "drive.stray", Severity::Warning, about, &|| {
            format!(
                "{path} was a member of this array and is none now: it was replaced, or used without the other drives. \
                 It is not read, and what was written to it alone is not in the array: add it as an empty drive \
                 (ashlar drive add --take-from-array, with the identity of this array), or remove it"
            )
        });
    }
    for name in &status.unwiped_drives {
        let about = Some(About { noun: "drive", name, key: name });
        add(&mut found, "drive.unwiped", Severity::Warning, about, &|| {
            format!(
                "{name} could not be wiped: it keeps a wrapped key of this array, which neither a change of the key nor a \
                 crypto-erase reaches. Destroy the drive, or the key that opens it"
            )
        });
    }
    space_below(&mut found, status);
    protection(&mut found, status);
    if status.degraded_segments > 0 {
        add(&mut found, "protection.rebuilding", Severity::Info, None, &|| {
            "rebuilding the data of failed or evacuated drives".into()
        });
    }
    if status.lost_pages > 0 {
        add(&mut found, "data.lost", Severity::Critical, None, &|| {
            "some data can't be read from any drive: stop the array, run `ashlard check` to see which volumes are affected, \
             and restore those from a backup"
                .into()
        });
    }
    found
}

/// Pools that others fill, too: their use is not that of the array.
fn of_pools(found: &mut Conditions, objects: &ObjectStore) {
    for pool in &objects.pools {
        let Some((stored, available)) = pool.stored.zip(pool.available) else { continue };
        let (stored, available) = (u128::from(stored), u128::from(available));
        let percent = stored * 100 / (stored + available).max(1);
        let Some((limit, severity)) = POOL_PERCENT.iter().find(|(limit, _)| percent >= *limit) else {
            continue;
        };
        let about = Some(About { noun: "store", name: &pool.name, key: &pool.name });
        add(found, "store.near-full", *severity, about, &|| {
            format!(
                "{limit} % of the pool {:?} in Ceph is in use, by all that is stored there; when it is full, hosts are \
                 refused writes: add OSDs, raise the quota, or delete what is not needed",
                pool.name
            )
        });
    }
}

/// Controllers that are not there, or are of different versions. A single one that was always alone is as it should be.
pub(crate) fn of_controllers(controllers: &[Controller]) -> Conditions {
    let mut found = Conditions::default();
    let lost = controllers.iter().filter(|it| it.state == ControllerState::Lost);
    for controller in lost.clone() {
        let number = controller.number.to_string();
        let about = Some(About { noun: "controller", name: &number, key: &number });
        add(&mut found, "controller.lost", Severity::Warning, about, &|| {
            format!(
                "controller {number} ({}) is lost: check its machine, its network and its access to the store, and start \
                 ashlard there again; if it does not come back: ashlar controller remove {number}",
                controller.name
            )
        });
    }
    let active: Vec<_> = controllers.iter().filter(|it| it.state.takes_part()).collect();
    if let ([last], true) = (&*active, controllers.len() > 1) {
        // An operator who stops the others knows it; a loss may come at any time.
        let severity = if lost.count() > 0 { Severity::Critical } else { Severity::Warning };
        add(&mut found, "controller.alone", severity, None, &|| {
            format!(
                "only controller {} ({}) is left: if it fails, hosts lose their volumes until one is started; start \
                 another controller",
                last.number, last.name
            )
        });
    }
    let versions: BTreeSet<&str> = active.iter().map(|it| it.version.as_str()).collect();
    if versions.len() > 1 {
        add(&mut found, "controller.versions", Severity::Warning, None, &|| {
            let versions: Vec<_> =
                active.iter().map(|it| format!("{} has {}", it.number, it.version)).collect();
            format!(
                "the controllers run different versions ({}): update the older ones, one after the other",
                versions.join(", ")
            )
        });
    }
    found
}

/// Pools, and file systems below drives, that may run out of space.
fn space_below(found: &mut Conditions, status: &PoolStatus) {
    if let Some(objects) = &status.objects {
        of_pools(found, objects);
    }
    if status.starved {
        add(found, "drive.no-space", Severity::Critical, None, &|| {
            "the file system under the drives has no space: hosts can't write anything new until it has; make room on it"
                .into()
        });
    }
    for file_system in &status.file_systems {
        let FileSystem { slots, free, total, growth } = file_system;
        if growth <= free || slots.is_empty() {
            continue;
        }
        let names: Vec<String> = slots.iter().map(ToString::to_string).collect();
        let (name, key) = (names.join(", "), names.join("-"));
        let about = Some(About { noun: "drive", name: &names[0], key: &key });
        let few = free.saturating_mul(FEW_FREE_DIVISOR) < *total;
        let severity = if few { Severity::Critical } else { Severity::Warning };
        add(found, "drive.overcommitted", severity, about, &|| {
            format!(
                "the drives of slots {name} are sparse files that may grow by more than their file system has free{}: \
                 capacity is what fits there, less whatever else is written to it, and hosts are refused writes when it is \
                 full. Give the file system more space",
                if few { ", and hardly any of it is free" } else { "" }
            )
        });
    }
}

fn protection(found: &mut Conditions, status: &PoolStatus) {
    let stays = |drive: &&DriveStatus| drive.state == DriveState::Online && drive.name.is_some();
    let staying = status.drives.iter().filter(stays).count();
    let (left, promised) = (status.tolerates, status.failures_to_tolerate);
    if status.drives.is_empty() {
        // The store is a pool of Ceph, which reports itself what is degraded.
        if promised < FULL_PROTECTION_DRIVES {
            add(found, "protection.low", Severity::Info, None, &|| {
                let survived = if promised == 0 { "no failure" } else { "one failure, not two" };
                format!(
                    "the pools of the array survive {survived}: three copies, or two coding chunks, survive two"
                )
            });
        }
        return;
    }
    let about_left = match left {
        0 => "one more drive that fails loses data",
        _ => "one more drive may fail, not two",
    };
    if left < promised {
        add(found, "protection.degraded", Severity::Critical, None, &|| {
            let remedy = match staying.saturating_sub(1) < promised {
                true => format!("only {staying} drives are online: add drives"),
                false => "replace failed drives, or wait for the rebuild".into(),
            };
            format!("{about_left}; the array promises {promised}: {remedy}")
        });
    } else if promised < FULL_PROTECTION_DRIVES {
        add(found, "protection.low", Severity::Info, None, &|| {
            let remedy = match staying > FULL_PROTECTION_DRIVES {
                true => "stored data are being rebuilt with redundancy for two failures".into(),
                false => format!("there are only {staying} drives, and with three or more any two may fail"),
            };
            format!("{about_left}: {remedy}")
        });
    }
}

/// This part of the space in a hundred is in use.
pub(crate) fn of_threshold(percent: u64, severity: Severity) -> Conditions {
    let mut found = Conditions::default();
    add(&mut found, "space.threshold", severity, None, &|| {
        format!(
            "{percent} % of the drives' space is in use: delete or unmap what is not needed, or add drives"
        )
    });
    found
}

/// Adds that a replication misses its RPO, both in seconds; `why` is the rest of the sentence.
pub(crate) fn add_missed_rpo(
    found: &mut Conditions,
    about: About<'_>,
    (rpo, lag): (u64, u64),
    severity: Severity,
    why: &str,
) {
    add(found, "replication.rpo", severity, Some(about), &|| {
        format!("replication {:?} misses its RPO of {rpo} s: the lag is {lag} s{why}", about.name)
    });
}

/// Map pages close to their limit, at which writes to blocks that were not mapped before are refused.
pub(crate) fn of_map(space: &SpaceReport) -> Conditions {
    let mut found = Conditions::default();
    let percent = space.map_pages.saturating_mul(100) / space.map_pages_max.max(1);
    if let Some((_, severity)) = MAP_PERCENT.iter().find(|(limit, _)| percent >= *limit) {
        add(&mut found, "space.map", *severity, None, &|| {
            format!(
                "{percent} % of the map pages that memory allows are in use; at 100 % new blocks are refused with \
                 \"space allocation failed\": unmap or delete what is not needed, or add memory to the server"
            )
        });
    }
    found
}

/// Few iSCSI sessions are left.
pub(crate) fn of_sessions(open: usize, most: usize) -> Conditions {
    let mut found = Conditions::default();
    let percent = open.saturating_mul(100) / most.max(1);
    if let Some((_, severity)) = SESSIONS_PERCENT.iter().find(|(limit, _)| percent >= *limit) {
        add(&mut found, "host.sessions", *severity, None, &|| {
            format!(
                "{open} of {most} iSCSI sessions are open: at the limit log-ins are refused with \"out of resources\", except \
                 those of hosts that log in again; log out sessions that are not needed, or raise the limit of open files \
                 (LimitNOFILE= of the service) if it is the lower one"
            )
        });
    }
    found
}

/// The array has an older format than the software knows.
pub(crate) fn of_format(active: u32, newest: u32) -> Conditions {
    let mut found = Conditions::default();
    if active < newest {
        add(&mut found, "upgrade.uncommitted", Severity::Info, None, &|| {
            format!(
                "the array has format {active}, and this software knows format {newest}: commit the upgrade (ashlar array \
                 upgrade --commit) once a return to the earlier release is not needed any more"
            )
        });
    }
    found
}

/// Pages that a scrub found to be wrong.
pub(crate) fn of_scrub(scrub: &Scrub) -> Conditions {
    let mut found = Conditions::default();
    let Scrub { errors, repaired, lost, .. } = scrub;
    if *errors > 0 || *lost > 0 {
        let severity = if *lost > 0 { Severity::Critical } else { Severity::Warning };
        add(&mut found, "scrub.found", severity, None, &|| {
            format!(
                "the last scrub found {errors} pages that were not what had been written: {repaired} were written again, \
                 {lost} are lost; see which drives they are on (ashlar drive list), and replace those"
            )
        });
    }
    found
}

/// Hosts that would lose their volumes with one path, and those that use their paths unevenly.
pub(crate) fn of_paths(paths: &[PathUse], portals: usize) -> Conditions {
    let mut found = Conditions::default();
    let hosts: BTreeSet<&str> = paths.iter().map(|path| path.host.as_str()).collect();
    for host in hosts {
        let about = Some(About { noun: "host", name: host, key: host });
        let own: Vec<&PathUse> = paths.iter().filter(|path| path.host == host).collect();
        let live = own.iter().filter(|path| path.sessions > 0).count();
        if live == 1 && portals > 1 {
            add(&mut found, "host.one-path", Severity::Warning, about, &|| {
                format!(
                    "host {host:?} is logged in at one of {portals} portals: a failure of that path cuts it off"
                )
            });
            continue;
        }
        let commands: u64 = own.iter().map(|path| path.sample.sum(|_, _| true).latency.count()).sum();
        if imbalance(own).is_some_and(|part| part > MAX_IMBALANCE && commands >= MIN_JUDGED_COMMANDS) {
            add(&mut found, "host.uneven-paths", Severity::Info, about, &|| {
                format!("host {host:?} uses its paths unevenly: look at its multipath policy")
            });
        }
    }
    found
}

/// Portals that can't be bound, each with the reason; `all` portals are configured.
pub(crate) fn of_portals(down: &[(SocketAddr, String)], all: usize) -> Conditions {
    let mut found = Conditions::default();
    let severity = if down.len() >= all { Severity::Critical } else { Severity::Warning };
    for (address, reason) in down {
        let name = address.to_string();
        let about = Some(About { noun: "portal", name: &name, key: &name });
        add(&mut found, "portal.down", severity, about, &|| {
            format!(
                "portal {name} can't listen ({reason}): no host has a path by it. Check that this machine has the address and \
                 that nothing else uses the port; it is tried again every second"
            )
        });
    }
    found
}

/// The API's certificate when it is good until `expires`, in seconds since 1970.
pub(crate) fn of_certificate(expires: u64, now: u64) -> Conditions {
    let mut found = Conditions::default();
    let left = expires.saturating_sub(now);
    if let Some((days, severity)) = DAYS_LEFT.iter().find(|(days, _)| left < days * DAY) {
        add(&mut found, "certificate.expiry", *severity, None, &|| match left {
            0 => "the certificate has expired: replace it (ashlar certificate replace)".into(),
            _ => format!(
                "the certificate expires in less than {days} days: replace it (ashlar certificate replace)"
            ),
        });
    }
    found
}

/// Drives that will be full soon by the trend of the past. Once said, it is true until a tenth more time is left.
pub(crate) fn of_forecast(past: &[SpacePoint], before: &Conditions) -> Conditions {
    const KIND: &str = "space.forecast";
    let mut found = Conditions::default();
    let long = matches!((past.first(), past.last()), (Some(first), Some(last)) if last.time - first.time >= TREND_MIN_SECONDS);
    let Some(left) = forecast(past).1.filter(|_| long) else { return found };
    let said = |severity| before.get(KIND).is_some_and(|condition| condition.severity >= severity);
    let soon = DAYS_LEFT.iter().find(|(days, severity)| {
        let days = *days as f64;
        left < if said(*severity) { days * 1.1 } else { days }
    });
    if let Some((days, severity)) = soon {
        add(&mut found, KIND, *severity, None, &|| {
            format!(
                "by the trend of the last month the drives are full in less than {days} days: add drives, or delete \
                     what is not needed"
            )
        });
    }
    found
}

#[cfg(test)]
#[path = "condition_test.rs"]
mod tests;
