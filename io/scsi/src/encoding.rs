//! What the standards define, without state of a unit: fields of CDBs and parameter lists, sense data, mode pages, names, tokens.

pub(crate) mod block_limits;
pub(crate) mod cdb;
pub(crate) mod identity;
pub(crate) mod pages;
pub(crate) mod ports;
pub(crate) mod rods;
pub(crate) mod sense;
pub(crate) mod task_set;
pub(crate) mod token;
pub(crate) mod transport;
pub(crate) mod transport_id;
pub(crate) mod volatile;
