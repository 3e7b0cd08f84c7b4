//! Sources of alert conditions: which service or part is asked for what, and how often.

use crate::configuration::Configuration;
use crate::parts::Parts;
use crate::parts::certificate_chain::expiry;
use crate::parts::sealing::SealingKey;
use crate::service::alerts::Source;
use crate::service::audit_mark::AuditWatch;
use crate::service::clock::RetentionClock;
use crate::service::condition::{self, Conditions};
use crate::service::controllers::ControllerMonitor;
use crate::service::health::HealthMonitor;
use crate::service::logins::Logins;
use crate::service::metering::{Metering, TimeRange};
use crate::service::notifier::Notifier;
use crate::service::quotas::Quotas;
use crate::service::remote_arrays::Links;
use crate::service::replicas::Replicas;
use crate::service::scrub::Scrubs;
use crate::service::space::SpaceMonitor;
use crate::shape::view::some_of;
use engine::Engine;
use history::{Severity, Store};
use records::{Config, SealedField};
use std::sync::Arc;

/// Over how many seconds paths are compared.
const PATHS_SECONDS: u64 = 300;

/// The services that find conditions.
pub(crate) struct Services<'a> {
    pub parts: &'a Parts,
    pub configuration: &'a Arc<Configuration>,
    pub space: &'a Arc<SpaceMonitor>,
    pub quotas: &'a Arc<Quotas>,
    pub controllers: &'a Arc<ControllerMonitor>,
    pub links: &'a Arc<Links>,
    pub replicas: &'a Arc<Replicas>,
    pub notifier: &'a Arc<Notifier>,
    pub scrubs: &'a Arc<Scrubs>,
    pub health: &'a Arc<HealthMonitor>,
    pub metering: &'a Arc<Metering>,
    pub clock: &'a Arc<RetentionClock>,
    pub logins: &'a Arc<Logins>,
    pub audit_watch: &'a Arc<AuditWatch>,
}

/// Every source of conditions.
pub(crate) fn sources(services: &Services<'_>) -> Vec<Source> {
    let mut sources = Vec::from(of_parts(services));
    sources.extend(of_services(services));
    sources
}

fn of_parts(services: &Services<'_>) -> [Source; 9] {
    let Parts { engine, pool, history, sealing, exports, server, subsystem, .. } = services.parts.clone();
    let config = || services.configuration.clone();
    let (configured, secrets, certified) = (config(), config(), config());
    let (space, formatted) = (engine.clone(), engine.clone());
    [
        Source::new(0, move |_, _| of_history(&history)),
        Source::new(10, move |_, _| of_secrets(&sealing, &secrets.read())),
        Source::new(5, move |_, _| condition::of_drives(&pool.status())),
        Source::new(5, move |_, _| condition::of_contradictions(&engine.inconsistencies())),
        Source::new(5, move |_, _| condition::of_map(&space.space())),
        Source::new(1, move |_, _| {
            let down = [server.down_portals(), subsystem.down_portals()].concat();
            condition::of_portals(&down, server.portals().len() + subsystem.portals().len())
        }),
        Source::new(5, move |_, _| of_unit_states(&exports, &configured.read())),
        Source::new(5, move |_, _| condition::of_format(formatted.format(), *formatted.formats().end())),
        // Soon after a certificate was replaced, too: by a good one, or by one that expires.
        Source::new(10, move |_, now| {
            let expires = certified.read().certificate.as_ref().and_then(|entry| expiry(&entry.chain));
            expires.map(|expires| condition::of_certificate(expires, now)).unwrap_or_default()
        }),
    ]
}

fn of_services(services: &Services<'_>) -> [Source; 13] {
    let Parts { engine, server, target, .. } = services.parts.clone();
    let (space, quotas) = (services.space.clone(), services.quotas.clone());
    let (notifier, scrubs) = (services.notifier.clone(), services.scrubs.clone());
    let (health, clock) = (services.health.clone(), services.clock.clone());
    let (paths, past) = (services.metering.clone(), services.metering.clone());
    let (replicas, replicated) = (services.replicas.clone(), services.configuration.clone());
    let (links, remote) = (services.links.clone(), services.configuration.clone());
    let audit_watch = services.audit_watch.clone();
    let (logins, hosts) = (services.logins.clone(), services.configuration.clone());
    let sessions = server.clone();
    let (configuration, controllers) = (services.configuration.clone(), services.controllers.clone());
    [
        Source::new(0, move |_, _| controllers.conditions()),
        Source::new(0, move |_, _| links.conditions(&remote.read())),
        Source::new(0, move |_, _| replicas.conditions(&replicated.read())),
        Source::new(0, move |_, _| of_space(&engine, &space, &quotas, &configuration.read())),
        Source::new(0, move |_, _| notifier.conditions()),
        Source::new(5, move |before, _| scrubs.conditions(before)),
        Source::new(5, move |_, _| health.conditions()),
        Source::new(5, move |_, _| {
            condition::of_sessions(sessions.session_count(), sessions.session_shares().total)
        }),
        Source::new(60, move |_, now| of_paths(&paths, (&server, &target), now)),
        Source::new(0, move |_, _| clock.conditions()),
        Source::new(0, move |_, _| logins.conditions(&hosts.read())),
        Source::new(0, move |_, now| audit_watch.conditions(now)),
        Source::new(600, move |before, now| of_forecast(&past, before, now)),
    ]
}

fn of_history(history: &Store) -> Conditions {
    let mut found = Conditions::default();
    if let Some(why) = history.outage() {
        condition::add(&mut found, "history.memory", Severity::Critical, None, &|| {
            format!(
                "the history can't be written to the array's folder ({why}): events, alerts and the audit log are \
                 kept in memory, and are lost if the array is started again before that is mended: make room, or \
                 see to the file system; the array goes back to the file by itself"
            )
        });
    }
    found
}

/// Secrets that can't be opened, or sealed.
fn of_secrets(sealing: &SealingKey, config: &Config) -> Conditions {
    let mut found = Conditions::default();
    let opens = |it: &SealedField| sealing.open(&it.sealed, &it.place).is_ok();
    let shut: Vec<_> = config.sealed().into_iter().filter(|it| !opens(it)).collect();
    let shut: Vec<String> = shut.into_iter().map(|it| it.what).collect();
    let why = match (sealing.locked_because(), shut.is_empty()) {
        (None, true) => return found,
        (Some(why), _) => why,
        (None, false) => "secrets.key in the array's folder is not the key that sealed them",
    };
    condition::add(&mut found, "secrets.locked", Severity::Critical, None, &|| match shut.is_empty() {
        true => format!("no secret can be stored: {why}; see to that, and start the array again"),
        false => format!(
            "secrets can't be opened: {why}. Not usable: {}; hosts with CHAP among them can't log in. Put the file \
             secrets.key back and start the array again. If it is lost forever: write 32 random bytes to it, start \
             the array again, and set each of these secrets again",
            some_of(&shut)
        ),
    });
    found
}

/// The array has stopped, little space is free, or a volume group is beyond a quota.
fn of_space(engine: &Engine, space: &SpaceMonitor, quotas: &Quotas, config: &Config) -> Conditions {
    let mut found = Conditions::default();
    if let Some(why) = engine.stopped() {
        condition::add(&mut found, "array.stopped", Severity::Critical, None, &|| {
            format!("the array stopped to protect data and needs a new start: {why}")
        });
    }
    if let Some((limit, severity)) = space.crossed() {
        found.extend(condition::of_threshold(limit, severity));
    }
    for group in config.groups.iter() {
        let about = condition::About {
            noun: "volume group",
            name: &group.name,
            key: &format!("{:016x}", group.id.0),
        };
        let (soft, hard) = quotas.state(group.id);
        if hard {
            condition::add(&mut found, "group.quota", Severity::Critical, Some(about), &|| {
                format!("volume group {:?} reached its hard quota: its volumes take no new space", group.name)
            });
        } else if soft {
            condition::add(&mut found, "group.quota", Severity::Warning, Some(about), &|| {
                format!("volume group {:?} is beyond its soft quota", group.name)
            });
        }
    }
    found
}

/// Volumes and snapshots whose saved reservations and mode pages can't be understood.
fn of_unit_states(exports: &export::Exports, config: &Config) -> Conditions {
    let mut found = Conditions::default();
    for id in exports.unreadable_states() {
        let Some(name) = config.disk_name(id) else { continue };
        let noun = if config.snapshots.get(id).is_some() { "snapshot" } else { "volume" };
        let about = condition::About { noun, name, key: &format!("{:032x}", id.0) };
        condition::add(&mut found, "volume.state-unreadable", Severity::Critical, Some(about), &|| {
            format!(
                "the saved reservations of {noun} {name:?} can't be understood, so no host can write to it: make sure \
                 that only those use it that should, then clear them (ashlar volume clear-state {name})"
            )
        });
    }
    found
}

fn of_paths(metering: &Metering, (server, target): (&iscsi::Server, &scsi::Target), now: u64) -> Conditions {
    let range = TimeRange { from: Some(now.saturating_sub(PATHS_SECONDS)), to: None, points: Some(1) };
    let paths = metering.paths(None, range).unwrap_or_else(|error| {
        tracing::error!(%error, "paths can't be compared");
        Vec::new()
    });
    let own: Vec<u16> = server.portals().iter().map(|portal| portal.number).collect();
    // Those of the other controllers, while these forward to this one.
    let others = target.port_groups();
    let others =
        others.iter().filter(|group| group.is_active && !own.iter().any(|it| group.ports.contains(it)));
    condition::of_paths(&paths, own.len() + others.map(|group| group.ports.len()).sum::<usize>())
}

fn of_forecast(metering: &Metering, before: &Conditions, now: u64) -> Conditions {
    match metering.past_month(now) {
        Ok(past) => condition::of_forecast(&past, before),
        Err(error) => {
            tracing::error!(%error, "the use of space can't be forecast");
            Conditions::default()
        }
    }
}
