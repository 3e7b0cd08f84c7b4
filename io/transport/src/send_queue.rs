//! Sending half of a connection: a queue of bytes for vectored writes.
//!
//! Headers and short data are copied one after the other into one buffer; long data is queued as it is, shared.

use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Data up to this length are cheaper to copy than to pass to a vectored write as a slice.
const MAX_COPIED_BYTES: usize = 512;
/// Beyond this many unsent bytes, pieces up to [`PINNING_BYTES`] are copied: a shared piece may keep a much larger
/// buffer allocated, which an initiator that does not read must not cause.
const BACKLOG_BYTES: usize = 256 << 10;
const PINNING_BYTES: usize = 16 << 10;
/// Pieces given to one vectored write; the system's limit is 1024.
const MAX_SLICES: usize = 512;
/// The header buffer is compacted when this much of its start has been sent.
const COMPACT_BYTES: usize = 64 << 10;
/// Capacity that an empty queue may keep, in bytes.
const MAX_KEPT_BYTES: usize = 256 << 10;

enum Chunk {
    /// Bytes `from..to` of the stream of all headers.
    Head {
        from: u64,
        to: u64,
    },
    Body(Bytes),
}

/// The sending half of a connection.
#[derive(Default)]
pub struct SendQueue {
    heads: Vec<u8>,
    /// Position of `heads[0]` in the stream of all headers.
    heads_at: u64,
    chunks: VecDeque<Chunk>,
    queued: usize,
    /// Bytes sent since the connection began.
    sent: u64,
}

impl SendQueue {
    /// Number of unsent bytes.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Bytes sent since the connection began.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// True if there are no unsent bytes.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Queues a piece of data: short ones are copied, others are shared.
    pub fn push(&mut self, part: &Bytes) {
        let copied = if self.queued > BACKLOG_BYTES { PINNING_BYTES } else { MAX_COPIED_BYTES };
        if part.len() <= copied {
            self.copy(part);
        } else {
            self.queued += part.len();
            self.chunks.push_back(Chunk::Body(part.clone()));
        }
    }

    /// Queues a copy of bytes.
    pub fn copy(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let from = self.heads_at + self.heads.len() as u64;
        let end = from + bytes.len() as u64;
        self.heads.extend_from_slice(bytes);
        self.queued += bytes.len();
        match self.chunks.back_mut() {
            Some(Chunk::Head { to, .. }) if *to == from => *to = end,
            _ => self.chunks.push_back(Chunk::Head { from, to: end }),
        }
    }

    /// The first queued bytes, for one vectored write.
    pub fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]> {
        let bytes = |chunk| match chunk {
            &Chunk::Head { from, to } => {
                &self.heads[(from - self.heads_at) as usize..(to - self.heads_at) as usize]
            }
            Chunk::Body(bytes) => bytes,
        };
        self.chunks.iter().take(MAX_SLICES).map(|chunk| IoSlice::new(bytes(chunk))).collect()
    }

    /// Removes the first `sent` bytes.
    pub fn advance(&mut self, mut sent: usize) {
        self.queued -= sent;
        self.sent += sent as u64;
        while sent > 0 {
            let Some(chunk) = self.chunks.front_mut() else { break };
            let len = match chunk {
                Chunk::Head { from, to } => (*to - *from) as usize,
                Chunk::Body(bytes) => bytes.len(),
            };
            if sent < len {
                match chunk {
                    Chunk::Head { from, .. } => *from += sent as u64,
                    Chunk::Body(bytes) => drop(bytes.split_to(sent)),
                }
                break;
            }
            sent -= len;
            self.chunks.pop_front();
        }
        self.compact();
    }

    fn compact(&mut self) {
        let first = self.chunks.iter().find_map(|chunk| match chunk {
            Chunk::Head { from, .. } => Some(*from),
            Chunk::Body(_) => None,
        });
        let end = self.heads_at + self.heads.len() as u64;
        let sent = (first.unwrap_or(end) - self.heads_at) as usize;
        if sent == self.heads.len() || sent >= COMPACT_BYTES {
            self.heads.drain(..sent);
            self.heads_at += sent as u64;
        }
        if self.heads.is_empty() {
            self.heads.shrink_to(MAX_KEPT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_headers_are_dropped() {
        let mut queue = SendQueue::default();
        for _ in 0..5000 {
            for _ in 0..8 {
                queue.copy(&[1; 48]);
                queue.push(&Bytes::from_static(&[2; 4096]));
            }
            let half = queue.len() / 2;
            queue.advance(half);
            while queue.len() > 100_000 {
                queue.advance(7000);
            }
            assert!(queue.heads.len() < 300_000);
        }
    }
}
