//! Examines a path before it becomes a drive: users, by the kernel's tables, and signatures, by libblkid. libblkid runs as
//! `wipefs` of util-linux in a process of its own, since it parses untrusted data.

use array::Examined;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// Where Debian installs it, which is not in every PATH, and then by PATH.
const PROGRAMS: [&str; 4] = ["/usr/sbin/wipefs", "/sbin/wipefs", "/usr/bin/wipefs", "wipefs"];
/// Time-out, after which it is killed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Examines a path. A path without a drive has neither users nor signatures; opening it reports why.
///
/// # Errors
/// When it can't be known what is on a drive, or who uses it, with what to do.
pub async fn examine(path: &Path) -> Result<Examined, String> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(Examined::default()) };
    let (is_device, is_file) = (metadata.file_type().is_block_device(), metadata.is_file());
    if !is_device && !is_file {
        return Ok(Examined::default());
    }
    let real = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    let users = Kernel::default().users(&real)?;
    let signatures = signatures(&PROGRAMS.map(Path::new), &real).await?;
    Ok(Examined { is_device, users, signatures })
}

/// Who uses a path, for the message about one that can't be opened.
pub fn users(path: &Path) -> Vec<String> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Kernel::default().users(&real).unwrap_or_default()
}

/// What libblkid finds.
async fn signatures(programs: &[&Path], path: &Path) -> Result<Vec<String>, String> {
    for program in programs {
        let mut command = Command::new(program);
        command.args(["--no-act", "--json", "--"]).arg(path).env("LC_ALL", "C");
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = match timeout(TIMEOUT, command.output()).await {
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Ok(output) => output.map_err(|error| format!("wipefs can't be run: {error}"))?,
            Err(_) => return Err("wipefs took too long to examine it: the drive may have failed".into()),
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("wipefs can't examine it: {}", said.trim()));
        }
        return read(&output.stdout).ok_or_else(|| "the output of wipefs can't be read".into());
    }
    Err("its content can't be determined: install wipefs (package util-linux)".into())
}

/// The signatures in the JSON of wipefs: each kind once, where it comes first.
fn read(text: &[u8]) -> Option<Vec<String>> {
    if text.trim_ascii().is_empty() {
        return Some(Vec::new());
    }
    let answer: Value = serde_json::from_slice(text).ok()?;
    let mut found: Vec<(String, u64)> = Vec::new();
    for signature in answer["signatures"].as_array()? {
        let kind = signature["type"].as_str()?;
        let at = signature["offset"].as_str()?;
        let at = at.strip_prefix("0x").map_or_else(|| at.parse(), |hex| u64::from_str_radix(hex, 16)).ok()?;
        let mut said = match kind {
            "gpt" | "dos" | "PMBR" => format!("a partition table ({kind})"),
            _ => kind.to_owned(),
        };
        if let Some(label) = signature["label"].as_str().filter(|label| !label.is_empty()) {
            said += &format!(" {label:?}");
        }
        if let Some(uuid) = signature["uuid"].as_str().filter(|uuid| !uuid.is_empty()) {
            said += &format!(" (UUID {uuid})");
        }
        match found.iter_mut().find(|(known, _)| *known == said) {
            Some((_, first)) => *first = at.min(*first),
            None => found.push((said, at)),
        }
    }
    Some(found.into_iter().map(|(said, at)| format!("{said} at byte {at}")).collect())
}

/// Where the kernel says what it does with block devices.
struct Kernel {
    sys: PathBuf,
    proc: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// A block device, as the kernel names it.
struct Node {
    name: String,
    number: String,
    folder: PathBuf,
}

impl Kernel {
    /// Who uses a device or a file.
    fn users(&self, path: &Path) -> Result<Vec<String>, String> {
        let Ok(metadata) = fs::metadata(path) else { return Ok(Vec::new()) };
        let mut users = Vec::new();
        let nodes = if metadata.file_type().is_block_device() {
            let whole = self.node(&number(metadata.rdev()));
            whole.into_iter().flat_map(|whole| self.partitions(whole)).collect()
        } else {
            let loops = self.loops(path);
            users.extend(loops.iter().map(|it| format!("it is attached as /dev/{}", it.name)));
            loops.into_iter().flat_map(|it| self.partitions(it)).collect::<Vec<_>>()
        };
        for node in &nodes {
            users.extend(self.holders(node));
        }
        users.extend(self.mounts(&nodes)?);
        users.extend(self.swaps(&nodes, &metadata));
        Ok(users)
    }

    fn node(&self, number: &str) -> Option<Node> {
        let folder = self.sys.join("dev/block").join(number).canonicalize().ok()?;
        let name = folder.file_name()?.to_str()?.to_owned();
        Some(Node { name, number: number.to_owned(), folder })
    }

    /// A device with its partitions.
    fn partitions(&self, whole: Node) -> Vec<Node> {
        let entries = fs::read_dir(&whole.folder).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.join("partition").exists());
        let node = |folder: PathBuf| {
            let name = folder.file_name()?.to_str()?.to_owned();
            let number = fs::read_to_string(folder.join("dev")).ok()?.trim().to_owned();
            Some(Node { name, number, folder })
        };
        let mut parts: Vec<Node> = folders.filter_map(node).collect();
        parts.sort_by(|one, other| one.name.cmp(&other.name));
        std::iter::once(whole).chain(parts).collect()
    }

    /// Loop devices that a file is attached as.
    fn loops(&self, path: &Path) -> Vec<Node> {
        let entries = fs::read_dir(self.sys.join("block")).into_iter().flatten().flatten();
        let is_it = |folder: &PathBuf| {
            let file = fs::read_to_string(folder.join("loop/backing_file"));
            file.is_ok_and(|file| Path::new(OsStr::new(file.trim_end_matches('\n'))) == path)
        };
        let node = |folder: PathBuf| {
            let name = folder.file_name()?.to_str()?.to_owned();
            let number = fs::read_to_string(folder.join("dev")).ok()?.trim().to_owned();
            Some(Node { name, number, folder })
        };
        entries.map(|entry| entry.path()).filter(is_it).filter_map(node).collect()
    }

    fn holders(&self, node: &Node) -> Vec<String> {
        let entries = fs::read_dir(node.folder.join("holders")).into_iter().flatten().flatten();
        let said = |holder: String| {
            let mapped = fs::read_to_string(self.sys.join("block").join(&holder).join("dm/name"));
            let mapped = mapped.map_or_else(|_| String::new(), |name| format!(" ({})", name.trim()));
            format!("{} is held by {holder}{mapped}", node.name)
        };
        entries.filter_map(|entry| entry.file_name().into_string().ok()).map(said).collect()
    }

    /// Where one of these is mounted (proc(5), mountinfo). Some file systems have device numbers of their own there: their
    /// source counts, too.
    fn mounts(&self, nodes: &[Node]) -> Result<Vec<String>, String> {
        let table = self.proc.join("self/mountinfo");
        let text = fs::read_to_string(&table).map_err(|error| {
            format!("it can't be known whether it is mounted: {}: {error}", table.display())
        })?;
        let mut found: Vec<String> = Vec::new();
        for line in text.lines() {
            let Some((front, back)) = line.split_once(" - ") else { continue };
            let mut front = front.split(' ').skip(2);
            let (Some(number), Some(point)) = (front.next(), front.nth(1)) else { continue };
            let source = back.split(' ').nth(1).unwrap_or_default();
            let source = device_number(&unescaped(source));
            let wanted = |node: &&Node| node.number == number || source.as_ref() == Some(&node.number);
            if let Some(node) = nodes.iter().find(wanted) {
                found.push(format!("{} is mounted at {}", node.name, unescaped(point)));
            }
        }
        found.dedup();
        Ok(found)
    }

    fn swaps(&self, nodes: &[Node], file: &fs::Metadata) -> Vec<String> {
        let text = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        let used = |line: &str| {
            let path = unescaped(line.split_whitespace().next()?);
            let node =
                device_number(&path).and_then(|number| nodes.iter().find(|node| node.number == number));
            let same =
                || fs::metadata(&path).is_ok_and(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()));
            match node {
                Some(node) => Some(format!("{} is used as swap", node.name)),
                None => same().then(|| "it is used as swap".into()),
            }
        };
        text.lines().skip(1).filter_map(used).collect()
    }
}

/// The device number of a path, if it is a block device.
fn device_number(path: &str) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    metadata.file_type().is_block_device().then(|| number(metadata.rdev()))
}

/// Major and minor of a `dev_t` (gnu_dev_major(3)).
fn number(device: u64) -> String {
    let major = (device >> 8) & 0xfff | (device >> 32) & 0xffff_f000;
    let minor = device & 0xff | (device >> 12) & 0xffff_ff00;
    format!("{major}:{minor}")
}

/// A path in a table of the kernel, where blanks and backslashes are octal.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = octal.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
#[path = "probe_test.rs"]
mod tests;
