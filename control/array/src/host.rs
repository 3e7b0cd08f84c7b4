//! Hosts, host groups, and what they see.

use crate::action::{HostChange, HostGroupChange, Outcome, PeerName};
use crate::array::{Array, Change, some_of};
use crate::{Error, Result, check};
use records::{
    Chap, Config, ConnectionEntry, Edit, HostEntry, HostGroupEntry, HostGroupId, HostId, Peer, Record,
    SealedChap, Topic,
};
use std::collections::{BTreeMap, BTreeSet};

impl Array {
    /// How a host may log in.
    pub(crate) fn access(&self, host: &HostEntry) -> Result<iscsi::Access> {
        let credentials = |chap: &Option<SealedChap>, direction: &str| {
            let open = |chap: &SealedChap| {
                let secret = self.parts.sealing.open(&chap.secret, &HostEntry::place(host.id, direction))?;
                Ok(iscsi::Credentials { name: chap.user.clone(), secret: secret.expose().into() })
            };
            chap.as_ref().map(open).transpose()
        };
        Ok(iscsi::Access {
            chap: credentials(&host.chap, "chap")?,
            mutual: credentials(&host.mutual, "mutual")?,
        })
    }
}

impl Change<'_> {
    pub async fn create_host(
        &mut self,
        name: String,
        initiators: &[String],
        chap: Option<Chap>,
        mutual: Option<Chap>,
    ) -> Result<Outcome> {
        check::name("host", &name)?;
        let initiators = check::initiators(initiators)?;
        check::chap(chap.as_ref(), mutual.as_ref())?;
        self.array.config().hosts.free(&name)?;
        self.array.config().initiators_free(&initiators, None)?;
        let id = HostId(self.id64());
        let (chap, mutual) = (self.seal(id, "chap", chap)?, self.seal(id, "mutual", mutual)?);
        let entry = HostEntry { id, name, initiators, chap, mutual, created: self.now() };
        self.commit(vec![Edit::Put(Record::Host(entry.clone()))]).await?;
        self.done("host.created", "host", &entry.name, "was created");
        self.host_now(id)
    }

    fn seal(&self, host: HostId, direction: &str, chap: Option<Chap>) -> Result<Option<SealedChap>> {
        let Some(Chap { user, secret }) = chap else { return Ok(None) };
        let random = (self.array.env.random)();
        let secret = self.array.parts.sealing.seal(&secret, &HostEntry::place(host, direction), random)?;
        Ok(Some(SealedChap { user, secret }))
    }

    pub async fn change_host(&mut self, name: &str, change: HostChange) -> Result<Outcome> {
        let entry = self.array.config().hosts.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.filter(|name| *name != entry.name) {
            check::name("host", &name)?;
            self.array.config().hosts.free(&name)?;
            new.name = name;
        }
        if let Some(initiators) = change.initiators {
            new.initiators = check::initiators(&initiators)?;
            self.array.config().initiators_free(&new.initiators, Some(entry.id))?;
        }
        if change.chap.is_some() || change.mutual.is_some() {
            let chap = self.with_kept(change.chap, &entry, &entry.chap, "chap")?;
            let mutual = self.with_kept(change.mutual, &entry, &entry.mutual, "mutual")?;
            check::chap(chap.as_ref(), mutual.as_ref())?;
            new.chap = self.seal(entry.id, "chap", chap)?;
            new.mutual = self.seal(entry.id, "mutual", mutual)?;
        }
        if new != entry {
            self.commit(vec![Edit::Put(Record::Host(new))]).await?;
            self.done("host.changed", "host", name, "was changed");
        }
        self.host_now(entry.id)
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
            let open = |kept: &SealedChap| {
                let secret =
                    self.array.parts.sealing.open(&kept.secret, &HostEntry::place(host.id, direction))?;
                Ok(Chap { user: kept.user.clone(), secret })
            };
            return kept.as_ref().map(open).transpose();
        };
        Ok(given)
    }

    pub async fn delete_host(&mut self, name: &str) -> Result<Outcome> {
        let entry = self.array.config().hosts.named(name)?.clone();
        self.refuse_connected(Peer::Host(entry.id))?;
        let mut edits = Vec::new();
        if let Some(group) = self.array.config().group_of(entry.id) {
            let mut group = group.clone();
            group.hosts.remove(&entry.id);
            edits.push(Edit::Put(Record::HostGroup(group)));
        }
        edits.push(Edit::Remove(Record::Host(entry)));
        self.commit(edits).await?;
        self.done("host.deleted", "host", name, "was deleted");
        Ok(Outcome::Gone)
    }

    fn refuse_connected(&self, peer: Peer) -> Result<()> {
        let config = self.array.config();
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

    pub async fn create_host_group(&mut self, name: String, hosts: &[String]) -> Result<Outcome> {
        check::name("host group", &name)?;
        self.array.config().host_groups.free(&name)?;
        let id = HostGroupId(self.id64());
        let hosts = self.joinable(id, hosts)?;
        let entry = HostGroupEntry { id, name, created: self.now(), hosts };
        self.commit(vec![Edit::Put(Record::HostGroup(entry.clone()))]).await?;
        self.done("host-group.created", "host group", &entry.name, "was created");
        self.host_group_now(id)
    }

    pub async fn change_host_group(&mut self, name: &str, change: HostGroupChange) -> Result<Outcome> {
        let entry = self.array.config().host_groups.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.filter(|name| *name != entry.name) {
            check::name("host group", &name)?;
            self.array.config().host_groups.free(&name)?;
            new.name = name;
        }
        if let Some(hosts) = change.hosts {
            new.hosts = self.joinable(entry.id, &hosts)?;
        }
        if new != entry {
            self.commit(vec![Edit::Put(Record::HostGroup(new))]).await?;
            self.done("host-group.changed", "host group", name, "was changed");
        }
        self.host_group_now(entry.id)
    }

    /// The hosts of these names, when each may be in the group: it is in no other one, and no volume or LUN of its
    /// own is one of the group's.
    fn joinable(&self, group: HostGroupId, names: &[String]) -> Result<BTreeSet<HostId>> {
        let config = self.array.config();
        let shared: BTreeMap<u16, _> = view(&config, Peer::HostGroup(group));
        let mut hosts = BTreeSet::new();
        for name in names {
            let host = config.hosts.named(name)?;
            if let Some(other) = config.group_of(host.id).filter(|other| other.id != group) {
                return Err(Error::conflict(format!(
                    "host {name:?} is in host group {:?}: take it out there first",
                    other.name
                )));
            }
            for (lun, volume) in view(&config, Peer::Host(host.id)) {
                if shared.contains_key(&lun) || shared.values().any(|seen| *seen == volume) {
                    return Err(Error::conflict(format!(
                        "host {name:?} has a volume of its own as LUN {lun}, which the group has as well: disconnect \
                         that first"
                    )));
                }
            }
            hosts.insert(host.id);
        }
        Ok(hosts)
    }

    pub async fn delete_host_group(&mut self, name: &str) -> Result<Outcome> {
        let entry = self.array.config().host_groups.named(name)?.clone();
        self.refuse_connected(Peer::HostGroup(entry.id))?;
        self.commit(vec![Edit::Remove(Record::HostGroup(entry))]).await?;
        self.done("host-group.deleted", "host group", name, "was deleted");
        Ok(Outcome::Gone)
    }

    pub async fn connect(
        &mut self,
        volume: &str,
        peer: &PeerName,
        lun: Option<u16>,
        read_only: bool,
    ) -> Result<Outcome> {
        lun.map(records::check_lun).transpose()?;
        let (entry, who) = {
            let config = self.array.config();
            let id = config.disk_named(volume)?;
            let peer = peer_named(&config, peer)?;
            let lun = config.choose_lun(id, peer, lun)?;
            (ConnectionEntry { volume: id, peer, lun, read_only }, config.peer_name(peer))
        };
        self.array.disk(entry.volume, volume)?;
        let noun = self.noun_of_disk(entry.volume);
        if noun == "snapshot" && self.array.config().connections.of_volume(entry.volume).next().is_none() {
            self.array.serve(entry.volume);
        }
        self.commit(vec![Edit::Put(Record::Connection(entry.clone()))]).await?;
        self.done(
            &format!("{noun}.connected"),
            noun,
            volume,
            &format!("was connected to {who} as LUN {}", entry.lun),
        );
        let config = self.array.config();
        let made = self.array.connection(&config, &entry);
        made.map(Outcome::Connection).ok_or_else(|| Error::not_found("the connection is gone"))
    }

    pub async fn disconnect(&mut self, volume: &str, peer: &PeerName) -> Result<Outcome> {
        let (entry, who) = {
            let config = self.array.config();
            let id = config.disk_named(volume)?;
            let peer = peer_named(&config, peer)?;
            let who = config.peer_name(peer);
            (config.connections.between(id, peer).cloned(), who)
        };
        let entry = entry.ok_or_else(|| Error::not_found(format!("{who} is not connected to {volume:?}")))?;
        let (id, noun) = (entry.volume, self.noun_of_disk(entry.volume));
        self.commit(vec![Edit::Remove(Record::Connection(entry))]).await?;
        if noun == "snapshot" && self.array.config().connections.of_volume(id).next().is_none() {
            self.array.parts.exports.remove_volume(id);
        }
        self.done(&format!("{noun}.disconnected"), noun, volume, &format!("was disconnected from {who}"));
        Ok(Outcome::Gone)
    }

    /// Forgets the saved state of a unit that can't be understood, so that hosts may write to it again.
    pub async fn clear_unreadable_state(&mut self, name: &str) -> Result<Outcome> {
        let id = self.array.config().disk_named(name)?;
        let cleared = self.array.parts.exports.clear_unreadable_state(id).await;
        if !cleared.map_err(|error| Error::failed("the state can't be cleared", error))? {
            return Err(Error::precondition(format!(
                "the saved reservations and mode pages of {name:?} are understood: there is nothing to clear"
            )));
        }
        let noun = self.noun_of_disk(id);
        let what = "has no reservations any more and takes writes again: its saved state, which could not be understood, \
                    was cleared";
        self.done(&format!("{noun}.state-cleared"), noun, name, what);
        self.array.publish_change(if noun == "snapshot" { Topic::Snapshots } else { Topic::Volumes });
        Ok(Outcome::Gone)
    }

    fn noun_of_disk(&self, id: block::DiskId) -> &'static str {
        if self.array.config().snapshots.get(id).is_some() { "snapshot" } else { "volume" }
    }

    fn host_now(&self, id: HostId) -> Result<Outcome> {
        let config = self.array.config();
        let entry = config.hosts.get(id).ok_or_else(|| Error::not_found("the host is gone"))?;
        Ok(Outcome::Host(self.array.host(&config, entry)))
    }

    fn host_group_now(&self, id: HostGroupId) -> Result<Outcome> {
        let config = self.array.config();
        let entry = config.host_groups.get(id).ok_or_else(|| Error::not_found("the host group is gone"))?;
        Ok(Outcome::HostGroup(self.array.host_group(&config, entry)))
    }
}

fn view(config: &Config, peer: Peer) -> BTreeMap<u16, block::DiskId> {
    config.connections.of_peer(peer).map(|entry| (entry.lun, entry.volume)).collect()
}

fn peer_named(config: &Config, peer: &PeerName) -> Result<Peer> {
    Ok(match peer {
        PeerName::Host(name) => Peer::Host(config.hosts.named(name)?.id),
        PeerName::HostGroup(name) => Peer::HostGroup(config.host_groups.named(name)?.id),
    })
}
