//! Hosts whose commands show whether they take effect once: counters advanced by COMPARE AND WRITE, and copies whose
//! destination another host overwrites.

use super::{DISK, MS, Side};
use block::workload::Random;
use scsi::{Response, Status};

pub const BLOCK: usize = 512;
/// Blocks of the counters of single hosts.
const COUNTERS: u64 = 16;
/// Source of a copy.
const SOURCE: u64 = 64;
const TARGET: u64 = 128;
const KEY: u64 = 77;

/// LUN of the counters and copies, and of the reservation.
const DATA: u8 = 0;
const RESERVED: u8 = 1;

const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const READY: [u8; 6] = [0; 6];

/// A block with a value.
fn value(count: u64) -> Vec<u8> {
    count.to_le_bytes().into_iter().cycle().take(BLOCK).collect()
}

fn long(opcode: u8, lba: u64, blocks: u32) -> Vec<u8> {
    [&[opcode, 0][..], &lba.to_be_bytes(), &blocks.to_be_bytes(), &[0, 0]].concat()
}

/// COMPARE AND WRITE of one block.
fn swap(lba: u64) -> Vec<u8> {
    long(0x89, lba, 1)
}

/// The parameter list of an EXTENDED COPY within a disk.
fn copy_list(blocks: u16) -> Vec<u8> {
    let name = scsi::naa(DISK);
    let name = u128::from_str_radix(name.trim_start_matches("naa."), 16).expect("digits").to_be_bytes();
    let head = [1, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    let disk = [&[0xE4, 0, 0, 0, 1, 3, 0, 16][..], &name, &[0, 0, 0, 0, 0, 0, 2, 0]].concat();
    let segment = [&[2, 0, 0, 24, 0, 0, 0, 0, 0, 0][..], &blocks.to_be_bytes()].concat();
    [&head[..], &disk, &segment, &SOURCE.to_be_bytes(), &TARGET.to_be_bytes()].concat()
}

/// An outstanding command of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Advances the host's counter from this value.
    Count(u64),
    /// Reads the host's counter.
    Look,
    /// Writes the source of this copy.
    Write(u64),
    Copy(u64),
    /// Overwrites the destination of this copy.
    Overwrite(u64),
    /// Reads the destination. At its start, it was known whether the copy had taken effect, and whether it was
    /// overwritten.
    Check(bool, bool),
    Register,
    Keys,
    Reserve,
    /// Writes to the reserved disk; whether it was reserved at the start.
    Intrude(bool),
}

/// Knowledge of a host about its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Is(u64),
    /// This value, or one more.
    Open(u64),
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Good,
    /// The command did not take effect.
    Not,
    /// The command may have taken effect, but will not later.
    Open,
    Miscompare,
    Conflict,
}

/// Commands of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    All,
    /// Only copies and overwrites.
    Copies,
}

pub struct Host {
    side: usize,
    nexus: u32,
    open: Option<(u64, What)>,
    counter: Known,
    /// Whether the host has received the unit attention of a new nexus, by LUN.
    greeted: [bool; 2],
}

/// The copy of two hosts: the first one copies, the second one overwrites.
#[derive(Default)]
struct Copy {
    /// Number of the copy. Its source has twice that value.
    number: u64,
    is_written: bool,
    /// Whether the copying host knows that the copy has taken effect.
    is_copied: bool,
    /// Whether the other host has overwritten the destination.
    is_overwritten: bool,
    /// Whether an overwrite had an open end.
    may_be_overwritten: bool,
    /// Whether the effect of the last attempt is unknown.
    is_open: bool,
}

pub struct Hosts {
    hosts: Vec<Host>,
    copy: Copy,
    blocks: u16,
    is_registered: bool,
    is_reserved: bool,
    work: Work,
    pub operations: u64,
}

impl Hosts {
    /// Logs the hosts in, alternating between their front ends.
    pub fn new(names: &[&str], sides: &mut [Side], (random, work): (&mut Random, Work)) -> Self {
        let count = sides.len();
        let log_in = |(at, name): (usize, &&str)| {
            let nexus = sides[at % count].front.attach(at as u16 + 1, [at as u8; 6], name);
            Host { side: at % count, nexus, open: None, counter: Known::Is(0), greeted: [false; 2] }
        };
        Self {
            hosts: names.iter().enumerate().map(log_in).collect(),
            copy: Copy { number: 1, ..Copy::default() },
            // Shared in the map, or copied byte by byte.
            blocks: if random.chance(50) { 8 } else { 3 },
            is_registered: false,
            is_reserved: false,
            work,
            operations: 0,
        }
    }

    pub fn are_idle(&self) -> bool {
        self.hosts.iter().all(|host| host.open.is_none())
    }

    /// Begins a command of a host, unless one is outstanding.
    pub fn begin(&mut self, sides: &mut [Side], random: &mut Random, now: u64) {
        let at = random.below(self.hosts.len() as u64) as usize;
        if self.hosts[at].open.is_some() {
            return;
        }
        if self.work == Work::Copies && at > 1 {
            return;
        }
        let chance = if self.work == Work::Copies { 0 } else { random.below(10) };
        let what = match (at, chance) {
            (0, 0..4) => self.next_of_copy(),
            (1, 0..4) => self.next_overwriting(),
            (0, 4) if !self.is_registered => What::Register,
            (0, 5) if !self.is_reserved => What::Reserve,
            (_, 4) if self.is_registered => What::Keys,
            (_, 5 | 6) => What::Intrude(self.is_reserved),
            _ => match self.hosts[at].counter {
                Known::Open(_) => What::Look,
                Known::Is(_) if random.chance(10) => What::Look,
                Known::Is(count) => What::Count(count),
            },
        };
        self.start(at, what, sides, now);
    }

    fn next_of_copy(&self) -> What {
        let number = self.copy.number;
        match &self.copy {
            Copy { is_written: false, .. } => What::Write(number),
            Copy { is_open: true, .. } | Copy { is_copied: true, .. } => self.check_now(),
            _ => What::Copy(number),
        }
    }

    fn next_overwriting(&self) -> What {
        if self.copy.is_overwritten { self.check_now() } else { What::Overwrite(self.copy.number) }
    }

    fn check_now(&self) -> What {
        What::Check(self.copy.is_copied, self.copy.is_overwritten)
    }

    fn start(&mut self, at: usize, what: What, sides: &mut [Side], now: u64) {
        let blocks = usize::from(self.blocks);
        let swapped = |from: u64, to: u64| [value(from), value(to)].concat();
        let own = COUNTERS + at as u64;
        let (lun, cdb, data) = match what {
            What::Count(count) => (DATA, swap(own), swapped(count, count + 1)),
            What::Look => (DATA, long(0x88, own, 1), Vec::new()),
            What::Write(number) => {
                (DATA, long(0x8A, SOURCE, blocks as u32), value(2 * number).repeat(blocks))
            }
            What::Copy(_) => {
                let list = copy_list(self.blocks);
                let mut cdb = vec![0x83; 1];
                cdb.resize(10, 0);
                cdb.extend_from_slice(&(list.len() as u32).to_be_bytes());
                cdb.extend_from_slice(&[0, 0]);
                (DATA, cdb, list)
            }
            What::Overwrite(number) => (DATA, swap(TARGET), swapped(2 * number, 2 * number + 1)),
            What::Check(..) => (DATA, long(0x88, TARGET, 1), Vec::new()),
            What::Register => {
                let list = [[0; 8], KEY.to_be_bytes(), [0; 8]].concat();
                (DATA, vec![0x5F, 6, 0, 0, 0, 0, 0, 0, 24, 0], list)
            }
            What::Keys => (DATA, vec![0x5E, 0, 0, 0, 0, 0, 0, 1, 0, 0], Vec::new()),
            What::Reserve => (RESERVED, RESERVE.to_vec(), Vec::new()),
            What::Intrude(_) if at == 0 => (RESERVED, READY.to_vec(), Vec::new()),
            What::Intrude(_) => (RESERVED, long(0x8A, 0, 1), value(9)),
        };
        let host = &mut self.hosts[at];
        let number = sides[host.side].start(host.nexus, lun, (&cdb, &data), now);
        host.open = Some((number, what));
    }

    /// Takes the answers.
    pub fn take(&mut self, sides: &mut [Side]) -> Result<bool, String> {
        let mut took = false;
        for at in 0..self.hosts.len() {
            let Some((number, what)) = self.hosts[at].open else { continue };
            let Some(response) = sides[self.hosts[at].side].ended.remove(&number) else { continue };
            self.hosts[at].open = None;
            took = true;
            self.operations += 1;
            let wrong = |why: String| format!("host {at}, command {number}, {what:?}: {why}");
            let end = self.end(at, what, response.as_ref()).map_err(wrong)?;
            let data = response.map(|response| response.data_in.to_bytes()).unwrap_or_default();
            self.learn(at, what, end, &data).map_err(wrong)?;
        }
        Ok(took)
    }

    fn end(&mut self, at: usize, what: What, response: Option<&Response>) -> Result<End, String> {
        let Some(response) = response else { return Err("it was not aborted".into()) };
        let sense = |at: usize| response.sense.get(at).copied().unwrap_or(0);
        let lun = if matches!(what, What::Reserve | What::Intrude(_)) { RESERVED } else { DATA };
        match (response.status, sense(2), sense(12), sense(13)) {
            (Status::Good, ..) => Ok(End::Good),
            (Status::Busy, ..) => Ok(End::Not),
            (Status::ReservationConflict, ..) => Ok(End::Conflict),
            (Status::CheckCondition, 0x0E, ..) => Ok(End::Miscompare),
            (Status::CheckCondition, 0x0B, 0x2F, 2) => Ok(End::Open),
            (Status::CheckCondition, 6, 0x29, 0)
                if !std::mem::replace(&mut self.hosts[at].greeted[usize::from(lun)], true) =>
            {
                Ok(End::Not)
            }
            _ => Err(format!("an unexpected end: {response:?}")),
        }
    }

    fn learn(&mut self, at: usize, what: What, end: End, data: &[u8]) -> Result<(), String> {
        let first = || data.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        match (what, end) {
            (What::Count(count), End::Good) => self.hosts[at].counter = Known::Is(count + 1),
            (What::Count(count), End::Open) => self.hosts[at].counter = Known::Open(count),
            (What::Look, End::Good) => {
                let found = first().ok_or("a read without data")?;
                let known = self.hosts[at].counter;
                let fits = match known {
                    Known::Is(count) => found == count,
                    Known::Open(count) => found == count || found == count + 1,
                };
                if !fits {
                    return Err(format!("the counter is {found}, not {known:?}"));
                }
                self.hosts[at].counter = Known::Is(found);
            }
            (What::Write(_), End::Good) => self.copy.is_written = true,
            (What::Copy(_), End::Good) => self.copy.is_copied = true,
            (What::Copy(_), End::Open) => self.copy.is_open = true,
            (What::Overwrite(_), End::Good) => self.copy.is_overwritten = true,
            (What::Overwrite(_), End::Open) => self.copy.may_be_overwritten = true,
            // A command with an open end may have taken effect.
            (What::Overwrite(_), End::Miscompare) => self.copy.is_open |= self.copy.may_be_overwritten,
            (What::Check(copied, overwritten), End::Good) => {
                let found = first().ok_or("a read without data")?;
                self.check(at, found, (copied, overwritten))?;
            }
            (What::Register, End::Good) => self.is_registered = true,
            (What::Keys, End::Good) => {
                if data.get(8..) != Some(&KEY.to_be_bytes()[..]) {
                    return Err(format!("the registration is gone: {data:?}"));
                }
            }
            (What::Reserve, End::Good) => self.is_reserved = true,
            (What::Intrude(true), End::Good) if at > 0 => {
                return Err("the reservation of another host is gone".into());
            }
            (What::Intrude(_), End::Good) | (_, End::Not | End::Open) => {}
            (What::Intrude(_), End::Conflict) if at > 0 => {}
            (_, End::Miscompare | End::Conflict) => {
                return Err(format!("an unexpected end: {end:?}"));
            }
        }
        Ok(())
    }

    /// Checks the destination of the copy as read by a host.
    fn check(
        &mut self,
        at: usize,
        found: u64,
        (was_copied, was_overwritten): (bool, bool),
    ) -> Result<(), String> {
        let Copy { number, is_overwritten, is_open, may_be_overwritten, .. } = self.copy;
        let (copied, overwritten) = (found == 2 * number, found == 2 * number + 1);
        if was_overwritten && !overwritten {
            return Err(format!("copy {number} was overwritten, and there is {found}"));
        }
        if was_copied && !copied && !overwritten {
            return Err(format!("copy {number} has taken effect, and there is {found}"));
        }
        let is_under_way = matches!(self.hosts[1].open, Some((_, What::Overwrite(_))));
        if overwritten && !is_overwritten && !may_be_overwritten && !is_under_way {
            return Err(format!("copy {number} was overwritten by a command that had not taken effect"));
        }
        if at != 0 {
            return Ok(());
        }
        if is_open {
            (self.copy.is_open, self.copy.is_copied) = (false, copied || overwritten);
            self.copy.is_overwritten |= overwritten;
        }
        // The next copy begins when no task uses this one any more.
        if self.copy.is_copied && self.copy.is_overwritten && self.hosts[1].open.is_none() {
            self.copy = Copy { number: number + 1, ..Copy::default() };
        }
        Ok(())
    }

    /// Checks all knowledge of hosts, when nothing is outstanding.
    pub fn last_checks(&mut self, turn: usize, sides: &mut [Side], now: u64) {
        let at = turn % self.hosts.len();
        let what = if (turn / self.hosts.len()).is_multiple_of(2) { What::Look } else { self.check_now() };
        self.start(at, what, sides, now);
    }
}

/// Maximum time step while there is a home.
pub const STEP_NS: u64 = 20 * MS;
