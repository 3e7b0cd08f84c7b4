//! Hosts and host groups: initiators, CHAP, membership.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::noun::connection::Connection;
use crate::noun::connection::noun_of_disk;
use crate::parts::fibre_channel::FibreChannelNexus;
use crate::parts::target_ports::iscsi_sessions;
use crate::request::verbs;
use crate::shape::ensure::{Ensured, Existing};
use crate::shape::view::{RefusedLogin, some_of};
use crate::shape::{shapes, time};
use crate::{Error, Result};
use records::{
    Chap, Config, ConnectionEntry, Edit, HostEntry, HostGroupEntry, HostGroupId, HostId, Labels,
    LabelsChange, Peer, Record, Sealed, SealedChap, Secret, Topic, present,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::{IntoParams, ToSchema};

/// A host. Secrets are never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Host {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: HostId,
    /// iSCSI initiator names, in lower case.
    pub initiators: Vec<String>,
    /// NVMe qualified names (NQNs) for NVMe/TCP.
    pub nqns: Vec<String>,
    /// N_Port names (WWPNs) for Fibre Channel, as pairs of hexadecimal digits with colons.
    pub wwpns: Vec<String>,
    /// CHAP user of the host; `null` if CHAP is not required.
    pub chap_user: Option<String>,
    /// CHAP user of the array (mutual CHAP); `null` if mutual CHAP is off.
    pub mutual_user: Option<String>,
    /// The host must authenticate over NVMe/TCP with its DH-HMAC-CHAP secret.
    pub dhchap: bool,
    /// The array has a DH-HMAC-CHAP secret of its own, with which it authenticates if the host asks.
    pub dhchap_controller: bool,
    /// The host has a PSK and must use TLS over NVMe/TCP.
    pub tls: bool,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Host group; `null` if it is in none.
    pub host_group: Option<String>,
    /// Permanent identifier of the host group.
    #[schema(value_type = Option<String>)]
    pub host_group_id: Option<HostGroupId>,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Connected volumes and snapshots, including those of its host group.
    pub connections: Vec<Connection>,
    /// Current number of iSCSI sessions, at the portals of all controllers.
    pub sessions: usize,
    /// Current number of NVMe/TCP controllers.
    pub controllers: usize,
    /// Current number of Fibre Channel sessions: pairs of an initiator port and a target port.
    pub fibre_channel_sessions: usize,
    /// Refused iSCSI log-ins of its initiators, most recent first.
    pub refused_logins: Vec<RefusedLogin>,
}

/// A host group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostGroup {
    /// Name.
    pub name: String,
    /// Permanent identifier: 16 hex digits.
    #[schema(value_type = String)]
    pub id: HostGroupId,
    /// Creation time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Hosts.
    pub hosts: Vec<String>,
    /// Labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Volumes and snapshots connected to all of its hosts.
    pub connections: Vec<Connection>,
}

shapes! {
    Host: "Hosts" "Hosts." "Sorted by name", labels;
    HostGroup: "HostGroups" "Host groups." "Sorted by name", labels;
}

/// A new host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewHost)]
pub struct CreateHost {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// iSCSI initiator names, at most 64; may be left out if there are NQNs or WWPNs.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// NVMe qualified names (NQNs) for NVMe/TCP, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nqns: Vec<String>,
    /// N_Port names (WWPNs) for Fibre Channel, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wwpns: Vec<String>,
    /// CHAP credentials that the host must present.
    pub chap: Option<Chap>,
    /// CHAP credentials that the array presents (mutual CHAP). Requires `chap`.
    pub mutual: Option<Chap>,
    /// DH-HMAC-CHAP secret of the host for NVMe/TCP, as `nvme gen-dhchap-key` makes it: `DHHC-1:HH:BASE64:`. Never returned.
    #[schema(value_type = Option<String>, format = Password)]
    pub dhchap_secret: Option<Secret>,
    /// DH-HMAC-CHAP secret of the array, likewise. Requires `dhchap_secret`.
    #[schema(value_type = Option<String>, format = Password)]
    pub dhchap_controller_secret: Option<Secret>,
    /// PSK of TLS over NVMe/TCP in the interchange format, as `nvme gen-tls-key` makes it: `NVMeTLSkey-1:HH:BASE64:`. The host can
    /// connect at portals with TLS only. Never returned.
    #[schema(value_type = Option<String>, format = Password)]
    pub tls_psk: Option<Secret>,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default, deserialize_with = "LabelsChange::set")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: LabelsChange,
}

/// Which hosts a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListHosts {
    /// Only the host that has this iSCSI initiator name.
    pub initiator: Option<String>,
}

/// A new host group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewHostGroup)]
pub struct CreateHostGroup {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    pub name: String,
    /// Hosts; default: none.
    pub hosts: Option<Vec<String>>,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default, deserialize_with = "LabelsChange::set", skip_serializing_if = "LabelsChange::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: LabelsChange,
}

/// Changes to a host. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostChange {
    /// New name.
    pub name: Option<String>,
    /// Complete list of iSCSI initiator names, at most 64.
    pub initiators: Option<Vec<String>>,
    /// Complete list of NQNs, at most 64.
    pub nqns: Option<Vec<String>>,
    /// Complete list of WWPNs, at most 64.
    pub wwpns: Option<Vec<String>>,
    /// CHAP credentials that the host must present; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Chap>)]
    pub chap: Option<Option<Chap>>,
    /// CHAP credentials that the array presents (mutual CHAP); `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Chap>)]
    pub mutual: Option<Option<Chap>>,
    /// DH-HMAC-CHAP secret of the host; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    pub dhchap_secret: Option<Option<Secret>>,
    /// DH-HMAC-CHAP secret of the array; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    pub dhchap_controller_secret: Option<Option<Secret>>,
    /// PSK of TLS over NVMe/TCP; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    pub tls_psk: Option<Option<Secret>>,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub labels: LabelsChange,
}

/// Changes to a host group. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostGroupChange {
    /// New name.
    pub name: Option<String>,
    /// Complete list of hosts.
    pub hosts: Option<Vec<String>>,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub labels: LabelsChange,
}

verbs! {
    #![tag = "hosts"]

    /// Clear the unreadable reservation state of a volume or snapshot
    ///
    /// Discards saved persistent reservations and mode pages that cannot be decoded, so that hosts can write again.
    ClearVolumeState { name } -> (), Change "clear unreadable state of" "volume", Admin, about name,
        at POST "/volumes/{name}/clear-state" in "volumes" says "Cleared"
        => |tx, it| tx.clear_unreadable_state(&it.name).await;
    /// Create a host
    CreateHost -> Ensured<Host>, Change "create" "host", Operator, about name, at POST "/hosts"
        => |tx, it| tx.create_host(it).await;
    /// List hosts
    ListHosts -> Vec<Host>, Read "list" "host", Viewer, at GET "/hosts"
        => |tx, it| tx.array.hosts(&tx.array.config(), it.initiator.as_deref());
    /// Get a host
    ShowHost { name } -> Host, Read "show" "host", Viewer, about name, at GET "/hosts/{name}"
        => |tx, it| tx.array.config().hosts.named(&it.name).map(|found| tx.array.host(&tx.array.config(), found));
    /// Change a host
    ChangeHost { name; body change: HostChange } -> Host, Change "change" "host", Operator, about name,
        at PATCH "/hosts/{name}"
        => |tx, it| tx.change_host(&it.name, it.change).await;
    /// Delete a host
    ///
    /// It must not be connected to a volume.
    DeleteHost { name } -> (), Change "delete" "host", Operator, about name, at DELETE "/hosts/{name}"
        => |tx, it| tx.delete_host(&it.name).await;
    /// Create a host group
    CreateHostGroup -> Ensured<HostGroup>, Change "create" "host group", Operator, about name, at POST "/host-groups"
        => |tx, it| tx.create_host_group(it).await;
    /// List host groups
    ListHostGroups {} -> Vec<HostGroup>, Read "list" "host group", Viewer, at GET "/host-groups"
        => |tx, _| Ok(tx.array.host_groups(&tx.array.config()));
    /// Get a host group
    ShowHostGroup { name } -> HostGroup, Read "show" "host group", Viewer, about name, at GET "/host-groups/{name}"
        => |tx, it| {
            let config = tx.array.config();
            config.host_groups.named(&it.name).map(|found| tx.array.host_group(&config, found))
        };
    /// Change a host group
    ChangeHostGroup { name; body change: HostGroupChange } -> HostGroup, Change "change" "host group", Operator,
        about name, at PATCH "/host-groups/{name}"
        => |tx, it| tx.change_host_group(&it.name, it.change).await;
    /// Delete a host group
    ///
    /// It must not be connected to a volume. Its hosts are kept.
    DeleteHostGroup { name } -> (), Change "delete" "host group", Operator, about name, at DELETE "/host-groups/{name}"
        => |tx, it| tx.delete_host_group(&it.name).await;
}

impl CreateHostGroup {
    /// What creates a host group like this one.
    pub(crate) fn of(config: &Config, entry: &HostGroupEntry) -> Self {
        let hosts = config.hosts_of(Peer::HostGroup(entry.id));
        let hosts = Some(hosts.iter().map(|host| host.name.clone()).collect());
        Self { name: entry.name.clone(), hosts, labels: entry.labels.clone().into() }
    }
}

impl Array {
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
}

impl Transaction<'_> {
    pub async fn create_host(&mut self, new: CreateHost) -> Result<Ensured<Host>> {
        let CreateHost { name, initiators, nqns, wwpns, chap, mutual, .. } = new;
        let CreateHost {
            dhchap_secret: dhchap,
            dhchap_controller_secret: dhchap_controller,
            tls_psk,
            labels,
            ..
        } = new;
        check::name("host", &name)?;
        let (initiators, nqns) = (check::initiators(&initiators)?, check::nqns(&nqns)?);
        let wwpns = check::wwpns(&wwpns)?;
        check::has_names([&initiators, &nqns, &wwpns])?;
        check::chap(chap.as_ref(), mutual.as_ref())?;
        check::dhchap(dhchap.as_ref(), dhchap_controller.as_ref())?;
        check::tls_psk(tls_psk.as_ref())?;
        let existing = self.config().hosts.find(&name).cloned();
        if let Some(entry) = existing {
            let existing = Existing { noun: "host", name: &name };
            let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
            existing.same("initiators", sorted(&initiators) == sorted(&entry.initiators))?;
            existing.same("nqns", sorted(&nqns) == sorted(&entry.nqns))?;
            existing.same("wwpns", sorted(&wwpns) == sorted(&entry.wwpns))?;
            for (field, given, kept) in [("chap", chap, &entry.chap), ("mutual", mutual, &entry.mutual)] {
                existing
                    .same(field, given.is_none() || given == self.with_kept(None, &entry, kept, field)?)?;
            }
            for (field, given, kept) in [
                ("dhchap_secret", dhchap, self.opened(&entry, &entry.dhchap, "dhchap")?),
                (
                    "dhchap_controller_secret",
                    dhchap_controller,
                    self.opened(&entry, &entry.dhchap_controller, "dhchap_controller")?,
                ),
                ("tls_psk", tls_psk, self.opened(&entry, &entry.tls_psk, "tls_psk")?),
            ] {
                existing.same(field, given.is_none() || given == kept)?;
            }
            existing.same_labels(&entry.labels, &labels)?;
            return self.host_now(entry.id).map(Ensured::existing);
        }
        for names in [&initiators, &nqns, &wwpns] {
            self.names_free(names, None)?;
        }
        let labels = Labels::default().with(&labels)?;
        let id = HostId(self.id64());
        let (chap, mutual) = (self.seal(id, "chap", chap)?, self.seal(id, "mutual", mutual)?);
        let dhchap = self.seal_secret(id, "dhchap", dhchap)?;
        let dhchap_controller = self.seal_secret(id, "dhchap_controller", dhchap_controller)?;
        let tls_psk = self.seal_secret(id, "tls_psk", tls_psk)?;
        let created = self.now();
        let entry = HostEntry {
            id,
            name,
            initiators,
            nqns,
            wwpns,
            chap,
            mutual,
            dhchap,
            dhchap_controller,
            tls_psk,
            luns_retired_below: 0,
            created,
            labels,
        };
        self.commit(vec![Edit::Put(Record::Host(entry.clone()))]).await?;
        self.done("host.created", "host", &entry.name, "was created");
        self.host_now(id).map(Ensured::new)
    }

    fn seal(&self, host: HostId, direction: &str, chap: Option<Chap>) -> Result<Option<SealedChap>> {
        let Some(Chap { user, secret }) = chap else { return Ok(None) };
        let sealed = self.seal_secret(host, direction, Some(secret))?;
        Ok(sealed.map(|secret| SealedChap { user, secret }))
    }

    fn seal_secret(&self, host: HostId, field: &str, secret: Option<Secret>) -> Result<Option<Sealed>> {
        let seal = |secret: Secret| {
            let random = (self.array.env.random)();
            self.array.parts.sealing.seal(&secret, &HostEntry::place(host, field), random)
        };
        secret.map(seal).transpose()
    }

    /// A secret of a host, opened.
    fn opened(&self, host: &HostEntry, sealed: &Option<Sealed>, field: &str) -> Result<Option<Secret>> {
        let open = |sealed| self.array.parts.sealing.open(sealed, &HostEntry::place(host.id, field));
        sealed.as_ref().map(open).transpose()
    }

    /// Refuses names of other hosts, and the names of the array itself: a host with the NQN of the subsystem can't connect
    /// (NVM Express Base 2.0 clause 6.3), and no two iSCSI nodes have one name (RFC 7143 4.2.7).
    fn names_free(&self, names: &[String], host: Option<HostId>) -> Result<()> {
        let identity = &self.array.identity;
        let own = [("nqns", identity.subsystem_nqn()), ("initiators", identity.target_iqn())];
        match own.into_iter().find(|(_, own)| names.contains(own)) {
            Some((field, name)) => {
                Err(Error::invalid(format!("{name} is the name of this array, not of a host")).about(field))
            }
            None => self.config().initiators_free(names, host),
        }
    }

    pub async fn change_host(&mut self, name: &str, change: HostChange) -> Result<Host> {
        let entry = self.config().hosts.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.filter(|name| *name != entry.name) {
            check::name("host", &name)?;
            self.config().hosts.free(&name)?;
            new.name = name;
        }
        type Check = fn(&[String]) -> Result<Vec<String>>;
        let checks: [Check; 3] = [check::initiators, check::nqns, check::wwpns];
        let kept = [&mut new.initiators, &mut new.nqns, &mut new.wwpns];
        let given = [change.initiators, change.nqns, change.wwpns];
        for ((names, kept), check) in given.into_iter().zip(kept).zip(checks) {
            let Some(names) = names else { continue };
            *kept = check(&names)?;
            self.names_free(kept, Some(entry.id))?;
        }
        check::has_names([&new.initiators, &new.nqns, &new.wwpns])?;
        if change.chap.is_some() || change.mutual.is_some() {
            let chap = self.with_kept(change.chap, &entry, &entry.chap, "chap")?;
            let mutual = self.with_kept(change.mutual, &entry, &entry.mutual, "mutual")?;
            check::chap(chap.as_ref(), mutual.as_ref())?;
            new.chap = self.seal(entry.id, "chap", chap)?;
            new.mutual = self.seal(entry.id, "mutual", mutual)?;
        }
        self.change_dhchap(&mut new, change.dhchap_secret, change.dhchap_controller_secret)?;
        if let Some(psk) = change.tls_psk {
            check::tls_psk(psk.as_ref())?;
            new.tls_psk = self.seal_secret(entry.id, "tls_psk", psk)?;
        }
        new.labels = new.labels.with(&change.labels)?;
        if new != entry {
            self.commit(vec![Edit::Put(Record::Host(new))]).await?;
            self.done("host.changed", "host", &entry.name, "was changed");
        }
        self.host_now(entry.id)
    }

    /// Gives a host other secrets of DH-HMAC-CHAP, those that are given.
    fn change_dhchap(
        &self,
        host: &mut HostEntry,
        of_host: Option<Option<Secret>>,
        of_array: Option<Option<Secret>>,
    ) -> Result<()> {
        if of_host.is_none() && of_array.is_none() {
            return Ok(());
        }
        let kept = |given: Option<Option<Secret>>, sealed, field| match given {
            Some(given) => Ok(given),
            None => self.opened(host, sealed, field),
        };
        let of_host = kept(of_host, &host.dhchap, "dhchap")?;
        let of_array = kept(of_array, &host.dhchap_controller, "dhchap_controller")?;
        check::dhchap(of_host.as_ref(), of_array.as_ref())?;
        host.dhchap = self.seal_secret(host.id, "dhchap", of_host)?;
        host.dhchap_controller = self.seal_secret(host.id, "dhchap_controller", of_array)?;
        Ok(())
    }

    /// The CHAP that was given, or the one there was.
    fn with_kept(
        &self,
        given: Option<Option<Chap>>,
        host: &HostEntry,
        kept: &Option<SealedChap>,
        direction: &str,
    ) -> Result<Option<Chap>> {
        let Some(given) = given else {
            let secret = kept.as_ref().map(|kept| kept.secret.clone());
            let opened = self.opened(host, &secret, direction)?;
            return Ok(kept
                .as_ref()
                .zip(opened)
                .map(|(kept, secret)| Chap { user: kept.user.clone(), secret }));
        };
        Ok(given)
    }

    pub async fn delete_host(&mut self, name: &str) -> Result<()> {
        let entry = self.config().hosts.named(name)?.clone();
        self.refuse_connected(Peer::Host(entry.id))?;
        let mut edits = Vec::new();
        if let Some(group) = self.config().group_of(entry.id) {
            let mut group = group.clone();
            group.hosts.remove(&entry.id);
            edits.push(Edit::Put(Record::HostGroup(group)));
        }
        let name = entry.name.clone();
        edits.push(Edit::Remove(Record::Host(entry)));
        self.commit(edits).await?;
        self.done("host.deleted", "host", &name, "was deleted");
        Ok(())
    }

    fn refuse_connected(&self, peer: Peer) -> Result<()> {
        let config = self.config();
        let volume = |entry: &ConnectionEntry| config.disk_name(entry.volume).map(|name| format!("{name:?}"));
        let names: Vec<_> = config.connections.of_peer(peer).filter_map(volume).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "{} is connected to {}: disconnect the volumes first",
            config.peer_name(peer),
            some_of(&names)
        )))
    }

    pub async fn create_host_group(&mut self, new: CreateHostGroup) -> Result<Ensured<HostGroup>> {
        let CreateHostGroup { name, hosts, labels } = new;
        check::name("host group", &name)?;
        let existing = self.config().host_groups.find(&name).cloned();
        if let Some(entry) = existing {
            let existing = Existing { noun: "host group", name: &name };
            if let Some(hosts) = hosts {
                let config = self.config();
                let hosts: Result<BTreeSet<HostId>> =
                    hosts.iter().map(|host| config.hosts.named(host).map(|it| it.id)).collect();
                existing.same("hosts", hosts? == entry.hosts)?;
            }
            existing.same_labels(&entry.labels, &labels)?;
            return self.host_group_now(entry.id).map(Ensured::existing);
        }
        let id = HostGroupId(self.id64());
        let hosts = self.joinable(id, &hosts.unwrap_or_default())?;
        let labels = Labels::default().with(&labels)?;
        let entry = HostGroupEntry { id, name, created: self.now(), hosts, luns_retired_below: 0, labels };
        self.commit(vec![Edit::Put(Record::HostGroup(entry.clone()))]).await?;
        self.done("host-group.created", "host group", &entry.name, "was created");
        self.host_group_now(id).map(Ensured::new)
    }

    pub async fn change_host_group(&mut self, name: &str, change: HostGroupChange) -> Result<HostGroup> {
        let entry = self.config().host_groups.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.filter(|name| *name != entry.name) {
            check::name("host group", &name)?;
            self.config().host_groups.free(&name)?;
            new.name = name;
        }
        if let Some(hosts) = change.hosts {
            new.hosts = self.joinable(entry.id, &hosts)?;
        }
        new.labels = new.labels.with(&change.labels)?;
        if new != entry {
            self.commit(vec![Edit::Put(Record::HostGroup(new))]).await?;
            self.done("host-group.changed", "host group", &entry.name, "was changed");
        }
        self.host_group_now(entry.id)
    }

    /// The hosts of these names, when each may be in the group: it is in no other one, and no volume or LUN of its
    /// own is one of the group's.
    fn joinable(&self, group: HostGroupId, names: &[String]) -> Result<BTreeSet<HostId>> {
        let config = self.config();
        let shared: BTreeMap<u16, _> = view(&config, Peer::HostGroup(group));
        let mut hosts = BTreeSet::new();
        for name in names {
            let host = config.hosts.named(name)?;
            if let Some(other) = config.group_of(host.id).filter(|other| other.id != group) {
                let message = format!(
                    "host {:?} is in host group {:?}: take it out there first",
                    host.name, other.name
                );
                return Err(Error::conflict(message).about("hosts"));
            }
            for (lun, volume) in view(&config, Peer::Host(host.id)) {
                if shared.contains_key(&lun) || shared.values().any(|seen| *seen == volume) {
                    return Err(Error::conflict(format!(
                        "host {:?} has a volume of its own as LUN {lun}, which the group has as well: disconnect \
                         that first",
                        host.name
                    )));
                }
            }
            hosts.insert(host.id);
        }
        Ok(hosts)
    }

    pub async fn delete_host_group(&mut self, name: &str) -> Result<()> {
        let entry = self.config().host_groups.named(name)?.clone();
        self.refuse_connected(Peer::HostGroup(entry.id))?;
        let name = entry.name.clone();
        self.commit(vec![Edit::Remove(Record::HostGroup(entry))]).await?;
        self.done("host-group.deleted", "host group", &name, "was deleted");
        Ok(())
    }

    /// Forgets the saved state of a unit that can't be understood, so that hosts may write to it again.
    pub async fn clear_unreadable_state(&mut self, name: &str) -> Result<()> {
        let id = self.config().disk_named(name)?;
        let cleared = self.array.parts.exports.clear_unreadable_state(id).await;
        if !cleared.map_err(|error| Error::failed("the state can't be cleared", error))? {
            return Err(Error::precondition(format!(
                "the saved reservations and mode pages of {name:?} are understood: there is nothing to clear"
            )));
        }
        let noun = noun_of_disk(&self.config(), id);
        let name = &self.config().name_for(name).to_owned();
        let what = "has no reservations any more and takes writes again: its saved state, which could not be understood, \
                    was cleared";
        self.done(&format!("{noun}.state-cleared"), noun, name, what);
        self.array.publish_change(if noun == "snapshot" { Topic::Snapshots } else { Topic::Volumes });
        Ok(())
    }

    fn host_now(&self, id: HostId) -> Result<Host> {
        let config = self.config();
        let entry = config.hosts.get(id).ok_or_else(|| Error::not_found("the host is gone"))?;
        Ok(self.array.host(&config, entry))
    }

    fn host_group_now(&self, id: HostGroupId) -> Result<HostGroup> {
        let config = self.config();
        let entry = config.host_groups.get(id).ok_or_else(|| Error::not_found("the host group is gone"))?;
        Ok(self.array.host_group(&config, entry))
    }
}

fn view(config: &Config, peer: Peer) -> BTreeMap<u16, block::DiskId> {
    config.connections.of_peer(peer).map(|entry| (entry.lun, entry.volume)).collect()
}
