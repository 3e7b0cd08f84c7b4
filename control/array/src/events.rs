//! Events: the bus on which they are published, the catalogue of their messages, and the audit log.

pub(crate) mod audit;
pub(crate) mod bus;
pub mod catalogue;
