//! Front ends with hosts, over links that break anywhere, homes that are replaced, and a disk that stalls.
//!
//! Each write has a block of its own. One that was answered with GOOD took effect once; one that was refused, aborted, or
//! cleared with its nexus does not take effect after the host has learned that. Reads see every write that was answered before
//! they began. No session ends.

use crate::rig::{BLOCK, Home, MS, Side, is_cleared, read, write};
use block::workload::Random;
use scsi::{ManagementFunction, Status};
use std::collections::{BTreeMap, BTreeSet};

const HOSTS: [&str; 3] = ["iqn.2026-01.test:a", "iqn.2026-01.test:b", "iqn.2026-01.test:c"];

/// A host at a front end.
struct Host {
    side: usize,
    nexus: u32,
    /// Its open writes: block by number.
    open: BTreeMap<u64, u64>,
    /// Its open reads of blocks that are written, by number.
    reads: BTreeSet<u64>,
}

struct World {
    random: Random,
    now: u64,
    home: Home,
    sides: Vec<Side>,
    hosts: Vec<Host>,
    next: u64,
    /// How often each write whose end is known had taken effect by then.
    ended: BTreeMap<u64, u32>,
    good: u64,
    /// The last block whose write was answered.
    written: Option<u64>,
    found: u64,
    cleared: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let home = Home::new(&HOSTS);
        let sides: Vec<Side> = (0..2).map(|at| Side::new(&home, 11 + at)).collect();
        let mut world = Self {
            random: Random::new(seed),
            now: 0,
            home,
            sides,
            hosts: Vec::new(),
            next: 1,
            ended: BTreeMap::new(),
            good: 0,
            written: None,
            found: 0,
            cleared: 0,
        };
        for (at, name) in HOSTS.into_iter().enumerate() {
            let side = at % 2;
            let nexus = world.sides[side].front.attach(at as u16 + 1, [at as u8; 6], name);
            world.hosts.push(Host { side, nexus, open: BTreeMap::new(), reads: BTreeSet::new() });
        }
        world
    }

    fn step(&mut self) {
        self.now += self.random.below(40) * MS;
        let at = self.random.below(self.hosts.len() as u64) as usize;
        let side = self.hosts[at].side;
        match self.random.weighted(&[40, 4, 6, 3, 1, 4, 5, 20]) {
            0 => {
                let (lba, nexus) = (self.next, self.hosts[at].nexus);
                self.next += 1;
                let number = self.sides[side].start(nexus, &write(lba), &[7; BLOCK], self.now);
                self.hosts[at].open.insert(number, lba);
            }
            1 => {
                let nexus = self.hosts[at].nexus;
                self.sides[side].manage(nexus, ManagementFunction::AbortTaskSet, self.now);
            }
            2 => self.sides[side].cut(self.now),
            // Nothing moves for some time.
            3 => self.now += self.random.below(9_000) * MS,
            4 => self.replace_home(),
            5 => self.home.disk.hold(),
            6 => self.home.disk.release(),
            _ => {
                if let Some(lba) = self.written {
                    let number = self.sides[side].start(self.hosts[at].nexus, &read(lba), &[], self.now);
                    self.hosts[at].reads.insert(number);
                }
            }
        }
        for at in 0..self.sides.len() {
            self.go_on(at);
        }
        self.take_ends();
    }

    fn replace_home(&mut self) {
        let successor = self.home.successor(&HOSTS);
        self.sides.iter_mut().for_each(|side| side.move_to(&successor, self.now));
        self.home = successor;
    }

    /// Time passes at both ends of a link, and some bytes move.
    fn go_on(&mut self, at: usize) {
        let (now, side) = (self.now, &mut self.sides[at]);
        if side.tick_home(now).is_err() | side.tick_front(now).is_err() {
            side.cut(now);
        }
        if !side.is_up() && self.random.chance(30) {
            side.connect(&self.home, now);
        }
        for _ in 0..self.random.below(6) {
            side.run();
            side.write();
            let most = if self.random.chance(30) { self.random.below(700) as usize } else { usize::MAX };
            side.deliver_to_home(most, now);
            side.run();
            side.write();
            let most = if self.random.chance(30) { self.random.below(100) as usize } else { usize::MAX };
            side.deliver_to_front(most, now);
        }
        side.run();
    }

    fn take_ends(&mut self) {
        for host in &mut self.hosts {
            let side = &mut self.sides[host.side];
            let ended: Vec<u64> =
                host.open.keys().copied().filter(|it| side.completed.contains_key(it)).collect();
            for number in ended {
                let lba = host.open.remove(&number).expect("it was open");
                let effects = self.home.disk.effects(lba);
                match &side.completed[&number] {
                    Some(response) if response.status == Status::Good => {
                        assert_eq!(effects, 1, "a write that was answered");
                        self.good += 1;
                        self.written = Some(lba);
                    }
                    Some(response) if is_cleared(response) => {
                        assert!(effects <= 1, "a write whose fate is open");
                        self.cleared += 1;
                    }
                    Some(response) => assert_eq!(effects, 0, "a write that was answered with {response:?}"),
                    None => assert!(effects <= 1, "an aborted write"),
                }
                self.ended.insert(lba, effects);
            }
            let ended: Vec<u64> =
                host.reads.iter().copied().filter(|it| side.completed.contains_key(it)).collect();
            for number in ended {
                host.reads.remove(&number);
                // Or aborted.
                let Some(response) = &side.completed[&number] else { continue };
                assert!(!is_cleared(response), "a read is sent again");
                if response.status == Status::Good {
                    assert_eq!(
                        response.data_in.to_bytes()[..],
                        [7; BLOCK],
                        "a write that was answered before"
                    );
                    self.found += 1;
                }
            }
        }
    }

    fn finish(mut self) -> [u64; 3] {
        self.home.disk.release();
        for _ in 0..40 {
            self.now += 100 * MS;
            for side in &mut self.sides {
                if side.tick_home(self.now).is_err() | side.tick_front(self.now).is_err() {
                    side.cut(self.now);
                }
                if !side.is_up() {
                    side.connect(&self.home, self.now);
                }
                side.settle(self.now);
            }
            self.take_ends();
        }
        let is_idle = |host: &Host| host.open.is_empty() && host.reads.is_empty();
        assert!(self.hosts.iter().all(is_idle), "every command ends");
        for (lba, effects) in &self.ended {
            assert_eq!(
                self.home.disk.effects(*lba),
                *effects,
                "nothing takes effect after its end: block {lba}"
            );
        }
        [self.good, self.found, self.cleared]
    }
}

#[test]
fn no_seed_does_anything_twice_or_late() {
    let (mut good, mut found, mut cleared) = (0, 0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        (0..300).for_each(|_| world.step());
        let counts = world.finish();
        (good, found, cleared) = (good + counts[0], found + counts[1], cleared + counts[2]);
    }
    assert!(good > 10_000 && found > 3_000, "hosts get on: {good} written, {found} read");
    assert!(cleared > 300, "homes are replaced while they write: {cleared}");
}
