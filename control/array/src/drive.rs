//! Drives: their state, operator requests about them, and the events when they fail, return or leave.
//!
//! A drive is addressed by its slot or by its path. Its membership is on the drives' own labels; nothing about drives
//! is in the configuration.

use crate::array::{Array, Transaction};
use crate::key::NewKey;
use crate::overwrite::{Examined, Words, refusal};
use crate::verb::{Object, verbs};
use crate::view::{self, Health, Job, JobKind, JobState};
use crate::{Error, Result};
use history::Severity;
use records::Topic;
use serde::Serialize;
use shelf::Drive;
use shelf::pool::{
    Consent, DriveContents, DriveState, DriveStatus, Drives, KEY_BYTES, Lock, PoolStatus, WrappedKey,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

/// What the array can't do without the machine that it runs on.
pub trait Machine: Send + Sync {
    /// Opens what lies at an absolute path, and is none of the `members`, for this process alone. May take seconds.
    ///
    /// # Errors
    /// With what is wrong with the path, for people.
    fn open_drive(&self, path: &Path, members: &[String]) -> shelf::Result<Arc<dyn Drive>>;

    /// Says what a path is that is to become a drive, who uses it, and what is known to be on it. Nothing is found of a
    /// path where there is no drive.
    ///
    /// # Errors
    /// When that can't be known, for people: a drive that could not be examined is not blank.
    fn examine(
        &self,
        path: &Path,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<Examined, String>> + Send>>;

    /// The health that the drive at a path reports; empty where that can't be known. Returns within a minute.
    fn drive_health(&self, path: &str) -> Pin<Box<dyn Future<Output = Health> + Send>>;

    /// Prepares the next key of the drives, and returns their next envelope and the key. `now` is the envelope that they
    /// have; what opens it goes on to open it. May take seconds.
    ///
    /// # Errors
    /// With what is to be done first, for people.
    fn next_key(
        &self,
        now: &dyn WrappedKey,
        new: &NewKey,
    ) -> std::result::Result<(Lock, [u8; KEY_BYTES]), String>;

    /// The drives have this envelope: what [`Machine::next_key`] made ready takes the place of the key before.
    ///
    /// # Errors
    /// When that can't be stored, for people; the next start does it.
    fn keep_key(&self, now: &dyn WrappedKey) -> std::result::Result<(), String>;

    /// Remembers where the drives are, for the next start.
    ///
    /// # Errors
    /// When that can't be stored.
    fn remember_drives(&self, paths: &[String]) -> std::io::Result<()>;

    /// Runs long work in the background. It may never end, when the process does.
    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);
}

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
const WORDS: Words = Words { force: "add it with force", take: "--take-from-array", force_files: false };

/// What was seen of the drives when they were last looked at.
#[derive(Debug, Default)]
pub(crate) struct DriveStates {
    drives: BTreeMap<usize, (u128, DriveState, String)>,
    paths: Vec<String>,
    repaired: u64,
    lost: u64,
}

/// A drive as messages call it.
pub(crate) fn called(drive: &DriveStatus) -> String {
    match &drive.name {
        Some(name) => format!("the drive {name} in slot {}", drive.slot),
        None => format!("the drive in slot {}", drive.slot),
    }
}

/// How the drives protect what is stored, and the last scrub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowProtection;

/// All drives, by slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListDrives;

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
        let health = self.health(status.drive);
        let evacuation_warning = self.evacuation_warning(&status);
        view::Drive { status, health, evacuation_warning }
    }

    pub(crate) fn show_drive(&self, which: &str) -> Result<view::Drive> {
        Ok(self.with_health(self.drive(which)?))
    }

    /// By how much emptying a drive reduces protection; `None` if it does not.
    fn evacuation_warning(&self, drive: &DriveStatus) -> Option<String> {
        let may_fail = match drive.reduces_to? {
            0 => "the next drive that fails takes data along".into(),
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

    /// Looks what became of the drives.
    pub(crate) fn watch_drives(&self) {
        self.parts.engine.watch_drives();
        let mut seen = self.seen.lock();
        let status = self.parts.pool.status();
        self.jobs.follow_relocations(&status);
        let before = std::mem::take(&mut *seen);
        let mut now = DriveStates {
            repaired: status.repaired_pages,
            lost: status.lost_pages,
            ..DriveStates::default()
        };
        let mut changed = false;
        for drive in &status.drives {
            let old = before.drives.get(&drive.slot);
            let state = old.filter(|(id, ..)| *id == drive.drive).map(|(_, state, _)| *state);
            if state != Some(drive.state) {
                changed = true;
                self.log_state(drive, state);
            }
            now.drives.insert(drive.slot, (drive.drive, drive.state, called(drive)));
        }
        for (slot, (_, state, called)) in &before.drives {
            if !now.drives.contains_key(slot) {
                changed = true;
                self.log_removal(*slot, *state, called);
            }
        }
        self.log_pages(&before, &now);
        now.paths = self.remember(&status, before.paths);
        *seen = now;
        if changed {
            self.publish_change(Topic::Drives);
        }
    }

    fn log_state(&self, drive: &DriveStatus, before: Option<DriveState>) {
        let slot = drive.slot.to_string();
        let log = |severity, kind: &str, message: String| {
            self.log_event(severity, kind, Some(("drive", &slot)), message);
        };
        let called = called(drive);
        match (before, drive.state) {
            (_, DriveState::Failed) => {
                let what = "is out: what it held is rebuilt on the others; replace it";
                log(Severity::Critical, "drive.out", format!("{called} {what}"));
            }
            (Some(DriveState::Failed), DriveState::InUse) => {
                log(Severity::Info, "drive.back", format!("{called} is back"));
            }
            _ => {}
        }
    }

    fn log_removal(&self, slot: usize, state: DriveState, called: &str) {
        let (kind, what) = match state {
            DriveState::Draining => {
                ("drive.emptied", "is empty and no part of the array any more: take it away")
            }
            _ => ("drive.gone", "is no part of the array any more: what it held is on the others"),
        };
        self.log_event(Severity::Info, kind, Some(("drive", &slot.to_string())), format!("{called} {what}"));
    }

    fn log_pages(&self, before: &DriveStates, now: &DriveStates) {
        let (repaired, lost) =
            (now.repaired.saturating_sub(before.repaired), now.lost.saturating_sub(before.lost));
        if repaired > 0 {
            let message = format!("{repaired} pages were not what had been written, and were written again");
            self.log_event(Severity::Warning, "drive.pages-repaired", None, message);
        }
        if lost > 0 {
            let message = format!(
                "{lost} pages can't be given back: hosts get errors where they belong; write there again, or restore \
                 a snapshot from elsewhere"
            );
            self.log_event(Severity::Critical, "drive.pages-lost", None, message);
        }
    }

    /// Stores the paths of the drives on the machine if they have changed; returns what is stored.
    fn remember(&self, status: &PoolStatus, before: Vec<String>) -> Vec<String> {
        let mut paths: Vec<String> = status.drives.iter().filter_map(|drive| drive.name.clone()).collect();
        paths.sort();
        if paths == before {
            return before;
        }
        match self.parts.machine.remember_drives(&paths) {
            Ok(()) => paths,
            Err(error) => {
                tracing::error!(%error, "where the drives are can't be remembered");
                before
            }
        }
    }
}

/// Paths are printed, logged and kept as text.
fn check_path(path: &str) -> Result<()> {
    if !path.starts_with('/') || path.len() > 4096 || path.chars().any(char::is_control) {
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
            // Before it is opened: that waits for whoever has it.
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
        self.array.watch_drives();
        Ok(slot)
    }

    pub async fn evacuate_drive(&mut self, which: &str, accept_reduced: bool) -> Result<Job> {
        let drive = self.array.drive(which)?;
        let floor = self.drives()?.min_tolerates_after_drain();
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
        job.ok_or_else(|| Error::failed("the drive is being emptied", "and has no job"))
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
            DriveState::InUse => {}
            DriveState::Draining => {
                return Err(Error::conflict(format!("{called} is being emptied already")));
            }
            _ => {
                return Err(Error::precondition(format!(
                    "{called} is out: what it held is rebuilt on the others by itself; add a drive when they have no \
                     room for it"
                )));
            }
        }
        let done = self.drives()?.drain(drive.slot, least).await;
        done.map_err(|error| unusable(&format!("{called} can't be emptied"), error))?;
        self.array.jobs.begin_relocation(JobKind::Evacuate, drive, &self.caller.user);
        self.array.watch_drives();
        let name = drive.name.clone().unwrap_or_else(|| drive.slot.to_string());
        let accepted =
            accepted.map_or_else(String::new, |it| format!(", and reduced protection was accepted: {it}"));
        self.done("drive.leaving", "drive", &name, &format!("is being emptied, as asked for{accepted}"));
        Ok(())
    }

    pub async fn replace_drive(&mut self, which: &str, new: NewDrive) -> Result<view::Drive> {
        let old = self.array.drive(which)?;
        // One comes for the one that goes: what can be borne before is enough after that.
        let floor = self.drives()?.min_tolerates_after_drain();
        let slot = self.bring_drive(&new).await?;
        let path = new.path;
        self.done(
            "drive.added",
            "drive",
            &path,
            &format!("was added as slot {slot} in place of slot {}", old.slot),
        );
        // What was on a drive that is out is rebuilt by itself.
        if old.state == DriveState::InUse
            && let Err(error) = self.empty_drive(&old, floor, None).await
        {
            let Error { kind, message } = error;
            return Err(Error { kind, message: format!("{path} is in slot {slot} now, but {message}") });
        }
        self.array.show_drive(&slot.to_string())
    }

    /// Takes an evacuation back.
    pub async fn keep_drive(&mut self, slot: usize) -> Result<()> {
        let drive = self.array.drive(&slot.to_string())?;
        let kept = self.drives()?.cancel_drain(slot).await;
        kept.map_err(|error| unusable(&format!("{} leaves all the same", called(&drive)), error))?;
        let name = drive.name.clone().unwrap_or_else(|| slot.to_string());
        self.done("drive.kept", "drive", &name, "stays, as asked for");
        self.array.jobs.end_relocation(slot, JobState::Cancelled, None);
        self.array.watch_drives();
        Ok(())
    }
}
