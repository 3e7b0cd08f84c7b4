//! What several controllers of an array share: objects in Ceph, or drives that two servers see.

use crate::args::Args;
use crate::board::Board;
use crate::controller::Controller;
use crate::{ceph, sharing};
use anyhow::{Result, ensure};
use cluster::Service;
use rados::objects::Objects;
use raid::device::Ring;
use std::sync::Arc;

/// The number of this controller, by the command line or by what the folder remembers; `None` if it shares nothing.
///
/// # Errors
/// If the folder can't be read, or another option contradicts the number or the lack of it.
pub fn number(args: &Args) -> Result<Option<u16>> {
    let joined = match sharing::remembered(args.data())? {
        Some((_, number)) => Some(number),
        None => ceph::controller_of(args.data())?,
    };
    let number = args.rados.controller.or(joined);
    ensure!(
        number.is_some() || args.rados.link.is_none(),
        "--link is for a controller: name it with --controller N"
    );
    ensure!(
        number.is_none() || args.fc.is_empty(),
        "--fc and --controller exclude each other: a device of the kernel stands for one process, and hosts would lose their \
         reservations at a takeover. Leave out --fc, and connect hosts over iSCSI"
    );
    Ok(number)
}

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
    pub async fn find(args: &Args, id: u16) -> Result<Self> {
        if ceph::is_meant(args)? {
            let (objects, array) = ceph::shared(args).await?;
            return Ok(Self::Rados(objects, array));
        }
        ensure!(
            !args.drive.is_empty(),
            "--controller is for an array that several controllers share: say where it is with --rados POOL, or name the drives \
             that two servers see with --drive"
        );
        Ok(Self::Drives(sharing::Shared::take_part(&Ring::start()?, args, id).await?))
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
