//! What each part of the process is configured with: made once, from the command line and the file with options.

use crate::{portals, threads};
use anyhow::{Result, ensure};
use fabric::{link, listening, reading};
use machine::{ceph, memory, sharing, store};
use std::net::SocketAddr;

/// The configuration of a process that serves an array.
pub struct Configuration {
    /// Where the array is stored.
    pub store: store::Config,
    /// Its name, if it is made at this start.
    pub name: String,
    /// The link to other controllers.
    pub controller: link::Config,
    /// Where hosts connect.
    pub hosts: portals::Config,
    /// Where operators do.
    pub api: listening::Config,
    /// Where other arrays do, if they can.
    pub replication: Option<SocketAddr>,
    /// The threads of connections of hosts.
    pub threads: threads::Config,
    /// What the engine may use.
    pub memory: memory::Config,
    /// An option that was removed is there.
    pub format_force: bool,
}

impl Configuration {
    /// The number of this controller, by the command line or by what the folder remembers; `None` if it shares nothing.
    ///
    /// # Errors
    /// If the folder can't be read, or another option contradicts the number or the lack of it.
    pub fn number(&self) -> Result<Option<u16>> {
        let joined = match sharing::remembered(&self.store.data)? {
            Some((_, number)) => Some(number),
            None => ceph::controller_of(&self.store.data)?,
        };
        let number = self.controller.number.or(joined);
        ensure!(
            number.is_some() || self.controller.listen.is_none(),
            "--link is for a controller: name it with --controller N"
        );
        ensure!(
            number.is_none() || self.hosts.fc.is_empty(),
            "--fc and --controller exclude each other: a device of the kernel stands for one process, and hosts would lose their \
             reservations at a takeover. Leave out --fc, and connect hosts over iSCSI"
        );
        Ok(number)
    }

    /// How a front end reads the store that controllers share. The engine's default bounds its cache where no option does.
    pub fn reading(&self) -> reading::Config {
        let store::Config { data, key, .. } = &self.store;
        // Nothing depends on the seed, nor on the capacity.
        let cache_bytes = self.memory.engine_options([0; 32], 0).cache_bytes;
        reading::Config { data: data.clone(), key: key.clone(), cache_bytes }
    }
}
