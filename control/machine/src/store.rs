//! Where the array is stored: on drives or in Ceph. Both are configured together: a key opens either.

use crate::key;
use std::path::PathBuf;

/// Where an array is stored, and what opens it.
#[derive(Clone, Default)]
pub struct Config {
    /// The array's folder.
    pub data: PathBuf,
    /// Its drives.
    pub drives: Drives,
    /// Where it is in Ceph, if it is there.
    pub rados: Rados,
    /// Whether an array that is made is encrypted.
    pub encrypt: bool,
    /// Where the key comes from.
    pub key: key::Config,
}

/// The drives that an array is started with.
#[derive(Clone, Default)]
pub struct Drives {
    /// Block devices or files; without any, they are files in the array's folder.
    pub named: Vec<PathBuf>,
    /// How many such files are made at the first start.
    pub files: u16,
    /// Bytes of each.
    pub file_bytes: u64,
}

/// Where in Ceph an array is; the folder remembers it.
#[derive(Clone, Default)]
pub struct Rados {
    /// `POOL` or `POOL,DATA_POOL`.
    pub pools: Option<String>,
    /// Configuration file of the Ceph cluster.
    pub conf: Option<String>,
    /// User in Ceph, without `client.`.
    pub id: Option<String>,
    /// Namespace of the array in its pools.
    pub namespace: Option<String>,
    /// The identity of an array that is opened although the folder does not know it.
    pub array: Option<u128>,
    /// Bytes that the array may take of its pool, before replication.
    pub capacity: Option<u64>,
}
