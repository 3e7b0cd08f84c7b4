//! A drive as a witness: it has the records of both controllers; one operation at a time changes those of this
//! controller.

use super::record::{self, Ballot, Found, Record, Sign};
use super::turns::{Turn, Turns};
use super::{BALLOTS_AT, BALLOTS_BYTES, CONTROLLERS, SIGNS_AT, SIGNS_BYTES};
use crate::{Drive, Error, Result, wait};
use shelf::arbiter::Beat;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The newest record of each controller.
type Both<R> = [Option<Found<R>>; CONTROLLERS];

/// A drive that both controllers see.
pub struct Witness {
    drive: Arc<dyn Drive>,
    array: u128,
    /// Number of this controller, from 0, and the key of this process.
    own: usize,
    key: u64,
    turns: Arc<Turns>,
    /// Reads without a reply yet.
    looks: AtomicUsize,
}

/// Maximum number of reads without a reply.
const MAX_LOOKS: usize = 16;

async fn read<R: Record>(drive: &dyn Drive, array: u128, (at, bytes): (u64, usize)) -> Result<Both<R>> {
    let (done, read) = wait();
    drive.read(at, bytes as u32, done);
    let bytes = read.await?;
    let mut both: Both<R> = std::array::from_fn(|_| None);
    for (controller, copies) in bytes.chunks_exact(2 * R::BYTES).enumerate().take(CONTROLLERS) {
        both[controller] = record::newest(copies, array, controller)?;
    }
    Ok(both)
}

async fn write<R: Record>(
    drive: &dyn Drive,
    array: u128,
    (controller, before): (usize, Option<&Found<R>>),
    (at, record): (u64, &R),
) -> Result {
    let (copy, page) = record::next(record, array, controller, before);
    let (done, written) = wait();
    drive.write(at + ((2 * controller + copy) * R::BYTES) as u64, vec![page], true, done);
    written.await
}

/// The signs of both controllers on a drive.
pub async fn signs(drive: &dyn Drive, array: u128) -> Result<Both<Sign>> {
    read(drive, array, (SIGNS_AT, SIGNS_BYTES)).await
}

/// All keys of a controller on a drive, in its newer and its older record.
pub async fn keys(drive: &dyn Drive, array: u128, controller: usize) -> Result<Vec<u64>> {
    let bytes = 2 * Sign::BYTES;
    let (done, read) = wait();
    drive.read(SIGNS_AT + (controller * bytes) as u64, bytes as u32, done);
    let mut keys: Vec<u64> =
        record::copies::<Sign>(&read.await?, array).iter().map(|sign| sign.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| *key != 0);
    Ok(keys)
}

/// Writes the sign of a controller.
pub async fn write_sign(
    drive: &dyn Drive,
    array: u128,
    (controller, before): (usize, Option<&Found<Sign>>),
    sign: &Sign,
) -> Result {
    write(drive, array, (controller, before), (SIGNS_AT, sign)).await
}

impl Witness {
    /// A witness drive at which this process is registered and has written its key.
    pub fn new(drive: Arc<dyn Drive>, array: u128, (own, key): (usize, u64)) -> Arc<Self> {
        Arc::new(Self { drive, array, own, key, turns: Arc::default(), looks: AtomicUsize::new(0) })
    }

    async fn turn(&self) -> Result<Turn> {
        self.turns.take().await
    }

    /// Reads from the drive, unless too many reads have no reply.
    async fn look<T>(&self, reading: impl Future<Output = Result<T>>) -> Result<T> {
        if self.looks.fetch_add(1, Ordering::Relaxed) >= MAX_LOOKS {
            self.looks.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::Drive { what: format!("{} does not reply", self.drive.name()) });
        }
        let read = reading.await;
        self.looks.fetch_sub(1, Ordering::Relaxed);
        read
    }

    async fn read_signs(&self) -> Result<Both<Sign>> {
        self.look(signs(&*self.drive, self.array)).await
    }

    async fn read_ballots(&self) -> Result<Both<Ballot>> {
        self.look(read(&*self.drive, self.array, (BALLOTS_AT, BALLOTS_BYTES))).await
    }

    /// All signs, and the own one, which must be that of this process.
    async fn own_sign(&self) -> Result<(Both<Sign>, Found<Sign>)> {
        let both = self.read_signs().await?;
        match both[self.own].clone() {
            Some(found) if found.record.key == self.key => Ok((both, found)),
            // Another process has this number, or the drive was overwritten.
            _ => Err(Error::Fenced { epoch: 0 }),
        }
    }

    async fn write_own(&self, before: &Found<Sign>, sign: &Sign) -> Result {
        write_sign(&*self.drive, self.array, (self.own, Some(before)), sign).await
    }

    /// The last beat and the newest mark of each controller.
    pub async fn signs(&self) -> Result<[Option<(Beat, u64)>; CONTROLLERS]> {
        let both = self.read_signs().await?;
        Ok(std::array::from_fn(|of| {
            let (beat, mark) = (beat(&both, of), mark(&both, of));
            (beat != Beat::default() || mark > 0).then_some((beat, mark))
        }))
    }

    /// See [`Arbiter::beat`](shelf::arbiter::Arbiter::beat).
    pub async fn beat(&self, new: Beat, map_version: u64) -> Result<bool> {
        let _turn = self.turn().await?;
        let (both, found) = self.own_sign().await?;
        if mark(&both, self.own) > map_version || found.record.beat >= new {
            return Ok(false);
        }
        self.write_own(&found, &Sign { beat: new, ..found.record.clone() }).await?;
        let (both, _) = self.own_sign().await?;
        Ok(mark(&both, self.own) <= map_version)
    }

    /// See [`Arbiter::mark`](shelf::arbiter::Arbiter::mark).
    pub async fn mark(&self, victim: usize, seen: Beat, new: u64) -> Result<bool> {
        let _turn = self.turn().await?;
        let (both, found) = self.own_sign().await?;
        if beat(&both, victim) != seen || mark(&both, victim) > new {
            return Ok(false);
        }
        if found.record.marks[victim] >= new {
            return Ok(true);
        }
        let mut marked = found.record.clone();
        marked.marks[victim] = new;
        self.write_own(&found, &marked).await?;
        let (both, written) = self.own_sign().await?;
        if beat(&both, victim) == seen {
            return Ok(true);
        }
        self.write_own(&written, &found.record).await?;
        Ok(false)
    }

    /// The ballots of both controllers.
    pub async fn ballots(&self) -> Result<[Option<Ballot>; CONTROLLERS]> {
        let both = self.read_ballots().await?;
        Ok(both.map(|found| found.map(|found| found.record)))
    }

    /// Writes the ballot of this controller, then reads both ballots.
    pub async fn vote(&self, ballot: &Ballot) -> Result<[Option<Ballot>; CONTROLLERS]> {
        let _turn = self.turn().await?;
        let both = self.read_ballots().await?;
        let before = (self.own, both[self.own].as_ref());
        write(&*self.drive, self.array, before, (BALLOTS_AT, ballot)).await?;
        self.ballots().await
    }
}

fn beat(both: &Both<Sign>, of: usize) -> Beat {
    both[of].as_ref().map_or_else(Beat::default, |found| found.record.beat)
}

fn mark(both: &Both<Sign>, of: usize) -> u64 {
    both.iter().flatten().map(|found| found.record.marks[of]).max().unwrap_or(0)
}
