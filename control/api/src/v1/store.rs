//! The store of the array.

use super::handler::{Answer, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(show_store: ShowStore))
}

/// The store of the array: drives, or objects in a Ceph cluster.
#[derive(Debug, Serialize, ToSchema)]
pub struct Store {
    /// Kind.
    kind: StoreKind,
    /// Identity of the array there: 32 hex digits.
    array: String,
    /// Number of the controller that owns it.
    owner: Option<u16>,
    /// Number of arbitrary failures, of drives or in the pools, that can still occur without data loss.
    tolerates: usize,
    /// Segments in use.
    segments: u32,
    /// Segments in all; more if the store can grow.
    total_segments: u32,
    /// Size of a segment.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    segment_size: u64,
    /// Size of the journal.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    journal_size: u64,
    /// Number of drives.
    drives: usize,
    /// What it is in Ceph; `null` if it is on drives.
    ceph: Option<CephStore>,
}

/// Kind of a store.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// Drives of the machine.
    Drives,
    /// Objects in a Ceph cluster (RADOS).
    Rados,
}

/// A store in a Ceph cluster.
#[derive(Debug, Serialize, ToSchema)]
pub struct CephStore {
    /// Namespace of the array in the pools.
    namespace: String,
    /// Epoch of the owner: objects refuse an older one.
    epoch: u64,
    /// Journal objects that are written in parallel.
    lanes: usize,
    /// Address of the owner's client, by which the cluster can fence it.
    client: String,
    /// Pools.
    pools: Vec<StorePool>,
}

/// A pool of a store in a Ceph cluster.
#[derive(Debug, Serialize, ToSchema)]
pub struct StorePool {
    /// Name.
    name: String,
    /// Whether the journal and the superblocks are there.
    journal: bool,
    /// Whether data are there.
    data: bool,
    /// Bytes stored there by all clients, without replicas; `null` if Ceph has not reported it.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    stored: Option<u64>,
    /// Bytes that can still be stored there.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    available: Option<u64>,
    /// Part of it that is in use, from 0 to 1.
    #[schema(extensions(("x-unit" = json!("fraction"))))]
    used: Option<f64>,
}

/// Get the store of the array
#[utoipa::path(get, path = "/api/v1/store", tag = "drives", responses(
    (status = 200, description = "The store", body = Store),
    Problems,
))]
async fn show_store(operator: Operator, State(context): State<Context>) -> Answer<Store> {
    Ok(Json(perform(operator, &context, array::ShowStore).await?.into()))
}

impl From<array::Store> for Store {
    fn from(it: array::Store) -> Self {
        Self {
            kind: if it.objects.is_some() { StoreKind::Rados } else { StoreKind::Drives },
            array: format!("{:032x}", it.array),
            owner: it.owner,
            tolerates: it.tolerates,
            segments: it.segments.0,
            total_segments: it.segments.1,
            segment_size: it.segment_bytes,
            journal_size: it.journal_bytes,
            drives: it.drives,
            ceph: it.objects.map(CephStore::from),
        }
    }
}

impl From<array::ObjectStore> for CephStore {
    fn from(it: array::ObjectStore) -> Self {
        let array::ObjectStore { pools, namespace, epoch, lanes, client } = it;
        Self { namespace, epoch, lanes, client, pools: pools.into_iter().map(StorePool::from).collect() }
    }
}

impl From<array::ObjectPool> for StorePool {
    fn from(it: array::ObjectPool) -> Self {
        let array::ObjectPool { name, journal, segments, stored, available } = it;
        let part =
            |(stored, available): (u64, u64)| stored as f64 / (stored as f64 + available as f64).max(1.0);
        Self { name, journal, data: segments, stored, available, used: stored.zip(available).map(part) }
    }
}
