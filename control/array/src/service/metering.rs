//! Performance and capacity history: the target's counters, sampled once a second, by volume, group, host and path.
//!
//! Sampling reads counters that connections write; it takes no lock that a command waits for. Samples are kept for the
//! whole array, each volume, each portal, and each path of an initiator to a portal; a host is the sum of the paths of its
//! initiators, a group the sum of its volumes and a controller that of its portals, as configured at the time of the query.

use crate::configuration::Configuration;
use crate::events::bus::{EventBus, Update};
use crate::parts::Parts;
use crate::parts::env::Env;
use crate::parts::fibre_channel::{FibreChannel, FibreChannelNexus};
use crate::parts::target_ports::{OwnPorts, iscsi_sessions};
use crate::{Error, Result};
use block::DiskId;
use engine::Engine;
use export::{IoCounters, Operation, PathId, SizeClass};
use history::{ALL, Cell, Latencies, Recorder, Sample, Series, SpacePoint, Store};
use parking_lot::Mutex;
use records::HostEntry;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How far a question looks back that does not say it, in seconds.
const DEFAULT_RANGE_SECONDS: u64 = 300;
/// Points of a series by default, and at most.
const DEFAULT_POINTS: u32 = 300;
const MAX_POINTS: u32 = 3600;
/// What the use of space in the coming days is foreseen from, in seconds.
const FORECAST_PAST_SECONDS: u64 = 30 * 86_400;
/// The least that a forecast needs, in seconds.
const FORECAST_MIN_SECONDS: u64 = 3600;
/// How often the use of space is measured, in seconds.
const SPACE_INTERVAL_SECONDS: u64 = 10;

/// What a measurement is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Everything together.
    #[default]
    Array,
    /// One volume.
    Volume(String),
    /// The volumes of a group.
    Group(String),
    /// The paths of a host.
    Host(String),
    /// The portals of a controller.
    Controller(u16),
}

/// A time range, in seconds since 1970: the last five minutes if no field is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeRange {
    /// Its beginning.
    pub from: Option<u64>,
    /// Its end.
    pub to: Option<u64>,
    /// In about how many parts; 3600 at most.
    pub points: Option<u32>,
}

impl TimeRange {
    /// Beginning and end, in seconds since 1970; the last `default_seconds` if no field is given.
    pub(crate) fn ends(&self, now: u64, default_seconds: u64) -> Result<(u64, u64)> {
        // What comes after now is not known; a second that has begun is not over.
        let to = self.to.unwrap_or(now).min(now);
        let from = self.from.unwrap_or_else(|| to.saturating_sub(default_seconds));
        match from < to || self.to.is_none() {
            true => Ok((from.min(to), to)),
            false => {
                Err(Error::invalid("the requested time range ends before it begins, or is in the future"))
            }
        }
    }

    /// Points of a series.
    pub(crate) fn number_of_points(&self) -> u32 {
        self.points.unwrap_or(DEFAULT_POINTS).clamp(1, MAX_POINTS)
    }
}

/// What the busiest are chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Volumes.
    Volume,
    /// Hosts.
    Host,
    /// Controllers, by number.
    Controller,
}

/// What one volume, host or controller did in the last moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Its name.
    pub name: String,
    /// What it did; `millis` are those for which something is known.
    pub sample: Sample,
}

/// What came by one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// The host.
    pub host: String,
    /// Which of its initiators.
    pub initiator: String,
    /// The portal's number.
    pub portal: u16,
    /// Sessions on it now.
    pub sessions: usize,
    /// What it did.
    pub sample: Sample,
}

/// Capacity history and forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The past.
    pub points: Vec<SpacePoint>,
    /// Bytes on the drives that are taken each day, by the trend of the last month; `None` if there is too little past.
    pub per_day: Option<f64>,
    /// Days until nothing is free by that trend; `None` if it does not end.
    pub days_to_full: Option<f64>,
}

/// What measuring remembers.
#[derive(Default)]
pub(crate) struct Meter {
    recorder: Recorder,
    before: Before,
    spaced: u64,
}

#[derive(Default)]
struct Before {
    millis: u64,
    counted: BTreeMap<DiskId, BTreeMap<PathId, IoCounters>>,
}

impl Meter {
    /// Continues where the history ends. Nothing is counted yet: what hosts do from now on is measured.
    pub fn open(store: &Store, env: &Env) -> Self {
        let recorder = Recorder::open(store, env.seconds()).unwrap_or_else(|error| {
            tracing::error!(%error, "old measurements can't be read");
            Recorder::default()
        });
        let before = Before { millis: env.millis(), ..Before::default() };
        Self { recorder, before, ..Self::default() }
    }
}

/// What a kind of command is called in samples; numbers stay, as they are in files.
const KINDS: [(Operation, u8); 8] = [
    (Operation::Read, 0),
    (Operation::Write, 1),
    (Operation::CompareAndWrite, 2),
    (Operation::Copy, 3),
    (Operation::WriteSame, 4),
    (Operation::Unmap, 5),
    (Operation::Other, 6),
    (Operation::TokenCopy, 7),
];

/// The size class without an upper bound.
const ENDLESS: u8 = 63;

/// The kind of command of a number in a sample.
pub fn kind(number: u8) -> Option<Operation> {
    KINDS.iter().find(|(_, of)| *of == number).map(|(kind, _)| *kind)
}

/// The most bytes of a size class in a sample; `None` if it has no end.
pub fn size_limit(number: u8) -> Option<u64> {
    (number < ENDLESS).then(|| 1 << number)
}

fn key((operation, size): (Operation, SizeClass)) -> (u8, u8) {
    let kind = KINDS.iter().find(|(kind, _)| *kind == operation).map_or(u8::MAX, |(_, number)| *number);
    (kind, size.limit().map_or(ENDLESS, |limit| limit.ilog2() as u8))
}

/// What was counted since an earlier count.
fn difference(now: &IoCounters, before: Option<&IoCounters>) -> Sample {
    let nothing = IoCounters::default();
    let before = before.unwrap_or(&nothing);
    let mut sample = Sample {
        shared: now.copied_by_sharing.saturating_sub(before.copied_by_sharing),
        moved: now.copied_by_moving.saturating_sub(before.copied_by_moving),
        ..Sample::default()
    };
    for (which, counts) in &now.counts {
        let old = before.counts.get(which);
        if old == Some(counts) {
            continue;
        }
        let latency = old.map_or_else(|| counts.latency.clone(), |old| counts.latency.since(&old.latency));
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let buckets = latency.buckets().map(|(end, count)| (nanos(end), count));
        let cell = Cell {
            bytes: counts.bytes.saturating_sub(old.map_or(0, |old| old.bytes)),
            failures: counts.failures.saturating_sub(old.map_or(0, |old| old.failures)),
            latency: Latencies::new(buckets, nanos(latency.total())),
        };
        sample.cells.entry(key(*which)).or_default().add(&cell);
    }
    sample
}

fn volume_key(id: DiskId) -> String {
    format!("volume/{:032x}", id.0)
}

/// The volume of a key, if it is that of one.
fn volume_of(key: &str) -> Option<DiskId> {
    u128::from_str_radix(key.strip_prefix("volume/")?, 16).ok().map(DiskId)
}

fn portal_key(portal: u16) -> String {
    format!("portal/{portal}")
}

/// The portal of a key, if it is that of one.
fn portal_of(key: &str) -> Option<u16> {
    key.strip_prefix("portal/")?.parse().ok()
}

fn path_key(initiator: &str, portal: u16) -> String {
    format!("path/{portal}/{initiator}")
}

/// The initiator of a key, if it is that of a path.
fn initiator_of(key: &str) -> Option<&str> {
    key.strip_prefix("path/")?.split_once('/').map(|(_, initiator)| initiator)
}

/// The busiest volumes, hosts or controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct Busiest {
    /// Over how many milliseconds.
    pub millis: u64,
    /// Each that was not idle.
    pub busiest: Vec<Busy>,
}

/// What hosts did with volumes, or by controllers, in the last seconds.
pub(crate) struct Recent<K> {
    millis: u64,
    samples: BTreeMap<K, Sample>,
}

impl<K: Ord> Recent<K> {
    /// That of one of them; its `millis` are those for which something is known.
    pub fn take(&mut self, which: K) -> Sample {
        let work = self.samples.remove(&which).unwrap_or_default();
        Sample { millis: self.millis, ..work }
    }
}

/// Samples what hosts do and how space is used, and answers from what was sampled.
pub(crate) struct Metering {
    env: Arc<Env>,
    bus: Arc<EventBus>,
    configuration: Arc<Configuration>,
    history: Arc<Store>,
    engine: Arc<Engine>,
    exports: Arc<export::Exports>,
    server: Arc<iscsi::Server>,
    target: Arc<scsi::Target>,
    subsystem: Arc<nvmf::Subsystem>,
    fibre_channel: Arc<dyn FibreChannel>,
    /// Set once the portals have their numbers.
    pub own_ports: Arc<OnceLock<OwnPorts>>,
    meter: Mutex<Meter>,
}

impl Metering {
    pub fn new(
        (env, bus, configuration): (Arc<Env>, Arc<EventBus>, Arc<Configuration>),
        parts: &Parts,
    ) -> Self {
        let Parts { engine, exports, server, target, subsystem, fibre_channel, history, .. } = parts.clone();
        let meter = Mutex::new(Meter::open(&history, &env));
        Self {
            env,
            bus,
            configuration,
            history,
            engine,
            exports,
            server,
            target,
            subsystem,
            fibre_channel,
            own_ports: Arc::default(),
            meter,
        }
    }

    /// Measures what was done since the last time: to be called shortly after each second began, on a thread that may
    /// work for a moment.
    pub fn measure(&self) {
        let counted = self.exports.statistics();
        let millis = self.env.millis();
        // The second that is over, or nearly.
        let time = millis.saturating_sub(500) / 1000;
        let mut meter = self.meter.lock();
        if meter.spaced.abs_diff(time) >= SPACE_INTERVAL_SECONDS {
            meter.spaced = time;
            self.measure_space(time);
        }
        if millis == meter.before.millis {
            return;
        }
        let before = std::mem::replace(&mut meter.before, Before { millis, counted });
        let Meter { recorder, before: new, .. } = &mut *meter;
        let mut samples = differences(&new.counted, &before.counted);
        let all = samples.entry(ALL.into()).or_default();
        all.millis = millis.saturating_sub(before.millis);
        let all = all.clone();
        if let Err(error) = recorder.add(&self.history, time, samples) {
            tracing::error!(%error, "measurements are lost");
        }
        drop(meter);
        self.bus.publish(Update::Measured(time, Box::new(all)));
    }

    /// Writes the measurements that are only in memory.
    pub fn flush(&self) {
        let now = self.env.seconds();
        if let Err(error) = self.meter.lock().recorder.flush(&self.history, now) {
            tracing::error!(%error, "the last measurements are lost");
        }
    }

    fn measure_space(&self, time: u64) {
        let it = self.engine.space();
        let point = SpacePoint {
            time,
            provisioned: it.provisioned,
            mapped: it.mapped,
            unique: it.unique,
            physical: it.physical,
            metadata: it.metadata,
            total: it.total,
        };
        if let Err(error) = self.history.add_space(&point) {
            tracing::error!(%error, "the use of space can't be stored");
        }
    }

    /// What was done in the parts of a range.
    pub fn performance(&self, scope: &Scope, range: TimeRange) -> Result<Series> {
        let subjects = self.subjects(scope)?;
        self.series(&subjects, range)
    }

    fn series(&self, subjects: &[String], range: TimeRange) -> Result<Series> {
        let now = self.env.seconds();
        let (from, to) = range.ends(now, DEFAULT_RANGE_SECONDS)?;
        let points = range.number_of_points();
        let span = history::tier_for(now, from, to, points.into(), subjects.len()).ok_or_else(|| {
            Error::invalid("that is too much for one answer: ask for a shorter time or for fewer volumes")
        })?;
        let begun = self.meter.lock().recorder.begin(span, subjects);
        self.history.read(begun, subjects).map_err(|error| Error::failed("the history can't be read", error))
    }

    fn subjects(&self, scope: &Scope) -> Result<Vec<String>> {
        let config = self.configuration.read();
        Ok(match scope {
            Scope::Array => vec![ALL.into()],
            Scope::Volume(name) => vec![volume_key(config.volumes.named(name)?.id)],
            Scope::Group(name) => {
                let group = config.groups.named(name)?.id;
                config.members(group).map(|volume| volume_key(volume.id)).collect()
            }
            Scope::Host(name) => paths_of(config.hosts.named(name)?, &self.portals()).collect(),
            Scope::Controller(number) => {
                let is_of = |portal: &u16| self.controller_of(*portal) == Some(*number);
                self.portals().into_iter().filter(is_of).map(portal_key).collect()
            }
        })
    }

    fn controller_of(&self, portal: u16) -> Option<u16> {
        self.own_ports.get()?.controller_of(portal)
    }

    /// What each volume, host or controller did in the last `seconds`, the busiest first; and for how long that is known.
    pub fn busiest(&self, by: By, seconds: u64) -> Busiest {
        let config = self.configuration.read();
        let Recent { millis, samples } = match by {
            By::Volume => {
                let name = |key: &str| Some(config.volumes.get(volume_of(key)?)?.name.clone());
                self.recent(seconds, name)
            }
            By::Host => {
                let mut hosts = BTreeMap::<&str, &str>::new();
                for host in config.hosts.iter() {
                    hosts.extend(host.port_names().map(|initiator| (initiator.as_str(), host.name.as_str())));
                }
                self.recent(seconds, |key| hosts.get(initiator_of(key)?).map(ToString::to_string))
            }
            By::Controller => {
                self.recent(seconds, |key| Some(self.controller_of(portal_of(key)?)?.to_string()))
            }
        };
        let busy = |(name, work)| Busy { name, sample: Sample { millis, ..work } };
        let mut busiest: Vec<Busy> = samples.into_iter().map(busy).collect();
        busiest.sort_by_cached_key(|it| std::cmp::Reverse(it.sample.sum(|_, _| true).latency.count()));
        Busiest { millis, busiest }
    }

    /// What hosts did with each of some volumes in the last `seconds`; `millis` are those for which something is known.
    pub fn recent_of(&self, seconds: u64, volumes: impl Iterator<Item = DiskId>) -> Vec<Sample> {
        let meter = self.meter.lock();
        let newest = meter.recorder.newest(seconds.max(1));
        let millis = newest.all().millis;
        volumes.map(|id| Sample { millis, ..newest.of(&volume_key(id)) }).collect()
    }

    /// What hosts did by the portals of each controller in the last `seconds`.
    pub fn recent_controllers(&self, seconds: u64) -> Recent<u16> {
        self.recent(seconds, |key| self.controller_of(portal_of(key)?))
    }

    fn recent<K: Ord>(&self, seconds: u64, which: impl Fn(&str) -> Option<K>) -> Recent<K> {
        let meter = self.meter.lock();
        let newest = meter.recorder.newest(seconds.max(1));
        let mut samples = BTreeMap::<K, Sample>::new();
        for (key, sample) in newest.each() {
            if let Some(which) = which(key) {
                samples.entry(which).or_default().add_work(&sample);
            }
        }
        Recent { millis: newest.all().millis, samples }
    }

    /// Numbers of the portals of all protocols and controllers, and of those that there were: what hosts did by them counts, too.
    fn portals(&self) -> BTreeSet<u16> {
        let open = [self.server.portals(), self.subsystem.portals()].concat();
        // Those of other controllers have records only once these were the home.
        let groups = self.target.port_groups();
        let config = self.configuration.read();
        config
            .portals
            .ever()
            .map(|entry| entry.number)
            .chain(open.iter().map(|portal| portal.number))
            .chain(groups.iter().flat_map(|group| group.ports.iter().copied()))
            .collect()
    }

    /// Use of each path of one host, or of all.
    pub fn paths(&self, host: Option<&str>, range: TimeRange) -> Result<Vec<PathUse>> {
        let hosts: Vec<HostEntry> = {
            let config = self.configuration.read();
            match host {
                Some(name) => vec![config.hosts.named(name)?.clone()],
                None => config.hosts.iter().cloned().collect(),
            }
        };
        let (sessions, portals) = (iscsi_sessions(&self.target), self.portals());
        let (controllers, nexuses) = (self.subsystem.controllers(), self.fibre_channel.nexuses());
        let mut paths = Vec::new();
        for host in hosts {
            for initiator in host.port_names() {
                for portal in portals.iter().copied() {
                    let on = |it: &&(String, u16)| it.0 == *initiator && it.1 == portal;
                    let by = |it: &&nvmf::ControllerInfo| it.host == *initiator && it.portal == portal;
                    let over = |it: &&FibreChannelNexus| {
                        it.is_logged_in && it.initiator == *initiator && it.portal == portal
                    };
                    let count = sessions.iter().filter(on).count()
                        + controllers.iter().filter(by).count()
                        + nexuses.iter().filter(over).count();
                    let series =
                        self.series(&[path_key(initiator, portal)], TimeRange { points: Some(1), ..range })?;
                    let sample = series.whole();
                    if count > 0 || !sample.is_idle() {
                        let (host, initiator) = (host.name.clone(), initiator.clone());
                        paths.push(PathUse { host, initiator, portal, sessions: count, sample });
                    }
                }
            }
        }
        Ok(paths)
    }

    /// How the space was used in the last month.
    pub fn past_month(&self, now: u64) -> Result<Vec<SpacePoint>> {
        let past = self.history.space(now, now.saturating_sub(FORECAST_PAST_SECONDS), now, 720);
        past.map_err(|error| Error::failed("the history can't be read", error))
    }

    /// Capacity history and forecast.
    pub fn capacity(&self, range: TimeRange) -> Result<Capacity> {
        let now = self.env.seconds();
        let (from, to) = range.ends(now, DEFAULT_RANGE_SECONDS)?;
        let points = range.number_of_points();
        let read = |from, to, points| {
            let points = self.history.space(now, from, to, points);
            points.map_err(|error| Error::failed("the history can't be read", error))
        };
        let past = self.past_month(now)?;
        let (per_day, days_to_full) = forecast(&past);
        Ok(Capacity { points: read(from, to, points.into())?, per_day, days_to_full })
    }
}

/// What was done since before: by volume, by path, by portal, and everything together.
fn differences(
    now: &BTreeMap<DiskId, BTreeMap<PathId, IoCounters>>,
    before: &BTreeMap<DiskId, BTreeMap<PathId, IoCounters>>,
) -> BTreeMap<String, Sample> {
    let mut samples: BTreeMap<String, Sample> = BTreeMap::new();
    let mut all = Sample::default();
    for (disk, ways) in now {
        let mut volume = Sample::default();
        for (way, table) in ways {
            let old = before.get(disk).and_then(|ways| ways.get(way));
            if old == Some(table) {
                continue;
            }
            let sample = difference(table, old);
            volume.add_work(&sample);
            for key in [path_key(&way.initiator, way.port), portal_key(way.port)] {
                samples.entry(key).or_default().add_work(&sample);
            }
        }
        if !volume.is_idle() {
            all.add_work(&volume);
            samples.insert(volume_key(*disk), volume);
        }
    }
    samples.retain(|_, sample| !sample.is_idle());
    samples.insert(ALL.into(), all);
    samples
}

fn paths_of(host: &HostEntry, portals: &BTreeSet<u16>) -> impl Iterator<Item = String> {
    host.port_names()
        .flat_map(move |initiator| portals.iter().map(move |portal| path_key(initiator, *portal)))
}

/// By how much the busiest of a host's paths did more than the idlest that has a session, as a part of the busiest: 0 is
/// even, 1 is all on one. None with fewer than two paths, or without commands.
pub fn imbalance<'a>(paths: impl IntoIterator<Item = &'a PathUse>) -> Option<f64> {
    let live = paths.into_iter().filter(|path| path.sessions > 0);
    let counts: Vec<u64> = live.map(|path| path.sample.sum(|_, _| true).latency.count()).collect();
    let (most, least) = (*counts.iter().max()?, *counts.iter().min()?);
    (counts.len() > 1 && most > 0).then(|| (most - least) as f64 / most as f64)
}

/// Bytes taken each day, and days until nothing is free, by the straight line nearest to the past.
pub(crate) fn forecast(past: &[SpacePoint]) -> (Option<f64>, Option<f64>) {
    let (Some(first), Some(last)) = (past.first(), past.last()) else { return (None, None) };
    if last.time - first.time < FORECAST_MIN_SECONDS {
        return (None, None);
    }
    let used = |point: &SpacePoint| (point.physical + point.metadata) as f64;
    let days = |point: &SpacePoint| (point.time - first.time) as f64 / 86_400.0;
    let count = past.len() as f64;
    let (mean_x, mean_y) =
        (past.iter().map(days).sum::<f64>() / count, past.iter().map(used).sum::<f64>() / count);
    let over: f64 = past.iter().map(|it| (days(it) - mean_x) * (used(it) - mean_y)).sum();
    let under: f64 = past.iter().map(|it| (days(it) - mean_x).powi(2)).sum();
    let slope = over / under;
    let free = (last.total as f64 - used(last)).max(0.0);
    (Some(slope), (slope >= 1.0).then(|| free / slope))
}

#[cfg(test)]
#[path = "metering_test.rs"]
mod tests;
