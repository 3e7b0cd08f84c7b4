//! Metadata work of a cluster file system: on-disk locks taken at power-on of virtual machines, and space reclamation
//! in passes.

use super::{Next, World};
use crate::host::{Command, Content, Kind, Outcome, Time};
use crate::seed::Seed;

/// Method of on-disk locking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locking {
    /// COMPARE AND WRITE of the lock's sector.
    Ats,
    /// RESERVE of the whole disk, a write, RELEASE.
    Reserve,
}

/// Bytes of a lock.
const SECTOR: u64 = 512;
const METADATA: u64 = 4096;
/// A block of the file system.
const BLOCK: u64 = 1 << 20;
/// Maximum length of one UNMAP: below any array's limit.
const UNMAP_BYTES: u64 = 64 << 20;
/// Wait of a host for a lock that another one holds.
const LOCK_AGAIN: Time = 3_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Lock,
    Change(u32),
    Unlock,
    Work(u64),
}

/// Power-on of virtual machines one after the other: each takes locks, changes metadata under them, and then reads its
/// system disk.
#[derive(Debug)]
pub struct PowerOn {
    disk: usize,
    /// First byte of the locks, and their number.
    locks: (u64, u64),
    /// Location of system disks, and length of the part read.
    image: (u64, u64),
    locking: Locking,
    machines: u64,
    /// Lock and unlock cycles for each machine.
    rounds: u64,
    owner: u64,
    stage: Stage,
    lock: u64,
    round: u64,
    wait_until: Time,
    under_way: bool,
    failed: bool,
}

/// Metadata writes under each lock.
const CHANGES: u32 = 2;
/// Length of each read of a system disk.
const BOOT_READ: u64 = 32 << 10;

impl PowerOn {
    /// Powers on this many machines on one host. `owner` distinguishes hosts; it is not 0.
    pub fn new(disk: usize, locks: (u64, u64), image: (u64, u64), locking: Locking, machines: u64) -> Self {
        let (stage, owner, rounds) = (Stage::Lock, 1, 10);
        let (lock, round, wait_until) = (0, 0, 0);
        let (under_way, failed) = (false, false);
        Self {
            disk,
            locks,
            image,
            locking,
            machines,
            rounds,
            owner,
            stage,
            lock,
            round,
            wait_until,
            under_way,
            failed,
        }
    }

    /// Sets the host among several.
    pub fn by(mut self, owner: u64) -> Self {
        self.owner = owner;
        self
    }

    fn lock_at(&self) -> u64 {
        self.locks.0 + self.lock * METADATA
    }

    fn ats(&self, expect: u64, replace: u64) -> Command {
        Command { disk: self.disk, kind: Kind::Ats { expect, replace }, at: self.lock_at(), bytes: SECTOR }
    }

    fn whole(&self, kind: Kind) -> Command {
        Command { disk: self.disk, kind, at: 0, bytes: 0 }
    }
}

impl World for PowerOn {
    fn outstanding(&self) -> u32 {
        1
    }

    fn next(&mut self, now: Time, random: &mut Seed) -> Next {
        if self.machines == 0 || self.failed || self.under_way {
            return Next::Nothing;
        }
        if now < self.wait_until {
            return Next::At(self.wait_until);
        }
        self.under_way = true;
        Next::Command(match (self.stage, self.locking) {
            (Stage::Lock, Locking::Ats) => {
                self.lock = random.range(0, self.locks.1);
                self.ats(0, self.owner)
            }
            (Stage::Unlock, Locking::Ats) => self.ats(self.owner, 0),
            (Stage::Lock, Locking::Reserve) => {
                self.lock = random.range(0, self.locks.1);
                self.whole(Kind::Reserve)
            }
            (Stage::Unlock, Locking::Reserve) => self.whole(Kind::Release),
            (Stage::Change(n), _) => {
                // After the lock's own sector, in the same metadata block.
                let at = self.locks.0 + (self.locks.1 + self.lock) * METADATA + u64::from(n % 2) * SECTOR;
                Command { disk: self.disk, kind: Kind::Write(Content::Half), at, bytes: SECTOR }
            }
            (Stage::Work(_), _) => {
                let reads = self.image.1 / BOOT_READ;
                let at = self.image.0 + random.range(0, reads) * BOOT_READ;
                Command { disk: self.disk, kind: Kind::Read, at, bytes: BOOT_READ }
            }
        })
    }

    fn done(&mut self, now: Time, _: &Command, outcome: Outcome) {
        self.under_way = false;
        match (&outcome, self.stage) {
            (Outcome::Good(_), _) => {}
            (Outcome::Miscompare, Stage::Lock) => {
                self.wait_until = now + LOCK_AGAIN;
                return;
            }
            // Without ATS, locks use reservations, as in older releases.
            (Outcome::Unsupported, Stage::Lock) if self.locking == Locking::Ats => {
                self.locking = Locking::Reserve;
                return;
            }
            _ => {
                self.failed = true;
                return;
            }
        }
        let reads = self.image.1 / BOOT_READ / 8;
        self.stage = match self.stage {
            Stage::Lock => Stage::Change(0),
            Stage::Change(n) if n + 1 < CHANGES => Stage::Change(n + 1),
            Stage::Change(_) => Stage::Unlock,
            Stage::Unlock => {
                self.round += 1;
                if self.round < self.rounds { Stage::Lock } else { Stage::Work(0) }
            }
            Stage::Work(n) if n + 1 < reads => Stage::Work(n + 1),
            Stage::Work(_) => {
                self.machines -= 1;
                self.round = 0;
                Stage::Lock
            }
        };
    }

    fn is_finished(&self) -> bool {
        (self.machines == 0 || self.failed) && !self.under_way
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}

/// Space reclamation as by `esxcli storage vmfs unmap -n BLOCKS`: each pass locks, allocates this many blocks, unmaps
/// them, and frees them again.
#[derive(Debug)]
pub struct Reclaim {
    disk: usize,
    next: u64,
    end: u64,
    blocks: u64,
    /// Remaining blocks of this pass.
    left: u64,
    lock: u64,
    locking: Locking,
    stage: Stage,
    under_way: bool,
    failed: bool,
}

impl Reclaim {
    /// Reclaims a part of a disk in passes of this many 1 MiB blocks; the lock is at byte `lock`.
    pub fn new(disk: usize, range: std::ops::Range<u64>, blocks: u64, lock: u64) -> Self {
        let (next, end, stage) = (range.start, range.end, Stage::Lock);
        let blocks = blocks.max(1);
        let (locking, under_way, failed) = (Locking::Ats, false, false);
        Self { disk, next, end, blocks, left: blocks, lock, locking, stage, under_way, failed }
    }

    /// Recommended blocks of a pass on a file system with these free and total bytes: at most 1 % of the free space,
    /// and the default of 200 if it is three quarters full.
    pub fn recommended(asked: u64, free: u64, total: u64) -> u64 {
        match free < total / 4 {
            true => asked.min(200),
            false => asked.min((free / BLOCK / 100).max(1)),
        }
    }
}

impl World for Reclaim {
    fn outstanding(&self) -> u32 {
        1
    }

    fn next(&mut self, _: Time, _: &mut Seed) -> Next {
        if self.under_way || self.is_finished() {
            return Next::Nothing;
        }
        self.under_way = true;
        let (disk, at, bytes) = (self.disk, self.lock, SECTOR);
        Next::Command(match self.stage {
            Stage::Lock if self.locking == Locking::Reserve => {
                Command { disk, kind: Kind::Reserve, at: 0, bytes: 0 }
            }
            Stage::Unlock if self.locking == Locking::Reserve => {
                Command { disk, kind: Kind::Release, at: 0, bytes: 0 }
            }
            Stage::Lock => Command { disk, kind: Kind::Ats { expect: 0, replace: 1 }, at, bytes },
            Stage::Unlock => Command { disk, kind: Kind::Ats { expect: 1, replace: 0 }, at, bytes },
            Stage::Change(n) => {
                let at = self.lock + METADATA * (1 + u64::from(n));
                Command { disk, kind: Kind::Write(Content::Half), at, bytes: METADATA }
            }
            Stage::Work(_) => {
                let bytes = (self.left * BLOCK).min(UNMAP_BYTES).min(self.end - self.next);
                Command { disk, kind: Kind::Unmap, at: self.next, bytes }
            }
        })
    }

    fn done(&mut self, _: Time, command: &Command, outcome: Outcome) {
        self.under_way = false;
        if (&outcome, self.stage, self.locking) == (&Outcome::Unsupported, Stage::Lock, Locking::Ats) {
            self.locking = Locking::Reserve;
            return;
        }
        if !matches!(outcome, Outcome::Good(_)) {
            self.failed = true;
            return;
        }
        self.stage = match self.stage {
            Stage::Lock => Stage::Change(0),
            Stage::Change(0) => {
                self.left = self.blocks;
                Stage::Work(0)
            }
            Stage::Work(n) => {
                self.next += command.bytes;
                self.left -= command.bytes.div_ceil(BLOCK);
                if self.left > 0 && self.next < self.end { Stage::Work(n + 1) } else { Stage::Change(1) }
            }
            Stage::Change(_) => Stage::Unlock,
            Stage::Unlock => Stage::Lock,
        };
    }

    fn is_finished(&self) -> bool {
        (self.next >= self.end && self.stage == Stage::Lock || self.failed) && !self.under_way
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}
