//! What operators see of the array as a whole, made from the configuration, the engine and the server.

use crate::array::Array;
use crate::parts::Threads;
use crate::parts::target_ports::iscsi_sessions;
use crate::shape::status::{
    ArrayHealth, ArrayStatus, BriefStatus, CapacitySummary, Encryption, Settings, Space, State, VersionRange,
};
use records::Config;
use std::net::SocketAddr;

/// Seconds over which the present performance of a volume is measured.
pub(crate) const RECENT_SECONDS: u64 = 5;

/// Where portals listen.
pub(crate) fn addresses(portals: &[iscsi::Portal]) -> Vec<SocketAddr> {
    portals.iter().map(|portal| portal.address).collect()
}

/// The version in the paths of the API.
const API_VERSION: u32 = 1;
/// Versions of the driver interface (docs/guides/automation.md) that this software supports.
const DRIVER_API: VersionRange = VersionRange { min: 1, max: 1 };

impl Array {
    /// What people call the array.
    pub(crate) fn name(&self, config: &Config) -> String {
        config.name_of_array(&self.identity).to_owned()
    }

    /// The array as it is now.
    pub(crate) fn status(&self, config: &Config) -> ArrayStatus {
        let space = self.space();
        ArrayStatus {
            name: self.name(config),
            serial: self.identity.serial.clone(),
            version: self.version.clone(),
            state: self.state(),
            reason: self.parts.engine.stopped(),
            target_iqn: self.identity.target_iqn(),
            portals: addresses(&self.parts.server.portals()),
            subsystem_nqn: self.identity.subsystem_nqn(),
            nvme_portals: addresses(&self.parts.subsystem.portals()),
            uptime_seconds: self.env.seconds().saturating_sub(self.started),
            reduction: space.ratios.into(),
            space,
            volumes: config.volumes.len(),
            hosts: config.hosts.len(),
            sessions: iscsi_sessions(&self.parts.target).len(),
            nvme_controllers: self.parts.subsystem.controllers().len(),
            memory: self.parts.memory.clone(),
            encryption: Encryption::of(self.wrapped_key().as_deref()),
        }
    }

    /// The same in few figures, none of which is counted for it.
    pub(crate) fn brief_status(&self, config: &Config) -> BriefStatus {
        let Space { total, free, provisioned, ratios, .. } = self.space();
        let (state, alerts) = (self.state(), self.alerts.open());
        BriefStatus {
            api_version: API_VERSION,
            driver_api: DRIVER_API,
            id: self.identity.serial.clone(),
            name: self.name(config),
            version: self.version.clone(),
            state,
            health: match state {
                State::Stopped => ArrayHealth::Critical,
                State::Online if alerts.critical > 0 => ArrayHealth::Critical,
                State::Online if alerts.warning > 0 => ArrayHealth::Warning,
                State::Online => ArrayHealth::Ok,
            },
            open_alerts: alerts.all,
            critical_alerts: alerts.critical,
            target_iqn: self.identity.target_iqn(),
            capacity: CapacitySummary {
                total,
                used: total.saturating_sub(free),
                free,
                provisioned,
                data_reduction: ratios.data,
            },
        }
    }

    /// Whether hosts are served.
    pub fn state(&self) -> State {
        if self.parts.engine.stopped().is_some() { State::Stopped } else { State::Online }
    }

    fn space(&self) -> Space {
        let space = self.parts.engine.space();
        Space {
            provisioned: space.provisioned,
            mapped: space.mapped,
            zero: space.zero,
            logical: space.logical(),
            snapshot: space.snapshot,
            unique: space.unique,
            shared: space.shared,
            physical: space.physical,
            metadata: space.metadata,
            reclaimable: space.reclaimable,
            free: space.free,
            total: space.total,
            ratios: space.ratios(),
        }
    }

    /// What is set.
    pub(crate) fn settings(&self, config: &Config) -> Settings {
        let records::Settings {
            bin_seconds,
            unmap_throttle,
            scrub_seconds,
            max_lock_seconds,
            ref time_zone,
            threads,
            ..
        } = config.settings;
        let (name, time_zone) = (self.name(config), time_zone.clone());
        let Threads { now: threads_now, by_option: threads_by_option } = self.parts.threads;
        Settings {
            name,
            recycle_bin_seconds: bin_seconds,
            unmap_throttle,
            scrub_every_seconds: scrub_seconds,
            max_retention_lock_seconds: max_lock_seconds,
            time_zone,
            threads,
            threads_now,
            threads_by_option,
        }
    }
}
