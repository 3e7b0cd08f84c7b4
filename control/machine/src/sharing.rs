//! An array whose drives two controllers share: taking part, and opening it as the home.
//!
//! Every controller names the drives by the paths of its own server. The folder remembers the number that a token gave.

use crate::access::{read_whole, write_whole};
use crate::drives;
use crate::store::Config;
use anyhow::{Context, Result, ensure};
use cluster::Timing;
use raid::device::Ring;
use raid::shared::{CONTROLLERS, DriveArbiter, Party, SharedArray, Timer, find};
use raid::{DriveShelf, Limits};
use serde::{Deserialize, Serialize};
use shelf::Drive;
use shelf::arbiter::Arbiter as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The file in the folder of a controller that has joined by a token.
const FILE: &str = "shared.json";

#[derive(Serialize, Deserialize)]
struct Remembered {
    /// The identity of the array, in hexadecimal.
    array: String,
    controller: u16,
}

/// Makes a folder that of a controller of an array whose drives are shared.
///
/// # Errors
/// If nothing can be written.
pub fn remember(data: &Path, (array, controller): (u128, u16)) -> Result<()> {
    let text = serde_json::to_vec_pretty(&Remembered { array: format!("{array:032x}"), controller })?;
    let path = data.join(FILE);
    write_whole(&path, &text).with_context(|| format!("can't write {}", path.display()))
}

/// The array and the number of the controller of a folder that has joined by a token.
///
/// # Errors
/// If the folder can't be read.
pub fn remembered(data: &Path) -> Result<Option<(u128, u16)>> {
    let path = data.join(FILE);
    match read_whole(&path).and_then(|text| Ok(serde_json::from_slice::<Remembered>(&text)?)) {
        Ok(Remembered { array, controller }) => {
            let array = u128::from_str_radix(&array, 16);
            Ok(Some((array.with_context(|| format!("{FILE} has no identity of an array"))?, controller)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}

/// What a process has that takes part in sharing drives.
pub struct Shared {
    array: SharedArray,
    /// By what it is registered.
    pub party: Arc<Party>,
    /// Where the controllers agree.
    pub arbiter: Arc<DriveArbiter>,
    /// For limits on the replies of drives.
    pub timer: Timer,
}

/// The timer of the product.
pub fn timer() -> Timer {
    // A request may be made by a thread that completes another one, which is of no runtime.
    let runtime = Handle::current();
    Arc::new(move |time, call| {
        runtime.spawn(async move {
            tokio::time::sleep(time).await;
            call();
        });
    })
}

impl Shared {
    /// Takes part at the drives of the command line, as this controller.
    ///
    /// # Errors
    /// When the drives can't be shared, or another process has this number; the text says why.
    pub async fn take_part(ring: &Arc<Ring>, config: &Config, id: u16) -> Result<Self> {
        let own = usize::from(id).checked_sub(1).filter(|own| *own < CONTROLLERS).with_context(|| {
            format!("controller {id}: two controllers share drives, and have the numbers 1 and 2")
        })?;
        let opened = drives::named(ring, config)?;
        let timer = timer();
        let mut array = find(&opened, &timer).await.context("two controllers can't share these drives")?;
        if let Some((known, _)) = remembered(&config.data)? {
            ensure!(
                known == array.array,
                "the folder {} is of array {known:032x}, and the drives are of array {:032x}",
                config.data.display(),
                array.array
            );
        }
        refuse_another(&array, own, id).await?;
        let key = loop {
            match u64::from_le_bytes(crate::random()?) {
                0 => {}
                key => break key,
            }
        };
        let party = Arc::new(array.party(own, key));
        party.take_part_in(&mut array).await?;
        let arbiter = party.arbiter(&array).await.context("too few of the shared drives can be used")?;
        tracing::info!(
            array = format_args!("{:032x}", array.array),
            drives = array.drives.len(),
            witnesses = arbiter.witnesses(),
            "this controller shares its drives"
        );
        Ok(Self { array, party, arbiter, timer })
    }

    /// The identity of the array, and the newest epoch of its owners.
    pub fn owner(&self) -> (u128, u64) {
        (self.array.array, self.array.epoch)
    }

    /// Opens the store as the home, with the epoch that the cluster gave it: it takes the drives from the other controller.
    ///
    /// # Errors
    /// When it can't be opened.
    pub async fn open(&self, config: &Config, epoch: u64) -> Result<Arc<DriveShelf>> {
        let ours = self.party.take_over_all(&self.array).await?;
        let shared: Vec<_> = ours.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
        let open =
            async |opening| DriveShelf::open_shared(shared.clone(), opening, Limits::default(), epoch).await;
        let shelf = drives::open_with_key(config, &shared, open).await?;
        // The shelf has limits of its own, which end in the loss of a drive.
        ours.iter().for_each(|drive| drive.lift());
        Ok(shelf)
    }
}

/// Refuses to start while another process with this number runs: taking part would end it.
async fn refuse_another(array: &SharedArray, own: usize, id: u16) -> Result<()> {
    let before = array.beats_of(own).await;
    if before.iter().flatten().next().is_none() {
        return Ok(());
    }
    tokio::time::sleep(Duration::from_nanos(Timing::PRODUCT.dead_ns)).await;
    ensure!(
        before == array.beats_of(own).await,
        "controller {id} of this array is running already, on another server: give each server a number of its own"
    );
    Ok(())
}
