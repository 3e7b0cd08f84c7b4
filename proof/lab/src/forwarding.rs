//! Two controllers that share an array in Ceph and both serve hosts: one is the home, the other forwards to it. A host
//! alternates between the portals of both, like dm-multipath, while controllers are killed and suspended.
//!
//! An unanswered write is repeated, possibly on the other path, until it is acknowledged. So each block has its last
//! acknowledged content, even if an earlier copy had no response; a copy that takes effect late is found by its old
//! stamp. The host stays logged in at a front end that becomes the home. At the same time it advances
//! [counters](counters) there by COMPARE AND WRITE, and its registration, which does not persist, exists at every home.

mod counters;
mod cut;
mod load;
mod moving;
mod upgrade;

pub use cut::{Cut, cut};
pub use moving::{Addresses, Away, Move, Moves, moving};
pub use upgrade::{Handover, Upgrade, Upgraded, upgrade};

use crate::array::{Array, Programs};
use crate::cdb;
use crate::ceph::Pools;
use crate::libiscsi::{Command, Ending, Libiscsi, Login, Session};
use crate::pair::{self, RETRY_INTERVAL, TIMEOUT};
use crate::real::make_ready;
use crate::scratch::Scratch;
use crate::seed::{expand, stamp_of};
use crate::takeover::Report;
use crate::target::{Shape, Target};
use anyhow::{Context, Result, bail, ensure};
use counters::Counters;
use std::net::TcpListener;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A fault under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Kill -9 of the home.
    KillHome,
    /// SIGSTOP of the home until another one has taken over and blocks were overwritten, then SIGCONT.
    FreezeHome,
    /// Kill -9 of the forwarding controller.
    KillFront,
    /// SIGSTOP of the forwarding controller until it is expelled, with commands in its sockets, then SIGCONT.
    FreezeFront,
}

/// The host's registration key.
const KEY: u64 = 0x0C0F_FEE0;
const INITIATOR: &str = "iqn.2001-04.org.example:forwarding";
const BLOCK_BYTES: u32 = 4096;
const BLOCKS: u64 = 512;
const VOLUME: Shape = Shape { bytes: 64 << 20, block_bytes: BLOCK_BYTES };
/// Writes before and after a fault.
const WRITES: u64 = 400;
/// Reads of single blocks on each path, and the distance between them, which is prime.
const READS: u64 = 64;
const STRIDE: u64 = 197;
/// Writes in flight at the fault, on each path.
const UNDER_WAY: u64 = 8;
/// Time for a resumed controller to misbehave.
const AWAKE_TIME: Duration = Duration::from_secs(5);
const BUSY: u8 = 0x08;
const UNIT_ATTENTION: u8 = 0x06;
const ABORTED_COMMAND: u8 = 0x0B;

struct World {
    library: Rc<Libiscsi>,
    controllers: [Array; 2],
    sessions: [Option<Session>; 2],
    /// Index of the home.
    home: usize,
    /// Path of the next command.
    turn: usize,
    /// Logins at each controller, alternating between its initial portal and an added one, if any.
    logins: [u64; 2],
    added: Option<[String; 2]>,
    /// Whether logins use only added portals.
    uses_added_only: bool,
    /// A controller that hosts have given up.
    given_up: Option<usize>,
    /// Stamps of acknowledged writes by block; zero for none.
    written: Vec<u64>,
    stamp: u64,
    counters: Counters,
    /// Volumes created by operators, each before a fault.
    made: Vec<String>,
    report: Report,
}

/// Repeats a fault, in a folder below `parent` and a namespace of its own.
///
/// # Errors
/// The violation.
pub fn run(
    programs: &Programs,
    parent: &Path,
    place: &Pools,
    (fault, times): (Fault, u64),
) -> Result<Report> {
    let scratch = Scratch::new(parent, "forwarding")?;
    let result = World::new(programs, scratch.path(), place).and_then(|mut world| {
        world.begin_with_added_portals()?;
        for round in 0..times {
            world.round(fault, round).with_context(|| format!("{fault:?}, round {round}"))?;
        }
        let Counters { counted, crossed, refused, .. } = world.counters;
        (world.report.counted, world.report.crossed, world.report.refused) = (counted, crossed, refused);
        world.report.pauses.sort_unstable();
        Ok(world.report)
    });
    scratch.end(result)
}

impl World {
    fn new(programs: &Programs, folder: &Path, place: &Pools) -> Result<Self> {
        let controllers = pair::start(programs, folder, place, (&[VOLUME], &[INITIATOR]))?;
        let mut world = Self {
            library: Libiscsi::load()?,
            controllers,
            sessions: [None, None],
            home: 0,
            turn: 0,
            logins: [0; 2],
            added: None,
            uses_added_only: false,
            given_up: None,
            written: vec![0; BLOCKS as usize],
            stamp: 0,
            counters: Counters::default(),
            made: Vec::new(),
            report: Report::default(),
        };
        world.load(BLOCKS)?;
        Ok(world)
    }

    /// Makes the next logins use added portals.
    fn begin_with_added_portals(&mut self) -> Result<()> {
        let home = &self.controllers[self.home];
        self.added = Some([add_portal(home, 1)?, add_portal(home, 2)?]);
        self.sessions = [None, None];
        self.logins = [1; 2];
        self.register(false)
    }

    fn front(&self) -> usize {
        1 - self.home
    }

    fn round(&mut self, fault: Fault, round: u64) -> Result<()> {
        self.reach_both()?;
        let (home, front) = (self.home, self.front());
        let name = format!("made-{:03}", self.made.len());
        self.controllers[home].add_volume(&name, Shape { bytes: 1 << 20, ..VOLUME })?;
        self.made.push(name);
        self.load(WRITES)?;
        self.verify_by_both()?;
        let open = self.send_without_waiting()?;
        let logins = self.logins[front];
        let is_of_home = matches!(fault, Fault::KillHome | Fault::FreezeHome);
        if is_of_home {
            let (counters, session) = self.counting(front)?;
            counters.begin(session, round as usize % 4)?;
        }
        let start = Instant::now();
        match fault {
            Fault::KillHome => self.controllers[home].kill()?,
            Fault::KillFront => self.controllers[front].kill()?,
            Fault::FreezeHome => self.controllers[home].pause(true)?,
            Fault::FreezeFront => self.controllers[front].pause(true)?,
        }
        self.given_up = match fault {
            Fault::FreezeHome => Some(home),
            Fault::FreezeFront => Some(front),
            Fault::KillHome | Fault::KillFront => None,
        };
        // Commands in its sockets stay there: the host gives that path up.
        let frozen = self.given_up.and_then(|at| self.sessions[at].take());
        if is_of_home {
            let (counters, session) = self.counting(front)?;
            counters.finish(session).context("counters at the front end")?;
        }
        for (lba, stamp) in open {
            self.write(lba, stamp)?;
        }
        self.report.pauses.push(start.elapsed());
        self.load(WRITES)?;
        if is_of_home {
            ensure!(self.logins[front] == logins, "a session at the front end ended with the home");
        }
        match fault {
            Fault::KillHome => {
                self.home = front;
                self.check_history()?;
                self.controllers[home].restart_unattended()?;
            }
            Fault::KillFront => self.controllers[front].restart_unattended()?,
            Fault::FreezeHome => {
                self.home = front;
                self.check_history()?;
                self.wake(home)?;
            }
            Fault::FreezeFront => self.wake(front)?,
        }
        drop(frozen);
        self.given_up = None;
        self.verify_by_both()
    }

    /// Checks that operator actions are in the new home's audit log, except the last one, which may not have been
    /// copied yet.
    fn check_history(&mut self) -> Result<()> {
        let home = &mut self.controllers[self.home];
        home.wait_ready().context("the API of the new home")?;
        let log = home.cli(&["audit", "list", "--limit", "1000"])?.to_string();
        let (_, before) = self.made.split_last().context("a volume was made")?;
        for name in before {
            ensure!(log.contains(name), "the new home does not know who made volume {name}");
        }
        Ok(())
    }

    fn counting(&mut self, at: usize) -> Result<(&mut Counters, &mut Session)> {
        Ok((&mut self.counters, self.sessions[at].as_mut().context("a session that works")?))
    }

    /// Registers the host. Without APTPL, the registration ends with the target's power.
    fn register(&mut self, aptpl: bool) -> Result<()> {
        match self.perform(|| cdb::register(1, KEY, aptpl))? {
            Ending::Good(_) => Ok(()),
            other => bail!("a registration ended with {other:?}"),
        }
    }

    /// Resumes a controller that was expelled, and restarts it after its end.
    fn wake(&mut self, at: usize) -> Result<()> {
        self.overwrite_everything()?;
        self.controllers[at].pause(false)?;
        self.controllers[at].wait_gone(TIMEOUT).context("it keeps running, although it was expelled")?;
        self.controllers[at].restart_unattended()
    }

    /// Writes blocks on both paths alternately.
    fn load(&mut self, writes: u64) -> Result<()> {
        (0..writes).try_for_each(|_| {
            let (lba, stamp) = self.next();
            self.write(lba, stamp)
        })
    }

    fn overwrite_everything(&mut self) -> Result<()> {
        let start = Instant::now();
        self.load(BLOCKS)?;
        // Long enough for the expulsion.
        while start.elapsed() < AWAKE_TIME {
            self.load(BLOCKS)?;
        }
        Ok(())
    }

    fn next(&mut self) -> (u64, u64) {
        self.stamp += 1;
        (self.stamp % BLOCKS, self.stamp)
    }

    /// Sends writes on both paths. Their responses may be lost.
    fn send_without_waiting(&mut self) -> Result<Vec<(u64, u64)>> {
        let mut open = Vec::new();
        for number in 0..2 * UNDER_WAY {
            let (lba, stamp) = self.next();
            let session = &mut self.sessions[number as usize % 2];
            let session = session.as_mut().context("a session that works")?;
            session.submit(stamp, command(lba, stamp))?;
            session.service(libc::POLLOUT)?;
            open.push((lba, stamp));
        }
        Ok(open)
    }

    /// Writes a block on any working path until it is acknowledged.
    fn write(&mut self, lba: u64, stamp: u64) -> Result<()> {
        match self.perform(|| command(lba, stamp))? {
            Ending::Good(_) => {
                self.written[lba as usize] = stamp;
                self.report.acknowledged += 1;
                Ok(())
            }
            other => bail!("a write ended with {other:?}"),
        }
    }

    fn perform(&mut self, command: impl Fn() -> Command) -> Result<Ending> {
        let start = Instant::now();
        loop {
            let at = self.turn % 2;
            self.turn += 1;
            ensure!(start.elapsed() < TIMEOUT, "no controller answers");
            if self.given_up == Some(at) {
                continue;
            }
            if self.sessions[at].is_none() {
                self.sessions[at] = self.login(at).ok();
                self.logins[at] += u64::from(self.sessions[at].is_some());
            }
            let Some(session) = &mut self.sessions[at] else {
                std::thread::sleep(RETRY_INTERVAL);
                continue;
            };
            match session.perform(command()) {
                Ok(Ending::Status(BUSY) | Ending::Check { key: UNIT_ATTENTION | ABORTED_COMMAND, .. }) => {}
                Ok(Ending::Unanswered) | Err(_) => self.sessions[at] = None,
                Ok(ending) => return Ok(ending),
            }
        }
    }

    fn login(&self, at: usize) -> Result<Session> {
        let array = &self.controllers[at];
        let added = self.added.as_ref().filter(|_| self.uses_added_only || self.logins[at] % 2 == 1);
        let portal = added.map_or_else(|| array.portals()[0].to_string(), |added| added[at].clone());
        let login = Login {
            initiator: INITIATOR,
            portal: &portal,
            target: array.iqn(),
            lun: 1,
            session: 0,
            header_digest: true,
        };
        let mut session = Session::login(&self.library, login)?;
        make_ready(&mut session, 1)?;
        Ok(session)
    }

    /// Waits until a controller serves this host.
    fn reach(&mut self, at: usize) -> Result<()> {
        if self.sessions[at].is_none() {
            self.sessions[at] = Some(pair::retry(|| self.login(at))?);
            self.logins[at] += 1;
        }
        Ok(())
    }

    fn reach_both(&mut self) -> Result<()> {
        (0..2).try_for_each(|at| self.reach(at).with_context(|| format!("controller {}", at + 1)))
    }

    fn verify(&mut self, lba: u64, block: &[u8], at: usize) -> Result<()> {
        let (found, written) = (stamp_of(block), self.written[lba as usize]);
        ensure!(
            found == Some(written),
            "block {lba} has {found:?} by controller {}, and {written} was acknowledged",
            at + 1
        );
        self.report.verified += 1;
        Ok(())
    }

    /// Reads single blocks in random order, which the home locates for a front end instead of reading ahead.
    fn verify_here_and_there(&mut self, at: usize) -> Result<()> {
        for step in 0..READS {
            let lba = (step * STRIDE + self.stamp) % BLOCKS;
            self.turn = at;
            let Ending::Good(block) = self.perform(|| cdb::read(1, lba, 1, BLOCK_BYTES))? else {
                bail!("block {lba} can't be read");
            };
            self.verify(lba, &block, at)?;
        }
        Ok(())
    }

    /// Checks all acknowledged writes on both paths.
    fn verify_by_both(&mut self) -> Result<()> {
        for at in 0..2 {
            self.reach(at).with_context(|| format!("controller {}", at + 1))?;
            self.turn = at;
            let Ending::Good(data) = self.perform(|| cdb::read(1, 0, BLOCKS as u32, BLOCK_BYTES))? else {
                bail!("the volume can't be read");
            };
            for (lba, block) in (0..).zip(data.chunks(BLOCK_BYTES as usize)) {
                self.verify(lba, block, at)?;
            }
            self.verify_here_and_there(at)?;
            let (counters, session) = self.counting(at)?;
            counters.verify(session).with_context(|| format!("controller {}", at + 1))?;
            let Ending::Good(keys) = self.perform(|| cdb::read_keys(1))? else {
                bail!("the registrations can't be read");
            };
            ensure!(
                keys.get(8..16) == Some(&KEY.to_be_bytes()),
                "the registration is gone at controller {}",
                at + 1
            );
        }
        Ok(())
    }
}

/// Adds a portal to a controller once it is up, at a port that was free at the time of the call.
fn add_portal(home: &Array, controller: u16) -> Result<String> {
    let controller = controller.to_string();
    pair::retry(|| {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        home.cli(&["portal", "add", &address, "--controller", &controller])?;
        Ok(address)
    })
}

fn command(lba: u64, stamp: u64) -> Command {
    let mut data = vec![0; BLOCK_BYTES as usize];
    expand(stamp, &mut data);
    cdb::write(1, lba, 1, false, data)
}
