//! Model hosts on a real target, in real time: commands of a host are sent by libiscsi, with one session for each of
//! its paths, and the results return to the host.

use crate::cdb::{self, Segment};
use crate::content::Payload;
use crate::host::{Command, Host, Kind, Outcome, Send, Time};
use crate::libiscsi::{self, Ending, Libiscsi, Login, Session, Transfer};
use crate::load::processor_time;
use crate::target::Target;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Prefix of the lab's initiator names, before a number.
pub const INITIATOR: &str = "iqn.2001-04.org.example:lab-host";
/// Logical block length of every disk.
pub const BLOCK_BYTES: u32 = 512;
/// Maximum length of a copy segment.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Maximum length of one UNMAP.
const UNMAP_BYTES: u64 = 256 << 20;
/// Time without any response after which a host gives up.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Initiator names of the hosts.
pub fn initiators(hosts: usize) -> Vec<String> {
    (0..hosts).map(|host| format!("{INITIATOR}{host}")).collect()
}

/// A disk of the target, from the view of hosts.
#[derive(Clone, Debug)]
struct Unit {
    lun: u16,
    /// Its designator in EXTENDED COPY.
    naa: Option<Vec<u8>>,
}

/// Logged-in hosts.
pub struct Rig {
    /// Sessions of each host, one per path.
    hosts: Vec<Vec<Session>>,
    units: Vec<Unit>,
    payload: Payload,
    pid: Option<u32>,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Time from the first command to the last response.
    pub time: Duration,
    /// Time at which all finite worlds had finished, if they did in time.
    pub finished: Option<Duration>,
    /// Processor time of the target's process, if known.
    pub processor: Option<Duration>,
    /// Reported unit attentions, by additional sense code.
    pub attentions: BTreeMap<u16, u64>,
}

impl Rig {
    /// Logs in this many hosts, each over this many paths, which are distributed over the target's portals.
    pub fn login(target: &dyn Target, luns: &[u16], hosts: usize, paths: usize) -> Result<Self> {
        let library = Libiscsi::load()?;
        let mut rig = Self {
            hosts: Vec::new(),
            units: Vec::new(),
            payload: Payload::default(),
            pid: target.pid().ok(),
        };
        for name in initiators(hosts) {
            let sessions = (0..paths.max(1)).map(|path| login(&library, target, &name, luns, path));
            rig.hosts.push(sessions.collect::<Result<_>>()?);
        }
        let first = rig.hosts.first_mut().and_then(|paths| paths.first_mut()).context("no host")?;
        for lun in luns {
            let naa = match first.perform(cdb::inquiry_identification(*lun))? {
                Ending::Good(page) => cdb::naa(&page),
                _ => None,
            };
            rig.units.push(Unit { lun: *lun, naa });
        }
        Ok(rig)
    }

    /// Runs the hosts until their finite worlds have finished, but at most for a time limit; outstanding commands then
    /// complete. `during` is called repeatedly with the elapsed time.
    pub fn run(
        &mut self,
        hosts: &mut [Host],
        limit: Duration,
        mut during: impl FnMut(Duration) -> Result<()>,
    ) -> Result<Run> {
        ensure!(hosts.len() <= self.hosts.len(), "more hosts than are logged in");
        let before = self.processor()?;
        let mut run = Run::default();
        let (start, mut heard) = (Instant::now(), Instant::now());
        let mut out = Vec::new();
        let ends = hosts.iter().any(Host::has_end);
        let mut closed = false;
        while !closed || hosts.iter().any(|host| host.under_way() > 0) {
            during(start.elapsed())?;
            let over = ends && hosts.iter().all(Host::is_over);
            if !closed && (over || start.elapsed() >= limit) {
                run.finished = over.then(|| start.elapsed());
                hosts.iter_mut().for_each(Host::close);
                closed = true;
            }
            for (index, host) in hosts.iter_mut().enumerate() {
                host.advance(since(start), &mut out);
                for send in out.drain(..) {
                    if let Err(outcome) = self.send(index, &send) {
                        host.answered(since(start), send.tag, outcome);
                    }
                }
            }
            if self.exchange(hosts, start, &mut run)? {
                heard = Instant::now();
            }
            ensure!(
                heard.elapsed() < STALL_TIMEOUT,
                "the target has been silent for {} s",
                STALL_TIMEOUT.as_secs()
            );
        }
        run.time = start.elapsed();
        run.processor = self.processor()?.zip(before).map(|(after, before)| after - before);
        Ok(run)
    }

    fn processor(&self) -> Result<Option<Duration>> {
        self.pid.map(processor_time).transpose()
    }

    fn send(&mut self, host: usize, send: &Send) -> std::result::Result<(), Outcome> {
        let command = self.command(send)?;
        let failed = |what: String| Outcome::Failed(what);
        let paths = self.hosts.get_mut(host).ok_or_else(|| failed("no such host".into()))?;
        let path = send.path % paths.len().max(1);
        let session = paths.get_mut(path).ok_or_else(|| failed("no path".into()))?;
        session.submit(send.tag, command).map_err(|error| failed(format!("{error:#}")))
    }

    /// The SCSI command, or an outcome if it can't be sent.
    fn command(&mut self, send: &Send) -> std::result::Result<libiscsi::Command, Outcome> {
        let Command { disk, kind, at, bytes } = &send.command;
        let unit = self.units.get(*disk).ok_or_else(|| Outcome::Failed(format!("no disk {disk}")))?;
        let (lun, lba) = (unit.lun, at / u64::from(BLOCK_BYTES));
        let blocks = (bytes / u64::from(BLOCK_BYTES)) as u32;
        let sector = |stamp: u64| {
            let mut sector = vec![0; BLOCK_BYTES as usize];
            sector[..8].copy_from_slice(&stamp.to_be_bytes());
            sector
        };
        Ok(match kind {
            Kind::Read => cdb::read(lun, lba, blocks, BLOCK_BYTES),
            Kind::Write(content) => {
                cdb::write(lun, lba, blocks, false, self.payload.make(content, *bytes as usize))
            }
            Kind::Zero => cdb::write_same(lun, lba, blocks, false, Some(sector(0))),
            Kind::Copy { from, at: source } => {
                let source_unit = self.units.get(*from).and_then(|unit| unit.naa.as_deref());
                let (Some(source_naa), Some(target_naa)) = (source_unit, unit.naa.as_deref()) else {
                    return Err(Outcome::Unsupported);
                };
                let segments = segments(*source, *at, *bytes);
                let units = [source_naa, target_naa];
                cdb::extended_copy(lun, (send.tag % 255) as u8 + 1, &units, BLOCK_BYTES, &segments)
            }
            Kind::Unmap => cdb::unmap(lun, &cut(*at, *bytes, UNMAP_BYTES)),
            Kind::Ats { expect, replace } => {
                let data = [sector(*expect), sector(*replace)].concat();
                cdb::compare_and_write(lun, lba, 1, data)
            }
            Kind::Reserve => {
                libiscsi::Command { lun, cdb: vec![0x16, 0, 0, 0, 0, 0], transfer: Transfer::None }
            }
            Kind::Release => {
                libiscsi::Command { lun, cdb: vec![0x17, 0, 0, 0, 0, 0], transfer: Transfer::None }
            }
        })
    }

    /// Waits for the next response or the next event of a host; true if the target responded.
    fn exchange(&mut self, hosts: &mut [Host], start: Instant, run: &mut Run) -> Result<bool> {
        let mut polls: Vec<_> = self.hosts.iter().flatten().map(Session::pollfd).collect();
        let next = hosts.iter().filter_map(Host::next_event).min();
        let pause = next.map_or(1_000_000_000, |next| next.saturating_sub(since(start)));
        libiscsi::wait_for(&mut polls, Duration::from_nanos(pause.min(100_000_000)))?;
        let mut heard = false;
        let mut polls = polls.iter();
        for (index, paths) in self.hosts.iter_mut().enumerate() {
            for session in paths {
                let Some(poll) = polls.next().filter(|poll| poll.revents != 0) else { continue };
                for completion in session.service(poll.revents)? {
                    heard = true;
                    if let Ending::Check { key: 6, code } = completion.ending {
                        *run.attentions.entry(code).or_default() += 1;
                    }
                    if let Some(host) = hosts.get_mut(index) {
                        host.answered(since(start), completion.tag, outcome(completion.ending));
                    }
                }
            }
        }
        Ok(heard)
    }
}

fn since(start: Instant) -> Time {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(Time::MAX)
}

/// Logs in and clears the unit attentions of new sessions.
pub(crate) fn login(
    library: &Rc<Libiscsi>,
    target: &dyn Target,
    initiator: &str,
    luns: &[u16],
    path: usize,
) -> Result<Session> {
    let portals = target.portals();
    let portal = portals.get(path % portals.len().max(1)).context("a target without portals")?.to_string();
    let lun = *luns.first().context("no LUN")?;
    let session = path as u32 + 1;
    let login =
        Login { initiator, portal: &portal, target: target.iqn(), lun, session, header_digest: false };
    let mut session = Session::login(library, login)?;
    for lun in luns {
        make_ready(&mut session, *lun).with_context(|| target.name().to_owned())?;
    }
    Ok(session)
}

/// The first commands of a new session get unit attentions.
pub(crate) fn make_ready(session: &mut Session, lun: u16) -> Result<()> {
    let mut last = Ending::Unanswered;
    for _ in 0..10 {
        last = session.perform(cdb::test_unit_ready(lun))?;
        if last == Ending::Good(Vec::new()) {
            return Ok(());
        }
    }
    bail!("LUN {lun} does not get ready: {last:?}")
}

/// Splits a byte range into runs of blocks, each at most `most` bytes long.
fn cut(at: u64, bytes: u64, most: u64) -> Vec<(u64, u32)> {
    let block = u64::from(BLOCK_BYTES);
    let starts = (0..bytes.div_ceil(most)).map(|index| index * most);
    starts.map(|start| ((at + start) / block, (most.min(bytes - start) / block) as u32)).collect()
}

fn segments(source: u64, target: u64, bytes: u64) -> Vec<Segment> {
    let (from, to) = (cut(source, bytes, SEGMENT_BYTES), cut(target, bytes, SEGMENT_BYTES));
    let segment = |((source_lba, blocks), (target_lba, _)): ((u64, u32), (u64, u32))| Segment {
        source: 0,
        source_lba,
        target: 1,
        target_lba,
        blocks: blocks as u16,
    };
    from.into_iter().zip(to).map(segment).collect()
}

/// Outcome for a host (SPC-5 clause 4.4, SAM-5 clause 5.3).
pub(crate) fn outcome(ending: Ending) -> Outcome {
    match ending {
        Ending::Good(data) => Outcome::Good(data),
        // UNIT ATTENTION, and NOT READY while becoming ready.
        Ending::Check { key: 6, .. } | Ending::Check { key: 2, code: 0x0400..=0x04ff } => Outcome::Busy,
        Ending::Check { key: 0xe, .. } => Outcome::Miscompare,
        Ending::Check { key: 7, code: 0x2707 } => Outcome::NoSpace,
        // ILLEGAL REQUEST: unsupported command, field or parameter.
        Ending::Check { key: 5, code: 0x2000 | 0x2400 | 0x2600 } => Outcome::Unsupported,
        Ending::Check { key: 5, code: 0x2100 } => Outcome::OutOfRange,
        Ending::Check { key, code } => Outcome::Failed(format!("sense key {key:x}h, code {code:04x}h")),
        // BUSY, TASK SET FULL
        Ending::Status(0x08 | 0x28) => Outcome::Busy,
        Ending::Status(0x18) => Outcome::Conflict,
        Ending::Status(status) => Outcome::Failed(format!("status {status:02x}h")),
        Ending::Unanswered => Outcome::Failed("no answer".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_into_what_a_command_takes() {
        assert_eq!(cut(1024, 512, 4096), [(2, 1)]);
        assert_eq!(cut(0, 10 << 20, 4 << 20), [(0, 8192), (8192, 8192), (16384, 4096)]);
        let segments = segments(0, 1 << 30, 40 << 20);
        assert_eq!(segments.iter().map(|it| u64::from(it.blocks) * 512).sum::<u64>(), 40 << 20);
        assert_eq!((segments[1].source_lba, segments[1].target_lba), (32768, 32768 + (1 << 21)));
    }

    #[test]
    fn an_answer_is_what_the_standard_calls_it() {
        assert_eq!(outcome(Ending::Check { key: 7, code: 0x2707 }), Outcome::NoSpace);
        assert_eq!(outcome(Ending::Check { key: 6, code: 0x2900 }), Outcome::Busy);
        assert_eq!(outcome(Ending::Check { key: 0xe, code: 0x1d00 }), Outcome::Miscompare);
        assert_eq!(outcome(Ending::Check { key: 5, code: 0x2000 }), Outcome::Unsupported);
        assert_eq!(outcome(Ending::Check { key: 5, code: 0x2100 }), Outcome::OutOfRange);
        assert_eq!(outcome(Ending::Status(0x18)), Outcome::Conflict);
        assert!(matches!(outcome(Ending::Unanswered), Outcome::Failed(_)));
    }
}
