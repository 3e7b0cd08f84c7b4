//! Encoding of PDUs into the send queue of a connection, with digests and the alignment that the host asked for.

use super::{
    COMMON_BYTES, DATA_DIGEST, Digests, HEADER_DIGEST, LAST_PDU, MAX_H2C_DATA_BYTES, MAX_HEADER_BYTES,
    MAX_TERMINATED_BYTES, SUCCESS, Termination, kind,
};
use block::Data;
use smallvec::SmallVec;
use std::io::IoSlice;
use transport::{SendQueue, digest, digest_of_parts};

const DIGEST_BYTES: usize = 4;

/// The sending half of a connection.
#[derive(Default)]
pub(crate) struct Outgoing {
    queue: SendQueue,
    digests: Digests,
    /// Alignment of data in a PDU in bytes, from HPDA; a multiple of four.
    alignment: usize,
}

impl Outgoing {
    /// Notes the end of the initialization: digests and alignment of the PDUs that follow.
    pub(crate) fn greeted(&mut self, digests: Digests, alignment: usize) {
        (self.digests, self.alignment) = (digests, alignment);
    }

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

    pub(crate) fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]> {
        self.queue.slices()
    }

    pub(crate) fn advance(&mut self, sent: usize) {
        self.queue.advance(sent);
    }

    /// ICResp (3.6.2.2) with the agreed digests; CPDA is zero, so hosts do not pad.
    pub(crate) fn initialize_response(&mut self, digests: Digests) {
        let mut header = [0; 128];
        common(&mut header, kind::IC_RESP, 0);
        header[11] = u8::from(digests.header) | u8::from(digests.data) << 1;
        header[12..16].copy_from_slice(&(MAX_H2C_DATA_BYTES as u32).to_le_bytes());
        header[4..8].copy_from_slice(&128_u32.to_le_bytes());
        self.queue.copy(&header);
    }

    /// C2HTermReq (3.6.2.4), without digests.
    pub(crate) fn terminate(&mut self, termination: &Termination) {
        let mut header = [0; 24];
        common(&mut header, kind::C2H_TERM_REQ, 0);
        header[8..10].copy_from_slice(&(termination.error as u16).to_le_bytes());
        header[10..14].copy_from_slice(&termination.information.to_le_bytes());
        let came = &termination.header[..termination.header.len().min(MAX_TERMINATED_BYTES)];
        header[4..8].copy_from_slice(&((24 + came.len()) as u32).to_le_bytes());
        self.queue.copy(&header);
        self.queue.copy(came);
    }

    /// CapsuleResp (3.6.2.6)
    pub(crate) fn response(&mut self, completion: &[u8; 16]) {
        let mut header = [0; 24];
        common(&mut header, kind::CAPSULE_RESP, 0);
        header[COMMON_BYTES..].copy_from_slice(completion);
        self.push(&mut header, &Data::new());
    }

    /// R2T (3.6.2.9)
    pub(crate) fn ready_to_transfer(&mut self, cid: u16, tag: u16, bytes: u32) {
        let mut header = [0; 24];
        common(&mut header, kind::R2T, 0);
        header[8..10].copy_from_slice(&cid.to_le_bytes());
        header[10..12].copy_from_slice(&tag.to_le_bytes());
        header[16..20].copy_from_slice(&bytes.to_le_bytes());
        self.push(&mut header, &Data::new());
    }

    /// C2HData (3.6.2.8) with all data of a command. `success` replaces its completion.
    pub(crate) fn data(&mut self, cid: u16, data: &Data, success: bool) {
        let mut header = [0; 24];
        common(&mut header, kind::C2H_DATA, LAST_PDU | if success { SUCCESS } else { 0 });
        header[8..10].copy_from_slice(&cid.to_le_bytes());
        header[16..20].copy_from_slice(&(data.len() as u32).to_le_bytes());
        self.push(&mut header, data);
    }

    /// Queues a PDU and sets its digest flags, lengths and data offset.
    fn push(&mut self, header: &mut [u8], data: &Data) {
        let mut at = header.len();
        if self.digests.header {
            header[1] |= HEADER_DIGEST;
            at += DIGEST_BYTES;
        }
        let mut padding = 0;
        let mut end = at;
        if !data.is_empty() {
            padding = at.next_multiple_of(self.alignment.max(4)) - at;
            header[3] = (at + padding) as u8;
            end = at + padding + data.len();
            if self.digests.data {
                header[1] |= DATA_DIGEST;
                end += DIGEST_BYTES;
            }
        }
        header[4..8].copy_from_slice(&(end as u32).to_le_bytes());
        self.queue.copy(header);
        if self.digests.header {
            self.queue.copy(&digest(header));
        }
        if data.is_empty() {
            return;
        }
        self.queue.copy(&[0; MAX_HEADER_BYTES][..padding]);
        data.parts().for_each(|part| self.queue.push(part));
        if self.digests.data {
            self.queue.copy(&digest_of_parts(data.parts().map(|part| &part[..])));
        }
    }
}

/// The common header, without the length of the PDU.
fn common(header: &mut [u8], kind: u8, flags: u8) {
    header[0] = kind;
    header[1] = flags;
    header[2] = header.len() as u8;
}
