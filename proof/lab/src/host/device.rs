//! Scheduler of one disk: the order of commands, and the limit of outstanding ones.

use super::{Policy, Settings, Tag};
use std::collections::{BTreeMap, VecDeque};

/// A disk in the host's kernel.
#[derive(Debug, Default)]
pub struct Device {
    /// Waiting commands by world.
    waiting: BTreeMap<usize, VecDeque<(Tag, u64)>>,
    /// Outstanding commands by world.
    active: BTreeMap<usize, u32>,
    /// The world with the turn, number of its commands, and position of the last one.
    turn: usize,
    in_a_row: u32,
    last_at: u64,
    /// Round robin: the path, and the number of commands sent on it.
    path: usize,
    on_path: u32,
}

impl Device {
    /// Number of outstanding commands.
    pub fn active(&self) -> u32 {
        self.active.values().sum()
    }

    /// Number of waiting commands.
    pub fn queued(&self) -> u32 {
        self.waiting.values().map(|queue| queue.len() as u32).sum()
    }

    /// Queues a command at this byte of the disk.
    pub fn queue(&mut self, world: usize, tag: Tag, at: u64) {
        self.waiting.entry(world).or_default().push_back((tag, at));
    }

    /// Notes the end of a command.
    pub fn finish(&mut self, world: usize) {
        if let Some(count) = self.active.get_mut(&world) {
            *count -= 1;
            if *count == 0 {
                self.active.remove(&world);
            }
        }
    }

    /// Limit of outstanding commands: the adapter's depth, or less when worlds compete.
    fn limit(&self, settings: &Settings) -> u32 {
        let mut worlds = self.waiting.keys().chain(self.active.keys());
        let first = worlds.next();
        match worlds.any(|world| Some(world) != first) {
            true => settings.hba_depth.min(settings.outstanding),
            false => settings.hba_depth,
        }
    }

    /// The next command to send, if allowed. A world keeps its turn for a quantum of commands that are close to each
    /// other; then the next waiting world has it.
    pub fn pick(&mut self, settings: &Settings) -> Option<Tag> {
        if self.active() >= self.limit(settings) {
            return None;
        }
        let close = |at: u64| at.abs_diff(self.last_at) <= settings.proximity;
        let stays = self.in_a_row < settings.quantum
            && self.waiting.get(&self.turn).and_then(VecDeque::front).is_some_and(|(_, at)| close(*at));
        let world = match stays {
            true => self.turn,
            false => {
                let mut later = self.waiting.range(self.turn + 1..).chain(self.waiting.range(..=self.turn));
                *later.next()?.0
            }
        };
        let queue = self.waiting.get_mut(&world)?;
        let (tag, at) = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&world);
        }
        self.in_a_row = if world == self.turn { self.in_a_row + 1 } else { 1 };
        (self.turn, self.last_at) = (world, at);
        *self.active.entry(world).or_default() += 1;
        Some(tag)
    }

    /// Path of the picked command.
    pub fn path(&mut self, settings: &Settings, disk: usize) -> usize {
        let paths = settings.paths.max(1);
        match settings.policy {
            // As an administrator would do: disks distributed over the paths.
            Policy::Fixed => disk % paths,
            Policy::RoundRobin => {
                if self.on_path >= settings.switch_every {
                    (self.path, self.on_path) = ((self.path + 1) % paths, 0);
                }
                self.on_path += 1;
                self.path
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(device: &mut Device, settings: &Settings) -> Vec<Tag> {
        std::iter::from_fn(|| device.pick(settings)).collect()
    }

    #[test]
    fn one_world_has_the_adapters_depth_and_several_share_less() {
        let settings = Settings { hba_depth: 64, outstanding: 32, ..Settings::default() };
        let mut device = Device::default();
        (0..100).for_each(|tag| device.queue(1, tag, tag << 30));
        assert_eq!(all(&mut device, &settings).len(), 64);
        device.queue(2, 1000, 0);
        assert_eq!(device.pick(&settings), None);
        (0..32).for_each(|_| device.finish(1));
        assert_eq!(device.pick(&settings), None, "32 are under way, and two worlds compete");
        device.finish(1);
        assert_eq!(device.pick(&settings), Some(1000));
        assert_eq!((device.active(), device.queued()), (32, 36));
    }

    #[test]
    fn a_world_keeps_its_turn_for_a_quantum_when_it_is_sequential() {
        let settings = Settings { quantum: 3, outstanding: 100, ..Settings::default() };
        let mut device = Device::default();
        for n in 0..5 {
            device.queue(0, n, n * 4096);
            device.queue(1, 100 + n, n << 30);
        }
        // World 1 is not sequential and has single turns.
        let order = all(&mut device, &settings);
        assert_eq!(order, [0, 1, 2, 100, 3, 4, 101, 102, 103, 104]);
    }

    #[test]
    fn round_robin_changes_the_path_after_so_many() {
        let settings =
            Settings { policy: Policy::RoundRobin, switch_every: 2, paths: 3, ..Settings::default() };
        let mut device = Device::default();
        let paths: Vec<_> = (0..8).map(|_| device.path(&settings, 0)).collect();
        assert_eq!(paths, [0, 0, 1, 1, 2, 2, 0, 0]);
        let fixed = Settings { policy: Policy::Fixed, ..settings };
        assert_eq!([0, 1, 4].map(|disk| device.path(&fixed, disk)), [0, 1, 1]);
    }
}
