//! What operators see of the array: views, made from the configuration, the engine and the server.

use crate::array::Array;
use crate::parts::Threads;
use crate::parts::fibre_channel::FibreChannelNexus;
use crate::parts::target_ports::iscsi_sessions;
use crate::service::quotas::mapped;
use crate::service::schedules::{next_run, zone_of};
use crate::shape::status::{
    ArrayHealth, ArrayStatus, BriefStatus, CapacitySummary, Encryption, Settings, Space, State, VersionRange,
};
use crate::shape::view::{
    BinnedDisk, Connection, DiskKind, Group, Host, HostGroup, Protection, Schedule, Snapshot, Volume,
};
use block::{Disk, DiskId};
use history::Sample;
use records::{
    Config, ConnectionEntry, DiskEntry, GroupEntry, HostEntry, HostGroupEntry, Peer, ScheduleEntry,
    SnapshotEntry, VolumeEntry,
};
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

    /// How what is stored is protected now.
    pub(crate) fn protection(&self, config: &Config) -> Protection {
        let (scrub, next_scrub) = (self.scrubs.last(config), self.scrubs.next(config));
        let shelf = self.parts.pool.status();
        Protection { shelf, scrub, next_scrub }
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

    /// Some volumes with those that see them. No other volume is looked at.
    pub(crate) fn volume_views(&self, config: &Config, entries: &[&VolumeEntry]) -> Vec<Volume> {
        let recent = self.metering.recent_of(RECENT_SECONDS, entries.iter().map(|entry| entry.id));
        let view = |(entry, recent): (&&VolumeEntry, Sample)| {
            self.volume_with(config, entry, (config.snapshots_of(entry.id).count(), recent))
        };
        entries.iter().zip(recent).map(view).collect()
    }

    /// One volume with those that see it.
    pub(crate) fn volume(&self, config: &Config, entry: &VolumeEntry) -> Volume {
        self.volume_views(config, &[entry]).remove(0)
    }

    fn volume_with(
        &self,
        config: &Config,
        entry: &VolumeEntry,
        (snapshots, recent): (usize, Sample),
    ) -> Volume {
        let disk = self.parts.engine.disk(entry.id);
        let source_id = disk.as_ref().and_then(|disk| disk.parent);
        Volume {
            id: entry.id,
            name: entry.name.clone(),
            size: disk.as_ref().map_or(0, |disk| disk.geometry.bytes()),
            block_size: disk.as_ref().map_or(0, |disk| disk.geometry.block_bytes),
            mapped: disk.as_ref().map_or(0, |disk| disk.space.mapped),
            naa: scsi::naa(entry.id),
            created: entry.created,
            group: entry.group.and_then(|id| Some(config.groups.get(id)?.name.clone())),
            group_id: entry.group,
            source: source_id.and_then(|id| config.disk_name(id).map(str::to_owned)),
            source_id,
            read_only: disk.is_some_and(|disk| disk.read_only),
            policy: entry.policy,
            policy_in_force: crate::shape::policy::policy_of(config, entry).into(),
            limits: entry.limits,
            scsi2_reservations: entry.scsi2_reservations,
            mixed_transports: entry.mixed_transports,
            labels: entry.labels.clone(),
            snapshots,
            performance: recent,
            reduction: self.usage_meter.reduction(entry.id),
            connections: self.connections_of(config, entry.id),
        }
    }

    /// One snapshot with those that see it.
    pub(crate) fn snapshot(&self, config: &Config, entry: &SnapshotEntry) -> Snapshot {
        let disk = self.parts.engine.disk(entry.id);
        Snapshot {
            id: entry.id,
            name: entry.name.clone(),
            source: config.volumes.get(entry.source).map(|volume| volume.name.clone()),
            source_id: entry.source,
            schedule: entry.schedule.and_then(|id| Some(config.schedules.get(id)?.name.clone())),
            set: entry.set,
            created: entry.created,
            size: disk.as_ref().map_or(0, |disk| disk.geometry.bytes()),
            block_size: disk.as_ref().map_or(0, |disk| disk.geometry.block_bytes),
            mapped: disk.as_ref().map_or(0, |disk| disk.space.mapped),
            writable: disk.as_ref().is_some_and(|disk| !disk.read_only),
            retain_until: disk
                .map(|disk| disk.kept_until)
                .filter(|until| *until > self.clock.retention_now()),
            naa: scsi::naa(entry.id),
            labels: entry.labels.clone(),
            connections: self.connections_of(config, entry.id),
        }
    }

    /// Every schedule, by name.
    pub(crate) fn list_schedules(&self, config: &Config) -> Vec<Schedule> {
        config.schedules.iter().map(|entry| self.schedule(config, entry)).collect()
    }

    /// One schedule.
    pub(crate) fn schedule(&self, config: &Config, entry: &ScheduleEntry) -> Schedule {
        let own = || config.snapshots.iter().filter(|snapshot| snapshot.schedule == Some(entry.id));
        let (volume, group) = config.subject_names(entry.subject);
        Schedule {
            id: entry.id,
            name: entry.name.clone(),
            created: entry.created,
            volume,
            group,
            rules: entry.rules.clone(),
            immutable_seconds: entry.immutable,
            enabled: entry.enabled,
            next: next_run(entry, &zone_of(&config.settings)),
            last: own().map(|snapshot| snapshot.created).max(),
            snapshots: own().count(),
        }
    }

    /// What is in the recycle bin, the newest last.
    pub(crate) fn bin(&self, config: &Config) -> Vec<BinnedDisk> {
        let view = |entry: DiskEntry| {
            let disk = self.parts.engine.volume(entry.id());
            let deleted = entry.binned()?;
            Some(BinnedDisk {
                id: entry.id(),
                kind: match entry {
                    DiskEntry::Volume(_) => DiskKind::Volume,
                    DiskEntry::Snapshot(_) => DiskKind::Snapshot,
                },
                name: entry.name().to_owned(),
                size: disk.as_ref().map_or(0, |disk| disk.geometry().bytes()),
                mapped: disk.as_ref().map_or(0, |disk| disk.space().mapped),
                deleted,
                eradicated_after: deleted.saturating_add(config.settings.bin_seconds),
            })
        };
        let mut bin: Vec<_> = config.binned().filter_map(view).collect();
        bin.sort_by(|a, b| (a.deleted, &a.name, a.id).cmp(&(b.deleted, &b.name, b.id)));
        bin
    }

    /// Every volume group, by name.
    pub(crate) fn groups(&self, config: &Config) -> Vec<Group> {
        config.groups.iter().map(|entry| self.group(config, entry)).collect()
    }

    /// One volume group.
    pub(crate) fn group(&self, config: &Config, entry: &GroupEntry) -> Group {
        let members: Vec<&VolumeEntry> = config.members(entry.id).collect();
        let disks = members.iter().filter_map(|volume| self.parts.engine.volume(volume.id));
        let (soft_quota_crossed, hard_quota_reached) = self.quotas.state(entry.id);
        Group {
            id: entry.id,
            name: entry.name.clone(),
            created: entry.created,
            soft_quota: entry.soft_quota,
            hard_quota: entry.hard_quota,
            volumes: members.iter().map(|volume| volume.name.clone()).collect(),
            provisioned: disks.map(|disk| disk.geometry().bytes()).sum(),
            mapped: mapped(&self.parts.engine, members.iter().map(|volume| volume.id)),
            soft_quota_crossed,
            hard_quota_reached,
            policy: entry.policy,
            limits: entry.limits,
            labels: entry.labels.clone(),
        }
    }

    /// Every host, by name; with an initiator name only the one that has it.
    pub(crate) fn hosts(&self, config: &Config, initiator: Option<&str>) -> crate::Result<Vec<Host>> {
        let normalised = |name: &str| match export::parse_wwpn(name) {
            Some(wwpn) => Ok(export::shown_wwpn(wwpn)),
            None if name.starts_with("nqn.") => Ok(name.to_owned()),
            None => crate::configuration::check::initiator(name),
        };
        let name = initiator.map(normalised).transpose()?;
        let wanted =
            |host: &&HostEntry| name.as_ref().is_none_or(|it| host.port_names().any(|known| known == it));
        let (sessions, nexuses) = (iscsi_sessions(&self.parts.target), self.parts.fibre_channel.nexuses());
        let hosts = config.hosts.iter().filter(wanted);
        Ok(hosts.map(|entry| self.host_with(config, entry, (&sessions, &nexuses))).collect())
    }

    /// One host.
    pub(crate) fn host(&self, config: &Config, entry: &HostEntry) -> Host {
        let (sessions, nexuses) = (iscsi_sessions(&self.parts.target), self.parts.fibre_channel.nexuses());
        self.host_with(config, entry, (&sessions, &nexuses))
    }

    fn host_with(
        &self,
        config: &Config,
        entry: &HostEntry,
        (sessions, nexuses): (&[(String, u16)], &[FibreChannelNexus]),
    ) -> Host {
        let seen = |it: &ConnectionEntry| {
            let (host, host_id) = (Some(entry.name.clone()), Some(entry.id));
            Some(Connection { host, host_id, ..self.connection(config, it)? })
        };
        let mut connections: Vec<_> = config.seen_by(entry.id).filter_map(seen).collect();
        connections.sort_by_key(|it| it.lun);
        let own = |(initiator, _): &&(String, u16)| entry.initiators.contains(initiator);
        let group = config.group_of(entry.id);
        Host {
            id: entry.id,
            name: entry.name.clone(),
            initiators: entry.initiators.clone(),
            nqns: entry.nqns.clone(),
            wwpns: entry.wwpns.clone(),
            chap_user: entry.chap.as_ref().map(|chap| chap.user.clone()),
            mutual_user: entry.mutual.as_ref().map(|chap| chap.user.clone()),
            dhchap: entry.dhchap.is_some(),
            dhchap_controller: entry.dhchap_controller.is_some(),
            tls: entry.tls_psk.is_some(),
            created: entry.created,
            host_group: group.map(|group| group.name.clone()),
            host_group_id: group.map(|group| group.id),
            labels: entry.labels.clone(),
            connections,
            sessions: sessions.iter().filter(own).count(),
            controllers: self
                .parts
                .subsystem
                .controllers()
                .iter()
                .filter(|it| entry.nqns.contains(&it.host))
                .count(),
            fibre_channel_sessions: nexuses
                .iter()
                .filter(|it| it.is_logged_in && entry.wwpns.contains(&it.initiator))
                .count(),
            refused_logins: self.logins.refused(config, Some(&entry.name)),
        }
    }

    /// Every host group, by name.
    pub(crate) fn host_groups(&self, config: &Config) -> Vec<HostGroup> {
        config.host_groups.iter().map(|entry| self.host_group(config, entry)).collect()
    }

    /// One host group.
    pub(crate) fn host_group(&self, config: &Config, entry: &HostGroupEntry) -> HostGroup {
        let mut hosts: Vec<_> =
            config.hosts_of(Peer::HostGroup(entry.id)).iter().map(|host| host.name.clone()).collect();
        hosts.sort();
        let seen = config.connections.of_peer(Peer::HostGroup(entry.id));
        HostGroup {
            id: entry.id,
            name: entry.name.clone(),
            created: entry.created,
            hosts,
            labels: entry.labels.clone(),
            connections: seen.filter_map(|entry| self.connection(config, entry)).collect(),
        }
    }

    /// All connections, by volume.
    pub(crate) fn connections(&self, config: &Config) -> Vec<Connection> {
        let snapshots = config.snapshots.iter().map(|entry| entry.id);
        let disks = config.volumes.iter().map(|entry| entry.id).chain(snapshots);
        disks.flat_map(|id| self.connections_of(config, id)).collect()
    }

    /// A connection with the names of both ends.
    pub(crate) fn connection(&self, config: &Config, entry: &ConnectionEntry) -> Option<Connection> {
        let volume = config.disk_name(entry.volume)?.to_owned();
        let (host, host_group) = match entry.peer {
            Peer::Host(id) => (Some(config.hosts.get(id)?), None),
            Peer::HostGroup(id) => (None, Some(config.host_groups.get(id)?)),
        };
        let volume_id = entry.volume;
        let locked = || self.parts.engine.volume(entry.volume).is_some_and(|disk| disk.is_read_only());
        let read_only = entry.read_only || locked();
        Some(Connection {
            volume,
            volume_id,
            naa: scsi::naa(volume_id),
            host: host.map(|it| it.name.clone()),
            host_id: host.map(|it| it.id),
            host_group: host_group.map(|it| it.name.clone()),
            host_group_id: host_group.map(|it| it.id),
            lun: entry.lun,
            read_only,
        })
    }

    /// The connections of a volume or snapshot.
    pub(crate) fn connections_of(&self, config: &Config, id: DiskId) -> Vec<Connection> {
        let seen = config.connections.of_volume(id);
        let mut all: Vec<_> = seen.filter_map(|entry| self.connection(config, entry)).collect();
        all.sort_by(|a, b| {
            (a.host.is_none(), &a.host, &a.host_group).cmp(&(b.host.is_none(), &b.host, &b.host_group))
        });
        all
    }
}
