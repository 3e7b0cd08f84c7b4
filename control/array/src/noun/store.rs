//! The store of the array: what it is made of, and whose it is.

use crate::array::Array;
use crate::parts::membership::ControllerState;
use crate::request::verbs;
use crate::shape::shapes;
use serde::{Serialize, Serializer};
use shelf::pool::{ObjectPool, ObjectStore};
use utoipa::ToSchema;

/// The store of the array: drives, or objects in a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Store {
    /// Kind.
    pub kind: StoreKind,
    /// Identity of the array there: 32 hex digits.
    #[serde(serialize_with = "identity")]
    #[schema(value_type = String)]
    pub array: u128,
    /// Number of the controller that owns it.
    pub owner: Option<u16>,
    /// Number of arbitrary failures, of drives or in the pools, that can still occur without data loss.
    pub tolerates: usize,
    /// Segments in use.
    pub segments: u32,
    /// Segments in all; more if the store can grow.
    pub total_segments: u32,
    /// Size of a segment.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub segment_size: u64,
    /// Size of the journal.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub journal_size: u64,
    /// Number of drives.
    pub drives: usize,
    /// What it is in Ceph; `null` if it is on drives.
    pub ceph: Option<CephStore>,
}

/// Kind of a store.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// Drives of the machine.
    Drives,
    /// Objects in a Ceph cluster (RADOS).
    Rados,
}

/// A store in a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CephStore {
    /// Namespace of the array in the pools.
    pub namespace: String,
    /// Epoch of the owner: objects refuse an older one.
    pub epoch: u64,
    /// Journal objects that are written in parallel.
    pub lanes: usize,
    /// Address of the owner's client, by which the cluster can fence it.
    pub client: String,
    /// Pools.
    pub pools: Vec<StorePool>,
}

/// A pool of a store in a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct StorePool {
    /// Name.
    pub name: String,
    /// Whether the journal and the superblocks are there.
    pub journal: bool,
    /// Whether data are there.
    pub data: bool,
    /// Bytes stored there by all clients, without replicas; `null` if Ceph has not reported it.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub stored: Option<u64>,
    /// Bytes that can still be stored there.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub available: Option<u64>,
    /// Part of it that is in use, from 0 to 1.
    #[schema(extensions(("x-unit" = json!("fraction"))))]
    pub used: Option<f64>,
}

shapes! {
    Store;
}

verbs! {
    #![tag = "drives"]

    /// Get the store of the array
    ShowStore {} -> Store, Read "show" "store", Viewer, at GET "/store"
        => |tx, _| Ok(tx.array.store());
}

/// An identity as hex digits.
fn identity<S: Serializer>(id: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{id:032x}"))
}

impl Array {
    fn store(&self) -> Store {
        let (pool, controllers) = (&self.parts.pool, self.parts.controllers.controllers());
        let (status, layout) = (pool.status(), pool.layout());
        let owner = controllers.iter().find(|it| it.state == ControllerState::Home);
        Store {
            kind: if status.objects.is_some() { StoreKind::Rados } else { StoreKind::Drives },
            array: pool.array(),
            tolerates: status.tolerates,
            segments: status.segments,
            total_segments: status.total_segments,
            segment_size: layout.segment_bytes.into(),
            journal_size: layout.journal_bytes,
            owner: owner.map(|it| it.number),
            drives: status.drives.len(),
            ceph: status.objects.map(CephStore::from),
        }
    }
}

impl From<ObjectStore> for CephStore {
    fn from(it: ObjectStore) -> Self {
        let ObjectStore { pools, namespace, epoch, lanes, client } = it;
        Self { namespace, epoch, lanes, client, pools: pools.into_iter().map(StorePool::from).collect() }
    }
}

impl From<ObjectPool> for StorePool {
    fn from(it: ObjectPool) -> Self {
        let ObjectPool { name, journal, segments, stored, available } = it;
        let part =
            |(stored, available): (u64, u64)| stored as f64 / (stored as f64 + available as f64).max(1.0);
        Self { name, journal, data: segments, stored, available, used: stored.zip(available).map(part) }
    }
}
