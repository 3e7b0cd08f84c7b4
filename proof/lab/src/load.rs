//! A closed-loop load on a target, with its processor cost for the target's process.

use crate::initiator::{Connection, Names};
use crate::libiscsi::wait;
use crate::seed::Seed;
use crate::stats::Latencies;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A non-blocking connection of a host for commands to one volume.
pub(crate) trait Initiator {
    /// True if the target accepts another command.
    fn may_send(&self) -> bool;

    /// Queues a command.
    fn queue(&mut self, command: Command);

    /// Sends queued bytes until the socket accepts no more. True if any remain.
    fn flush(&mut self) -> Result<bool>;

    /// Processes received bytes and adds completed commands.
    fn receive(&mut self, answers: &mut Vec<Answer>) -> Result<()>;

    /// Descriptor and events for poll(2).
    fn pollfd(&self) -> libc::pollfd;
}

/// A read or a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Identifier in the response.
    pub tag: u32,
    /// Offset on the volume in bytes.
    pub at: u64,
    /// Bytes transferred.
    pub bytes: u32,
    /// Data of a write; `None` for a read.
    pub source: Option<Source>,
}

/// A completed command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Tag of the command.
    pub tag: u32,
    /// The status of the transport's command set; zero is success.
    pub status: u16,
}

/// Data source of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Offset in the payload.
    pub at: usize,
    /// If not zero, written over the first bytes of every 4 KiB and incremented, so that all blocks differ.
    pub stamp: u64,
}

impl Source {
    /// Appends a part of the data to the output.
    pub fn append(&self, payload: &[u8], offset: usize, bytes: usize, out: &mut Vec<u8>) {
        let (from, begin) = (self.at + offset, out.len());
        out.extend_from_slice(&payload[from..from + bytes]);
        if self.stamp == 0 {
            return;
        }
        for at in (offset.next_multiple_of(4096)..offset + bytes).step_by(4096) {
            let stamp = self.stamp.wrapping_add(at as u64 / 4096);
            if let Some(head) = out.get_mut(begin + at - offset..begin + at - offset + 8) {
                head.copy_from_slice(&stamp.to_le_bytes());
            }
        }
    }
}

/// Order of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Uniformly random.
    Random,
    /// Sequential; each session has a separate part.
    Sequential,
}

/// Content of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Every block compresses to half.
    Half,
    /// No block compresses.
    Random,
    /// 64 different blocks, repeated.
    Duplicate,
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Reads or writes.
    pub direction: Direction,
    /// Order of addresses.
    pub order: Order,
    /// Bytes of each operation.
    pub bytes: u32,
    /// Outstanding operations of each session.
    pub depth: u32,
    /// Sessions.
    pub sessions: u16,
    /// Content of writes.
    pub content: Content,
    /// Used part of the volume in bytes, from its start.
    pub span: u64,
}

/// Results of a load.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Number of completed operations.
    pub count: f64,
    /// Operations per second.
    pub iops: f64,
    /// Processor time of the target's process per operation, in µs.
    pub cpu_us: f64,
    /// Median latency in µs.
    pub p50_us: f64,
    /// 99th percentile of the latency in µs.
    pub p99_us: f64,
    /// Maximum latency in µs.
    pub max_us: f64,
}

/// Default read cache of a daemon in bytes: with a larger used part, most reads miss it.
pub const READ_CACHE_BYTES: u64 = 256 << 20;

/// Initiator name of the loads.
pub const INITIATOR: &str = "iqn.2001-04.org.example:load";
/// Logical block length of the volumes in bytes.
pub(crate) const LOGICAL_BLOCK_BYTES: u32 = 512;
const PAYLOAD_BYTES: usize = 8 << 20;
/// Different blocks in [`Content::Duplicate`].
const DUPLICATES: usize = 64;
/// Time without any response after which a target counts as stalled.
pub(crate) const STALL_TIMEOUT_MS: u32 = 20_000;

struct Session {
    connection: Box<dyn Initiator>,
    free: Vec<u32>,
    started: Vec<Instant>,
    next: u64,
    part: std::ops::Range<u64>,
}

/// End condition.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After a time.
    Time(Duration),
    /// After one sequential pass over the span.
    Covered,
}

/// Runs the load on LUN `lun` of an iSCSI target.
pub fn run(target: &dyn Target, lun: u16, load: Load, until: Until) -> Result<Measure> {
    let portal = *target.portals().first().context("a portal")?;
    let names = Names { portal, initiator: INITIATOR, target: target.iqn() };
    run_over(target.pid()?, load, until, |session, payload| {
        Ok(Box::new(Connection::login(names, session, lun, payload)?))
    })
}

/// Runs the load over connections: `connect` creates one from its number, starting with zero, and the payload of its
/// writes. `pid` is the process whose time is measured.
pub(crate) fn run_over(
    pid: u32,
    load: Load,
    until: Until,
    mut connect: impl FnMut(u16, Arc<[u8]>) -> Result<Box<dyn Initiator>>,
) -> Result<Measure> {
    let payload: Arc<[u8]> = payload(load.content).into();
    let mut sessions = Vec::new();
    for index in 0..load.sessions {
        let part = load.span / u64::from(load.sessions);
        let part = part * u64::from(index)..part * (u64::from(index) + 1);
        sessions.push(Session {
            connection: connect(index, payload.clone())?,
            free: (0..load.depth).collect(),
            started: vec![Instant::now(); load.depth as usize],
            next: part.start,
            part,
        });
    }
    measure(pid, &mut sessions, load, until)
}

fn measure(pid: u32, sessions: &mut [Session], load: Load, until: Until) -> Result<Measure> {
    // Every run has different numbers, so no earlier data is repeated.
    let mut seed = Seed::new(crate::crash::new_seed());
    let (mut latencies, mut answers) = (Latencies::default(), Vec::new());
    let (before, start) = (processor_time(pid)?, Instant::now());
    let goal = load.span / u64::from(load.bytes);
    let mut issued = 0;
    loop {
        let over = match until {
            Until::Time(time) => start.elapsed() >= time,
            Until::Covered => issued >= goal,
        };
        for session in &mut *sessions {
            while !over && !session.free.is_empty() && session.connection.may_send() {
                session.issue(load, &mut seed);
                issued += 1;
            }
            session.connection.flush()?;
        }
        if sessions.iter().all(|session| session.free.len() == load.depth as usize) {
            break;
        }
        let mut polls: Vec<_> = sessions.iter().map(|session| session.connection.pollfd()).collect();
        wait(&mut polls, STALL_TIMEOUT_MS)?;
        ensure!(polls.iter().any(|poll| poll.revents != 0), "the target has stalled");
        for (session, _) in
            sessions.iter_mut().zip(&polls).filter(|(_, poll)| poll.revents & !libc::POLLOUT != 0)
        {
            session.connection.receive(&mut answers)?;
            for answer in answers.drain(..) {
                ensure!(answer.status == 0, "{load:?}: status {:#x}", answer.status);
                latencies.record(session.started[answer.tag as usize].elapsed());
                session.free.push(answer.tag);
            }
        }
    }
    let (time, used) = (start.elapsed(), processor_time(pid)? - before);
    Ok(summary(&latencies, time, used))
}

fn summary(latencies: &Latencies, time: Duration, used: Duration) -> Measure {
    let count = latencies.count().max(1) as f64;
    Measure {
        count,
        iops: count / time.as_secs_f64(),
        cpu_us: used.as_secs_f64() * 1e6 / count,
        p50_us: latencies.at(0.5),
        p99_us: latencies.at(0.99),
        max_us: latencies.at(1.0),
    }
}

impl Session {
    fn issue(&mut self, load: Load, seed: &mut Seed) {
        let Some(tag) = self.free.pop() else { return };
        let bytes = u64::from(load.bytes);
        let at = match load.order {
            Order::Random => seed.range(0, load.span / bytes) * bytes,
            Order::Sequential => {
                let at = self.next;
                let next = at + bytes;
                self.next = if next + bytes <= self.part.end { next } else { self.part.start };
                at
            }
        };
        let pages = (PAYLOAD_BYTES as u64 - bytes) / 4096;
        let source = (load.direction == Direction::Write).then(|| Source {
            at: seed.range(0, pages) as usize * 4096,
            stamp: if load.content == Content::Duplicate { 0 } else { seed.bits() },
        });
        self.started[tag as usize] = Instant::now();
        self.connection.queue(Command { tag, at, bytes: load.bytes, source });
    }
}

/// Payload of writes; all but duplicates are stamped when sent.
fn payload(content: Content) -> Vec<u8> {
    let mut seed = Seed::new(1);
    let mut payload = vec![0; PAYLOAD_BYTES];
    for (index, block) in payload.chunks_mut(4096).enumerate() {
        if content == Content::Duplicate && index % DUPLICATES == 0 {
            seed = Seed::new(1);
        }
        let random = if content == Content::Half { 2048 } else { 4096 };
        for word in block[..random].chunks_mut(8) {
            word.copy_from_slice(&seed.bits().to_le_bytes());
        }
    }
    payload
}

/// Exact processor time of a process so far, over all its threads, including ended ones. `/proc/PID/stat` has a
/// resolution of only 10 ms.
pub fn processor_time(pid: u32) -> Result<Duration> {
    let pid = libc::pid_t::try_from(pid)?;
    let mut clock = 0;
    // SAFETY: writes the number of a clock.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    ensure!(error == 0, "the target is gone: {}", std::io::Error::from_raw_os_error(error));
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    ensure!(failed == 0, "the target is gone: {}", std::io::Error::last_os_error());
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}
