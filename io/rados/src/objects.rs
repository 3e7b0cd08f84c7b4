//! What the store needs of RADOS: compound operations on one object, reads, listing, and how much room a pool has.

use bytes::Bytes;
use shelf::pool::BoxFuture;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One of the two pools of a store. Both may be the same pool of RADOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// Superblocks and the journal; replicated.
    Meta,
    /// Segments; replicated or erasure-coded.
    Data,
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Its pool.
    pub pool: Pool,
    /// Its name in the array's namespace.
    pub name: String,
}

/// A step of a compound operation. All steps take effect, or none does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails with [`ObjectError::Exists`] if there is such an object.
    CreateExclusive,
    /// Fails with [`ObjectError::Guard`] unless the attribute has this value. A missing attribute is empty.
    Equal(Cow<'static, str>, String),
    /// Fails with [`ObjectError::Guard`] unless this value is greater than that of the attribute, compared as bytes.
    Greater(Cow<'static, str>, String),
    /// Sets an attribute.
    Set(Cow<'static, str>, String),
    /// Writes bytes at an offset. The pieces are concatenated.
    Write(u64, Vec<Bytes>),
    /// Replaces the content.
    WriteFull(Bytes),
    /// Removes the object.
    Remove,
}

impl Step {
    /// [`Step::Equal`].
    pub fn equal(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        Self::Equal(name.into(), value.into())
    }

    /// [`Step::Greater`].
    pub fn greater(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        Self::Greater(name.into(), value.into())
    }

    /// [`Step::Set`].
    pub fn set(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        Self::Set(name.into(), value.into())
    }
}

/// A compound operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its steps, in order. Every operation but a creation fails with [`ObjectError::Absent`] if there is no object.
    pub steps: Vec<Step>,
    /// True if it is to take effect although the pool is full, as long as the drives below have space.
    pub force: bool,
}

/// Why an operation had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// A comparison failed.
    #[error("an attribute has another value")]
    Guard,
    /// There is no such object.
    #[error("no such object")]
    Absent,
    /// There is such an object already.
    #[error("the object exists already")]
    Exists,
    /// The pool, its quota or the cluster is full.
    #[error("no space in the pool")]
    Full,
    /// The cluster refuses this client: it was fenced.
    #[error("this client is on the blocklist")]
    Blocklisted,
    /// Another failure.
    #[error("{0}")]
    Failed(String),
}

/// Attributes of an object by name.
pub type Attributes = BTreeMap<String, String>;

/// How full a pool is, in bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that can still be written.
    pub available: u64,
    /// Bytes that are stored in this pool, in all namespaces.
    pub stored: u64,
}

/// A client of RADOS in the namespace of one array.
///
/// An operation without an answer is delayed, never failed: the client repeats it until the cluster answers, and the
/// cluster does each once.
pub trait Objects: Send + Sync {
    /// Performs a compound operation on an object.
    fn operate(&self, name: &Name, operation: Operation) -> BoxFuture<'static, Result<(), ObjectError>>;

    /// Reads `len` bytes at `offset`; fewer at the end of the object.
    fn read(&self, name: &Name, offset: u64, len: u64) -> BoxFuture<'static, Result<Bytes, ObjectError>>;

    /// Reads all attributes.
    fn attributes(&self, name: &Name) -> BoxFuture<'static, Result<Attributes, ObjectError>>;

    /// Names of all objects of the array in a pool.
    fn list(&self, pool: Pool) -> BoxFuture<'static, Result<Vec<String>, ObjectError>>;

    /// How full a pool is.
    fn usage(&self, pool: Pool) -> BoxFuture<'static, Result<Usage, ObjectError>>;

    /// The name of a pool in the cluster.
    fn pool_name(&self, pool: Pool) -> String;

    /// The namespace of the array in both pools.
    fn namespace(&self) -> String;

    /// Bytes of which every write to the data pool is a multiple, and at which it begins.
    fn alignment(&self) -> u64;

    /// Failures that both pools survive without losing data, as they are configured.
    fn tolerates(&self) -> usize;

    /// The address of this client in the cluster, by which others can fence it.
    fn instance(&self) -> String;

    /// Puts another client on the blocklist, and returns when no operation of it takes effect any more on an object on
    /// which this client has done one since.
    fn fence(&self, instance: &str) -> BoxFuture<'static, Result<(), ObjectError>>;
}
