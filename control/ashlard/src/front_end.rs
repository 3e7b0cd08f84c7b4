//! A controller that is not the home: its portals, the threads of its hosts, and its copy of the history.

use crate::configuration::Configuration;
use crate::controller::Controller;
use crate::forwarding;
use crate::forwarding::{kept::Kept, reading::Reading};
use crate::portals;
use crate::shared_store::SharedStore;
use crate::threads;
use address::Addresses;
use anyhow::Result;

/// What was a front end: the threads, and the sessions if hosts could log in.
pub type Former = (threads::Shards, Option<Kept>);

/// A front end, with the threads that serve its hosts.
pub struct FrontEnd {
    standby: forwarding::portals::Standby,
    shards: threads::Shards,
    copying: forwarding::history::Copying,
}

impl FrontEnd {
    /// Begins to serve hosts.
    ///
    /// # Errors
    /// When threads can't be started.
    pub fn start(
        config: &Configuration,
        link: &forwarding::Link,
        (controller, store, addresses): (&Controller, &SharedStore, &Addresses),
    ) -> Result<Self> {
        let threads = config.threads.number_or(None);
        let shards = threads::Shards::start(threads)?;
        let settings = forwarding::portals::Settings {
            endpoints: portals::endpoints(&config.hosts),
            connections: crate::host_connections(&config.hosts, threads)?.0,
            shards: shards.handles(),
            joined: controller.joined(),
            permit: controller.permit(),
            reading: Reading::of(config.reading(), store),
            addresses: addresses.clone(),
        };
        let standby = forwarding::portals::Standby::start(link.clone(), controller.map(), settings);
        let copying =
            forwarding::history::Copying::start(link.clone(), controller.map(), &config.store.data)?;
        Ok(Self { standby, shards, copying })
    }

    /// Closes its portals, and returns the threads.
    pub async fn stop(self, seconds: u16) -> threads::Shards {
        self.standby.stop(seconds).await;
        self.copying.stop();
        self.shards
    }

    /// Ends it as a front end: its sessions wait for the home in this process.
    pub async fn keep(self) -> Former {
        self.copying.stop();
        (self.shards, self.standby.keep().await)
    }
}
