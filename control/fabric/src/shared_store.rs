//! What several controllers of an array share: objects in Ceph, or drives that two servers see.

use crate::board::Board;
use crate::controller::Controller;
use anyhow::{Result, ensure};
use cluster::Service;
use machine::store::Config;
use machine::{ceph, sharing};
use rados::objects::Objects;
use raid::device::Ring;
use std::sync::Arc;

/// What several controllers share.
pub enum SharedStore {
    /// The array with this identity in Ceph.
    Rados(Arc<dyn Objects>, u128),
    /// Drives that two servers see.
    Drives(sharing::Shared),
}

impl SharedStore {
    /// Finds it, and takes part at the drives if it is on these.
    ///
    /// # Errors
    /// When it is not there, or can't be shared.
    pub async fn find(config: &Config, id: u16) -> Result<Self> {
        if ceph::is_meant(config)? {
            let (objects, array) = ceph::shared(config).await?;
            return Ok(Self::Rados(objects, array));
        }
        ensure!(
            !config.drives.named.is_empty(),
            "--controller is for an array that several controllers share: say where it is with --rados POOL, or name the drives \
             that two servers see with --drive"
        );
        Ok(Self::Drives(sharing::Shared::take_part(&Ring::start()?, config, id).await?))
    }

    /// The identity of the array.
    pub fn array(&self) -> u128 {
        match self {
            Self::Rados(_, array) => *array,
            Self::Drives(shared) => shared.owner().0,
        }
    }

    /// The drives, if it is on these.
    pub fn drives(&self) -> Option<&sharing::Shared> {
        match self {
            Self::Rados(..) => None,
            Self::Drives(shared) => Some(shared),
        }
    }

    /// Begins to take part in the cluster.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn controller(
        &self,
        about: (u16, cluster::Link, Service),
        board: Arc<Board>,
    ) -> Result<Controller> {
        match self {
            Self::Rados(objects, array) => Controller::start(objects.clone(), *array, about, board).await,
            Self::Drives(shared) => Controller::begin(shared.arbiter.clone(), shared.owner(), about, board),
        }
    }
}
