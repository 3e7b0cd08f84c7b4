//! One module for each target.

pub mod cdb;
pub mod contradiction;
pub mod forward;
pub mod media;
pub mod nvme;
pub mod nvme_queues;
pub mod parameter_list;
pub mod pdu;
pub mod peer;
pub mod replication;
pub mod shelf_media;
pub mod tcmu;
pub mod token;
