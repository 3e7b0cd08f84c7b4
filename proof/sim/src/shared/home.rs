//! The home and its hosts: they write numbers, each once, and read the largest one.

use super::{Action, Check, MS, SECOND, Slot, World, lock};
use bytes::Bytes;
use raid::shared::{Party, SharedArray};
use raid::{DriveShelf, Limits, Opening};
use shelf::pool::DriveState;
use shelf::{Drive, JournalPos, Shelf, Superblock, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Batches after which the journal is trimmed.
const TRIM_BATCHES: u64 = 40;

/// The store of a home.
#[derive(Default)]
enum Store {
    #[default]
    Opening,
    Open {
        shelf: Arc<DriveShelf>,
        numbers: BTreeSet<u64>,
    },
    Failed,
}

/// A home.
pub struct Home {
    epoch: u64,
    store: Slot<Store>,
    /// Whether the content found on opening was checked.
    is_checked: bool,
    /// Results of writes, in order.
    written: Slot<Vec<(u64, shelf::Result<JournalPos>)>>,
    /// The write in progress: a number, or a superblock.
    writing: Option<u64>,
    trimming: Slot<Option<shelf::Result>>,
    is_trimming: bool,
    batches: u64,
    at: JournalPos,
}

/// A read in progress.
#[derive(Clone, Copy)]
pub struct Read {
    epoch: u64,
    /// The largest number acknowledged before it began.
    acknowledged: u64,
    found: u64,
    begun: u64,
}

/// Knowledge of the hosts.
#[derive(Default)]
pub struct Hosts {
    next: u64,
    acknowledged: BTreeSet<u64>,
    /// Time of the last acknowledged write.
    pub last_acknowledged: u64,
    /// The owner of each epoch.
    owners: BTreeMap<u64, u64>,
}

/// Takes the drives over and opens the store; returns the numbers in it.
async fn open(
    party: Arc<Party>,
    array: Arc<SharedArray>,
    epoch: u64,
) -> shelf::Result<(Arc<DriveShelf>, BTreeSet<u64>)> {
    let ours = party.take_over_all(&array).await?;
    let drives = ours.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
    let opening = Opening { salt: epoch, key: None };
    let shelf = DriveShelf::open_shared(drives, opening, Limits::default(), epoch).await?;
    ours.iter().for_each(|drive| drive.lift());
    let superblock = shelf.superblock();
    let from = superblock.as_ref().map_or(JournalPos(1), |superblock| superblock.journal_from);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    let payload = superblock.map(|superblock| superblock.payload).unwrap_or_default();
    let mut numbers: BTreeSet<u64> = payload.chunks_exact(8).filter_map(number).collect();
    let (done, recovered) = wait();
    shelf.recover(from, done);
    numbers.extend(recovered.await?.iter().filter_map(|batch| number(&batch.head)));
    Ok((shelf, numbers))
}

impl World {
    /// Whether a controller serves.
    pub fn is_open(&mut self, at: usize) -> bool {
        let now = self.now;
        let home = self.controllers[at].running(now).and_then(|running| running.home.as_ref());
        home.is_some_and(|home| matches!(*lock(&home.store), Store::Open { .. }))
    }

    /// Whether no home has lost a drive, and both controllers had all of them when they started.
    pub fn have_all_drives(&mut self) -> bool {
        let (now, count) = (self.now, self.media.len());
        (0..2).all(|at| {
            let Some(running) = self.controllers[at].running(now) else { return false };
            let lost_none = running.home.as_ref().is_none_or(|home| match &*lock(&home.store) {
                Store::Open { shelf, .. } => {
                    shelf.status().drives.iter().all(|drive| drive.state == DriveState::Online)
                }
                Store::Opening | Store::Failed => false,
            });
            running.array.drives.len() == count && lost_none
        })
    }

    pub fn begin_serving(&mut self, at: usize, epoch: u64) -> Check {
        self.trace(&[4, at as u64, epoch]);
        let now = self.now;
        let Some(process) = self.controllers[at].awake(now) else { return Ok(()) };
        let id = process.id;
        let Some(running) = &mut process.running else { return Ok(()) };
        if let Some(other) = self.hosts.owners.insert(epoch, id) {
            return Err(format!("epoch {epoch} was given to processes {other} and {id}"));
        }
        let store = Slot::<Store>::default();
        let filled = store.clone();
        let opened = open(running.party.clone(), running.array.clone(), epoch);
        running.home = Some(Home {
            epoch,
            store,
            is_checked: false,
            written: Slot::default(),
            writing: None,
            trimming: Slot::default(),
            is_trimming: false,
            batches: 0,
            at: JournalPos(0),
        });
        shelf::spawn(async move {
            let opened = opened.await;
            *lock(&filled) = match opened {
                Ok((shelf, numbers)) => Store::Open { shelf, numbers },
                Err(_) => Store::Failed,
            };
        });
        Ok(())
    }

    /// Processes events of the home's store.
    pub fn follow_home(&mut self, at: usize) -> Check {
        let now = self.now;
        let newest = self.hosts.owners.keys().next_back().copied().unwrap_or(0);
        let Some(running) = self.controllers[at].running(now) else { return Ok(()) };
        let Some(home) = &mut running.home else { return Ok(()) };
        let (mut failed, mut acknowledged) = (false, Vec::new());
        match &mut *lock(&home.store) {
            Store::Opening => {}
            Store::Failed => failed = true,
            Store::Open { numbers, .. } => {
                if !std::mem::replace(&mut home.is_checked, true) && newest == home.epoch {
                    let lost = self.hosts.acknowledged.difference(numbers).next();
                    if let Some(lost) = lost {
                        return Err(format!(
                            "number {lost} was acknowledged, and the owner of epoch {newest} does not find it"
                        ));
                    }
                }
                for (number, outcome) in lock(&home.written).drain(..) {
                    home.writing = None;
                    match outcome {
                        Ok(pos) => {
                            numbers.insert(number);
                            acknowledged.push(number);
                            home.at = pos;
                            home.batches += 1;
                        }
                        Err(_) => failed = true,
                    }
                }
                if let Some(outcome) = lock(&home.trimming).take() {
                    home.is_trimming = false;
                    failed |= outcome.is_err();
                }
            }
        }
        for number in acknowledged {
            self.acknowledge(at, number);
        }
        if failed {
            // A stopped store ends its process.
            self.trace(&[6, at as u64]);
            self.start_again(at);
        }
        Ok(())
    }

    /// A host is informed that its write is durable. This needs no lease, since the drives have the write.
    fn acknowledge(&mut self, at: usize, number: u64) {
        self.trace(&[7, at as u64, number]);
        self.report.operations += 1;
        self.hosts.acknowledged.insert(number);
        self.hosts.last_acknowledged = self.now;
        if let Some((since, _)) = self.taking_over.take() {
            self.report.longest_takeover_ms = self.report.longest_takeover_ms.max((self.now - since) / MS);
        }
    }

    /// Every serving controller gets a write and a read.
    pub fn traffic(&mut self) {
        let next = self.now + 50 * MS + self.random.below(250 * MS);
        self.at(next, Action::Traffic);
        for at in 0..2 {
            self.ask_home(at);
        }
    }

    fn ask_home(&mut self, at: usize) {
        let (now, clock) = (self.now, self.controllers[at].clock(self.now));
        let turn = now + self.random.below(30 * MS);
        let acknowledged = self.hosts.acknowledged.last().copied().unwrap_or(0);
        let Some(process) = self.controllers[at].awake(now) else { return };
        let id = process.id;
        let Some(home) = process.running.as_mut().and_then(|running| running.home.as_mut()) else { return };
        let store = match &*lock(&home.store) {
            Store::Open { shelf, numbers } => Some((shelf.clone(), numbers.clone())),
            _ => None,
        };
        let Some((shelf, numbers)) = store else { return };
        shelf.tick(Duration::from_nanos(clock));
        let found = numbers.last().copied().unwrap_or(0);
        let read = Read { epoch: home.epoch, acknowledged, found, begun: now };
        if home.writing.is_none() && !home.is_trimming {
            if home.batches >= TRIM_BATCHES {
                (home.batches, home.is_trimming) = (0, true);
                trim(&shelf, &numbers, home);
            } else {
                self.hosts.next += 1;
                let (number, written) = (self.hosts.next, home.written.clone());
                home.writing = Some(number);
                let done = move |outcome| lock(&written).push((number, outcome));
                shelf.append(Bytes::copy_from_slice(&number.to_le_bytes()), Vec::new(), Box::new(done));
            }
        }
        self.at(turn, Action::AnswerRead(id, read));
    }

    /// Turn of a connection after the execution of the command: it is answered if the lease holds, and waits otherwise.
    pub fn answer_read(&mut self, process: u64, read: Read) -> Check {
        let Some(at) = self.find(process) else { return Ok(()) };
        let now = self.now;
        let asleep = self.controllers[at].process.as_ref().map_or(0, |process| process.asleep_until);
        if asleep > now {
            self.at(asleep, Action::AnswerRead(process, read));
            return Ok(());
        }
        let running = self.controllers[at].running(now);
        let home = running.and_then(|running| running.home.as_ref());
        if home.is_none_or(|home| home.epoch != read.epoch) {
            return Ok(());
        }
        if !self.controllers[at].holds_lease(now) {
            if read.begun + 8 * SECOND > now {
                self.at(now + 100 * MS, Action::AnswerRead(process, read));
            }
            return Ok(());
        }
        self.trace(&[8, at as u64, read.found]);
        self.report.operations += 1;
        if read.found < read.acknowledged {
            return Err(format!(
                "a read that began at {} found {}, after {} was acknowledged; now {now}, epoch {}",
                read.begun, read.found, read.acknowledged, read.epoch
            ));
        }
        Ok(())
    }
}

/// Writes a superblock with all numbers, so the journal is trimmed.
fn trim(shelf: &DriveShelf, numbers: &BTreeSet<u64>, home: &Home) {
    let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let superblock = Superblock { journal_from: JournalPos(home.at.0 + 1), payload: payload.into() };
    let trimming = home.trimming.clone();
    shelf.write_superblock(superblock, Box::new(move |outcome| *lock(&trimming) = Some(outcome)));
}
