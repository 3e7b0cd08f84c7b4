//! Parameters of an array world: sizes, limits and probabilities, drawn from its seed.

use super::pressure::Pressure;
use crate::World;
use crate::bounds::{self, Bounds};
use block::workload::{Mix, Random};
use engine::Options;
use raid::Sizes;

/// Sizes and probabilities of a world.
pub struct Scenario {
    pub world: World,
    pub drives: u64,
    pub drive_bytes: u64,
    pub sizes: Sizes,
    pub options: Options,
    pub mix: Mix,
    /// Maximum size of a volume in bytes.
    pub volume_bytes: u64,
    pub at_once: usize,
    pub crashes: u64,
    /// Number of polls after which the background counts as idle.
    pub long_rest: u64,
    /// Number of polls for which writes gather before they are flushed.
    pub gather_rest: u64,
    /// Maximum number of steps of hosts and drives before a waiting background continues.
    pub reach: u64,
    /// Limits of the store.
    pub limits: raid::Limits,
    /// Number of blank drives that may be added.
    pub spares: u64,
    /// Pressure by lack of space, if any.
    pub pressure: Option<Pressure>,
    /// Whether time advances while hosts work.
    pub ticks: bool,
}

impl Scenario {
    /// Draws the scenario of a seed, with limits within `bounds`.
    pub fn drawn(world: World, random: &mut Random, bounds: Bounds, seed: u64) -> Self {
        let mut scenario = Self::new(world, random);
        if bounds != Bounds::Measured {
            scenario.draw(&mut Random::new(seed ^ 0x626f_756e));
        }
        scenario.limits = bounds::store(bounds, seed);
        if bounds == Bounds::Drawn {
            bounds::read_ahead(seed, &mut scenario.options.tunables);
            bounds::workers(seed, &mut scenario.options.tunables);
            scenario.draw_pressure(seed);
        }
        scenario
    }

    /// Draws the parameters that are common to all bounds.
    fn new(world: World, random: &mut Random) -> Self {
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let mut options = Options::new([7; 32]);
        options.slot_bytes = pick(&[1 << 20, 4 << 20, 16 << 20]) as usize;
        options.cache_bytes = pick(&[64 << 10, 4 << 20]) as usize;
        options.index_bytes = pick(&[64 << 10, 4 << 20]) as usize;
        options.page_bytes = pick(&[256 << 10, 1 << 20, 16 << 20]) as usize;
        let mut scenario = Self {
            world,
            drives: pick(&[1, 2, 3, 4]),
            drive_bytes: pick(&[64 << 20, 96 << 20]),
            sizes: Sizes {
                chunk_bytes: Some(pick(&[8 << 10, 16 << 10, 64 << 10]) as u32),
                segment_bytes: None,
                journal_bytes: Some(pick(&[1 << 20, 2 << 20, 4 << 20])),
            },
            options,
            mix: Mix { max_blocks: pick(&[16, 64, 300]), ..Mix::default() },
            volume_bytes: 6 << 20,
            at_once: pick(&[1, 4, 16]) as usize,
            crashes: pick(&[1, 2, 4]),
            long_rest: pick(&[0, 0, 20, 200]),
            gather_rest: 20,
            reach: 0,
            limits: raid::Limits::default(),
            spares: 0,
            pressure: None,
            ticks: false,
        };
        if world == World::LargeWrites {
            (scenario.drive_bytes, scenario.volume_bytes) = (256 << 20, 12 << 20);
            (scenario.mix.write, scenario.mix.max_blocks) = (60, 3 * 512);
        }
        // An operation must fit in the journal, with any blocks.
        let journal = scenario.sizes.journal_bytes.unwrap_or(0);
        scenario.sizes.journal_bytes = Some(journal.max(4 * 4096 * scenario.mix.max_blocks));
        match world {
            World::OutOfSpace => {
                (scenario.drives, scenario.drive_bytes) = (1 + scenario.drives % 2, 16 << 20);
                scenario.sizes.journal_bytes = Some(1 << 20);
                (scenario.mix.write, scenario.mix.max_blocks, scenario.volume_bytes) = (90, 48, 24 << 20);
            }
            World::DriveChanges => (scenario.drives, scenario.spares) = (1 + scenario.drives, 2),
            World::BitRot | World::DriveFailures | World::Encrypted => {
                scenario.drives = scenario.drives.max(2)
            }
            World::LostWrites => {
                (scenario.drives, scenario.crashes) = (scenario.drives + 1, scenario.crashes + 2)
            }
            World::Rados | World::Located => scenario.crashes += 2,
            World::Shelf
            | World::Array
            | World::Retention
            | World::Cluster
            | World::LargeWrites
            | World::Replication
            | World::Synchronous
            | World::Repair
            | World::Management
            | World::Takeover
            | World::SharedDrives
            | World::Upgrade => {}
        }
        scenario
    }

    /// Draws the parameters of [`Bounds::Drawn`].
    pub fn draw(&mut self, random: &mut Random) {
        bounds::draw(&mut self.options, random);
        self.reach = [0, 10, 100, 1000][random.below(4) as usize];
    }

    /// Draws the pressure from independent random numbers, so other draws stay unchanged.
    pub fn draw_pressure(&mut self, seed: u64) {
        self.ticks = true;
        self.gather_rest = [0, 1, 20, 2000][Random::new(seed ^ 0x6761_7468).below(4) as usize];
        if matches!(self.world, World::OutOfSpace | World::DriveChanges) {
            let mut random = Random::new(seed ^ 0x6675_6c6c);
            if self.world == World::OutOfSpace {
                self.drives = 1 + random.below(4);
            }
            self.drive_bytes = 16 << 20;
            self.crashes += 1;
            (self.mix.max_blocks, self.mix.unique, self.volume_bytes) = (48, 200, 24 << 20);
            self.sizes.journal_bytes = Some(1 << 20);
            self.pressure = Some(Pressure::draw(self.world, &mut self.options, &mut random));
        }
    }
}
