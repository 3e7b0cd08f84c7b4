//! World `takeover`: hosts at front ends, and a home that crashes at any moment and has a successor, with the real
//! forwarding, device server and engine over simulated drives.
//!
//! Front ends and their hosts survive. They repeat unanswered commands at the next home, which finds effective ones in
//! the journal. Links break anywhere, answers of single front ends are slow, and a takeover may exceed the maximum age
//! of a command.
//!
//! Checked: a host's counter, which it advances by COMPARE AND WRITE, never miscompares and has the acknowledged value;
//! a copy (EXTENDED COPY) whose destination another host has overwritten does not take effect again; a registration
//! without APTPL and a SCSI-2 reservation exist from their answer on; no host sees a unit attention after the one of
//! its login.

mod hosts;
mod side;

use crate::Report;
use crate::bounds::{self, Bounds};
use crate::machine::Machine;
use block::workload::Random;
use block::{DiskId, Geometry, Known, Ledger, Pending, Sequence};
use engine::{Engine, Options};
use export::{Clock, Exports, Power, Sleep};
use forward::Service;
pub use hosts::Work;
use hosts::{BLOCK, Hosts, STEP_NS};
use raid::{FormatOptions, Limits, Opening, Sizes};
use scsi::{Target, TargetIdentity};
use side::Side;
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000_000;
const ARRAY: u128 = 9;
/// The disk of the counters and copies.
const DISK: DiskId = DiskId(1);
/// The disk that a host reserves.
const RESERVED: DiskId = DiskId(2);
const DRIVE_BYTES: u64 = 96 << 20;
const NAMES: [&str; 3] = ["iqn.2026-01.test:a", "iqn.2026-01.test:b", "iqn.2026-01.test:c"];
/// Turns after the last crash in which everything must end.
const LAST_TURNS: usize = 20_000;

/// Use of the journal's notes by homes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notes {
    /// Homes look commands up.
    Consulted,
    /// Homes do not: a defect that the world must find.
    Ignored,
}

/// A stopped clock: the world uses no limits.
struct Still;

impl Clock for Still {
    fn now(&self) -> u64 {
        1 << 40
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// A ledger that knows no command.
struct Blind(Arc<Engine>);

impl Ledger for Blind {
    fn look_up(&self, _: Sequence) -> Known {
        Known::New
    }

    fn settled(&self) -> Pending {
        self.0.settled()
    }

    fn fronts(&self) -> Vec<u64> {
        self.0.fronts()
    }

    fn forget(&self, front: u64) -> Pending {
        self.0.forget(front)
    }
}

struct World {
    random: Random,
    machine: Machine,
    options: Options,
    limits: Limits,
    notes: Notes,
    formatted: bool,
    /// Number of homes so far.
    homes: u64,
    now: u64,
    sides: Vec<Side>,
    hosts: Hosts,
    report: Report,
}

/// Runs a seed.
pub fn run(seed: u64, bounds: Bounds, (notes, work): (Notes, Work)) -> Result<Report, String> {
    let mut world = World::new(seed, bounds, (notes, work));
    let lives = 2 + world.random.below(4);
    for _ in 0..lives {
        let far = [50, 300, 1500][world.random.below(3) as usize];
        world.machine.crash_after(1 + world.random.below(far));
        if let Some(engine) = world.boot()? {
            world.work(&engine)?;
        }
        world.end_of_life()?;
    }
    world.machine.go_on();
    let engine = world.boot()?.ok_or("a home that does not crash")?;
    world.finish(&engine)?;
    world.report.operations = world.hosts.operations;
    world.report.requests = world.machine.completed();
    world.report.trace = world.machine.drives.trace();
    Ok(world.report)
}

impl World {
    fn new(seed: u64, bounds: Bounds, (notes, work): (Notes, Work)) -> Self {
        let mut random = Random::new(seed ^ 0x7461_6b65);
        let options = bounds::of_small_array(seed, bounds, [3; 32]);
        let machine = Machine::on_blank_drives(seed, &mut random, DRIVE_BYTES);
        let mut sides: Vec<Side> = (0..2).map(|at| Side::new(11 + at)).collect();
        let hosts = Hosts::new(&NAMES, &mut sides, (&mut random, work));
        let limits = bounds::store(bounds, seed);
        Self {
            random,
            machine,
            options,
            limits,
            notes,
            formatted: false,
            homes: 0,
            now: 1_000_000 * MS,
            sides,
            hosts,
            report: Report::default(),
        }
    }

    /// The next home opens the store; `None` if it must crash before it serves.
    fn boot(&mut self) -> Result<Option<Arc<Engine>>, String> {
        self.homes += 1;
        let opening = Opening { salt: self.homes, key: None };
        let sizes = Sizes { chunk_bytes: Some(16 << 10), segment_bytes: None, journal_bytes: Some(4 << 20) };
        let store =
            FormatOptions { array: ARRAY, sizes, opening, limits: self.limits, ..FormatOptions::default() };
        let started = self.machine.start_array(&mut self.formatted, store, self.options.clone())?;
        let Some(engine) = started else { return Ok(None) };
        for id in [DISK, RESERVED] {
            if engine.volume(id).is_none() {
                let (making, geometry) =
                    (engine.clone(), Geometry { block_bytes: BLOCK as u32, blocks: 1 << 12 });
                let made = self.machine.finish(async move { making.create_volume(id, geometry, 1).await })?;
                let Some(made) = made else { return Ok(None) };
                made.map_err(|cause| format!("making a volume: {cause}"))?;
            }
        }
        self.serve(&engine)?;
        Ok(Some(engine))
    }

    /// The home serves its front ends.
    fn serve(&mut self, engine: &Arc<Engine>) -> Result<(), String> {
        let exports = Exports::new(Arc::new(Still));
        // The surviving front ends know it.
        exports.set_power(Power::On(1));
        let identity = TargetIdentity {
            name: "iqn.2025-01.org.example:array".into(),
            vendor: "ASHLAR".into(),
            product: "ALL-FLASH ARRAY".into(),
            revision: "0.1".into(),
            ports: 4.into(),
        };
        let target = Target::new(identity, exports.clone(), [7; 32]);
        for id in [DISK, RESERVED] {
            exports.add_volume(engine.volume(id).ok_or("a volume that was made is gone")?);
        }
        NAMES.iter().for_each(|host| exports.set_mappings(host, BTreeMap::from([(0, DISK), (1, RESERVED)])));
        for (at, side) in self.sides.iter_mut().enumerate() {
            let ledger: Arc<dyn Ledger> = match self.notes {
                Notes::Consulted => engine.clone(),
                Notes::Ignored => Arc::new(Blind(engine.clone())),
            };
            let id = (self.homes as u32) * 2 + at as u32;
            side.serve(Service::new((target.clone(), Some(ledger)), 0, side.instance(), id));
        }
        Ok(())
    }

    /// Hosts and the home run until the home must crash.
    fn work(&mut self, engine: &Engine) -> Result<(), String> {
        while !self.machine.must_crash() {
            self.turn(engine, true)?;
        }
        Ok(())
    }

    /// One turn: time advances, an operation begins, bytes move, and the home works.
    fn turn(&mut self, engine: &Engine, is_hard: bool) -> Result<(), String> {
        self.now += self.random.below(STEP_NS);
        if is_hard {
            self.disturb();
            self.hosts.begin(&mut self.sides, &mut self.random, self.now);
        }
        for side in &mut self.sides {
            side.go_on(&mut self.random, self.homes, self.now)?;
        }
        self.hosts.take(&mut self.sides)?;
        let mut steps = self.random.below(20);
        while steps > 0 && !self.machine.must_crash() {
            if !self.machine.step()? {
                self.machine.pass(std::time::Duration::from_millis(20));
                break;
            }
            steps -= 1;
        }
        match engine.stopped() {
            Some(why) => Err(format!("the engine has stopped: {why}")),
            None => Ok(()),
        }
    }

    fn disturb(&mut self) {
        let at = self.random.below(self.sides.len() as u64) as usize;
        match self.random.below(200) {
            0 => self.sides[at].cut(self.now),
            1..8 => self.sides[at].is_slow = true,
            8..20 => self.sides[at].is_slow = false,
            _ => {}
        }
    }

    /// The home dies. Its front ends notice, and time advances.
    fn end_of_life(&mut self) -> Result<(), String> {
        for side in &mut self.sides {
            side.lose_home(&mut self.random, self.now)?;
        }
        self.hosts.take(&mut self.sides)?;
        self.machine.crash();
        self.report.crashes += 1;
        // Usually a command is not too old for the next home.
        let gap = if self.random.chance(80) { 500 } else { 12_000 };
        let until = self.now + self.random.below(gap) * MS;
        while self.now < until {
            self.now = until.min(self.now + 200 * MS);
            for side in &mut self.sides {
                side.front.tick(self.now).map_err(|error| format!("without a link: {error}"))?;
            }
        }
        Ok(())
    }

    /// Ends all operations, and compares the contents with the hosts' knowledge.
    fn finish(&mut self, engine: &Engine) -> Result<(), String> {
        self.sides.iter_mut().for_each(|side| side.is_slow = false);
        let mut turns = 0;
        for last in 0..=4 * NAMES.len() {
            while !self.hosts.are_idle() || !self.sides.iter().all(Side::is_quiet) {
                self.turn(engine, false)?;
                turns += 1;
                if turns > LAST_TURNS {
                    return Err("a command does not end".into());
                }
            }
            if last < 4 * NAMES.len() {
                self.hosts.last_checks(last, &mut self.sides, self.now);
            }
        }
        Ok(())
    }
}
