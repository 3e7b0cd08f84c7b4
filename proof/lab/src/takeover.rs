//! Two controllers that share an array in Ceph: the home is killed, stopped or suspended under load, the other takes
//! over, and all acknowledged writes exist.
//!
//! A host writes one block after the other, each with a new stamp, and switches to the other controller's portal if it
//! gets no response. The pause is the time from the fault to its next acknowledged write.

use crate::array::{Array, Programs};
use crate::cdb;
use crate::ceph::Pools;
use crate::libiscsi::{Command, Ending, Libiscsi, Login, Session, wait};
use crate::real::make_ready;
use crate::scratch::Scratch;
use crate::seed::{expand, stamp_of};
use crate::target::{Shape, Target};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A fault of the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Kill -9.
    Kill,
    /// An orderly stop.
    Stop,
    /// SIGSTOP for longer than a takeover, then SIGCONT.
    Freeze,
}

/// Results.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Pauses of the host, sorted by length.
    pub pauses: Vec<Duration>,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Blocks compared after takeovers.
    pub verified: u64,
    /// Acknowledged counter steps.
    pub counted: u64,
    /// Acknowledged steps that were in flight when the home died.
    pub crossed: u64,
    /// Refused steps that were in flight when the home died.
    pub refused: u64,
}

impl Report {
    /// The longest pause.
    pub fn longest(&self) -> Duration {
        self.pauses.last().copied().unwrap_or_default()
    }

    /// The median pause.
    pub fn median(&self) -> Duration {
        self.pauses.get(self.pauses.len() / 2).copied().unwrap_or_default()
    }
}

const INITIATOR: &str = "iqn.2001-04.org.example:takeover";
const BLOCK_BYTES: u32 = 4096;
const BLOCKS: u64 = 512;
const VOLUME: Shape = Shape { bytes: 64 << 20, block_bytes: BLOCK_BYTES };
/// Writes before a fault.
const WRITES: u64 = 400;
/// Time for a resumed home to notice the takeover, or to misbehave.
const AWAKE_TIME: Duration = Duration::from_secs(5);
/// Time limit for finding a serving controller.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between login attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

struct World {
    library: Rc<Libiscsi>,
    /// Both controllers, the home first.
    controllers: [Array; 2],
    /// Stamps of acknowledged writes by block; zero for none.
    written: Vec<u64>,
    /// A write without a response: it took effect or not.
    unknown: Option<(u64, u64)>,
    stamp: u64,
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
    let scratch = Scratch::new(parent, "takeover")?;
    let result = World::new(programs, scratch.path(), place).and_then(|mut world| {
        for round in 0..times {
            world.round(fault).with_context(|| format!("{fault:?}, round {round}"))?;
        }
        world.report.pauses.sort_unstable();
        Ok(world.report)
    });
    scratch.end(result)
}

impl World {
    fn new(programs: &Programs, folder: &Path, place: &Pools) -> Result<Self> {
        let folders = [folder.join("a"), folder.join("b")];
        folders.iter().try_for_each(std::fs::create_dir)?;
        let arguments = |number: &str| {
            let more = ["--controller".to_owned(), number.to_owned()];
            place.arguments().into_iter().chain(more).collect::<Vec<_>>()
        };
        let mut first = Array::start_on(programs, &folders[0], arguments("1"), None)?;
        first.fresh(&[VOLUME], &[INITIATOR])?;
        // Data for the other controller: the identity of the array, and the key of secrets.
        let remembered: Value = serde_json::from_slice(&std::fs::read(folders[0].join("rados.json"))?)?;
        let array = remembered["array"].as_str().context("rados.json without array")?;
        std::fs::copy(folders[0].join("secrets.key"), folders[1].join("secrets.key"))?;
        let mut store = arguments("2");
        store.extend(["--rados-array".to_owned(), array.to_owned()]);
        let second = Array::prepare(programs, &folders[1], store, first.iqn())?;
        let mut world = Self {
            library: Libiscsi::load()?,
            controllers: [first, second],
            written: vec![0; BLOCKS as usize],
            unknown: None,
            stamp: 0,
            report: Report::default(),
        };
        world.controllers[1].restart_unattended()?;
        Ok(world)
    }

    fn round(&mut self, fault: Fault) -> Result<()> {
        let mut session = self.login(0, TIMEOUT)?;
        self.wait_for_standby()?;
        for _ in 0..WRITES {
            ensure!(self.write(&mut session)?, "the home does not answer, and nothing is wrong");
        }
        if fault != Fault::Stop {
            self.send_last(&mut session)?;
        }
        let start = Instant::now();
        match fault {
            Fault::Kill => self.controllers[0].kill()?,
            Fault::Stop => self.controllers[0].stop()?,
            Fault::Freeze => self.controllers[0].pause(true)?,
        }
        let mut other = self.login(1, TIMEOUT)?;
        ensure!(self.write(&mut other)?, "the new home does not answer");
        self.report.pauses.push(start.elapsed());
        for _ in 0..WRITES {
            ensure!(self.write(&mut other)?, "the new home stops answering");
        }
        if fault == Fault::Freeze {
            self.wake_former_home(session)?;
        }
        self.verify(&mut other)?;
        self.controllers[1].wait_ready().context("the API of the new home")?;
        self.controllers.swap(0, 1);
        self.controllers[1].restart_unattended()
    }

    /// The former home gets a read that it could answer from memory, and is resumed: it must not answer, since the
    /// other controller has overwritten the blocks.
    fn wake_former_home(&mut self, mut session: Session) -> Result<()> {
        session.submit(0, cdb::read(1, 0, BLOCKS as u32, BLOCK_BYTES))?;
        let mut poll = [session.pollfd()];
        // Sends the read; there is no response.
        _ = session.service(poll[0].revents | libc::POLLOUT)?;
        self.controllers[0].pause(false)?;
        let awake = Instant::now();
        while awake.elapsed() < AWAKE_TIME {
            poll = [session.pollfd()];
            wait(&mut poll, 100)?;
            let ended = session.service(poll[0].revents).unwrap_or_else(|_| session.ended());
            if let Some(Ending::Good(data)) = ended.into_iter().map(|it| it.ending).next() {
                let fresh = (0..)
                    .zip(data.chunks(BLOCK_BYTES as usize))
                    .all(|(lba, block)| self.is_right(lba, block));
                ensure!(fresh, "a controller that was frozen answered a read with what it remembered");
            }
            if poll[0].revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                break;
            }
        }
        self.controllers[0]
            .wait_gone(TIMEOUT)
            .context("the former home keeps running, although it was expelled")
    }

    /// Logs in at a controller as soon as it serves.
    fn login(&mut self, at: usize, limit: Duration) -> Result<Session> {
        let start = Instant::now();
        loop {
            let array = &self.controllers[at];
            let (portal, target) = (array.portals()[0].to_string(), array.iqn());
            let login = Login {
                initiator: INITIATOR,
                portal: &portal,
                target,
                lun: 1,
                session: 0,
                header_digest: true,
            };
            match Session::login(&self.library, login) {
                Ok(mut session) => {
                    make_ready(&mut session, 1)?;
                    return Ok(session);
                }
                Err(error) if start.elapsed() > limit => return Err(error),
                Err(_) => std::thread::sleep(RETRY_INTERVAL),
            }
        }
    }

    /// Waits until the other controller takes part: otherwise a takeover would include its start.
    fn wait_for_standby(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.controllers[1].joins()? < self.controllers[1].starts() {
            self.controllers[1].check_alive()?;
            ensure!(start.elapsed() < TIMEOUT, "the other controller does not join");
            std::thread::sleep(RETRY_INTERVAL);
        }
        Ok(())
    }

    /// The next write: stamp, block, and command.
    fn next_write(&mut self) -> (u64, u64, Command) {
        self.stamp += 1;
        let (stamp, lba) = (self.stamp, self.stamp % BLOCKS);
        let mut data = vec![0; BLOCK_BYTES as usize];
        expand(stamp, &mut data);
        (stamp, lba, cdb::write(1, lba, 1, false, data))
    }

    /// Sends a write without receiving its response: it takes effect or not.
    fn send_last(&mut self, session: &mut Session) -> Result<()> {
        let (stamp, lba, command) = self.next_write();
        session.submit(stamp, command)?;
        self.unknown = Some((lba, stamp));
        session.service(libc::POLLOUT).map(drop)
    }

    /// Writes the next block; false without a response.
    fn write(&mut self, session: &mut Session) -> Result<bool> {
        let (stamp, lba, command) = self.next_write();
        match session.perform(command)? {
            Ending::Good(_) => {
                self.written[lba as usize] = stamp;
                // The earlier write is overwritten, or must never take effect.
                self.unknown.take_if(|(unknown, _)| *unknown == lba);
                self.report.acknowledged += 1;
                Ok(true)
            }
            Ending::Unanswered => {
                self.unknown = Some((lba, stamp));
                Ok(false)
            }
            other => bail!("a write is answered with {other:?}"),
        }
    }

    fn is_right(&self, lba: u64, block: &[u8]) -> bool {
        let found = stamp_of(block);
        found == Some(self.written[lba as usize])
            || self.unknown.is_some_and(|(at, stamp)| at == lba && found == Some(stamp))
    }

    fn verify(&mut self, session: &mut Session) -> Result<()> {
        let Ending::Good(data) = session.perform(cdb::read(1, 0, BLOCKS as u32, BLOCK_BYTES))? else {
            bail!("the volume can't be read");
        };
        for (lba, block) in (0..).zip(data.chunks(BLOCK_BYTES as usize)) {
            ensure!(
                self.is_right(lba, block),
                "block {lba} has {:?}, and {} was acknowledged",
                stamp_of(block),
                self.written[lba as usize]
            );
            self.report.verified += 1;
        }
        Ok(())
    }
}
