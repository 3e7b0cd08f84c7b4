//! Drives: their state, operator requests about them, and the events when they fail, return or leave.
//!
//! A drive is addressed by its slot or by its path. Its membership is on the drives' own labels; nothing about drives
//! is in the configuration.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::events::audit::Object;
use crate::parts::machine::FoundDrive;
use crate::parts::overwrite::{Words, refusal};
use crate::request::verbs;
use crate::shape::view::{self, Job, JobKind, JobState, called};
use crate::{Error, Result};
use serde::Serialize;
use shelf::pool::{Consent, DriveContents, DriveState, DriveStatus, Drives};
use std::path::Path;

/// A drive that is to become a part of the array, and what of it may be overwritten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewDrive {
    /// Where it is: an absolute path of a block device or a file.
    pub path: String,
    /// Overwrite what is on it, if it is a block device and has no label of an array.
    pub force: bool,
    /// Take it from the array with this identity, in 32 hex digits.
    pub take_from_array: Option<String>,
}

/// How operators of a running array consent to have a drive overwritten.
const WORDS: Words = Words {
    force: "add it with --force (in the API: `force`)",
    take: "--take-from-array",
    force_files: false,
};

/// How the drives protect what is stored, and the last scrub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowProtection;

/// All drives, by slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListDrives;

/// Drives of the server that are not of the array, by path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListAvailableDrives;

/// One drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowDrive {
    /// Its slot, or its path.
    pub which: String,
}

/// Add a drive to the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddDrive(pub NewDrive);

/// Evacuate a drive: move its data to the others, so that it can be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EvacuateDrive {
    /// Its slot, or its path.
    pub which: String,
    /// Even if fewer drives may fail without loss after that.
    pub accept_reduced_protection: bool,
}

/// Add a drive, and empty another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplaceDrive {
    /// The slot or path of the other one.
    pub which: String,
    /// The new one.
    pub new: NewDrive,
}

verbs! {
    ShowProtection -> view::Protection, Read "show" "protection", Viewer
        => |tx, _| Ok(tx.array.protection(&tx.array.config()));
    ListDrives -> Vec<view::Drive>, Read "list" "drive", Viewer
        => |tx, _| Ok(tx.array.drives().into_iter().map(|drive| tx.array.with_health(drive)).collect());
    ListAvailableDrives -> Vec<FoundDrive>, Read "list" "drive", Admin
        => |tx, _| {
            let members = tx.array.drives().into_iter().filter_map(|drive| drive.name).collect();
            Ok(tx.array.parts.machine.find_drives(members).await)
        };
    ShowDrive -> view::Drive, Read "show" "drive", Viewer, about which
        => |tx, it| tx.array.show_drive(&it.which);
    AddDrive -> view::Drive, Change "add" "drive", Admin, of |it, _| Object::of(&["path"], &it.0.path)
        => |tx, it| tx.add_drive(it.0).await;
    EvacuateDrive -> Job, Change "evacuate" "drive", Admin, about which
        => |tx, it| tx.evacuate_drive(&it.which, it.accept_reduced_protection).await;
    ReplaceDrive -> view::Drive, Change "replace" "drive", Admin, about which
        => |tx, it| tx.replace_drive(&it.which, it.new).await;
}

impl Array {
    pub(crate) fn drives(&self) -> Vec<DriveStatus> {
        self.parts.pool.status().drives
    }

    pub(crate) fn with_health(&self, status: DriveStatus) -> view::Drive {
        let health = self.health.of(status.drive);
        let evacuation_warning = self.evacuation_warning(&status);
        view::Drive { status, health, evacuation_warning }
    }

    pub(crate) fn show_drive(&self, which: &str) -> Result<view::Drive> {
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

impl NewDrive {
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

    pub async fn add_drive(&mut self, new: NewDrive) -> Result<view::Drive> {
        let slot = self.bring_drive(&new).await?;
        self.done("drive.added", "drive", &new.path, &format!("was added as slot {slot}"));
        self.array.show_drive(&slot.to_string())
    }

    async fn bring_drive(&mut self, new: &NewDrive) -> Result<usize> {
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
            DriveState::Online => {}
            DriveState::Evacuating => {
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

    pub async fn replace_drive(&mut self, which: &str, new: NewDrive) -> Result<view::Drive> {
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
        if old.state == DriveState::Online
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
