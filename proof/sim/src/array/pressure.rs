//! Lack of space: keeps an array, or the file system under its drives, nearly full.

use super::{Incarnation, Run};
use crate::World;
use crate::history::Action;
use block::workload::Random;
use block::{DiskId, Extent, Geometry, Op};
use bytes::Bytes;
use engine::{Options, Tunables};

/// Parameters of the pressure.
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    /// Hosts write new data until only this much is free.
    free_bytes: u64,
    /// Size of the file system that the drives share, in percent of their total size; `None` if they are not files.
    pub file_system_percent: Option<u64>,
    /// The next block to fill.
    next: u64,
}

impl Pressure {
    /// Draws the pressure of a world, with the limit of map pages.
    pub fn draw(world: World, options: &mut Options, random: &mut Random) -> Self {
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let free_bytes = pick(&[0, 0, 256 << 10, 1 << 20]);
        let (mut percent, mut pages) = (None, u64::MAX);
        if world == World::OutOfSpace {
            percent = [None, None, Some(60), Some(85), Some(110)][pick(&[0, 1, 2, 3, 4]) as usize];
            pages = pick(&[24, 60, u64::MAX, u64::MAX, u64::MAX]);
        }
        options.map_pages = options.map_pages.min(pages);
        // The other drawn limits exceed the reserve of a small log: data would be admitted without space.
        let measured = Tunables::default();
        options.tunables.checkpoint_spare_segments = measured.checkpoint_spare_segments;
        options.tunables.cleaning_reserve_min_segments = measured.cleaning_reserve_min_segments;
        // With less, a checkpoint is due after each cleaning victim, and fills more segments than that frees.
        options.tunables.dirty_bytes_max = options.tunables.dirty_bytes_max.max(64 << 10);
        Self { free_bytes, file_system_percent: percent, next: 0 }
    }
}

impl Run {
    /// A write of incompressible data, while the array must get fuller.
    pub(super) fn filling_write(
        &mut self,
        incarnation: &Incarnation,
        disks: &[(DiskId, Geometry)],
    ) -> Option<Action> {
        let pressure = self.scenario.pressure.as_mut()?;
        let (id, geometry) = *disks.get(self.random.below(disks.len() as u64) as usize)?;
        if self.random.chance(40) || incarnation.engine.space().free <= pressure.free_bytes {
            return None;
        }
        let blocks =
            (self.scenario.mix.max_blocks * 4096 / u64::from(geometry.block_bytes)).min(geometry.blocks);
        let lba = pressure.next % (geometry.blocks - blocks + 1);
        pressure.next += blocks;
        let data = unique(&mut self.random, blocks * u64::from(geometry.block_bytes));
        Some(Action::Op(id, Op::Write { lba, data: data.into() }))
    }

    /// Other files use and free space of the file system under the drives.
    pub(super) fn press(&mut self) {
        let is_file = self.scenario.pressure.is_some_and(|it| it.file_system_percent.is_some());
        if is_file && self.random.below(2000) == 0 {
            let percent = [0, 0, 50, 90, 100, 100][self.random.below(6) as usize];
            self.machine.drives.note(percent);
            self.machine.drives.fill_file_system(percent);
        }
    }

    /// Unmaps everything, runs the background, and expects free space.
    pub(super) fn unmap_all(&mut self, incarnation: &mut Incarnation) -> Result<(), String> {
        self.machine.drives.fill_file_system(0);
        for (id, geometry) in self.history.disks() {
            self.perform(incarnation, Action::Access(id, false, self.now))
                .map_err(|cause| format!("a disk of a full array is made writable: {cause}"))?;
            let op = Op::Unmap(vec![Extent::new(0, geometry.blocks)]);
            self.perform(incarnation, Action::Op(id, op))
                .map_err(|cause| format!("unmap of a full array: {cause}"))?;
        }
        for turn in 0.. {
            while self.machine.step()? {}
            if turn == 5 || !self.machine.wait(turn) {
                break;
            }
        }
        let Some((id, geometry)) = self.history.disks().first().copied() else { return Ok(()) };
        // A small array may have room for fewer than eight writes even when it is empty.
        let before = incarnation.engine.space();
        let writes = |bytes: u64| bytes / (17 * u64::from(geometry.block_bytes));
        if writes(before.free) == 0 && writes(before.total) > 1 {
            return Err(format!("an array emptied by unmap has no space: {before:?}"));
        }
        for lba in 0..writes(before.free).min(8) {
            let data = unique(&mut self.random, 16 * u64::from(geometry.block_bytes));
            let write = Action::Op(id, Op::Write { lba: lba * 16, data: data.into() });
            self.perform(incarnation, write).map_err(|cause| {
                let (space, why) = (incarnation.engine.space(), incarnation.engine.space_refusals());
                format!("write to an array emptied by unmap: {cause}: {space:?} after {before:?}, {why:?}")
            })?;
        }
        Ok(())
    }
}

fn unique(random: &mut Random, bytes: u64) -> Bytes {
    (0..bytes / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect::<Vec<u8>>().into()
}
