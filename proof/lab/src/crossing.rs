//! Cost of forwarding commands between controllers, and gain of a second controller: processor time of both, over
//! RADOS, for each operation of hosts.
//!
//! One controller is the home, the other one forwards to it. The same load uses the portals of the home, of the other
//! one, and of both in equal parts, alternately. The cost of a crossing is the processor time of both for an operation
//! through the other one, less that through the home. The gain of a second controller is the reduction of the busier
//! one's load compared with the home alone.

use crate::array::{Array, Programs};
use crate::ceph::Pools;
use crate::initiator::{Connection, Names};
use crate::load::{
    self, Content, Direction, INITIATOR, LOGICAL_BLOCK_BYTES, Load, Order, READ_CACHE_BYTES, Until,
    processor_time,
};
use crate::pair::Pair;
use crate::scratch::Scratch;
use crate::stats::{Middle, middle};
use crate::target::{Shape, Target};
use crate::transfer::{Options, Row};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Portals of the load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Home,
    Other,
    Both,
}

/// Processor time in µs for each operation: of the home, and of the other controller.
type Cost = [f64; 2];

const SESSIONS: u16 = 4;
const DEPTH: u32 = 32;

struct Rig {
    pair: Pair,
    lun: u16,
    options: Options,
}

/// Measures in a folder below `parent` and a namespace of its own.
///
/// # Errors
/// If a controller does not start, or a command fails.
pub fn run(programs: &Programs, parent: &Path, place: &Pools, options: Options) -> Result<Vec<Row>> {
    let scratch = Scratch::new(parent, "crossing")?;
    let mut pair = Pair::start(programs, scratch.path(), place)?;
    let shape = Shape { bytes: options.span, block_bytes: LOGICAL_BLOCK_BYTES };
    let lun = *pair.fresh(&[shape], &[INITIATOR])?.first().context("a LUN")?;
    let rig = Rig { pair, lun, options };
    let fill = Load { order: Order::Sequential, bytes: 65536, depth: 8, ..rig.load(Direction::Write) };
    rig.put(By::Home, fill, Until::Covered)?;
    let mut rows = Vec::new();
    let gain = if options.span > READ_CACHE_BYTES { "≥ 1.9" } else { "≥ 1.5" };
    for (name, direction, crossing, gain) in
        [("4K random read", Direction::Read, "", gain), ("4K random write", Direction::Write, "≤ 3.3 µs", "")]
    {
        rows.extend(rig.compare(name, direction, (crossing, gain))?);
    }
    Ok(rows)
}

impl Rig {
    fn load(&self, direction: Direction) -> Load {
        Load {
            direction,
            order: Order::Random,
            bytes: 4096,
            depth: DEPTH,
            sessions: SESSIONS,
            content: Content::Half,
            span: self.options.span,
        }
    }

    fn compare(
        &self,
        name: &str,
        direction: Direction,
        (crossing, gain): (&'static str, &'static str),
    ) -> Result<Vec<Row>> {
        let mut rounds = Vec::new();
        for round in 0..self.options.rounds {
            let mut found = [[0.0; 2]; 3];
            // The order rotates, since a run may change conditions for the next.
            for index in (0..3).map(|index| (index + round) % 3) {
                let by = [By::Home, By::Other, By::Both][index];
                found[index] = self.put(by, self.load(direction), Until::Time(self.options.time))?;
            }
            rounds.push(found);
        }
        let of = |value: fn(&[Cost; 3]) -> f64| middle(rounds.iter().map(value)).context("no rounds");
        let row = |what: &str, value: String, aim| Row { name: format!("{name}: {what}"), value, aim };
        let us = |it: Middle| format!("{:.1} ({:.1}–{:.1}) µs", it.median, it.low, it.high);
        let times = |it: Middle| format!("{:.2} ({:.2}–{:.2})", it.median, it.low, it.high);
        let home_alone = of(|[home, ..]| home[0])?;
        let home = of(|[_, other, _]| other[0])?;
        let other = of(|[_, other, _]| other[1])?;
        let crossed = of(|[home, other, _]| other[0] + other[1] - home[0] - home[1])?;
        let gained = of(|[home, _, both]| home[0] / both[0].max(both[1]))?;
        Ok(vec![
            row("CPU of the home, by its own portal", us(home_alone), ""),
            row("CPU of the home, by the other controller", us(home), ""),
            row("CPU of the other controller", us(other), ""),
            row("a crossing, both together", us(crossed), crossing),
            row("two controllers beside one, by load of the busier", times(gained), gain),
        ])
    }

    /// Runs a load on the pair; returns the processor time of an operation on each controller.
    fn put(&self, by: By, load: Load, until: Until) -> Result<Cost> {
        let controllers = self.pair.controllers();
        let used = || -> Result<[Duration; 2]> {
            let [home, other] = controllers;
            Ok([processor_time(home.pid()?)?, processor_time(other.pid()?)?])
        };
        let before = used()?;
        let measured = load::run_over(controllers[0].pid()?, load, until, |session, payload| {
            let portal = match by {
                By::Home => 0,
                By::Other => 1,
                By::Both => usize::from(session) % 2,
            };
            let names = Names {
                portal: self.pair.portals()[portal],
                initiator: INITIATOR,
                target: Array::iqn(&controllers[0]),
            };
            Ok(Box::new(Connection::login(names, session, self.lun, payload)?))
        })?;
        let after = used()?;
        let cost = |at: usize| (after[at] - before[at]).as_secs_f64() * 1e6 / measured.count;
        Ok([cost(0), cost(1)])
    }
}
