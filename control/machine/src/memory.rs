//! Memory limits derived from the memory that the process may use: deduplication index, map pages, connections of hosts.
//!
//! That is the memory of the machine, or less in a container or a unit with `MemoryMax=`: the kernel ends a process that goes beyond
//! the limit of its control group. Limits of the groups above it hold as well (cgroups(7)).

use anyhow::{Result, ensure};
use array::MemoryLimit;
use bytesize::ByteSize;
use std::path::{Component, Path, PathBuf};

/// What the engine may use, in bytes, where options say so.
#[derive(Clone, Copy, Default)]
pub struct Config {
    /// For written data before data reduction.
    pub write: Option<u64>,
    /// For the read cache.
    pub read: Option<u64>,
    /// For the deduplication index.
    pub index: Option<u64>,
    /// For maps of volumes.
    pub map: Option<u64>,
}

impl Config {
    /// Checks that the process may use what is given.
    ///
    /// # Errors
    /// If one of them is more than there is: the kernel would end the process once it used that much.
    pub fn check(self) -> Result<()> {
        let MemoryLimit { bytes, source } = limit();
        let options = [("write", self.write), ("read", self.read), ("index", self.index), ("map", self.map)];
        for (name, given) in options {
            let given = given.unwrap_or_default();
            ensure!(
                given <= bytes,
                "--{name}-memory is {}, and {source} is {}: give less, or leave it out",
                ByteSize(given),
                ByteSize(bytes)
            );
        }
        Ok(())
    }

    /// Memory limits of the engine for a capacity in bytes; its own defaults where none is given.
    pub fn engine_options(self, seed: [u8; 32], capacity: u64) -> engine::Options {
        let mut options = engine::Options::new(seed);
        let memory = limit();
        tracing::info!(bytes = memory.bytes, source = memory.source, "memory");
        options.map_pages = map_pages(memory.bytes);
        for (bound, given) in [
            (&mut options.slot_bytes, self.write),
            (&mut options.cache_bytes, self.read),
            (&mut options.index_bytes, Some(self.index.unwrap_or_else(|| index(capacity, memory.bytes)))),
            (&mut options.page_bytes, self.map),
        ] {
            *bound = given.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(*bound);
        }
        options
    }
}

/// Files of the kernel; a test has its own.
type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Limits of version 2: beyond the first the kernel ends processes, beyond the second it slows them down to a standstill.
const LIMITS_V2: &[&str] = &["memory.max", "memory.high"];
/// The limit of version 1.
const LIMITS_V1: &[&str] = &["memory.limit_in_bytes"];

/// The memory that this process may use, and what says so; 4 GiB if the system does not report it.
pub fn limit() -> MemoryLimit {
    limit_by(&|path| std::fs::read_to_string(path).ok())
}

fn limit_by(read: ReadFile<'_>) -> MemoryLimit {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| parse(&text));
    let machine = machine.map(|bytes| MemoryLimit { bytes, source: "the memory of the machine".into() });
    let found = of_groups(read).into_iter().chain(machine).min_by_key(|limit| limit.bytes);
    found.unwrap_or(MemoryLimit {
        bytes: 4 << 30,
        source: "an assumption: the system reports no memory".into(),
    })
}

fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limits of the control group of this process, and of those above it.
fn of_groups(read: ReadFile<'_>) -> Vec<MemoryLimit> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        // Number of the hierarchy, its controllers, the group.
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (kind, files) = match (number, controllers) {
            ("0", "") => ("cgroup2", LIMITS_V2),
            (_, some) if some.split(',').any(|it| it == "memory") => ("cgroup", LIMITS_V1),
            _ => continue,
        };
        let mounted = mounts.lines().filter_map(|line| Mount::parse(line, kind));
        for folder in mounted.flat_map(|mount| mount.folders(Path::new(group))) {
            let limit = |file: &&str| {
                let path = folder.join(file);
                let bytes = read(&path)?.trim().parse().ok()?;
                Some(MemoryLimit { bytes, source: path.display().to_string() })
            };
            found.extend(files.iter().filter_map(limit));
        }
    }
    found
}

/// A mounted hierarchy of control groups that knows memory.
struct Mount {
    /// The group that is mounted.
    root: PathBuf,
    at: PathBuf,
}

impl Mount {
    /// A line of mountinfo (proc_pid_mountinfo(5)): fields, a hyphen, the type, the source, options of the file system.
    fn parse(line: &str, kind: &str) -> Option<Self> {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let mut rest = rest.split(' ');
        let is_kind = rest.next()? == kind;
        let options = rest.nth(1).unwrap_or_default();
        let knows_memory = kind == "cgroup2" || options.split(',').any(|it| it == "memory");
        (is_kind && knows_memory).then(|| Self { root: unescaped(root), at: unescaped(at) })
    }

    /// The folders of a group and of those above it, as far as they are mounted. What is above the namespace of a container can't be
    /// seen, nor need it be: the limit of the container is that of its root.
    fn folders(&self, group: &Path) -> Vec<PathBuf> {
        let below = group.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let normal = below.components().all(|it| matches!(it, Component::Normal(_)));
        let below = if normal { below } else { Path::new("") };
        below.ancestors().map(|it| self.at.join(it)).collect()
    }
}

/// A path of mountinfo: spaces, tabs, line ends and backslashes are in octal.
fn unescaped(text: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter)).into()
}

/// Bytes for the deduplication index by default: 2 % of the capacity, which is an entry for
/// every block even if all data compress to a third, but at most a quarter of the memory.
pub fn index(capacity: u64, memory: u64) -> u64 {
    (capacity / 50).min(memory / 4)
}

/// Bytes of memory for each map page that there may be.
const MAP_PAGE_BYTES: u64 = 40;

/// Map pages that there may be: a thirty-second of the memory is for their directory, and a terabyte can
/// always be mapped.
pub fn map_pages(memory: u64) -> u64 {
    (memory / 32 / MAP_PAGE_BYTES).max(1 << 19)
}

/// Bytes that all connections of hosts together may hold: an eighth of the memory.
pub fn sessions(memory: u64) -> u64 {
    (memory / 8).max(64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_map_pages_takes_its_part_of_memory() {
        assert_eq!(map_pages(32 << 30), (1u64 << 30) / 40);
        assert_eq!(map_pages(256 << 20), 1 << 19);
    }

    #[test]
    fn the_index_is_bounded_by_drives_and_by_memory() {
        assert_eq!(index(50 << 30, 64 << 30), 1 << 30);
        assert_eq!(index(50 << 40, 64 << 30), 16 << 30);
    }

    #[test]
    fn the_memory_of_the_system_is_read() {
        let text = "MemTotal:       24627200 kB\nMemFree:        21040916 kB\n";
        assert_eq!(parse(text), Some(24_627_200 * 1024));
        assert_eq!(parse("MemTotal: many"), None);
        assert!(limit().bytes > 0);
    }

    /// The limit with these files, and what says so.
    fn limit_with(files: &[(&str, &str)]) -> (u64, String) {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        let limit = limit_by(&read);
        (limit.bytes, limit.source)
    }

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal:       1000 kB\n");
    const UNIFIED: (&str, &str) =
        ("/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");

    #[test]
    fn the_smallest_limit_on_the_way_to_the_root_counts() {
        let group = ("/proc/self/cgroup", "0::/system.slice/ashlard.service\n");
        let (slice, unit) = (
            "/sys/fs/cgroup/system.slice/memory.max",
            "/sys/fs/cgroup/system.slice/ashlard.service/memory.max",
        );
        let high = "/sys/fs/cgroup/system.slice/ashlard.service/memory.high";
        let with = |more: &[(&str, &str)]| limit_with(&[&[MEMINFO, UNIFIED, group], more].concat());
        assert_eq!(with(&[]), (1_024_000, "the memory of the machine".into()));
        assert_eq!(with(&[(unit, "max\n"), (slice, "max\n")]).0, 1_024_000);
        assert_eq!(with(&[(unit, "5000\n")]), (5000, unit.into()));
        assert_eq!(with(&[(unit, "5000\n"), (slice, "4000\n")]), (4000, slice.into()));
        assert_eq!(with(&[(unit, "5000\n"), (high, "3000\n")]), (3000, high.into()));
        assert_eq!(with(&[(unit, "9223372036854771712\n")]).0, 1_024_000, "more than the machine has");
        assert_eq!(with(&[(unit, "lots\n")]).0, 1_024_000);
    }

    #[test]
    fn the_limit_of_a_container_is_that_of_its_root() {
        let max = "/sys/fs/cgroup/memory.max";
        for group in ["0::/\n", "0::/../../other\n"] {
            let files = [MEMINFO, UNIFIED, ("/proc/self/cgroup", group), (max, "7000\n")];
            assert_eq!(limit_with(&files), (7000, max.into()), "{group}");
        }
        // Without a namespace of its own, the mount begins at the container's group.
        let mount = "29 23 0:26 /docker/77 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let inner = "/sys/fs/cgroup/a b/memory.max";
        let files = [
            MEMINFO,
            ("/proc/self/mountinfo", mount),
            ("/proc/self/cgroup", "0::/docker/77/a b\n"),
            (inner, "6000\n"),
            (max, "7000\n"),
        ];
        assert_eq!(limit_with(&files), (6000, inner.into()));
    }

    #[test]
    fn version_1_has_its_own_hierarchy_for_memory() {
        let mounts = "30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 23 0:28 / /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n";
        let limit = "/sys/fs/cgroup/my memory/box/memory.limit_in_bytes";
        let files = [
            MEMINFO,
            ("/proc/self/mountinfo", mounts),
            ("/proc/self/cgroup", "5:memory:/box\n4:cpu:/box\n1:name=systemd:/box\n0::/box\n"),
            ("/sys/fs/cgroup/cpu/box/memory.limit_in_bytes", "1\n"),
            (limit, "8000\n"),
        ];
        assert_eq!(limit_with(&files), (8000, limit.into()));
        assert_eq!(limit_with(&[]).0, 4 << 30);
        assert_eq!(limit_with(&[MEMINFO, ("/proc/self/cgroup", "garbage\n::\n0::\n")]).0, 1_024_000);
    }
}
