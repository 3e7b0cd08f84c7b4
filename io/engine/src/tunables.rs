//! Tunables: how much the engine does in one step, and where its background begins and ends.
//!
//! They decide how work is divided, never what is right. The simulator draws all of them from wide ranges, down to one, so
//! that a checkpoint of three pages takes as many steps there as one of three thousand elsewhere: fixed sizes hide the
//! errors between steps.

use crate::entry::MAX_LEVEL;

/// The tunables. [`Tunables::default`] are those that the array is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Metadata pages that a checkpoint takes under one lock.
    pub checkpoint_pages: usize,
    /// Bytes of a part of the catalog or of the root. The superblock names the parts of the root.
    pub object_part_bytes: usize,
    /// Dirty metadata in bytes at which a checkpoint is written, however large the log is.
    pub dirty_bytes_max: u64,
    /// Free segments that cleaning leaves to checkpoints beyond those that a checkpoint fills: both of its streams may end in
    /// a segment that they hardly fill.
    pub checkpoint_spare_segments: usize,
    /// Map pages without references that are released in one step.
    pub released_pages: usize,
    /// Deferred reference changes beyond which the pages of the frame table that they wait for are read.
    pub deferred_changes_max: usize,
    /// Part of the journal that a checkpoint has to free to be worth it, as a divisor.
    pub trim_divisor: u64,
    /// Bytes of the journal that it has to free while hosts wait for room there.
    pub trim_min_bytes: u64,
    /// The same for a small journal, as a divisor.
    pub trim_min_divisor: u64,
    /// Bytes of credit that acknowledgements are granted at once.
    pub credit_quantum_bytes: u64,
    /// The same as a part of what may wait without back-pressure, as a divisor; the smaller of both counts.
    pub credit_quantum_divisor: u64,
    /// Part of what the journal holds that may wait to be flushed before back-pressure begins, as a divisor.
    pub backpressure_divisor: u64,
    /// Bytes that cleaning moves at most for a flushed byte: the bound of write amplification.
    pub moved_per_flushed_byte_max: u64,
    /// Free segments at which cleaning begins, as a part of the reserve, as a divisor.
    pub clean_reserve_divisor: usize,
    /// The least number of these.
    pub clean_min_segments: usize,
    /// Free segments that data leaves to cleaning.
    pub cleaning_reserve_min_segments: usize,
    /// Live data in 16ths of a segment from which on it is no victim of cleaning. An eighth of the log is reserved, so some
    /// segment always has less than 15.
    pub victim_live_16ths_max: u64,
    /// Rounds of cleaning that gain nothing before the log is taken to be full.
    pub fruitless_rounds_max: u32,
    /// Bytes of a segment that cleaning reads at once.
    pub clean_window_bytes: u32,
    /// Part of the bytes that may wait before back-pressure begins that wait for their neighbours, as a divisor.
    pub gather_divisor: u64,
    /// Slots flushed in one step.
    pub flush_slots: usize,
    /// Frames appended before other tasks run.
    pub flush_frames: usize,
    /// Blocks that a worker reduces in one job. What makes a single job is not handed over.
    pub job_blocks: usize,
    /// Windows recompressed in one step.
    pub recompress_windows: usize,
    /// Leaves searched for them in one step.
    pub recompress_leaves: usize,
    /// Leaves queued for recompression; if there are more, all maps are walked.
    pub recompress_queue_max: usize,
    /// Windows joined in one step, which a short rest follows: a tenth of a thread.
    pub join_windows: usize,
    /// Leaves in which hosts read in order what lies in many places that are remembered to be joined; none disables that.
    pub join_leaves_max: usize,
    /// Frames read in one step of the index rebuild.
    pub index_rebuild_frames: usize,
    /// Pages of the frame table searched in one step.
    pub index_rebuild_pages: u64,
    /// Objects of the deduplication index read at the same time after a start.
    pub index_reads_in_flight: usize,
    /// Bytes by which the objects of the deduplication index may outgrow it before all of it is written again, if that is more
    /// than half of it.
    pub index_spare_bytes: u64,
    /// Bytes of it that a checkpoint writes again at least, once that is due.
    pub index_rewrite_min_bytes: u64,
    /// Frames whose fingerprints locality prefetch remembers.
    pub locality_frames: usize,
    /// Frames that locality prefetch may read without finding a block in them.
    pub locality_credit_frames_max: i64,
    /// Blocks in a row without a copy after which only a sample is looked up.
    pub unique_blocks_max: u16,
    /// Pieces of the log read at the same time.
    pub reads_in_flight: usize,
    /// Metadata pages that are read as one piece.
    pub read_pages: usize,
    /// Bytes between two of them that are cheaper to read along than to leave out.
    pub read_gap_bytes: u32,
    /// Bytes of a volume that are read ahead at once for a host that reads in order; none below a block.
    pub read_ahead_window_bytes: usize,
    /// Bytes of frames in flight for all of those hosts together.
    pub read_ahead_in_flight_bytes: usize,
    /// Bytes of the log that are read ahead as one piece.
    pub read_ahead_piece_bytes: u32,
    /// Hosts that read in order, and those that may turn out to, at most.
    pub read_ahead_streams: usize,
    /// Number of sequential reads after which read-ahead begins.
    pub read_ahead_min_reads: u32,
    /// Map pages compared in one step of a difference, under one lock; more than a map has levels.
    pub diff_pages: usize,
    /// Map pages looked at in one step of measuring exclusive space, under one lock.
    pub exclusive_pages: usize,
    /// Journal appends under way at the same time.
    pub appends_in_flight: usize,
    /// Pieces of the body of a journal batch; what would be more is copied into one.
    pub batch_pieces: usize,
    /// Blocks of a journal batch. Cells of few bytes are many.
    pub batch_blocks_max: usize,
    /// Bytes of batches that the journal holds for each byte of its ring.
    pub journal_density_max: u64,
    /// The same for a ring of any size, unless the ring is larger.
    pub journal_held_max: u64,
    /// Part of the journal that is kept for the first writes after a crash, as a divisor.
    pub journal_kept_divisor: u64,
    /// Stripe writes under way at the same time.
    pub stripes_in_flight: usize,
    /// Records whose pages are loaded ahead in a replay.
    pub replay_records: usize,
    /// Levels of the map whose pages are loaded ahead for each.
    pub replay_levels: usize,
    /// Bytes of an unaligned copy that one change moves.
    pub copy_piece_bytes: u64,
    /// How often a staged copy is prepared while others change what it reads.
    pub copy_attempts: usize,
}

impl Default for Tunables {
    fn default() -> Self {
        Self {
            checkpoint_pages: 32,
            object_part_bytes: 128 << 10,
            dirty_bytes_max: 128 << 20,
            checkpoint_spare_segments: 2,
            released_pages: 16,
            deferred_changes_max: 4096,
            trim_divisor: 4,
            trim_min_bytes: 1 << 20,
            trim_min_divisor: 8,
            credit_quantum_bytes: 512 << 10,
            credit_quantum_divisor: 8,
            backpressure_divisor: 4,
            moved_per_flushed_byte_max: 16,
            clean_reserve_divisor: 8,
            clean_min_segments: 4,
            cleaning_reserve_min_segments: 2,
            victim_live_16ths_max: 15,
            fruitless_rounds_max: 20,
            clean_window_bytes: 1 << 20,
            gather_divisor: 2,
            flush_slots: 512,
            flush_frames: 64,
            job_blocks: 64,
            recompress_windows: 16,
            recompress_leaves: 256,
            recompress_queue_max: 1 << 16,
            join_windows: 16,
            join_leaves_max: 1 << 14,
            index_rebuild_frames: 8,
            index_rebuild_pages: 4096,
            index_reads_in_flight: 16,
            index_spare_bytes: 1 << 20,
            index_rewrite_min_bytes: 4 << 20,
            locality_frames: 2048,
            locality_credit_frames_max: 4096,
            unique_blocks_max: 1024,
            reads_in_flight: 64,
            read_pages: 64,
            read_gap_bytes: 16 << 10,
            read_ahead_window_bytes: 1 << 20,
            read_ahead_in_flight_bytes: 16 << 20,
            read_ahead_piece_bytes: 256 << 10,
            read_ahead_streams: 64,
            read_ahead_min_reads: 3,
            diff_pages: 128,
            exclusive_pages: 32,
            appends_in_flight: 2,
            batch_pieces: 500,
            batch_blocks_max: 1 << 13,
            journal_density_max: 4,
            journal_held_max: 512 << 20,
            journal_kept_divisor: 16,
            stripes_in_flight: 4,
            replay_records: 1024,
            replay_levels: 8,
            copy_piece_bytes: 4 << 20,
            copy_attempts: 16,
        }
    }
}

impl Tunables {
    /// Asserts what the engine relies on.
    ///
    /// # Panics
    /// If one of them would keep a step from making progress.
    pub fn assert(&self) {
        let steps = [
            self.checkpoint_pages,
            self.released_pages,
            self.clean_reserve_divisor,
            self.clean_min_segments,
            self.cleaning_reserve_min_segments,
            self.flush_slots,
            self.flush_frames,
            self.job_blocks,
            self.recompress_windows,
            self.recompress_leaves,
            self.join_windows,
            self.index_rebuild_frames,
            self.index_reads_in_flight,
            self.reads_in_flight,
            self.read_pages,
            self.read_ahead_streams,
            self.exclusive_pages,
            self.appends_in_flight,
            self.batch_pieces,
            self.batch_blocks_max,
            self.stripes_in_flight,
            self.replay_records,
            self.copy_attempts,
        ];
        assert!(steps.iter().all(|step| *step > 0), "a step of nothing never ends: {self:?}");
        let divisors = [
            self.trim_divisor,
            self.trim_min_divisor,
            self.credit_quantum_divisor,
            self.backpressure_divisor,
            self.gather_divisor,
            self.journal_density_max,
        ];
        assert!(divisors.iter().all(|divisor| *divisor > 0), "a divisor of zero: {self:?}");
        assert!(self.index_rebuild_pages > 0 && self.fruitless_rounds_max > 0, "{self:?}");
        assert!(self.journal_kept_divisor > 1, "all of the journal is kept for the first writes: {self:?}");
        assert!(
            self.object_part_bytes >= 1024,
            "the superblock has no room for this many parts of the root: {self:?}"
        );
        assert!(self.batch_pieces <= 1000, "a vectored write takes 1024 pieces: {self:?}");
        assert!(self.batch_blocks_max <= 1 << 16, "a slot has no number for this many blocks: {self:?}");
        assert!(self.diff_pages > MAX_LEVEL.into(), "a step of a difference has to reach a leaf: {self:?}");
        assert!(self.checkpoint_spare_segments >= 2, "a checkpoint ends in two segments: {self:?}");
        assert!(
            (15..=16).contains(&self.victim_live_16ths_max),
            "a full log has segments of which 14 sixteenths are live: {self:?}"
        );
    }
}
