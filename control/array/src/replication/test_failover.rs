//! Test of a failover: clones of a target's last complete point, for hosts to use while replication continues.

use crate::array::transaction::Transaction;
use crate::noun::connection::{PeerName, peer_named};
use crate::noun::replication::{Replication, put, require};
use crate::request::verbs;
use crate::shape::view::some_of;
use crate::{Error, Result};
use block::DiskId;
use records::{
    ChosenLun, ConnectionEntry, DiskEntry, Edit, Named, Peer, Record, ReplicationEntry, ReplicationRole,
    VolumeEntry,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A test of a failover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTestFailover {
    /// Hosts to which the clones are connected.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Host groups to which the clones are connected.
    #[serde(default)]
    pub host_groups: Vec<String>,
    /// Number of the point; default: the newest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<u64>,
}

verbs! {
    #![tag = "replications"]

    /// Start a test failover
    ///
    /// On the target. The last complete point, or another one, is cloned to volumes that hosts can use, while replication
    /// continues. Each host gets the clones at its lowest free LUNs.
    StartTestFailover { name; optional change: NewTestFailover } -> Replication, Change "start" "test failover", Operator,
        about name, at POST "/replications/{name}/test-failover" says "The replication"
        => |tx, it| tx.start_test_failover(&it.name, it.change).await;
    /// Stop a test failover
    ///
    /// The clones are disconnected from the hosts with which the test was started, and deleted with what was written to them. They
    /// must not be connected to others.
    StopTestFailover { name } -> Replication, Change "stop" "test failover", Operator, about name,
        at DELETE "/replications/{name}/test-failover" says "The replication"
        => |tx, it| tx.stop_test_failover(&it.name).await;
}

impl Transaction<'_> {
    pub async fn start_test_failover(&mut self, name: &str, wanted: NewTestFailover) -> Result<Replication> {
        let NewTestFailover { hosts, host_groups, point } = wanted;
        let hosts = hosts.into_iter().map(PeerName::Host);
        let peers = hosts.chain(host_groups.into_iter().map(PeerName::HostGroup));
        let entry = self.replication_named(name)?;
        require(&entry, ReplicationRole::Target, "a failover is tested")?;
        if !entry.test.is_empty() {
            return Err(Error::precondition("a failover is being tested already: stop that test first"));
        }
        let point = self.point_of(&entry, point)?;
        let mut test_peers = {
            let config = self.array.config();
            peers.map(|peer| peer_named(&config, &peer)).collect::<Result<Vec<_>>>()?
        };
        test_peers.sort();
        test_peers.dedup();
        let test = self.plan_volumes(&point);
        let planned =
            ReplicationEntry { test: test.clone(), test_peers: test_peers.clone(), ..entry.clone() };
        self.commit(vec![put(&planned)]).await?;
        self.make_replicas(&entry, &point, &test, None, "-test").await?;
        let what = format!("is tested with clones of point {}", point.number);
        self.done("replication.test-started", ReplicationEntry::NOUN, &entry.name, &what);
        for clone in &test {
            self.show_clone(clone.volume, &test_peers).await?;
        }
        self.replication_now(entry.id)
    }

    /// Connects a clone to hosts, each at its lowest free LUN.
    async fn show_clone(&mut self, volume: DiskId, peers: &[Peer]) -> Result<()> {
        for peer in peers {
            let ChosenLun { lun, reused } = self.array.config().choose_lun(volume, *peer, None, 0)?;
            self.add_connection(&ConnectionEntry { volume, peer: *peer, lun, read_only: false, reused })
                .await?;
        }
        Ok(())
    }

    pub async fn stop_test_failover(&mut self, name: &str) -> Result<Replication> {
        let entry = self.replication_named(name)?;
        self.refuse_seen(&entry)?;
        for clone in self.ready_volumes(&entry.test) {
            self.delete_clone(clone, &entry.test_peers).await?;
        }
        if !entry.test.is_empty() {
            let over = ReplicationEntry { test: Vec::new(), test_peers: Vec::new(), ..entry.clone() };
            self.commit(vec![put(&over)]).await?;
            let what = "is not tested any more";
            self.done("replication.test-stopped", ReplicationEntry::NOUN, &entry.name, what);
        }
        self.replication_now(entry.id)
    }

    /// Refuses to take clones away from hosts to which the test did not connect them.
    fn refuse_seen(&self, entry: &ReplicationEntry) -> Result<()> {
        let config = self.array.config();
        let connections = entry.test.iter().flat_map(|clone| config.connections.of_volume(clone.volume));
        let others = connections.filter(|it| !entry.test_peers.contains(&it.peer));
        let seen_by: Vec<_> = others.map(|it| config.peer_name(it.peer)).collect();
        if seen_by.is_empty() {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "clones are connected to {}: disconnect them first",
            some_of(&seen_by)
        )))
    }

    /// Deletes a clone with its connections. It was not made by a user: nothing of it goes to the recycle bin.
    async fn delete_clone(&mut self, clone: VolumeEntry, peers: &[Peer]) -> Result<()> {
        let connections: Vec<_> = {
            let config = self.array.config();
            let of_test = |it: &&ConnectionEntry| peers.contains(&it.peer);
            config.connections.of_volume(clone.id).filter(of_test).cloned().collect()
        };
        if !connections.is_empty() {
            let removed = connections.into_iter().map(|it| Edit::Remove(Record::Connection(it)));
            self.commit(removed.collect()).await?;
            self.done(
                "volume.disconnected",
                "volume",
                &clone.name,
                "was disconnected after the test of a failover",
            );
        }
        self.eradicate(DiskEntry::Volume(clone)).await
    }
}
