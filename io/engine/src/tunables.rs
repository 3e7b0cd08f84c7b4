//! How much the engine does at once, and where its background begins and ends: bounds that decide how work is divided, and
//! never what is right. The simulator draws all of them from wide ranges, down to one, so that a checkpoint of three pages
//! takes as many steps there as one of three thousand elsewhere.

/// The bounds. [`Tunables::default`] are those that the array is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Pages that a checkpoint takes under one lock.
    pub checkpoint_pages: usize,
    /// Bytes of a part of the catalog or of the root; the superblock names the parts of the root.
    pub object_part_bytes: usize,
    /// Bytes of changed metadata at which a checkpoint is made, however large the log is.
    pub dirty_bytes_max: u64,
    /// Map pages that nothing refers to any more, released in one step.
    pub released_pages: usize,
    /// Noted changes of references beyond which their pages of the frame table are read.
    pub deferred_changes_max: usize,
    /// The part of the journal that a checkpoint has to free to be made for its sake, as a divisor.
    pub trim_divisor: u64,
    /// Bytes of the journal that it has to free when hosts wait for it.
    pub trim_min_bytes: u64,
    /// The same of a small journal, as a divisor.
    pub trim_min_divisor: u64,
    /// Bytes that acknowledgements are granted at once.
    pub credit_quantum_bytes: u64,
    /// The same as a part of what may wait without back-pressure, as a divisor; the smaller of both counts.
    pub credit_quantum_divisor: u64,
    /// The part of the journal that may wait to be flushed before there is back-pressure, as a divisor.
    pub backpressure_divisor: u64,
    /// Bytes that cleaning moves at most for a byte of data that is flushed.
    pub moved_per_flushed_byte_max: u64,
    /// Segments that cleaning keeps free of data, as a part of the reserve, as a divisor.
    pub clean_reserve_divisor: usize,
    /// The least number of these.
    pub clean_min_segments: usize,
    /// Rounds of cleaning that win nothing before the log is taken to be full.
    pub fruitless_rounds_max: u32,
    /// Bytes of a segment that cleaning reads at once.
    pub clean_window_bytes: u32,
    /// Slots flushed in one step.
    pub flush_slots: usize,
    /// Frames packed before others get their turn.
    pub flush_frames: usize,
    /// Windows that are recompressed in one step.
    pub recompress_windows: usize,
    /// Leaves that are looked at for them.
    pub recompress_leaves: usize,
    /// Leaves remembered for recompression; when there are more, all maps are walked.
    pub recompress_queue_max: usize,
    /// Frames read in one step of rebuilding the index.
    pub index_rebuild_frames: usize,
    /// Pages of the frame table looked for in one step.
    pub index_rebuild_pages: u64,
    /// Frames whose fingerprints are remembered because their neighbours repeat.
    pub locality_frames: usize,
    /// Blocks in a row without a copy after which only a sample is looked for.
    pub unique_blocks_max: u16,
    /// Pieces of the log that are read at the same time.
    pub reads_in_flight: usize,
    /// Metadata pages that are read as one piece.
    pub read_pages: usize,
    /// Bytes between two of them that are cheaper to read along than to leave out.
    pub read_gap_bytes: u32,
    /// Journal appends under way at the same time.
    pub appends_in_flight: usize,
    /// Pieces of the body of a journal batch.
    pub batch_pieces: usize,
    /// Bytes of batches that the journal holds for each byte of its ring.
    pub journal_density_max: u64,
    /// The same for a ring of any size, unless the ring is larger.
    pub journal_held_max: u64,
    /// The part of the journal that is left for the first writes after a crash, as a divisor.
    pub journal_kept_divisor: u64,
    /// Stripe writes under way at the same time.
    pub stripes_in_flight: usize,
    /// Records whose pages are loaded ahead in a replay.
    pub replay_records: usize,
    /// Pages on the way down that are loaded ahead for each.
    pub replay_levels: usize,
    /// Bytes of an unaligned copy that are moved by one change.
    pub copy_piece_bytes: u64,
}

impl Default for Tunables {
    fn default() -> Self {
        Self {
            checkpoint_pages: 32,
            object_part_bytes: 128 << 10,
            dirty_bytes_max: 128 << 20,
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
            fruitless_rounds_max: 20,
            clean_window_bytes: 1 << 20,
            flush_slots: 512,
            flush_frames: 64,
            recompress_windows: 16,
            recompress_leaves: 256,
            recompress_queue_max: 1 << 16,
            index_rebuild_frames: 8,
            index_rebuild_pages: 4096,
            locality_frames: 2048,
            unique_blocks_max: 1024,
            reads_in_flight: 64,
            read_pages: 64,
            read_gap_bytes: 16 << 10,
            appends_in_flight: 2,
            batch_pieces: 500,
            journal_density_max: 4,
            journal_held_max: 512 << 20,
            journal_kept_divisor: 16,
            stripes_in_flight: 4,
            replay_records: 1024,
            replay_levels: 8,
            copy_piece_bytes: 4 << 20,
        }
    }
}

impl Tunables {
    /// Asserts what they have to be to each other and to nothing: whatever else they are, the engine is right.
    ///
    /// # Panics
    /// When one of them leaves no progress.
    pub fn assert(&self) {
        let steps = [
            self.checkpoint_pages,
            self.released_pages,
            self.clean_reserve_divisor,
            self.clean_min_segments,
            self.flush_slots,
            self.flush_frames,
            self.recompress_windows,
            self.recompress_leaves,
            self.index_rebuild_frames,
            self.reads_in_flight,
            self.read_pages,
            self.appends_in_flight,
            self.batch_pieces,
            self.stripes_in_flight,
            self.replay_records,
        ];
        assert!(steps.iter().all(|step| *step > 0), "a step of nothing never ends: {self:?}");
        let divisors = [
            self.trim_divisor,
            self.trim_min_divisor,
            self.credit_quantum_divisor,
            self.backpressure_divisor,
            self.journal_density_max,
        ];
        assert!(divisors.iter().all(|divisor| *divisor > 0), "a part of nothing: {self:?}");
        assert!(self.index_rebuild_pages > 0 && self.fruitless_rounds_max > 0, "{self:?}");
        assert!(self.journal_kept_divisor > 1, "all of the journal is kept for the first writes: {self:?}");
        assert!(
            self.object_part_bytes >= 1024,
            "the superblock has no room for so many parts of the root: {self:?}"
        );
        assert!(self.batch_pieces <= 1000, "a vectored write takes 1024 pieces: {self:?}");
    }
}
