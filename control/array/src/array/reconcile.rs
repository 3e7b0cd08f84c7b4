//! Reconciliation: makes units, views, log-ins, limits and policies agree with the configuration.
//!
//! It runs for the whole configuration at a start and for what a change affects afterwards. It is idempotent: it
//! computes what there should be from the configuration and brings `scsi`, `iscsi` and the engine there, whatever they
//! had before.

use crate::configuration::Configuration;
use crate::parts::Parts;
use crate::parts::sealing::SealingKey;
use crate::service::quotas::{Quotas, mapped};
use crate::shape::policy::{policy_of, rates};
use crate::{Error, Result};
use block::{Disk, DiskId};
use engine::Engine;
use parking_lot::Mutex;
use records::{
    Config, ConnectionEntry, Edit, GroupEntry, GroupId, HostEntry, HostId, Peer, Record, Sealed, SealedChap,
    Secret, Stage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of views that are set in one change of the exports. Each may be that of a host with many sessions.
pub(crate) const VIEWS_AT_ONCE: usize = 4;

/// What a change may affect.
#[derive(Debug, Default)]
pub(crate) struct Affected {
    disks: BTreeSet<DiskId>,
    /// Whose limits may be others.
    groups: BTreeSet<GroupId>,
    /// Volumes that are in a group before or afterwards, and not both.
    moved: BTreeSet<(DiskId, GroupId)>,
    /// What they see may all be something else.
    initiators: BTreeSet<String>,
    /// LUNs under which hosts may see something else.
    luns: BTreeSet<(Peer, u16)>,
    log_ins: bool,
    throttle: bool,
    /// Nothing is in force yet: defaults need not be set.
    fresh: bool,
}

impl Affected {
    /// The whole configuration, when nothing is in force yet.
    pub fn everything(config: &Config) -> Self {
        let snapshots = config.snapshots.iter().map(|it| it.id);
        Self {
            disks: config.volumes.iter().map(|it| it.id).chain(snapshots).collect(),
            groups: config.groups.iter().map(|it| it.id).collect(),
            moved: BTreeSet::new(),
            luns: BTreeSet::new(),
            initiators: config.hosts.iter().flat_map(|it| it.port_names().cloned()).collect(),
            log_ins: true,
            throttle: true,
            fresh: true,
        }
    }

    /// Adds what an edit affects; to be called before and after it is applied.
    pub fn note(&mut self, config: &Config, edit: &Edit) {
        match edit.record().0 {
            Record::Volume(it) => {
                self.disks.insert(it.id);
                if let Some(group) = group_of(config, it.id)
                    && !self.moved.insert((it.id, group))
                {
                    self.moved.remove(&(it.id, group));
                }
            }
            Record::Snapshot(it) => drop(self.disks.insert(it.id)),
            Record::Group(it) => {
                self.groups.insert(it.id);
                self.disks.extend(config.members(it.id).map(|volume| volume.id));
            }
            Record::Host(it) => {
                self.note_hosts(config.hosts.get(it.id));
                self.log_ins = true;
            }
            Record::HostGroup(it) => self.note_hosts(config.hosts_of(Peer::HostGroup(it.id))),
            Record::Connection(it) => {
                self.disks.insert(it.volume);
                let known = config.connections.between(it.volume, it.peer);
                self.luns.extend(known.map(|known| (it.peer, known.lun)));
            }
            Record::Settings(_) => self.throttle = true,
            _ => {}
        }
    }

    /// What hosts see that may be something else.
    fn views(&self, config: &Config) -> Vec<View> {
        let luns = self.luns.iter().flat_map(|(peer, lun)| {
            config.hosts_of(*peer).into_iter().map(move |host| View::Lun(host.id, *lun))
        });
        self.initiators.iter().cloned().map(View::Initiator).chain(luns).collect()
    }

    fn note_hosts<'a>(&mut self, hosts: impl IntoIterator<Item = &'a HostEntry>) {
        self.initiators.extend(hosts.into_iter().flat_map(|host| host.port_names().cloned()));
    }
}

/// Whether hosts may see a disk: a volume that is ready, or a snapshot that is connected.
fn is_served(config: &Config, id: DiskId) -> bool {
    let volume = config.volumes.get(id).is_some_and(|it| it.stage == Stage::Ready);
    volume || config.snapshots.get(id).is_some_and(|it| it.stage == Stage::Ready) && is_connected(config, id)
}

/// The group of a volume that is ready.
fn group_of(config: &Config, id: DiskId) -> Option<GroupId> {
    config.volumes.get(id).filter(|it| it.stage == Stage::Ready)?.group
}

fn is_connected(config: &Config, id: DiskId) -> bool {
    config.connections.of_volume(id).next().is_some()
}

/// How a host sees a connection of its own or of its group.
fn mapping(host: &HostEntry, entry: &ConnectionEntry) -> export::Mapping {
    // A group's LUNs were chosen for it whatever its hosts had before they joined.
    let retired = entry.peer != Peer::Host(host.id) && entry.lun < host.luns_retired_below;
    export::Mapping { disk: entry.volume, read_only: entry.read_only, reused: entry.reused || retired }
}

/// What a host sees by LUN: its own connections and those of its group.
fn view_of(config: &Config, host: &HostEntry) -> BTreeMap<u16, export::Mapping> {
    config.seen_by(host.id).map(|entry| (entry.lun, mapping(host, entry))).collect()
}

/// A part of what hosts see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything that an initiator sees; one that belongs to no host sees nothing.
    Initiator(String),
    /// What a host sees under a LUN.
    Lun(HostId, u16),
}

impl View {
    fn set(&self, edit: &mut export::Edit<'_>, config: &Config) {
        match self {
            Self::Initiator(name) => {
                let host = config.host_of_port(name);
                edit.set_mappings(name, host.map(|host| view_of(config, host)).unwrap_or_default());
            }
            Self::Lun(id, lun) => {
                let Some(host) = config.hosts.get(*id) else { return };
                let seen = config.seen_at(*id, *lun).map(|entry| mapping(host, entry));
                host.port_names().for_each(|name| edit.set_mapping(name, *lun, seen));
            }
        }
    }
}

/// Puts the configuration in force.
pub(crate) struct Reconciler {
    pub engine: Arc<Engine>,
    pub exports: Arc<export::Exports>,
    pub target: Arc<scsi::Target>,
    pub server: Arc<iscsi::Server>,
    pub subsystem: Arc<nvmf::Subsystem>,
    pub sealing: Arc<SealingKey>,
    pub quotas: Arc<Quotas>,
    /// The volumes and snapshots that are exported.
    pub units: Mutex<BTreeSet<DiskId>>,
}

impl Reconciler {
    pub fn new(parts: &Parts, quotas: Arc<Quotas>) -> Self {
        let Parts { engine, exports, target, server, subsystem, sealing, .. } = parts.clone();
        Self { engine, exports, target, server, subsystem, sealing, quotas, units: Mutex::default() }
    }

    /// Brings `scsi`, `iscsi` and `nvmf` to what the configuration says about what is affected. Front ends see one change, in which
    /// hosts lose a mapping with its unit. If the views of many hosts are affected, they are not set but returned, for
    /// [`Reconciler::show`].
    pub fn reconcile(&self, config: &Config, affected: &Affected) -> Vec<View> {
        let views = affected.views(config);
        let (now, later) = match affected.fresh || views.len() <= VIEWS_AT_ONCE {
            true => (views, Vec::new()),
            false => (Vec::new(), views),
        };
        let disks = affected.disks.iter().copied();
        let (served, others): (Vec<DiskId>, Vec<_>) = disks.partition(|id| is_served(config, *id));
        let volumes = || served.iter().filter_map(|id| config.volumes.get(*id));
        for volume in volumes().filter(|it| !(affected.fresh && it.scsi2_reservations)) {
            self.target.set_simple_reservations(volume.id, volume.scsi2_reservations);
        }
        self.exports.edit(|edit| {
            served.iter().for_each(|id| self.add_unit(edit, *id));
            for volume in volumes() {
                edit.set_limits(volume.id, rates(volume.limits));
                edit.set_group(volume.id, volume.group.map(|group| group.0.into()));
            }
            for id in &affected.groups {
                self.limit_group(edit, *id, config.groups.get(*id));
            }
            if affected.throttle {
                edit.set_unmap_throttle(config.settings.unmap_throttle);
            }
            now.iter().for_each(|view| view.set(edit, config));
            others.iter().for_each(|id| self.remove_unit(edit, *id));
        });
        self.check_quotas(config, affected);
        if affected.log_ins {
            self.set_log_ins(config);
        }
        later
    }

    /// Sets views to what the configuration says: [`VIEWS_AT_ONCE`] at most, as everything else that changes exports waits for it.
    pub fn show(&self, config: &Config, views: &[View]) {
        self.exports.edit(|edit| views.iter().for_each(|view| view.set(edit, config)));
    }

    fn add_unit(&self, edit: &mut export::Edit<'_>, id: DiskId) {
        let mut units = self.units.lock();
        if let Some(disk) = self.engine.volume(id).filter(|_| !units.contains(&id)) {
            edit.add_volume(disk);
            units.insert(id);
        }
    }

    fn remove_unit(&self, edit: &mut export::Edit<'_>, id: DiskId) {
        if self.units.lock().remove(&id) {
            edit.remove_volume(id);
        }
    }

    fn limit_group(&self, edit: &mut export::Edit<'_>, id: GroupId, group: Option<&GroupEntry>) {
        let limits = group.map(|group| group.limits).unwrap_or_default();
        edit.set_group_limits(id.0.into(), rates(limits));
        let engine = self.engine.clone();
        let usage = Arc::new(move |members: &BTreeSet<DiskId>| mapped(&engine, members.iter().copied()));
        edit.set_group_quota(id.0.into(), group.and_then(|group| group.hard_quota), usage);
    }

    /// Checks the quotas of groups that are others now, and of those that a volume with contents came to, or left.
    fn check_quotas(&self, config: &Config, affected: &Affected) {
        if affected.fresh {
            return self.quotas.check(config, false);
        }
        let is_empty = |id: DiskId| self.engine.volume(id).is_some_and(|disk| disk.space().mapped == 0);
        let moved = affected.moved.iter().filter(|(id, _)| !is_empty(*id)).map(|(_, group)| *group);
        let groups: BTreeSet<GroupId> = affected.groups.iter().copied().chain(moved).collect();
        groups.into_iter().for_each(|group| self.quotas.check_group(config, group, true));
    }

    /// Sets which initiators may log in, and how. A host whose secret can't be opened may not.
    fn set_log_ins(&self, config: &Config) {
        let mut table = Vec::new();
        for host in config.hosts.iter() {
            match self.access(host) {
                Ok(access) => {
                    table.extend(host.initiators.iter().map(|name| (name.clone(), access.clone())));
                }
                Err(error) => tracing::error!(host = host.name, %error, "a host can't log in"),
            }
        }
        self.server.set_access(table.into_iter().collect());
        let mut hosts = BTreeMap::new();
        for host in config.hosts.iter().filter(|host| !host.nqns.is_empty()) {
            match self.nvme_security(host) {
                Ok(security) => hosts.extend(host.nqns.iter().map(|nqn| (nqn.clone(), security.clone()))),
                Err(error) => tracing::error!(host = host.name, %error, "a host can't connect over NVMe/TCP"),
            }
        }
        self.subsystem.set_hosts(hosts);
    }

    /// How a host authenticates over NVMe/TCP.
    fn nvme_security(&self, host: &HostEntry) -> Result<nvmf::HostSecurity> {
        let open = |sealed: &Option<Sealed>, field: &str| {
            let open = |sealed| self.sealing.open(sealed, &HostEntry::place(host.id, field));
            sealed.as_ref().map(open).transpose()
        };
        let secret = |sealed, field| {
            let parse = |secret: Secret| nvmf::DhchapSecret::parse(secret.expose());
            open(sealed, field)?.map(parse).transpose().map_err(|why| Error::invalid(why.to_string()))
        };
        let controller = secret(&host.dhchap_controller, "dhchap_controller")?;
        let dhchap = secret(&host.dhchap, "dhchap")?;
        let dhchap = dhchap.map(|host| Arc::new(nvmf::Credentials { host, controller }));
        let psk = open(&host.tls_psk, "tls_psk")?.map(|psk| nvmf::TlsPsk::parse(psk.expose()));
        let tls = psk.transpose().map_err(|why| Error::invalid(why.to_string()))?;
        Ok(nvmf::HostSecurity { dhchap, tls })
    }

    /// How a host may log in.
    fn access(&self, host: &HostEntry) -> Result<iscsi::Access> {
        let credentials = |chap: &Option<SealedChap>, direction: &str| {
            let open = |chap: &SealedChap| {
                let secret = self.sealing.open(&chap.secret, &HostEntry::place(host.id, direction))?;
                Ok(iscsi::Credentials { name: chap.user.clone(), secret: secret.expose().into() })
            };
            chap.as_ref().map(open).transpose()
        };
        Ok(iscsi::Access {
            chap: credentials(&host.chap, "chap")?,
            mutual: credentials(&host.mutual, "mutual")?,
        })
    }

    /// Brings the reduction policies of the engine to what the configuration says. The configuration comes first: a start
    /// after a crash does the rest.
    pub async fn reconcile_policies(&self, configuration: &Configuration, affected: &Affected) -> Result<()> {
        let differing: Vec<_> = {
            let config = configuration.read();
            let volumes = affected.disks.iter().filter_map(|id| config.volumes.get(*id));
            let ready = volumes.filter(|volume| volume.stage == Stage::Ready);
            let wanted = ready.map(|volume| (volume.id, policy_of(&config, volume)));
            let differs =
                |(id, policy): &(DiskId, _)| self.engine.policy(*id).is_some_and(|now| now != *policy);
            wanted.filter(differs).collect()
        };
        for (id, policy) in differing {
            let set = self.engine.set_policy(id, policy).await;
            set.map_err(|error| Error::refused("the reduction policy can't be set", error))?;
        }
        Ok(())
    }
}
