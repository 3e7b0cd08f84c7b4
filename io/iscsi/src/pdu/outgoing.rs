//! Encoding of PDUs into the send queue of a connection, with digests.

use super::Header;
use bytes::Bytes;
use scsi::Data;
use smallvec::SmallVec;
use std::io::IoSlice;
use transport::{SendQueue, digest, digest_of_parts};

/// The sending half of a connection.
#[derive(Default)]
pub(crate) struct Outgoing {
    queue: SendQueue,
    header_digest: bool,
    data_digest: bool,
}

impl Outgoing {
    /// Sets the negotiated digests for the PDUs that follow.
    pub(crate) fn set_digests(&mut self, header: bool, data: bool) {
        (self.header_digest, self.data_digest) = (header, data);
    }

    /// Number of unsent bytes.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes sent since the connection began.
    pub(crate) fn sent(&self) -> u64 {
        self.queue.sent()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a PDU and sets its DataSegmentLength.
    pub(crate) fn push(&mut self, mut header: Header, data: &Data) {
        header.set_data_bytes(data.len());
        self.queue.copy(&header.0);
        if self.header_digest {
            self.queue.copy(&digest(&header.0));
        }
        if data.is_empty() {
            return;
        }
        let padding = &[0; 3][..(4 - data.len() % 4) % 4];
        data.parts().for_each(|part: &Bytes| self.queue.push(part));
        self.queue.copy(padding);
        if self.data_digest {
            let parts = data.parts().map(|part| &part[..]).chain([padding]);
            self.queue.copy(&digest_of_parts(parts));
        }
    }

    /// The first queued bytes, for one vectored write.
    pub(crate) fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]> {
        self.queue.slices()
    }

    /// Removes the first `sent` bytes.
    pub(crate) fn advance(&mut self, sent: usize) {
        self.queue.advance(sent);
    }
}

#[cfg(test)]
#[path = "outgoing_test.rs"]
mod tests;
