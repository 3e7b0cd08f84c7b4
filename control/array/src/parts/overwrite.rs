//! Whether a drive may be overwritten: its contents and users, against what the operator consented to.

use shelf::pool::{Consent, DriveContents};

/// What the machine knows about a path that is to become a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// It is a block device; otherwise a regular file, or nothing that can be a drive.
    pub is_device: bool,
    /// Its present users: mounts, swap, device-mapper, md and so on, a sentence each.
    pub users: Vec<String>,
    /// Signatures of file systems, volume managers and partition tables on it, as people read them.
    pub signatures: Vec<String>,
}

/// How the operator consents, in the words of the interface that is used.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// What overwrites data that are not Ashlar's.
    pub force: &'static str,
    /// What takes a drive of another array, in front of that array's identity.
    pub take: &'static str,
    /// A regular file whose contents are not Ashlar's may be overwritten, too.
    pub force_files: bool,
}

/// Why a drive may not be overwritten, with what to do; `None` if it may.
pub fn refusal(
    path: &str,
    examined: &Examined,
    contents: &DriveContents,
    consent: &Consent,
    words: Words,
) -> Option<String> {
    if !examined.users.is_empty() {
        let users = examined.users.join("; ");
        return Some(format!("{path} is in use: {users}. End that use first, or name another drive"));
    }
    let Words { force, take, force_files } = words;
    if let DriveContents::Array { array, slot } = contents
        && !consent.arrays.contains(array)
    {
        let place = slot.map_or_else(
            || ", and its label is damaged or of another release".into(),
            |(slot, slots)| format!(" (slot {slot} of {slots})"),
        );
        return Some(format!(
            "{path} belongs to the Ashlar array {array:032x}{place}. It is not overwritten, not even by force. If that \
             array needs it no more, name the array: {take} {array:032x}"
        ));
    }
    let mut held = examined.signatures.clone();
    if let (DriveContents::Foreign { at }, true) = (contents, held.is_empty()) {
        held.push(format!("unknown data at byte {at}"));
    }
    let held = held.join(", ");
    if held.is_empty() {
        return None;
    }
    let is_file = !examined.is_device;
    if !consent.foreign {
        let next = match is_file && !force_files {
            true => "remove the file, and make an empty one".into(),
            false => format!("{force} to destroy that"),
        };
        return Some(format!("{path} is not blank: it holds {held}; {next}"));
    }
    (is_file && !force_files).then(|| {
        format!(
            "{path} is a file that holds {held}: by force only block devices are overwritten; remove the file, and make \
             an empty one"
        )
    })
}

#[cfg(test)]
#[path = "overwrite_test.rs"]
mod tests;
