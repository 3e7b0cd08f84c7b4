//! Internal limits of a world, drawn from its seed: each alone from one up to what the array is measured with, small ones as
//! often as large ones, so that steps that many pages take elsewhere are many here for few.

use block::workload::Random;
use engine::{Options, Tunables};

/// How a world comes to its internal limits, and how tasks take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Drawn from the seed. Hosts may do any number of things whenever the background waits.
    Drawn,
    /// Those that the array is measured with, and all tasks alike: what seeds before 2026-11-24 were found with.
    Measured,
}

impl Bounds {
    /// The name of these bounds.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drawn => "drawn",
            Self::Measured => "measured",
        }
    }

    /// The bounds of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "drawn" => Some(Self::Drawn),
            "measured" => Some(Self::Measured),
            _ => None,
        }
    }
}

/// A number from one to `most`; its length in bits is drawn first, so that all sizes come alike.
pub fn wide(random: &mut Random, most: u64) -> u64 {
    let bits = random.below(u64::from(most.ilog2()) + 1);
    ((1 << bits) + random.below(1 << bits)).min(most)
}

/// Half of them are what the array is measured with: one that throttles everything hides the others.
fn one(random: &mut Random, measured: u64) -> u64 {
    if random.chance(50) { measured } else { wide(random, measured) }
}

/// Limits of the engine.
pub fn tunables(random: &mut Random) -> Tunables {
    let measured = Tunables::default();
    let mut few = |limit: usize| one(random, limit as u64) as usize;
    let tunables = Tunables {
        checkpoint_pages: few(measured.checkpoint_pages),
        object_part_bytes: few(measured.object_part_bytes).max(1024),
        released_pages: few(measured.released_pages),
        deferred_changes_max: few(measured.deferred_changes_max),
        clean_reserve_divisor: few(measured.clean_reserve_divisor),
        clean_min_segments: few(measured.clean_min_segments),
        flush_slots: few(measured.flush_slots),
        flush_frames: few(measured.flush_frames),
        recompress_windows: few(measured.recompress_windows),
        recompress_leaves: few(measured.recompress_leaves),
        recompress_queue_max: few(measured.recompress_queue_max),
        index_rebuild_frames: few(measured.index_rebuild_frames),
        locality_frames: few(measured.locality_frames),
        reads_in_flight: few(measured.reads_in_flight),
        read_pages: few(measured.read_pages),
        appends_in_flight: few(8),
        batch_pieces: few(measured.batch_pieces),
        stripes_in_flight: few(8),
        replay_records: few(measured.replay_records),
        replay_levels: few(measured.replay_levels),
        ..measured
    };
    let mut much = |limit: u64| one(random, limit);
    Tunables {
        // Mostly so that a checkpoint has a few pages, and hosts need not wait for its end.
        dirty_bytes_max: match much(4) {
            1 => much(measured.dirty_bytes_max),
            _ => 4096 * (1 + much(64)),
        },
        trim_divisor: much(16),
        trim_min_bytes: much(measured.trim_min_bytes),
        trim_min_divisor: much(32),
        credit_quantum_bytes: much(measured.credit_quantum_bytes),
        credit_quantum_divisor: much(32),
        backpressure_divisor: much(64),
        moved_per_flushed_byte_max: much(64),
        fruitless_rounds_max: much(u64::from(measured.fruitless_rounds_max)) as u32,
        clean_window_bytes: much(u64::from(measured.clean_window_bytes)) as u32,
        index_rebuild_pages: much(measured.index_rebuild_pages),
        unique_blocks_max: much(u64::from(measured.unique_blocks_max)) as u16,
        read_gap_bytes: much(u64::from(measured.read_gap_bytes)) as u32,
        journal_density_max: much(8),
        journal_held_max: much(measured.journal_held_max),
        journal_kept_divisor: much(64).max(2),
        copy_piece_bytes: much(measured.copy_piece_bytes),
        ..tunables
    }
}

/// Draws what the engine is opened with.
pub fn draw(options: &mut Options, random: &mut Random) {
    options.tunables = tunables(random);
    let mut memory = |bytes: usize| one(random, bytes as u64) as usize;
    options.slot_bytes = memory(options.slot_bytes);
    options.cache_bytes = memory(options.cache_bytes);
    options.index_bytes = memory(options.index_bytes);
    options.page_bytes = memory(options.page_bytes);
    options.recompress = random.chance(80);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_limits_come_down_to_one_and_are_ones_that_the_engine_takes() {
        let mut random = Random::new(1);
        let drawn: Vec<Tunables> = (0..1000).map(|_| tunables(&mut random)).collect();
        drawn.iter().for_each(Tunables::assert);
        for least in [
            drawn.iter().map(|tunables| tunables.checkpoint_pages).min(),
            drawn.iter().map(|tunables| tunables.flush_slots).min(),
            drawn.iter().map(|tunables| tunables.batch_pieces).min(),
            drawn.iter().map(|tunables| tunables.credit_quantum_bytes as usize).min(),
        ] {
            assert_eq!(least, Some(1));
        }
        assert!((0..1000).all(|_| (1..=7).contains(&wide(&mut random, 7))));
    }
}
