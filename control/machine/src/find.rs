//! Finds the block devices of the server that could become drives, with what is on them, so that an operator picks one from a
//! list instead of typing a path.

use crate::probe;
use array::FoundDrive;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Devices without a medium of their own, or removable ones, by how the kernel names them.
const EXCLUDED: [&str; 9] = ["loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd", "mtdblock"];
/// Bytes of a sector in /sys, whatever the drive's own are.
const SECTOR_BYTES: u64 = 512;
/// Names that stay the same from start to start, the best first.
const BY_ID: [&str; 4] = ["nvme-", "ata-", "scsi-", "wwn-"];

/// Where the kernel and udev list devices.
struct Tree {
    sys: PathBuf,
    dev: PathBuf,
}

impl Default for Tree {
    fn default() -> Self {
        Self { sys: "/sys/block".into(), dev: "/dev".into() }
    }
}

/// Drives of the server that are not among the `members`, by path.
pub async fn drives(members: &[String]) -> Vec<FoundDrive> {
    let real = |path: &str| Path::new(path).canonicalize().ok();
    let members: Vec<_> = members.iter().filter_map(|it| real(it)).collect();
    let is_device = |path: &Path| fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
    let mut found = Tree::default().candidates();
    found.retain(|it| {
        is_device(Path::new(&it.path)) && real(&it.path).is_none_or(|it| !members.contains(&it))
    });
    for drive in &mut found {
        match probe::examine(Path::new(&drive.path)).await {
            Ok(examined) => (drive.users, drive.contents) = (examined.users, examined.signatures),
            Err(why) => drive.problem = Some(why),
        }
    }
    found
}

impl Tree {
    /// Whole devices with a size, as the kernel describes them, by path.
    fn candidates(&self) -> Vec<FoundDrive> {
        let entries = fs::read_dir(&self.sys).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<_> = names.filter_map(|name| self.candidate(&name)).collect();
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found
    }

    fn candidate(&self, name: &str) -> Option<FoundDrive> {
        let excluded = |prefix: &str| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| prefix.ends_with('-') || rest.starts_with(|it: char| it.is_ascii_digit()))
        };
        if EXCLUDED.iter().any(|prefix| excluded(prefix)) {
            return None;
        }
        let folder = self.sys.join(name);
        let text = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let sectors: u64 = text("size")?.parse().ok()?;
        let size = sectors.checked_mul(SECTOR_BYTES).filter(|size| *size > 0)?;
        Some(FoundDrive {
            path: self.stable_path(name).to_str()?.to_owned(),
            size,
            model: text("device/model"),
            serial: text("device/serial").or_else(|| text("device/vpd_pg80")).or_else(|| text("wwid")),
            ..FoundDrive::default()
        })
    }

    /// The name by which the device is found again at the next start.
    fn stable_path(&self, name: &str) -> PathBuf {
        let plain = self.dev.join(name);
        let entries = fs::read_dir(self.dev.join("disk/by-id")).into_iter().flatten().flatten();
        let links = entries.map(|entry| entry.path());
        let same = |link: &PathBuf| fs::read_link(link).is_ok_and(|to| to.file_name() == plain.file_name());
        let rank = |link: &PathBuf| {
            let name = link.file_name()?.to_str()?;
            let rank = BY_ID.iter().position(|prefix| name.starts_with(prefix))?;
            Some((rank, name.to_owned()))
        };
        let ranked = links.filter(same).filter_map(|link| Some((rank(&link)?, link)));
        ranked.min().map_or(plain, |(_, link)| link)
    }
}

#[cfg(test)]
#[path = "find_test.rs"]
mod tests;
