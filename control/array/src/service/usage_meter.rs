//! Measurement of the space that volumes take alone: on request, and of every volume in the background, so that a list of volumes
//! shows their reduction without a walk through all maps.

use crate::configuration::Configuration;
use crate::events::bus::EventBus;
use crate::parts::Parts;
use crate::parts::env::Env;
use crate::parts::machine::Machine;
use crate::shape::shapes;
use crate::shape::view::MeasuredReduction;
use crate::{Error, Result};
use block::DiskId;
use engine::{Engine, Exclusive};
use parking_lot::Mutex;
use records::Config;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// Most of the time that the background measures is one part in this many.
const TIME_DIVISOR: u32 = 50;
/// How long the background measures volumes before it rests.
const ROUND: Duration = Duration::from_millis(50);
/// How old a measurement is, at least, before the volume is measured again because it changed, in seconds.
const CHANGED_SECONDS: u64 = 60;
/// How old a measurement becomes, in seconds: hosts may overwrite without mapping more.
const MAX_AGE_SECONDS: u64 = 3600;

/// A measurement that took at least this many looks at map pages answers later requests, too, for this time per look: about as
/// many times what it took as [`TIME_DIVISOR`] says, however often it is asked for.
const KEPT_MIN_LOOKS: u64 = 512;
const KEPT_PER_LOOK: Duration = Duration::from_millis(1);

/// Space usage of volumes with their snapshots, in bytes. Data shared with other volumes, clones or the recycle bin is not
/// counted in `unique`, `physical` and `metadata`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Usage {
    /// Provisioned: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub provisioned: u64,
    /// Mapped bytes of the volumes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub mapped: u64,
    /// Mapped zero bytes, which occupy no space.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub zero: u64,
    /// Number of snapshots.
    pub snapshots: usize,
    /// Mapped non-zero bytes of the snapshots, mostly shared with the volumes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub snapshot: u64,
    /// Unique bytes held only by them.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub unique: u64,
    /// Bytes that are deduplicated or shared with others.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub shared: u64,
    /// Physical bytes of the unique data after compression, freed when all of them are eradicated.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub physical: u64,
    /// Physical bytes of their maps, freed likewise.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    pub metadata: u64,
}

shapes! {
    Usage;
}

/// A measurement that answers requests for the same volumes until they have other snapshots, or until it is too old.
struct Kept {
    snapshots: Vec<DiskId>,
    exclusive: Exclusive,
    until: Duration,
}

/// The last measurement of a volume.
#[derive(Clone, Copy)]
struct Known {
    reduction: MeasuredReduction,
    /// When, by the uptime in seconds.
    at: u64,
    /// Mapped by hosts then.
    mapped: u64,
}

/// When the background measures again, by the uptime.
#[derive(Default)]
struct Round {
    is_busy: bool,
    due: Duration,
}

/// Measures the space of volumes.
pub(crate) struct UsageMeter {
    env: Arc<Env>,
    engine: Arc<Engine>,
    configuration: Arc<Configuration>,
    machine: Arc<dyn Machine>,
    /// Held while all maps of a volume are looked at. What was found is kept by the volumes.
    measuring: tokio::sync::Mutex<BTreeMap<Vec<DiskId>, Kept>>,
    known: Mutex<BTreeMap<DiskId, Known>>,
    round: Mutex<Round>,
}

fn snapshots_of(config: &Config, volumes: &BTreeSet<DiskId>) -> Vec<DiskId> {
    volumes.iter().flat_map(|volume| config.snapshots_of(*volume)).map(|it| it.id).collect()
}

impl UsageMeter {
    pub fn new(
        (env, _, configuration): (Arc<Env>, Arc<EventBus>, Arc<Configuration>),
        Parts { engine, machine, .. }: &Parts,
    ) -> Self {
        let (engine, machine) = (engine.clone(), machine.clone());
        let (measuring, known, round) = Default::default();
        Self { env, engine, configuration, machine, measuring, known, round }
    }

    /// Space of volumes with their snapshots. Looks at every map of theirs, so one is measured at a time, and what took long is
    /// not measured again at once.
    pub async fn measure(&self, what: &str, volumes: BTreeSet<DiskId>) -> Result<Usage> {
        let mut known = self.measuring.lock().await;
        let now = (self.env.uptime)().since;
        known.retain(|_, it| it.until > now);
        let snapshots = snapshots_of(&self.configuration.read(), &volumes);
        let volumes: Vec<DiskId> = volumes.into_iter().collect();
        let kept = known.get(&volumes).filter(|it| it.snapshots == snapshots);
        let exclusive = match kept {
            Some(kept) => kept.exclusive,
            None => {
                let measured = self.engine.exclusive_of(&[&volumes[..], &snapshots[..]].concat()).await;
                let exclusive =
                    measured.map_err(|error| Error::refused(&format!("{what} can't be measured"), error))?;
                if exclusive.looks >= KEPT_MIN_LOOKS {
                    let kept_for =
                        KEPT_PER_LOOK.saturating_mul(exclusive.looks.try_into().unwrap_or(u32::MAX));
                    let kept = Kept { snapshots: snapshots.clone(), exclusive, until: now + kept_for };
                    known.insert(volumes.clone(), kept);
                }
                exclusive
            }
        };
        let (own, kept) = (self.engine.space_of(&volumes), self.engine.space_of(&snapshots));
        Ok(Usage {
            provisioned: own.provisioned,
            mapped: own.mapped,
            zero: own.zero,
            snapshots: snapshots.len(),
            snapshot: kept.data(),
            unique: exclusive.unique,
            // Hosts may have written since it was looked at.
            shared: (own.data() + kept.data()).saturating_sub(exclusive.unique),
            physical: exclusive.physical,
            metadata: exclusive.metadata,
        })
    }

    /// The reduction of a volume with its snapshots when it was measured last; `None` if it was not, or has no data.
    pub fn reduction(&self, volume: DiskId) -> Option<MeasuredReduction> {
        let known = self.known.lock().get(&volume).copied()?;
        Some(known.reduction).filter(|reduction| reduction.data > 0)
    }

    /// Measures what is due, in the background: to be called about once a second.
    pub fn watch(self: &Arc<Self>) {
        let now = (self.env.uptime)().since;
        {
            let mut round = self.round.lock();
            if round.is_busy || now < round.due {
                return;
            }
            round.is_busy = true;
        }
        let meter = self.clone();
        self.machine.spawn(Box::pin(async move { meter.measure_due(now).await }));
    }

    /// Measures volumes until the round has taken its time or none is due; rests in proportion to that.
    async fn measure_due(&self, begun: Duration) {
        let passed = || (self.env.uptime)().since.saturating_sub(begun);
        for volume in self.due() {
            let mapped = self.mapped(volume);
            // What can't be read is an alert of the drives; the volume is tried again in the next round.
            if let Ok(usage) = self.measure("a volume", BTreeSet::from([volume])).await {
                let reduction =
                    MeasuredReduction { data: usage.unique + usage.shared, physical: usage.physical };
                let at = self.env.uptime_seconds();
                self.known.lock().insert(volume, Known { reduction, at, mapped });
            }
            if passed() >= ROUND {
                break;
            }
        }
        let mut round = self.round.lock();
        *round = Round { is_busy: false, due: begun + passed() * TIME_DIVISOR };
    }

    fn mapped(&self, volume: DiskId) -> u64 {
        self.engine.space_of(&[volume]).mapped
    }

    /// The volumes that are due, those first that were measured longest ago. Volumes that are gone are forgotten.
    fn due(&self) -> Vec<DiskId> {
        let volumes: Vec<DiskId> = self.configuration.read().volumes.iter().map(|it| it.id).collect();
        let now = self.env.uptime_seconds();
        let mut known = self.known.lock();
        if known.len() > volumes.len() {
            let there: BTreeSet<DiskId> = volumes.iter().copied().collect();
            known.retain(|volume, _| there.contains(volume));
        }
        let is_due = |volume: &DiskId| {
            known.get(volume).is_none_or(|last| {
                let age = now.saturating_sub(last.at);
                age >= MAX_AGE_SECONDS || age >= CHANGED_SECONDS && self.mapped(*volume) != last.mapped
            })
        };
        let mut due: Vec<DiskId> = volumes.into_iter().filter(is_due).collect();
        due.sort_by_key(|volume| known.get(volume).map(|last| last.at));
        due
    }
}
