//! A controller that is not the home: its portals, the threads of its hosts, and its copy of the history.

use crate::configuration::Configuration;
use crate::portals;
use crate::threads;
use address::Addresses;
use anyhow::Result;
use fabric::controller::Controller;
use fabric::copies;
use fabric::kept::Kept;
use fabric::link::Link;
use fabric::portals::{Settings, Standby};
use fabric::reading::Reading;
use fabric::shared_store::SharedStore;
use machine::threads::Worker;

/// What was a front end: the threads, and the sessions if hosts could log in.
pub type Former = (threads::Shards, Option<Kept>);

/// A front end, with the threads that serve its hosts.
pub struct FrontEnd {
    standby: Standby,
    shards: threads::Shards,
    copying: Worker,
}

impl FrontEnd {
    /// Begins to serve hosts.
    ///
    /// # Errors
    /// When threads can't be started.
    pub fn start(
        config: &Configuration,
        link: &Link,
        (controller, store, addresses): (&Controller, &SharedStore, &Addresses),
    ) -> Result<Self> {
        let threads = config.threads.number_or(None);
        let shards = threads::Shards::start(threads)?;
        let settings = Settings {
            endpoints: portals::endpoints(&config.hosts),
            connections: crate::host_connections(&config.hosts, threads)?.0,
            shards: shards.handles(),
            joined: controller.joined(),
            permit: controller.permit(),
            reading: Reading::of(config.reading(), store),
            addresses: addresses.clone(),
        };
        let standby = Standby::start(link.clone(), controller.map(), settings);
        let copying = copies::start(link.clone(), controller.map(), &config.store.data)?;
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
