//! The parts that the array directs: engine, store, exports, front ends, history.

pub(crate) mod api_listeners;
pub(crate) mod certificate_chain;
pub(crate) mod env;
pub(crate) mod fibre_channel;
pub mod framed;
pub mod hex;
pub(crate) mod machine;
pub(crate) mod membership;
pub(crate) mod moving_addresses;
pub(crate) mod overwrite;
pub(crate) mod remote_link;
pub(crate) mod sealing;
pub(crate) mod target_ports;

use crate::parts::api_listeners::ApiListeners;
use crate::parts::fibre_channel::FibreChannel;
use crate::parts::machine::Machine;
use crate::parts::membership::Controllers;
use crate::parts::moving_addresses::MovingAddresses;
use crate::parts::remote_link::Network;
use crate::parts::sealing::SealingKey;
use crate::shape::status::MemoryLimit;
use engine::Engine;
use history::Store;
use shelf::pool::Pool;
use std::sync::Arc;

/// The parts that the array directs.
#[derive(Clone)]
pub struct Parts {
    /// Where volumes and records are.
    pub engine: Arc<Engine>,
    /// The store under the engine, to be managed.
    pub pool: Arc<dyn Pool>,
    /// The machine that it runs on.
    pub machine: Arc<dyn Machine>,
    /// Connections to other arrays.
    pub network: Arc<dyn Network>,
    /// The controllers that share the array.
    pub controllers: Arc<dyn Controllers>,
    /// The exported volumes: mappings, limits, statistics.
    pub exports: Arc<export::Exports>,
    /// The SCSI front end of the exported volumes.
    pub target: Arc<scsi::Target>,
    /// The iSCSI server that hosts log in to.
    pub server: Arc<iscsi::Server>,
    /// The NVMe/TCP server that hosts connect to.
    pub nvme: Arc<nvmf::Server>,
    /// Connections that hosts may have at a time, over both protocols.
    pub host_connections: usize,
    /// The NVM subsystem that hosts connect to over NVMe/TCP.
    pub subsystem: Arc<nvmf::Subsystem>,
    /// What serves hosts over Fibre Channel.
    pub fibre_channel: Arc<dyn FibreChannel>,
    /// Threads that serve connections of hosts.
    pub threads: Threads,
    /// The memory that sizes follow.
    pub memory: MemoryLimit,
    /// The listeners of the API.
    pub api: Arc<dyn ApiListeners>,
    /// Addresses that move between controllers.
    pub addresses: Arc<dyn MovingAddresses>,
    /// The history: events, alerts, measurements.
    pub history: Arc<Store>,
    /// Seals and opens secrets.
    pub sealing: Arc<SealingKey>,
}

/// Threads that serve connections of hosts, as the process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// How many there are.
    pub now: u16,
    /// An option sets the number.
    pub by_option: bool,
}
