//! Sequential read-ahead: what a host is about to read is read before it asks, several frames in one piece of the log.
//!
//! Each window that is read ahead is twice as long as the one before; the first frame of a window is marked, and its use
//! asks for the next window, so that the host finds the cache filled as long as it reads in order. When it stops, nothing
//! more is read. Memory is bounded: by the bytes in flight for all streams together, and by the cache, where frames that
//! were read ahead are the first to go.

use crate::catalog::VolumeState;
use crate::cell::Blocks;
use crate::core::Core;
use crate::entry::{BLOCK, BlockId, Entry, FAN, Kind};
use crate::frame;
use crate::map::Seen;
use crate::pages::NumberMap;
use crate::read_streams::InFlight;
use crate::space::Location;
use crate::state::State;
use crate::tunables::Tunables;
use bytes::Bytes;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Blocks of a window for which one piece is read: with fewer it is disordered.
const DISORDERED_BLOCKS: usize = 4;

/// A frame to be read ahead.
#[derive(Clone, Copy, Debug)]
struct Planned {
    number: u64,
    location: Location,
    stored: u8,
    /// Its blocks that are wanted.
    wanted: Blocks,
}

impl Planned {
    /// Memory that its blocks take.
    fn bytes(&self) -> usize {
        self.stored.count_ones() as usize * BLOCK
    }
}

/// Neighbours in the log that are read together, in flight until it is dropped.
struct Piece {
    core: Weak<Core>,
    in_flight: Arc<InFlight>,
    /// All of them.
    location: Location,
    frames: Vec<Planned>,
    /// Bytes of memory that it is counted with.
    bytes: usize,
    /// The frame that begins the window.
    mark: u64,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.in_flight.remove(self.frames.iter().map(|frame| frame.number), self.bytes);
    }
}

impl Piece {
    /// Puts what was read into the cache. What is not right is left to the host that asks for it.
    fn land(self, read: &Bytes) {
        let Some(core) = self.core.upgrade() else { return };
        for frame in &self.frames {
            let from = (frame.location.offset - self.location.offset) as usize;
            let Some(object) = read.get(from..from + frame.location.len as usize) else { return };
            let object = match frame::is_decoded(object) {
                true => read.slice_ref(object),
                // Its blocks are shared, and would keep all of the piece in memory.
                false => Bytes::copy_from_slice(object),
            };
            match frame::unpack(&object, frame.number, frame.wanted) {
                Ok(decoded) if decoded.stored == frame.stored => {
                    core.cache.insert_ahead(frame.number, decoded, frame.number == self.mark);
                }
                _ => {}
            }
        }
    }
}

impl Core {
    /// A host reads blocks that the cache does not have, or that met a mark: reads ahead if the read continues a stream.
    pub fn read_ahead(self: &Arc<Self>, volume: u32, read: Range<u64>, at_mark: bool) {
        let wanted = self.streams.note(&self.options.tunables, &self.cache, volume, read, at_mark);
        let Some(wanted) = wanted.filter(|_| !self.shutdown.has_begun()) else { return };
        let Plan { frames, reached, is_last, .. } = Plan::of(&self.state.read(), volume, wanted.clone());
        if reached < wanted.end {
            self.streams.shorten(volume, wanted.end, reached);
        }
        let pieces = self.pieces(frames);
        if (pieces.len() * DISORDERED_BLOCKS) as u64 > reached - wanted.start {
            let end = if is_last { reached.div_ceil(FAN as u64) } else { wanted.start / FAN as u64 };
            self.note_disorder(volume, (wanted.start / FAN as u64).saturating_sub(1)..end);
        }
        for piece in pieces {
            let Location { offset, len, .. } = piece.location;
            let segment = piece.location.segment();
            let land = move |read: shelf::Result<Bytes>| match read {
                Ok(read) => piece.land(&read),
                Err(_) => drop(piece),
            };
            self.log.shelf().read(segment, offset, len, Box::new(land));
        }
    }

    /// Notes leaves to be joined. A host has read them, or will have at once: until then it reads them as they are.
    fn note_disorder(&self, volume: u32, leaves: Range<u64>) {
        for leaf in leaves {
            if self.streams.disorder.note(volume, leaf, self.options.tunables.join_leaves_max) {
                self.signal.hint();
            }
        }
    }

    /// The pieces of the log to read for these frames, which are in flight from now on. What was written together lies together,
    /// whatever order its volume has it in.
    fn pieces(self: &Arc<Self>, mut planned: Vec<Planned>) -> Vec<Piece> {
        let Tunables { read_ahead_piece_bytes, read_gap_bytes, .. } = self.options.tunables;
        planned.retain(|frame| {
            !self.cache.has(frame.number, frame.wanted)
                && !self.log.is_in_memory(frame.location)
                && self.streams.in_flight.add(frame.number, frame.bytes())
        });
        let Some(mark) = planned.first().map(|frame| frame.number) else { return Vec::new() };
        planned.sort_unstable_by_key(|frame| frame.location);
        let mut pieces: Vec<Piece> = Vec::new();
        for frame in planned {
            let Location { segment, offset, len } = frame.location;
            // What lies between two frames that are written is written, too.
            let joins = pieces.last_mut().filter(|piece| {
                let Location { segment: same, offset: from, len: all } = piece.location;
                same == segment
                    && (from + all..=(from + all).saturating_add(read_gap_bytes)).contains(&offset)
                    && offset - from + len <= read_ahead_piece_bytes
            });
            if let Some(piece) = joins {
                piece.location.len = offset + len - piece.location.offset;
                piece.bytes += frame.bytes();
                piece.frames.push(frame);
                continue;
            }
            let (core, in_flight) = (Arc::downgrade(self), self.streams.in_flight.clone());
            let (location, bytes) = (frame.location, frame.bytes());
            pieces.push(Piece { core, in_flight, location, frames: vec![frame], bytes, mark });
        }
        pieces
    }
}

/// The frames of some blocks of a volume, as far as the metadata in memory says where they are.
struct Plan {
    frames: Vec<Planned>,
    /// Their places by number: what was overwritten within a frame lies in another one.
    places: NumberMap<u64, usize>,
    /// The block after them. What is beyond is planned when the host asks for it, which reads the metadata.
    reached: u64,
    /// It is the end of the volume.
    is_last: bool,
}

impl Plan {
    fn of(state: &State, volume: u32, blocks: Range<u64>) -> Self {
        let mut plan =
            Self { frames: Vec::new(), places: NumberMap::default(), reached: blocks.start, is_last: false };
        let Ok(found) = state.volume(volume) else { return plan };
        let last = VolumeState::blocks(found.geometry);
        let end = blocks.end.min(last);
        if blocks.start >= end {
            return plan;
        }
        let mut is_known = true;
        let _ = state.maps.scan(found.tree, blocks.start, end, &mut |seen| match seen {
            _ if !is_known => {}
            Seen::Hole(_, count) => plan.reached += count,
            Seen::Blocks(entries) => {
                for entry in entries {
                    is_known = plan.add(state, *entry);
                    if !is_known {
                        return;
                    }
                    plan.reached += 1;
                }
            }
        });
        plan.is_last = plan.reached == last;
        plan
    }

    /// Adds the next block; false if the page of the frame table that it needs is not in memory.
    fn add(&mut self, state: &State, entry: Entry) -> bool {
        let Kind::Block(BlockId { frame: number, index }) = state.maps.resolve(entry).kind() else {
            return true;
        };
        let known = self.places.get(&number).and_then(|place| self.frames.get_mut(*place));
        if let Some(frame) = known {
            frame.wanted |= 1 << index;
            return true;
        }
        match state.maps.table.get(number) {
            Ok(Some(frame)) => {
                let (location, stored) = (frame.location, frame.stored);
                self.places.insert(number, self.frames.len());
                self.frames.push(Planned { number, location, stored, wanted: 1 << index });
                true
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }
}
