//! The representations of data (RODs) that tokens stand for: whose they are, what they hold, and when they end.
//!
//! A ROD holds an image of its source and ranges of it. It ends when it was not used for its inactivity timeout, when
//! a host asks for that, and when its host no longer sees the source.

use crate::encoding::sense::{Code, Fault};
use crate::encoding::token::{Claim, MANAGEMENT_BYTES, Sealer};
use block::{Disk, DiskId, Extent};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// RODs at a time, and of one host.
const MAX_RODS: usize = 4096;
const MAX_RODS_OF_HOST: usize = 1024;

/// RODs that are remembered after their end, to say why they ended.
const MAX_ENDED: usize = 4096;

/// The RODs of a target.
pub(crate) struct Rods {
    sealer: Sealer,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    rods: BTreeMap<u64, Entry>,
    /// Those that ended last: number, host, and the code that refuses them.
    ended: VecDeque<(u64, Arc<str>, Code)>,
}

struct Entry {
    rod: Arc<Rod>,
    token: Bytes,
    /// When it was used last, in nanoseconds.
    used: u64,
}

/// The data that a token stands for.
pub(crate) struct Rod {
    pub(crate) host: Arc<str>,
    /// The disk that it was made from.
    pub(crate) source: DiskId,
    pub(crate) image: Arc<dyn Disk>,
    pub(crate) ranges: Vec<Extent>,
    pub(crate) inactivity_seconds: u32,
}

/// What a host's token stands for.
pub(crate) enum Found {
    BlockZero,
    Rod(u64, Arc<Rod>),
}

impl Rod {
    pub(crate) fn blocks(&self) -> u64 {
        self.ranges.iter().map(|range| range.blocks).sum()
    }
}

impl Entry {
    fn is_expired(&self, now: u64) -> bool {
        now.saturating_sub(self.used) > u64::from(self.rod.inactivity_seconds) * 1_000_000_000
    }
}

impl Rods {
    /// `key` seals the tokens: random, and another one in each process.
    pub(crate) fn new(key: [u8; 32], target: &str) -> Rods {
        Rods { sealer: Sealer::new(key, target), table: Mutex::default() }
    }

    /// Adds a ROD of a disk with blocks of `block_bytes`, and returns its token.
    pub(crate) fn add(&self, rod: Rod, block_bytes: u32, now: u64) -> Result<Bytes, Fault> {
        let mut table = self.table.lock();
        table.expire(now);
        table.make_room(&rod.host)?;
        table.last += 1;
        let number = table.last;
        let token = self.sealer.make(number, (rod.source, block_bytes), rod.blocks());
        table.rods.insert(number, Entry { rod: Arc::new(rod), token: token.clone(), used: now });
        Ok(token)
    }

    /// What a token stands for that a host sent, if it is its own and `sees` says that the host sees the source.
    pub(crate) fn find(
        &self,
        host: &Arc<str>,
        now: u64,
        token: &[u8],
        sees: impl Fn(DiskId) -> bool,
    ) -> Result<Found, Fault> {
        let number = match self.sealer.check(token)? {
            Claim::BlockZero => return Ok(Found::BlockZero),
            Claim::Rod(number) => number,
        };
        let mut table = self.table.lock();
        table.expire(now);
        if let Some(entry) = table.rods.get_mut(&number) {
            // Another host learns nothing of it.
            if entry.rod.host != *host {
                return Err(Code::TOKEN_UNKNOWN.into());
            }
            if !sees(entry.rod.source) {
                table.end(number, Code::TOKEN_REVOKED);
                return Err(Code::TOKEN_REVOKED.into());
            }
            entry.used = now;
            return Ok(Found::Rod(number, entry.rod.clone()));
        }
        let why = table.ended.iter().find(|(ended, of, _)| *ended == number && of == host);
        Err(why.map_or(Code::TOKEN_UNKNOWN, |(_, _, why)| *why).into())
    }

    /// A use of a ROD ended: its inactivity begins, or it is deleted.
    pub(crate) fn used(&self, number: u64, now: u64, delete: bool) {
        let mut table = self.table.lock();
        if delete {
            table.end(number, Code::TOKEN_DELETED);
        }
        if let Some(entry) = table.rods.get_mut(&number) {
            entry.used = now;
        }
    }

    /// The parameter data of REPORT ALL ROD TOKENS: the tokens of one host.
    pub(crate) fn report(&self, host: &Arc<str>, now: u64) -> Vec<u8> {
        let mut table = self.table.lock();
        table.expire(now);
        let mut out = vec![0; 8];
        for entry in table.rods.values().filter(|entry| entry.rod.host == *host) {
            out.extend_from_slice(&entry.token[..MANAGEMENT_BYTES]);
        }
        let available = out.len() as u32 - 4;
        out[..4].copy_from_slice(&available.to_be_bytes());
        out
    }

    /// Ends the RODs whose inactivity timeout is over.
    pub(crate) fn expire(&self, now: u64) {
        self.table.lock().expire(now);
    }

    /// Ends the RODs whose source `sees` says that their host does not see.
    pub(crate) fn revoke(&self, sees: impl Fn(&str, DiskId) -> bool) {
        let mut table = self.table.lock();
        let lost =
            |(number, entry): (&u64, &Entry)| (!sees(&entry.rod.host, entry.rod.source)).then_some(*number);
        let lost: Vec<u64> = table.rods.iter().filter_map(lost).collect();
        lost.into_iter().for_each(|number| table.end(number, Code::TOKEN_REVOKED));
    }
}

impl Table {
    /// Removes a ROD; `why` refuses its token from now on.
    fn end(&mut self, number: u64, why: Code) {
        let Some(entry) = self.rods.remove(&number) else { return };
        self.ended.push_back((number, entry.rod.host.clone(), why));
        self.ended.drain(..self.ended.len().saturating_sub(MAX_ENDED));
    }

    /// Ends the ROD of a host that was used longest ago if there is no room for another one: many hosts never delete what
    /// they have copied, and must not wait for its inactivity timeout.
    fn make_room(&mut self, host: &Arc<str>) -> Result<(), Fault> {
        let of_host = || self.rods.iter().filter(|(_, entry)| entry.rod.host == *host);
        if self.rods.len() < MAX_RODS && of_host().count() < MAX_RODS_OF_HOST {
            return Ok(());
        }
        let oldest = of_host().min_by_key(|(number, entry)| (entry.used, **number));
        // Those of other hosts are none of its business.
        let oldest = *oldest.ok_or(Fault::from(Code::NO_ROD_TOKEN_RESOURCES))?.0;
        self.end(oldest, Code::TOKEN_CANCELLED);
        Ok(())
    }

    /// Removes the RODs whose inactivity timeout is over.
    fn expire(&mut self, now: u64) {
        let expired = |(number, entry): (&u64, &Entry)| entry.is_expired(now).then_some(*number);
        let expired: Vec<u64> = self.rods.iter().filter_map(expired).collect();
        expired.into_iter().for_each(|number| self.end(number, Code::TOKEN_EXPIRED));
    }
}
