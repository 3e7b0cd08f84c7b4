//! The runtimes that run connections. A shard runs nothing else, so that hosts are served even if other threads of the
//! process are blocked.

/// A runtime that runs connections.
pub use tokio::runtime::Handle as Shard;
