//! World `synchronous`: a group of volumes whose writes are on two arrays before they are acknowledged.
//!
//! Both arrays are real engines on drives of their own that crash independently, at any drive request. The connection
//! delivers late, in any portions, and is cut at any moment. Time advances in jumps, so time-outs end sessions. Hosts
//! have several outstanding operations, which may overlap: writes, fills, unmaps, copies from volumes in and outside
//! the group, changes of size.
//!
//! Checked, by drills at any moment: a promotion of the target would have every acknowledged write. With `Stop` this
//! holds at all times once both arrays were in sync; with `Continue`, for writes acknowledged until the source
//! continued alone. Some seeds have a witness ([`mod@arbitration`]). When all faults are over, both arrays become in
//! sync again: equal in content, size and provisioning.

use self::arbitration::Arbitration;
use self::hosts::HostOp;
use super::link::Link;
use super::side::{Side, SideEnv};
use super::{ARRAYS, Check, Content, REPLICATION, content, unexpected};
use crate::Report;
use crate::bounds::Bounds;
use crate::machine::Outcome;
use ::replication::witness::End;
use ::replication::{
    Error, HEARTBEAT_NS, Key, Limits, MAX_JOIN_NS, MAX_SILENCE_NS, MIRROR_VERSION, Mirror, MirrorState,
    OnLinkLoss, Point, Source, Synced, Target, disarm, is_armed, is_mirrored, source_points,
};
use block::workload::Random;
use block::{DiskId, Geometry};
use engine::{Engine, Tap};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

mod arbitration;
mod hosts;

/// A world with more turns counts as an endless loop.
const MAX_TURNS: u64 = 4_000_000;

/// Turns after the end of faults in which both arrays must become in sync.
const MAX_HEALED_TURNS: u64 = 2_000_000;

/// Points of abandoned sessions: the newest, and the previous one during its deletion.
const MAX_ABANDONED: usize = 2;

/// A volume outside the group.
const OUTSIDE: DiskId = DiskId(99);

/// Stands for the size of a volume, in place of a block number.
const SIZE: u64 = u64::MAX;

const BLOCK_BYTES: u64 = 4096;

/// A possible value of a block.
#[derive(Clone, Debug)]
struct Version {
    values: Vec<u64>,
    /// Time at which its operation ended, possibly by a crash.
    ended: Option<u64>,
    operation: u64,
}

/// Possible values of every block, and of every volume's size. A block that was never written has zeros.
type Versions = BTreeMap<(DiskId, u64), Vec<Version>>;

struct World {
    random: Random,
    source: Side,
    target: Side,
    limits: Limits,
    on_loss: OnLinkLoss,
    group: Vec<DiskId>,
    sizes: BTreeMap<DiskId, Geometry>,
    most_under_way: usize,
    versions: Versions,
    /// Acknowledged values each time that the source continued alone, since both arrays were in sync.
    alone_since: Vec<Versions>,
    /// Last observed state of the mirror.
    seen: MirrorState,
    ever_in_sync: bool,
    time: u64,
    operations: u64,
    under_way: Vec<HostOp>,
    sender: Option<Arc<Source<SideEnv>>>,
    receiver: Option<Arc<Target<SideEnv>>>,
    mirror: Arc<Mirror>,
    syncing: Option<Outcome<Result<Synced, Error>>>,
    mirroring: Option<Outcome<Result<Infallible, Error>>>,
    serving: Vec<Outcome<Result<Option<u64>, Error>>>,
    link: Option<Link>,
    replaced: Vec<Link>,
    drills: u64,
    healed: bool,
    /// Whether hosts begin no operations.
    quiet: bool,
    /// Whether no session begins.
    apart: bool,
    arbitration: Option<Arbitration>,
    /// A permanently lost array.
    lost: Option<End>,
    /// Whether the target does not ask for the group, because it knows that the source is healthy.
    is_reconciling: bool,
    report: Report,
    trace: DefaultHasher,
}

/// Runs a seed.
pub fn run(seed: u64, bounds: Bounds) -> Result<Report, String> {
    let mut world = World::new(seed, bounds);
    world.source.boot()?;
    world.create_volumes()?;
    world.start_source()?;
    world.boot_target()?;
    let drills = 2 + world.random.below(5);
    let mut turns = 0;
    while world.drills < drills && !world.is_promoted() {
        turns += 1;
        if turns == MAX_TURNS / 2 {
            world.heal();
        }
        if turns > MAX_TURNS {
            return Err(format!("{} drills of {drills}", world.drills));
        }
        world.turn()?;
        // Usually while the source must not have continued alone, or has.
        let rare = if world.mirror.state() == MirrorState::InSync { 3000 } else { 500 };
        if world.ever_in_sync && world.random.below(rare) == 0 {
            world.drill()?;
        }
    }
    let loses = world.arbitration.as_mut().is_some_and(Arbitration::ends_with_a_loss);
    match (world.is_promoted(), loses) {
        (true, _) => world.end_promoted()?,
        (false, true) => world.lose_one()?,
        (false, false) => world.end()?,
    }
    world.report.crashes = world.source.crashes + world.target.crashes;
    world.report.requests = world.source.machine.completed() + world.target.machine.completed();
    world.source.machine.drives.trace().hash(&mut world.trace);
    world.target.machine.drives.trace().hash(&mut world.trace);
    world.report.trace = world.trace.finish();
    Ok(world.report)
}

/// The value of a block; operations here write whole blocks.
fn value_of(bytes: &[u8]) -> Result<u64, String> {
    let (words, _) = bytes.as_chunks::<8>();
    let value = words.first().map_or(0, |word| u64::from_le_bytes(*word));
    match words.iter().all(|word| u64::from_le_bytes(*word) == value) {
        true => Ok(value),
        false => Err("a block of two writes".into()),
    }
}

/// Compares the content of a disk with its possible values.
fn compare(id: DiskId, found: &Content, versions: &Versions) -> Check {
    let may = |block: u64, value: u64| match versions.get(&(id, block)) {
        Some(known) => known.iter().any(|version| version.values.contains(&value)),
        None => value == 0,
    };
    if !may(SIZE, found.geometry.blocks) {
        return Err(format!("volume {} has {} blocks", id.0, found.geometry.blocks));
    }
    let bytes = found.data.concat();
    for (block, bytes) in (0..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
        let value = value_of(bytes).map_err(|what| format!("volume {}, block {block}: {what}", id.0))?;
        if !may(block, value) {
            let known = versions.get(&(id, block));
            return Err(format!("volume {}, block {block} has {value} instead of {known:?}", id.0));
        }
    }
    Ok(())
}

impl World {
    fn new(seed: u64, bounds: Bounds) -> Self {
        let mut random = Random::new(seed ^ 0x7379_6e63);
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let limits = Limits {
            offer_blocks: pick(&[1, 3, 16, 64]) as usize,
            offers: pick(&[1, 2, 8]) as usize,
            index_entries: pick(&[0, 64, 4096]) as usize,
            known_blocks: pick(&[0, 8, 4096]) as usize,
        };
        let on_loss = if pick(&[0, 1]) == 0 { OnLinkLoss::Continue } else { OnLinkLoss::Stop };
        let arbitration = Arbitration::of_seed(seed);
        // With a witness, a source does nothing alone without its consent.
        let on_loss = if arbitration.is_some() { OnLinkLoss::Stop } else { on_loss };
        let most_under_way = pick(&[1, 3, 8]) as usize;
        Self {
            source: Side::new(seed ^ 0x5000, bounds, 1 << 64),
            target: Side::new(seed ^ 0x7000, bounds, 2 << 64),
            random,
            limits,
            on_loss,
            group: Vec::new(),
            sizes: BTreeMap::new(),
            most_under_way,
            versions: Versions::new(),
            alone_since: Vec::new(),
            seen: MirrorState::CatchingUp,
            ever_in_sync: false,
            time: 0,
            operations: 0,
            under_way: Vec::new(),
            sender: None,
            receiver: None,
            mirror: Arc::new(Mirror::new(on_loss, false)),
            syncing: None,
            mirroring: None,
            serving: Vec::new(),
            link: None,
            replaced: Vec::new(),
            drills: 0,
            healed: false,
            quiet: false,
            apart: false,
            arbitration,
            lost: None,
            is_reconciling: false,
            report: Report::default(),
            trace: DefaultHasher::new(),
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.healed = true;
        self.arbitration.iter_mut().for_each(Arbitration::heal);
        self.source.heal();
        self.target.heal();
    }

    fn create_volumes(&mut self) -> Check {
        let count = 1 + self.random.below(3);
        for id in (1..=count).map(|number| DiskId(number.into())).chain([OUTSIDE]) {
            let block_bytes = if self.random.chance(70) { 4096 } else { 512 };
            let odd = if block_bytes == 512 { self.random.below(8) } else { 0 };
            let blocks = (16 + self.random.below(300)) * BLOCK_BYTES / u64::from(block_bytes) + odd;
            let geometry = Geometry { block_bytes, blocks };
            self.sizes.insert(id, geometry);
            let version = Version { values: vec![blocks], ended: Some(0), operation: 0 };
            self.versions.insert((id, SIZE), vec![version]);
            if id != OUTSIDE {
                self.group.push(id);
            }
            loop {
                let engine = self.source.engine.clone().ok_or("the source is up")?;
                if engine.disk(id).is_some() {
                    break;
                }
                let create = async move { engine.create_volume(id, geometry, 0).await.map(drop) };
                match self.source.machine.finish(create)? {
                    Some(created) => created.map_err(|cause| format!("creating a volume: {cause}"))?,
                    None => {
                        self.source.crash();
                        self.source.boot()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Prepares the source after its start, before hosts continue.
    fn start_source(&mut self) -> Check {
        let engine = self.source.engine.clone().ok_or("the source is up")?;
        let armed = is_armed(&engine, REPLICATION).map_err(|cause| cause.to_string())?;
        self.mirror = Arc::new(Mirror::new(self.on_loss, armed));
        let tap: Arc<dyn Tap> = self.mirror.clone();
        engine.tap(&self.group, Some(&tap));
        let (env, key) = (self.source.env.clone(), Key::new(b"pairing"));
        self.sender = Some(Arc::new(Source::new(engine, env, key, ARRAYS[0], self.limits)));
        Ok(())
    }

    fn boot_target(&mut self) -> Check {
        loop {
            self.target.boot()?;
            let engine = self.target.engine.clone().ok_or("the target is up")?;
            let (env, key) = (self.target.env.clone(), Key::new(b"pairing"));
            let receiver = Arc::new(Target::new(engine, env, key, ARRAYS[1], self.limits));
            self.receiver = Some(receiver.clone());
            let accepted =
                self.target.machine.finish(async move { receiver.accept(REPLICATION, 0).await })?;
            match accepted {
                Some(accepted) => return accepted.map_err(|cause| format!("accepting: {cause}")),
                None => self.target.crash(),
            }
        }
    }

    fn now(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// Performs one step.
    fn turn(&mut self) -> Check {
        if self.source.machine.must_crash() {
            self.crash_source()?;
        }
        if self.target.machine.must_crash() {
            self.crash_target()?;
        }
        self.look()?;
        self.take_outcomes()?;
        self.arbitrate()?;
        self.begin()?;
        let cut = !self.healed && self.random.below(4000) == 0;
        self.link.iter().filter(|_| cut).for_each(Link::cut);
        if !self.healed && self.random.below(2000) == 0 {
            // A heartbeat is due, or the other array counts as silent.
            let ns = [HEARTBEAT_NS, MAX_SILENCE_NS, MAX_JOIN_NS][self.random.below(3) as usize];
            [&self.source, &self.target][self.random.below(2) as usize].env.pass(ns);
        }
        if !self.replaced.is_empty() && self.random.below(200) == 0 {
            self.replaced.drain(..).for_each(|link| link.cut());
        }
        let first = self.random.below(3);
        for way in (0..3).map(|way| (first + way) % 3) {
            let did = match way {
                0 => self.lost != Some(End::Source) && self.source.machine.step()?,
                1 => self.lost != Some(End::Target) && self.target.machine.step()?,
                _ => self.link.as_ref().is_some_and(|link| link.deliver(&mut self.random)),
            };
            self.link.iter().for_each(|link| _ = link.take_sent());
            if did {
                return Ok(());
            }
        }
        self.source.machine.pass(std::time::Duration::from_secs(1));
        self.target.machine.pass(std::time::Duration::from_secs(1));
        Ok(())
    }

    /// Notes transitions to in-sync and to continuing alone, before later acknowledgements are seen.
    fn look(&mut self) -> Check {
        let state = self.mirror.state();
        let in_sync = state == MirrorState::InSync;
        if in_sync {
            self.alone_since.clear();
            self.ever_in_sync = true;
        } else if let Some(it) = &mut self.arbitration {
            it.note_apart();
        }
        if self.seen != MirrorState::CatchingUp && state == MirrorState::CatchingUp {
            self.go_alone();
        }
        self.seen = state;
        // A promotion seals a session that the source does not know to be lost yet.
        let is_granted = self.arbitration.is_some() && self.is_granted()?;
        if in_sync
            && !is_granted
            && let Some(engine) = &self.target.engine
        {
            let mirrored = is_mirrored(engine, REPLICATION).map_err(|cause| cause.to_string())?;
            if !mirrored {
                return Err("the source counts on a target that does not know it".into());
            }
        }
        Ok(())
    }

    fn go_alone(&mut self) {
        if self.ever_in_sync {
            self.alone_since.push(self.versions.clone());
        }
    }

    fn begin(&mut self) -> Check {
        if self.lost == Some(End::Source) {
            return Ok(());
        }
        self.begin_host_op()?;
        let sender = self.sender.clone().ok_or("the source is up")?;
        let may_begin = !self.apart && self.lost.is_none() && self.is_taking_sessions()?;
        if may_begin && self.syncing.is_none() && self.mirroring.is_none() && self.random.below(100) == 0 {
            self.begin_session(sender)?;
        }
        let may_wait = matches!(self.mirror.state(), MirrorState::Held | MirrorState::Joining);
        if may_wait && self.random.below(500) == 0 {
            self.mirror.refuse();
        }
        let waits = matches!(self.mirror.state(), MirrorState::Held | MirrorState::Stopped);
        if waits && !self.healed && self.arbitration.is_none() && self.random.below(3000) == 0 {
            self.allow_to_go_alone()?;
        }
        Ok(())
    }

    /// An operator decides that the source continues alone.
    fn allow_to_go_alone(&mut self) -> Check {
        let done =
            self.on_source(|engine| async move { engine.put_records(vec![disarm(REPLICATION)]).await })?;
        done.map_err(|cause| format!("disarming: {cause}"))?;
        self.look()?;
        self.go_alone();
        self.on_loss = OnLinkLoss::Continue;
        self.mirror.set_on_link_loss(OnLinkLoss::Continue);
        Ok(())
    }

    /// Checks that points of abandoned sessions do not accumulate.
    fn check_points(&self) -> Check {
        let Some(engine) = &self.source.engine else { return Ok(()) };
        let points = source_points(engine, REPLICATION).map_err(|cause| cause.to_string())?;
        match points.iter().filter(|point| point.mirrored && point.digest.is_none()).count() {
            0..=MAX_ABANDONED => Ok(()),
            count => Err(format!("{count} points of sessions that were given up")),
        }
    }

    /// Opens a connection: for a first point, or for every change.
    fn begin_session(&mut self, sender: Arc<Source<SideEnv>>) -> Check {
        self.check_points()?;
        let receiver = self.receiver.clone().ok_or("the target is up")?;
        let capacity = [2048, 64 << 10, 8 << 20][self.random.below(3) as usize];
        let (link, one, other) = Link::new(capacity, MIRROR_VERSION);
        self.replaced.extend(self.link.replace(link));
        let (group, mirror) = (self.group.clone(), self.mirror.clone());
        if self.ever_in_sync || self.random.chance(50) {
            let session = async move { sender.mirror(REPLICATION, &group, &mirror, one).await };
            self.mirroring = Some(self.source.machine.start(session).1);
        } else {
            let session = async move {
                sender.take_point(REPLICATION, &group).await?;
                sender.sync(REPLICATION, one).await
            };
            self.syncing = Some(self.source.machine.start(session).1);
        }
        self.serving
            .push(self.target.machine.start(async move { receiver.serve(REPLICATION, other).await }).1);
        Ok(())
    }

    fn take_outcomes(&mut self) -> Check {
        let mut at = 0;
        while at < self.under_way.len() {
            match self.under_way[at].outcome.take() {
                Some(result) => {
                    let op = self.under_way.swap_remove(at);
                    self.end_host_op(&op, Some(result))?;
                }
                None => at += 1,
            }
        }
        if let Some(result) = self.syncing.as_ref().and_then(Outcome::take) {
            self.syncing = None;
            result.map(drop).or_else(|error| excuse(&error, "syncing"))?;
        }
        if let Some(Err(error)) = self.mirroring.as_ref().and_then(Outcome::take) {
            self.mirroring = None;
            excuse(&error, "mirroring")?;
        }
        let mut ended = Vec::new();
        self.serving.retain(|serving| match serving.take() {
            None => true,
            Some(result) => {
                ended.push(result);
                false
            }
        });
        ended.into_iter().try_for_each(|result| result.map(drop).or_else(|error| excuse(&error, "serving")))
    }

    fn crash_source(&mut self) -> Check {
        self.look()?;
        // A source that may continue alone does so from here on, as does one that was not in sync yet.
        if self.on_loss == OnLinkLoss::Continue || !self.mirror.is_armed() {
            self.go_alone();
        }
        self.seen = MirrorState::CatchingUp;
        self.source.crash();
        (self.syncing, self.mirroring) = (None, None);
        self.arbitration.iter_mut().for_each(|it| it.forget(End::Source));
        self.source.boot()?;
        let interrupted = std::mem::take(&mut self.under_way);
        interrupted.iter().try_for_each(|op| self.end_host_op(op, None))?;
        self.start_source()
    }

    fn crash_target(&mut self) -> Check {
        self.target.crash();
        self.serving.clear();
        self.arbitration.iter_mut().for_each(|it| it.forget(End::Target));
        self.boot_target()
    }

    /// Drill: the source is unreachable, and the content of a promotion is checked.
    fn drill(&mut self) -> Check {
        self.drills += 1;
        self.apart = true;
        if self.random.chance(30) {
            self.crash_target()?;
        }
        self.end_sessions()?;
        self.look()?;
        self.seal_target()?;
        let found = self.newest_of_target()?;
        let compare_all =
            |versions: &Versions| found.iter().try_for_each(|(id, content)| compare(*id, content, versions));
        if !self.alone_since.iter().any(|then| compare_all(then).is_ok()) {
            compare_all(&self.versions)?;
        }
        self.apart = false;
        Ok(())
    }

    fn end_sessions(&mut self) -> Check {
        self.link.iter().for_each(Link::cut);
        self.replaced.drain(..).for_each(|link| link.cut());
        let mut turns = 0;
        while self.syncing.is_some() || self.mirroring.is_some() || !self.serving.is_empty() {
            turns += 1;
            if turns > MAX_HEALED_TURNS {
                return Err("a session that was cut does not end".into());
            }
            self.turn()?;
        }
        self.link = None;
        Ok(())
    }

    fn read_target(&mut self, id: DiskId) -> Result<Content, String> {
        loop {
            let engine = self.target.engine.clone().ok_or("the target is up")?;
            let volume = engine.volume(id).ok_or("the disk is there")?;
            match self.target.machine.finish(content(volume))? {
                Some(found) => return found.map_err(|cause| format!("reading the target: {cause}")),
                None => self.crash_target()?,
            }
        }
    }

    /// Runs an operation on the source, repeated after each crash.
    fn on_source<T: 'static, F>(&mut self, work: impl Fn(Arc<Engine>) -> F) -> Result<T, String>
    where
        F: Future<Output = T> + 'static,
    {
        loop {
            let engine = self.source.engine.clone().ok_or("the source is up")?;
            match self.source.machine.finish(work(engine))? {
                Some(done) => return Ok(done),
                None => self.crash_source()?,
            }
        }
    }

    /// Ends all faults: both arrays become in sync, also after a restart.
    fn end(&mut self) -> Check {
        self.heal();
        self.is_reconciling = true;
        self.arbitration.iter_mut().for_each(|it| it.forget(End::Target));
        self.until_same()?;
        if !self.is_promoted() {
            self.crash_source()?;
            self.crash_target()?;
            self.quiet = false;
            self.until_same()?;
        }
        if self.is_promoted() { self.end_promoted() } else { Ok(()) }
    }

    fn until_same(&mut self) -> Check {
        for turn in 0.. {
            if turn > MAX_HEALED_TURNS {
                return Err(format!("both arrays do not become the same: {:?}", self.mirror.state()));
            }
            if self.is_promoted() || self.needs_operator() {
                return Ok(());
            }
            self.quiet = turn > 2000;
            let in_sync = self.mirror.state() == MirrorState::InSync;
            // Refused operations have ended, but their changes may still be outstanding.
            let is_settled = self.under_way.is_empty() && self.mirror.progress().waiting == 0;
            if self.quiet && in_sync && is_settled {
                break;
            }
            self.turn()?;
        }
        self.compare_both()
    }

    fn compare_both(&mut self) -> Check {
        self.apart = true;
        self.end_sessions()?;
        let target = self.receiver.clone().ok_or("the target is up")?;
        let sealed = self.target.machine.finish(async move { target.seal(REPLICATION).await })?;
        let point = sealed.ok_or("nothing crashes")?.map_err(|cause| format!("sealing: {cause}"))?;
        let point = point.ok_or("the target was the same")?;
        if self.random.chance(50) {
            self.demote(&point)?;
        }
        for volume in &point.volumes {
            let (id, snapshot) = (DiskId(volume.source), DiskId(volume.snapshot));
            let wanted = self.on_source(move |engine| async move {
                content(engine.volume(id).ok_or(block::Error::Deleted)?).await
            })?;
            let wanted = wanted.map_err(|cause| format!("reading the source: {cause}"))?;
            let found = self.read_target(snapshot)?;
            compare(id, &found, &self.versions)?;
            if found != wanted {
                return Err(format!("volume {} differs between the arrays", id.0));
            }
        }
        self.apart = false;
        Ok(())
    }
}

impl World {
    /// The source takes the point that its target has made: both arrays were in sync when they were separated.
    fn demote(&mut self, sealed: &Point) -> Check {
        let (sender, group) = (self.sender.clone().ok_or("the source is up")?, self.group.clone());
        let session = sealed.number - 1;
        let ours =
            self.source.machine.finish(async move { sender.seal(REPLICATION, session, &group).await })?;
        let ours = ours.ok_or("nothing crashes")?.map_err(|cause| format!("sealing the source: {cause}"))?;
        match ours.map(|point| (point.number, point.digest)) == Some((sealed.number, sealed.digest)) {
            true => Ok(()),
            false => Err(format!("the source has another point than {}", sealed.number)),
        }
    }
}

/// Accepts errors that faults of the world explain.
fn excuse(error: &Error, doing: &str) -> Check {
    match error {
        Error::NoPoint | Error::Unmirrored(_) | Error::Silent | Error::SlowJoin => Ok(()),
        error => unexpected(error).map_or(Ok(()), |what| Err(format!("{doing}: {what}"))),
    }
}
