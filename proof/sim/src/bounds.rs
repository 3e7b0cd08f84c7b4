//! Internal limits of a world, drawn from its seed, each independently from one up to the product's value.
//!
//! Small limits are as frequent as large ones, so work that takes many steps on a large array does so here. Fixed
//! limits hide every fault that needs a step to end at another point.

use block::workload::Random;
use engine::{Options, Tunables};

/// Choice of the internal limits of a world, and of its task scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Drawn from the seed. While the background waits, hosts may perform any number of steps.
    Drawn,
    /// As drawn, but with the product's limits of the store: for seeds found before 2026-11-25.
    DrawnEngine,
    /// Limits of the product, with uniform scheduling: for seeds found before 2026-11-24.
    Measured,
}

impl Bounds {
    /// The name of these bounds.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drawn => "drawn",
            Self::DrawnEngine => "drawn-engine",
            Self::Measured => "measured",
        }
    }

    /// The bounds of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "drawn" => Some(Self::Drawn),
            "drawn-engine" => Some(Self::DrawnEngine),
            "measured" => Some(Self::Measured),
            _ => None,
        }
    }
}

/// Options of the engine of a small array, whose limits are drawn from the seed.
pub fn of_small_array(seed: u64, bounds: Bounds, fingerprint_key: [u8; 32]) -> Options {
    let mut options = Options::new(fingerprint_key);
    (options.slot_bytes, options.cache_bytes) = (4 << 20, 1 << 20);
    (options.index_bytes, options.page_bytes) = (1 << 20, 1 << 20);
    if bounds != Bounds::Measured {
        draw(&mut options, &mut Random::new(seed ^ 0x626f_756e));
    }
    if bounds == Bounds::Drawn {
        workers(seed, &mut options.tunables);
    }
    options
}

/// A number from one to `most`; its length in bits is drawn first, so that all magnitudes are equally frequent.
pub fn wide(random: &mut Random, most: u64) -> u64 {
    let bits = random.below(u64::from(most.ilog2()) + 1);
    ((1 << bits) + random.below(1 << bits)).min(most)
}

/// Half of the limits keep the product's value: a limit that throttles everything hides the others.
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
        checkpoint_spare_segments: few(8).max(2),
        cleaning_reserve_min_segments: few(8),
        // A step must get from the root to a leaf.
        diff_pages: few(measured.diff_pages).max(5),
        exclusive_pages: few(measured.exclusive_pages),
        // With fewer attempts, a busy array answers "not ready", which the model does not allow.
        copy_attempts: few(measured.copy_attempts).max(measured.copy_attempts),
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
    let tunables = Tunables {
        // Usually such that a checkpoint has a few pages, and hosts need not wait for its end.
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
        victim_live_16ths_max: 17 - much(2),
        locality_credit_frames_max: much(measured.locality_credit_frames_max as u64) as i64,
        unique_blocks_max: much(u64::from(measured.unique_blocks_max)) as u16,
        read_gap_bytes: much(u64::from(measured.read_gap_bytes)) as u32,
        journal_density_max: much(8),
        journal_held_max: much(measured.journal_held_max),
        journal_kept_divisor: much(64).max(2),
        copy_piece_bytes: much(measured.copy_piece_bytes),
        ..tunables
    };
    // Derived from drawn values, so other draws stay unchanged.
    let mut own = Random::new(tunables.journal_held_max ^ tunables.trim_min_bytes << 32);
    Tunables {
        index_reads_in_flight: one(&mut own, measured.index_reads_in_flight as u64) as usize,
        index_spare_bytes: one(&mut own, measured.index_spare_bytes),
        index_rewrite_min_bytes: one(&mut own, measured.index_rewrite_min_bytes),
        gather_divisor: one(&mut own, 64),
        // Each batch has a page of its own beside its blocks: with fewer, the largest writes do not fit in a journal.
        batch_blocks_max: one(&mut own, measured.batch_blocks_max as u64).max(16) as usize,
        join_windows: one(&mut own, measured.join_windows as u64) as usize,
        join_leaves_max: one(&mut own, 64) as usize,
        ..tunables
    }
}

/// Limits of the store on drives, drawn independently so that other draws stay unchanged.
pub fn store(bounds: Bounds, seed: u64) -> raid::Limits {
    let measured = raid::Limits::default();
    if bounds != Bounds::Drawn {
        return measured;
    }
    let mut random = Random::new(seed ^ 0x7374_6f72);
    let mut few = |limit: u64| one(&mut random, limit);
    raid::Limits {
        durable_map_pages_max: few(measured.durable_map_pages_max as u64) as usize,
        map_read_pages: few(measured.map_read_pages),
        recovery_read_ahead_pages: few(measured.recovery_read_ahead_pages),
        // Smaller bodies are never striped; usually such that the bodies here are.
        striped_batch_min_pages: 1 + few(8) as usize,
        journal_copy_pages: few(measured.journal_copy_pages),
        // With less, no rebuild ends within a world.
        busy_bytes_per_second: few(measured.busy_bytes_per_second).max(256 << 10),
        idle_bytes_per_second: few(measured.idle_bytes_per_second).max(256 << 10),
        kept_buffers_max: few(measured.kept_buffers_max as u64 + 1) as usize - 1,
        discarded_segments_max: few(measured.discarded_segments_max.into()) as u32,
    }
}

/// Limits of the read-ahead, down to none and to one block; drawn independently so that other draws stay unchanged.
pub fn read_ahead(seed: u64, tunables: &mut Tunables) {
    let measured = Tunables::default();
    let mut random = Random::new(seed ^ 0x6168_6561);
    let mut few = |limit: usize| one(&mut random, limit as u64) as usize;
    let blocks = measured.read_ahead_window_bytes / 4096 + 1;
    tunables.read_ahead_window_bytes = (few(blocks) - 1) * 4096;
    tunables.read_ahead_in_flight_bytes = few(measured.read_ahead_in_flight_bytes);
    tunables.read_ahead_piece_bytes = few(measured.read_ahead_piece_bytes as usize) as u32;
    tunables.read_ahead_streams = few(measured.read_ahead_streams);
    tunables.read_ahead_min_reads = few(measured.read_ahead_min_reads as usize) as u32;
}

/// Draws how many blocks make a job of a worker, independently of everything else so that other draws stay as they are.
pub fn workers(seed: u64, tunables: &mut Tunables) {
    tunables.job_blocks = wide(&mut Random::new(seed ^ 0x776f_726b), tunables.job_blocks as u64) as usize;
}

/// Draws the options of the engine.
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
        let ahead = |seed: u64| {
            let mut tunables = Tunables::default();
            read_ahead(seed, &mut tunables);
            tunables.assert();
            tunables
        };
        let ahead: Vec<Tunables> = (0..1000).map(ahead).collect();
        assert_eq!(ahead.iter().map(|tunables| tunables.read_ahead_window_bytes).min(), Some(0));
        assert!(ahead.iter().any(|tunables| tunables.read_ahead_window_bytes == 4096));
        assert_eq!(ahead.iter().map(|tunables| tunables.read_ahead_streams).min(), Some(1));
        assert_eq!(ahead.iter().map(|tunables| tunables.read_ahead_min_reads).min(), Some(1));
        let store: Vec<raid::Limits> = (0..1000).map(|seed| store(Bounds::Drawn, seed)).collect();
        for least in [
            store.iter().map(|limits| limits.durable_map_pages_max).min(),
            store.iter().map(|limits| limits.recovery_read_ahead_pages as usize).min(),
            store.iter().map(|limits| limits.journal_copy_pages as usize).min(),
            store.iter().map(|limits| limits.map_read_pages as usize).min(),
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
