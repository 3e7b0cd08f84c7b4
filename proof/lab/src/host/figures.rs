//! The figures of `esxtop` for a disk: commands, rates, GAVG = KAVG + DAVG, ACTV, QUED, and offloaded commands.

use super::device::Device;
use super::{Command, Kind, Outcome, Time};
use crate::stats::Latencies;
use std::time::Duration;

/// Times of a command.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Issued by the world.
    pub issued: Time,
    /// Sent by the kernel.
    pub dispatched: Time,
    /// Result delivered to the world.
    pub delivered: Time,
}

/// Kind of an offloaded command, in the order of esxtop's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// EXTENDED COPY
    Clone,
    /// COMPARE AND WRITE
    Ats,
    /// WRITE SAME
    Zero,
    /// UNMAP
    Delete,
}

impl Offload {
    /// All kinds.
    pub const ALL: [Offload; 4] = [Offload::Clone, Offload::Ats, Offload::Zero, Offload::Delete];

    /// The kind of a command, if it is offloaded.
    pub fn of(kind: &Kind) -> Option<Self> {
        match kind {
            Kind::Copy { .. } => Some(Offload::Clone),
            Kind::Ats { .. } => Some(Offload::Ats),
            Kind::Zero => Some(Offload::Zero),
            Kind::Unmap => Some(Offload::Delete),
            _ => None,
        }
    }
}

/// Counters of a kind of offloaded command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offloaded {
    /// Successful commands.
    pub count: u64,
    /// Refused or failed commands; for ATS also miscompares.
    pub failed: u64,
    /// Bytes that the host did not have to move.
    pub bytes: u64,
    /// Total time.
    pub time: Time,
}

/// An interval.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// End of the interval.
    pub until: Time,
    /// Data commands that ended in the interval.
    pub commands: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Sum of the time in the array, fabric and adapter.
    pub device: Time,
    /// Sum of the time in the kernel.
    pub kernel: Time,
    /// Offloaded commands of each kind.
    pub offloaded: [Offloaded; 4],
    /// Reservation conflicts.
    pub conflicts: u64,
    /// Outstanding commands, integrated over time.
    active: u128,
    /// Waiting commands, integrated over time.
    queued: u128,
}

impl Sample {
    fn per_command(&self, sum: Time) -> f64 {
        sum as f64 / 1e6 / self.commands.max(1) as f64
    }

    /// DAVG in ms.
    pub fn davg(&self) -> f64 {
        self.per_command(self.device)
    }

    /// KAVG in ms. It consists only of queueing time, so QAVG is the same.
    pub fn kavg(&self) -> f64 {
        self.per_command(self.kernel)
    }

    /// GAVG in ms.
    pub fn gavg(&self) -> f64 {
        self.davg() + self.kavg()
    }

    /// Adds another sample.
    pub fn merge(&mut self, other: &Sample) {
        self.commands += other.commands;
        self.read += other.read;
        self.written += other.written;
        self.device += other.device;
        self.kernel += other.kernel;
        self.conflicts += other.conflicts;
        self.active += other.active;
        self.queued += other.queued;
        for (sum, part) in self.offloaded.iter_mut().zip(other.offloaded) {
            sum.count += part.count;
            sum.failed += part.failed;
            sum.bytes += part.bytes;
            sum.time += part.time;
        }
    }

    fn add(&mut self, command: &Command, outcome: &Outcome, times: Times) {
        if let Some(kind) = Offload::of(&command.kind) {
            let counts = &mut self.offloaded[kind as usize];
            match outcome {
                Outcome::Good(_) => {
                    counts.count += 1;
                    counts.bytes += command.bytes;
                    counts.time += times.delivered - times.dispatched;
                }
                Outcome::Busy | Outcome::Conflict => {}
                _ => counts.failed += 1,
            }
        }
        self.conflicts += u64::from(*outcome == Outcome::Conflict);
        if let (Outcome::Good(_), true) = (outcome, command.kind.moves_data()) {
            self.commands += 1;
            let bytes = if command.kind == Kind::Read { &mut self.read } else { &mut self.written };
            *bytes += command.bytes;
            self.device += times.delivered - times.dispatched;
            self.kernel += times.dispatched - times.issued;
        }
    }
}

/// Outstanding and waiting commands of a disk, since a time.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    since: Time,
    active: u32,
    queued: u32,
}

/// The figures of a host.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Totals since the start, by disk.
    pub total: Vec<Sample>,
    /// Samples of [`INTERVAL`] since the start, over all disks.
    pub samples: Vec<Sample>,
    /// GAVG of every data command.
    pub latencies: Latencies,
    /// Commands that failed for lack of space.
    pub stuns: u64,
    /// The first failure that no world expects.
    pub failure: Option<String>,
    /// The first refused command with its outcome: some worlds have an alternative.
    pub refused: Option<String>,
    levels: Vec<Level>,
    now: Time,
}

/// Length of a [`Sample`] of a host's figures.
pub const INTERVAL: Time = 100_000_000;

impl Figures {
    /// Empty figures.
    pub fn new(disks: usize) -> Self {
        Self {
            total: vec![Sample::default(); disks],
            samples: vec![Sample { until: INTERVAL, ..Sample::default() }],
            latencies: Latencies::default(),
            stuns: 0,
            failure: None,
            refused: None,
            levels: vec![Level::default(); disks],
            now: 0,
        }
    }

    /// End of the recorded time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Totals of all disks.
    pub fn sum(&self) -> Sample {
        let mut sum = Sample { until: self.now, ..Sample::default() };
        self.total.iter().for_each(|total| sum.merge(total));
        sum
    }

    /// Mean ACTV since the start.
    pub fn active(&self) -> f64 {
        self.sum().active as f64 / self.now.max(1) as f64
    }

    /// Mean QUED since the start.
    pub fn queued(&self) -> f64 {
        self.sum().queued as f64 / self.now.max(1) as f64
    }

    /// Data commands per second.
    pub fn rate(&self) -> f64 {
        self.sum().commands as f64 * 1e9 / self.now.max(1) as f64
    }

    /// Notes a change of a disk's queues.
    pub fn change(&mut self, now: Time, disk: usize, device: &Device) {
        let level = &mut self.levels[disk];
        let time = u128::from(now.saturating_sub(level.since));
        let (active, queued) = (u128::from(level.active) * time, u128::from(level.queued) * time);
        *level = Level { since: now, active: device.active(), queued: device.queued() };
        self.roll(now);
        let Some(sample) = self.samples.last_mut() else { return };
        for sample in [sample, &mut self.total[disk]] {
            sample.active += active;
            sample.queued += queued;
        }
    }

    /// Advances the time.
    pub fn advance(&mut self, now: Time, disks: &[Device]) {
        self.now = self.now.max(now);
        disks.iter().enumerate().for_each(|(index, disk)| self.change(now, index, disk));
    }

    /// Notes the end of a command.
    pub fn ended(&mut self, command: &Command, outcome: &Outcome, times: Times) {
        self.now = self.now.max(times.delivered);
        self.roll(times.delivered);
        let Some(sample) = self.samples.last_mut() else { return };
        for sample in [sample, &mut self.total[command.disk]] {
            sample.add(command, outcome, times);
        }
        match outcome {
            Outcome::Good(_) if command.kind.moves_data() => {
                self.latencies.record(Duration::from_nanos(times.delivered - times.issued));
            }
            Outcome::NoSpace => self.stuns += 1,
            Outcome::Miscompare | Outcome::Unsupported if self.refused.is_none() => {
                let Command { disk, kind, at, .. } = command;
                self.refused = Some(format!("{kind:?} at byte {at} of disk {disk}: {outcome:?}"));
            }
            Outcome::Failed(what) if self.failure.is_none() => self.failure = Some(what.clone()),
            _ => {}
        }
    }

    /// Begins the sample that contains `now`.
    fn roll(&mut self, now: Time) {
        while let Some(last) = self.samples.last().map(|sample| sample.until)
            && last <= now
        {
            self.samples.push(Sample { until: last + INTERVAL, ..Sample::default() });
        }
    }

    /// The samples as a batch file of esxtop, for spreadsheets and `perfmon`. `name` is the host's.
    pub fn csv(&self, name: &str) -> String {
        let columns: [Column; 14] = [
            ("Commands/sec", |it| it.commands as f64 * PER_SECOND),
            ("MBytes Read/sec", |it| it.read as f64 * PER_SECOND / 1e6),
            ("MBytes Written/sec", |it| it.written as f64 * PER_SECOND / 1e6),
            ("Average Device MilliSec/Command", Sample::davg),
            ("Average Kernel MilliSec/Command", Sample::kavg),
            ("Average Guest MilliSec/Command", Sample::gavg),
            ("Average Queue MilliSec/Command", Sample::kavg),
            ("Active Commands", |it| it.active as f64 / INTERVAL as f64),
            ("Queued Commands", |it| it.queued as f64 / INTERVAL as f64),
            ("Conflicts/sec", |it| it.conflicts as f64 * PER_SECOND),
            ("Clone Write/sec", |it| it.offloaded[0].count as f64 * PER_SECOND),
            ("ATS/sec", |it| it.offloaded[1].count as f64 * PER_SECOND),
            ("Zeroing/sec", |it| it.offloaded[2].count as f64 * PER_SECOND),
            ("Delete/sec", |it| it.offloaded[3].count as f64 * PER_SECOND),
        ];
        let mut text = "\"(PDH-CSV 4.0) (UTC)(0)\"".to_owned();
        for (column, _) in columns {
            text += &format!(",\"\\\\{name}\\Physical Disk SCSI Device(lab)\\{column}\"");
        }
        text += "\n";
        for sample in &self.samples {
            let seconds = sample.until as f64 / 1e9;
            let (minute, second) = ((seconds / 60.0) as u64, seconds % 60.0);
            text += &format!("\"01/01/2000 {:02}:{:02}:{second:06.3}\"", minute / 60, minute % 60);
            for (_, value) in columns {
                text += &format!(",\"{:.3}\"", value(sample));
            }
            text += "\n";
        }
        text
    }
}

/// A column of the batch file: its name and its figure.
type Column = (&'static str, fn(&Sample) -> f64);

const PER_SECOND: f64 = 1e9 / INTERVAL as f64;
