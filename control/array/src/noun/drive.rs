//! Drives: their state, operator requests about them, and the events when they fail, return or leave.
//!
//! A drive is addressed by its slot or by its path. Its membership is on the drives' own labels; nothing about drives
//! is in the configuration.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::parts::machine::FoundDrive;
use crate::parts::overwrite::{Words, refusal};
use crate::request::verbs;
use crate::shape::view::{Health, Job, JobKind, JobState, called};
use crate::shape::{shapes, some_time, time};
use crate::{Error, Result};
use records::{Config, Scrub};
use serde::{Deserialize, Serialize};
use shelf::pool::{self, Consent, DriveContents, DriveStatus, Drives, PoolStatus};
use std::path::Path;
use utoipa::ToSchema;

/// A drive to add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDrive)]
pub struct AddDrive {
    /// Absolute path of a block device or file on the array's machine, preferably under `/dev/disk/by-id`.
    pub path: String,
    /// Overwrite a block device that is not blank. Its contents are destroyed. Never overwrites a drive with the label
    /// of an Ashlar array.
    #[serde(default)]
    pub force: bool,
    /// Overwrite a drive with the label of the Ashlar array with this identity (32 hex digits). That array can no longer
    /// use it.
    #[serde(default)]
    pub take_from_array: Option<String>,
}

/// Options for evacuating a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Evacuation {
    /// Evacuate even if fewer drive failures can be tolerated afterwards; see `evacuation_warning` of the drive. Without it,
    /// such a request is refused with 409.
    #[serde(default)]
    pub accept_reduced_protection: bool,
}

/// How operators of a running array consent to have a drive overwritten.
const WORDS: Words = Words {
    force: "add it with --force (in the API: `force`)",
    take: "--take-from-array",
    force_files: false,
};

/// Protection state of the stored data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Protection {
    /// Number of arbitrary drives that can still fail without data loss.
    pub tolerates: usize,
    /// Number of drive failures that the array is designed to tolerate. An alert is raised
    /// while `tolerates` is less.
    pub promises: usize,
    /// Bytes of parity on the present drives once every segment is in use; `null` if the array has no drives. What is neither
    /// parity nor usable capacity holds labels, the journal, checkpoints and the reserve for segment cleaning.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub parity_bytes: Option<u64>,
    /// Segments in use.
    pub segments: u32,
    /// Segments with reduced redundancy.
    pub segments_at_risk: u32,
    /// Segments rebuilt since the array started.
    pub rebuilt: u64,
    /// Pages repaired since the array started.
    pub repaired: u64,
    /// Unrecoverable pages since the array started.
    pub lost: u64,
    /// Paths of former members of this array: drives that were replaced, or used without the others.
    /// They are not read.
    pub former_members: Vec<String>,
    /// The current or last scrub; `null` if there was none.
    pub scrub: Option<LastScrub>,
    /// Time of the next scheduled scrub; `null` while one is running, and if none is scheduled.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_scrub: Option<u64>,
}

impl Protection {
    pub(crate) fn of(pool: PoolStatus, scrub: Option<Scrub>, next_scrub: Option<u64>) -> Self {
        Self {
            tolerates: pool.tolerates,
            promises: pool.failures_to_tolerate,
            parity_bytes: pool.parity_bytes,
            segments: pool.segments,
            segments_at_risk: pool.degraded_segments,
            rebuilt: pool.rebuilt_segments,
            repaired: pool.repaired_pages,
            lost: pool.lost_pages,
            former_members: pool.former_drives,
            scrub: scrub.map(LastScrub::of),
            next_scrub,
        }
    }
}

/// A scrub: all data in use is read and verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Scrub)]
pub struct LastScrub {
    /// Start time.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub started: u64,
    /// End time; `null` while it is running.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<u64>,
    /// Duration in seconds; `null` while it is running.
    pub seconds: Option<u64>,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// User who started it.
    pub user: String,
    /// Segments read.
    pub segments: u64,
    /// Bytes read, parity included.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub bytes: u64,
    /// Pages with wrong contents.
    pub errors: u64,
    /// Pages repaired.
    pub repaired: u64,
    /// Unrecoverable pages.
    pub lost: u64,
}

impl LastScrub {
    fn of(scrub: Scrub) -> Self {
        let Scrub { started, ended, cancelled, user, segments, bytes, errors, repaired, lost, .. } = scrub;
        let seconds = ended.map(|ended| ended.saturating_sub(started));
        Self { started, ended, seconds, cancelled, user, segments, bytes, errors, repaired, lost }
    }
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Drive {
    /// Slot, from 0.
    pub slot: usize,
    /// Path of the block device or file; `null` if it is absent.
    pub path: Option<String>,
    /// Identifier of the drive in this array: 32 hex digits.
    pub id: String,
    /// Size in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub size: u64,
    /// Bytes in use by data and parity.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub used: u64,
    /// State.
    pub state: DriveState,
    /// Whether it carries a journal copy.
    pub journal: bool,
    /// Bytes read since the array started.
    pub read_bytes: u64,
    /// Bytes written since the array started.
    pub written_bytes: u64,
    /// Failed reads since the array started.
    pub read_errors: u64,
    /// Slow reads that were reconstructed from the other drives since the array started.
    pub slow_reads: u64,
    /// Pages with wrong contents found since the array started.
    pub bad_pages: u64,
    /// Whether it is much slower than the others, so that reads are reconstructed from them.
    pub slow: bool,
    /// Reduction in protection that an evacuation would cause; `null` if none.
    pub evacuation_warning: Option<String>,
    /// Self-reported health (SMART).
    pub health: Health,
}

impl Drive {
    pub(crate) fn of(drive: DriveStatus, health: Health, evacuation_warning: Option<String>) -> Self {
        Self {
            slot: drive.slot,
            path: drive.name,
            id: format!("{:032x}", drive.drive),
            size: drive.bytes,
            used: drive.used_bytes,
            state: match drive.state {
                pool::DriveState::Online => DriveState::Online,
                pool::DriveState::Evacuating => DriveState::Evacuating,
                pool::DriveState::Failed | pool::DriveState::Empty => DriveState::Failed,
            },
            journal: drive.journal,
            read_bytes: drive.read_bytes,
            written_bytes: drive.written_bytes,
            read_errors: drive.read_errors,
            slow_reads: drive.slow_reads,
            bad_pages: drive.bad_pages,
            slow: drive.slow,
            evacuation_warning,
            health,
        }
    }
}

/// State of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
    /// Member of the array.
    Online,
    /// Being evacuated.
    Evacuating,
    /// Failed or absent; its data is rebuilt on the other drives.
    Failed,
}

shapes! {
    Drive: "Drives" "Drives." "Sorted by slot";
    Protection;
}

verbs! {
    #![tag = "drives"]

    /// Get the protection state and the last scrub
    ShowProtection {} -> Protection, Read "show" "protection", Viewer, at GET "/protection"
        => |tx, _| Ok(tx.array.protection(&tx.array.config()));
    /// List drives
    ListDrives {} -> Vec<Drive>, Read "list" "drive", Viewer, at GET "/drives"
        => |tx, _| Ok(tx.array.drives().into_iter().map(|drive| tx.array.with_health(drive)).collect());
    /// List block devices that could be added
    ///
    /// Nothing is written to them. Loop devices, device-mapper and md devices are left out.
    ListAvailableDrives {} -> Vec<FoundDrive>, Read "list" "drive", Admin, at GET "/drives/available"
        says "The block devices"
        => |tx, _| {
            let members = tx.array.drives().into_iter().filter_map(|drive| drive.name).collect();
            Ok(tx.array.parts.machine.find_drives(members).await)
        };
    /// Get a drive
    ShowDrive {
        /// Slot or path
        slot
    } -> Drive, Read "show" "drive", Viewer, about slot, at GET "/drives/{slot}"
        => |tx, it| tx.array.show_drive(&it.slot);
    /// Add a drive to the array
    AddDrive -> Drive, Change "add" "drive", Admin, about path, at POST "/drives" 201
        => |tx, it| tx.add_drive(it).await;
    /// Evacuate a drive
    ///
    /// Moves its data to the other drives. Returns the job; when it completes, the drive is no longer a member of the array.
    EvacuateDrive {
        /// Slot or path
        slot;
        optional change: Evacuation
    } -> Job, Change "evacuate" "drive", Admin, about slot, at POST "/drives/{slot}/evacuate" 202 says "The job"
        => |tx, it| tx.evacuate_drive(&it.slot, it.change.accept_reduced_protection).await;
    /// Replace a drive
    ///
    /// Adds a new drive and evacuates the old one. The data of a failed drive is rebuilt automatically.
    ReplaceDrive {
        /// Slot or path of the old drive
        slot;
        body new: AddDrive
    } -> Drive, Change "replace" "drive", Admin, about slot, at POST "/drives/{slot}/replace" 201
        says "The new drive"
        => |tx, it| tx.replace_drive(&it.slot, it.new).await;
}

impl Array {
    /// How what is stored is protected now.
    pub(crate) fn protection(&self, config: &Config) -> Protection {
        Protection::of(self.parts.pool.status(), self.scrubs.last(config), self.scrubs.next(config))
    }

    pub(crate) fn drives(&self) -> Vec<DriveStatus> {
        self.parts.pool.status().drives
    }

    pub(crate) fn with_health(&self, status: DriveStatus) -> Drive {
        let (health, warning) = (self.health.of(status.drive), self.evacuation_warning(&status));
        Drive::of(status, health, warning)
    }

    pub(crate) fn show_drive(&self, which: &str) -> Result<Drive> {
        Ok(self.with_health(self.drive(which)?))
    }

    /// By how much emptying a drive reduces protection; `None` if it does not.
    fn evacuation_warning(&self, drive: &DriveStatus) -> Option<String> {
        let may_fail = match drive.reduces_to? {
            0 => "data is lost with the next drive that fails".into(),
            1 => "only one more drive may fail without loss of data".into(),
            left => format!("only {left} more drives may fail without loss of data"),
        };
        let promises = self.parts.pool.status().failures_to_tolerate;
        Some(format!("once {} is empty, {may_fail}; the array promises {promises}", called(drive)))
    }

    /// The drive in a slot, or at a path.
    pub(crate) fn drive(&self, which: &str) -> Result<DriveStatus> {
        let slot = which.parse::<usize>().ok();
        let wanted = |drive: &DriveStatus| Some(drive.slot) == slot || drive.name.as_deref() == Some(which);
        self.drives().into_iter().find(wanted).ok_or_else(|| {
            Error::not_found(format!(
                "there is no drive {which:?}: name one by its slot, such as 0, or its path"
            ))
        })
    }
}

/// Paths are printed, logged and kept as text.
fn check_path(path: &str) -> Result<()> {
    if !path.starts_with('/') || path.len() > 4096 || !path.chars().all(text::is_visible) {
        return Err(Error::invalid("the path of a drive begins with a slash, such as /dev/nvme3n1"));
    }
    Ok(())
}

impl AddDrive {
    fn consent(&self) -> Result<Consent> {
        let array = |id: &String| {
            let hex = Some(id).filter(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let id = hex.and_then(|id| u128::from_str_radix(id, 16).ok());
            id.ok_or_else(|| Error::invalid("the identity of an array has 32 hex digits"))
        };
        let arrays = self.take_from_array.as_ref().map(array).transpose()?;
        Ok(Consent { foreign: self.force, arrays: arrays.into_iter().collect() })
    }
}

fn unusable(what: &str, error: shelf::Error) -> Error {
    match error {
        shelf::Error::Unusable(why) => Error::precondition(format!("{what}: {why}")),
        error => Error::failed(what, error),
    }
}

impl Transaction<'_> {
    fn drives(&self) -> Result<&dyn Drives> {
        let drives = self.array.parts.pool.drives();
        drives
            .ok_or_else(|| Error::precondition("the store of this array has no drives that are managed here"))
    }

    pub async fn add_drive(&mut self, new: AddDrive) -> Result<Drive> {
        let slot = self.bring_drive(&new).await?;
        self.done("drive.added", "drive", &new.path, &format!("was added as slot {slot}"));
        self.array.show_drive(&slot.to_string())
    }

    async fn bring_drive(&mut self, new: &AddDrive) -> Result<usize> {
        let path = &*new.path;
        check_path(path)?;
        let consent = new.consent()?;
        let drives = self.array.drives();
        if let Some(drive) = drives.iter().find(|drive| drive.name.as_deref() == Some(path)) {
            return Err(Error::conflict(format!("{path} is in slot {} of this array already", drive.slot)));
        }
        let members: Vec<String> = drives.into_iter().filter_map(|drive| drive.name).collect();
        let what = format!("{path} can't be added");
        let machine = self.array.parts.machine.clone();
        let examined = machine.examine(Path::new(path)).await;
        let examined = examined.map_err(|why| Error::precondition(format!("{what}: {why}")))?;
        let judge = |contents: &DriveContents| match refusal(path, &examined, contents, &consent, WORDS) {
            Some(why) => Err(Error::precondition(why)),
            None => Ok(()),
        };
        if !examined.users.is_empty() {
            // Before it is opened, because opening waits for another user of the drive.
            judge(&DriveContents::Blank)?;
        }
        let wanted = path.to_owned();
        let opened =
            tokio::task::spawn_blocking(move || machine.open_drive(Path::new(&wanted), &members)).await;
        let drive =
            opened.map_err(|error| Error::failed(&what, error))?.map_err(|error| unusable(&what, error))?;
        judge(&self.drives()?.contents(&*drive).await.map_err(|error| unusable(&what, error))?)?;
        let added = self.drives()?.add(drive, &consent).await;
        let slot = added.map_err(|error| unusable(&what, error))?;
        self.array.drive_monitor.watch();
        Ok(slot)
    }

    pub async fn evacuate_drive(&mut self, which: &str, accept_reduced: bool) -> Result<Job> {
        let drive = self.array.drive(which)?;
        let floor = self.drives()?.min_tolerates_after_evacuation();
        let warning = self.array.evacuation_warning(&drive);
        let least = match &warning {
            Some(warning) if !accept_reduced => {
                return Err(Error::precondition(format!(
                    "that would reduce protection: {warning}. Add a drive first; or accept it, with \
                     --accept-reduced-protection"
                )));
            }
            Some(_) => 0,
            None => floor,
        };
        self.empty_drive(&drive, least, warning).await?;
        let job = self.array.jobs.newest(JobKind::Evacuate, Some(drive.slot));
        job.ok_or_else(|| Error::failed("the drive is being evacuated", "and has no job"))
    }

    /// Empties a drive, unless fewer than `least` drives may fail without loss after that.
    async fn empty_drive(
        &mut self,
        drive: &DriveStatus,
        least: usize,
        accepted: Option<String>,
    ) -> Result<()> {
        let called = called(drive);
        match drive.state {
            pool::DriveState::Online => {}
            pool::DriveState::Evacuating => {
                return Err(Error::conflict(format!("{called} is being evacuated already")));
            }
            _ => {
                return Err(Error::precondition(format!(
                    "{called} has failed: its data are rebuilt on the other drives without an evacuation; add a drive if \
                     they have no room for it"
                )));
            }
        }
        let done = self.drives()?.evacuate(drive.slot, least).await;
        done.map_err(|error| unusable(&format!("{called} can't be evacuated"), error))?;
        self.array.jobs.begin_relocation(JobKind::Evacuate, drive, &self.caller.user);
        self.array.drive_monitor.watch();
        let name = drive.name.clone().unwrap_or_else(|| drive.slot.to_string());
        let accepted =
            accepted.map_or_else(String::new, |it| format!(", and reduced protection was accepted: {it}"));
        self.done("drive.evacuating", "drive", &name, &format!("is being evacuated, as requested{accepted}"));
        Ok(())
    }

    pub async fn replace_drive(&mut self, which: &str, new: AddDrive) -> Result<Drive> {
        let old = self.array.drive(which)?;
        // A drive was added for the one that is evacuated: protection stays what it was.
        let floor = self.drives()?.min_tolerates_after_evacuation();
        let slot = self.bring_drive(&new).await?;
        let path = new.path;
        self.done(
            "drive.added",
            "drive",
            &path,
            &format!("was added as slot {slot} in place of slot {}", old.slot),
        );
        // The data of a failed drive are rebuilt without an evacuation.
        if old.state == pool::DriveState::Online
            && let Err(error) = self.empty_drive(&old, floor, None).await
        {
            let message = format!("{path} is in slot {slot} now, but {error}");
            return Err(Error { message, ..error });
        }
        self.array.show_drive(&slot.to_string())
    }

    /// Cancels an evacuation.
    pub async fn keep_drive(&mut self, slot: usize) -> Result<()> {
        let drive = self.array.drive(&slot.to_string())?;
        let kept = self.drives()?.cancel_evacuation(slot).await;
        kept.map_err(|error| {
            unusable(&format!("the evacuation of {} can't be cancelled", called(&drive)), error)
        })?;
        let name = drive.name.clone().unwrap_or_else(|| slot.to_string());
        self.done(
            "drive.evacuation-canceled",
            "drive",
            &name,
            "stays in the array: its evacuation was canceled",
        );
        self.array.jobs.end_relocation(slot, JobState::Cancelled, None);
        self.array.drive_monitor.watch();
        Ok(())
    }
}
