//! R2Ts of a queue by tag: data that the host still has to send, for outstanding commands and for ended ones.

use crate::pdu::{FatalError, Header, LAST_PDU, Termination};
use std::collections::{BTreeMap, VecDeque};

/// R2Ts with missing data.
pub(crate) struct Transfers {
    by_tag: BTreeMap<u16, Transfer>,
    /// Tags of ended commands, in the order of their ends.
    abandoned: VecDeque<u16>,
    /// Maximum number of these tags; the oldest is dropped for another.
    max_abandoned: usize,
    next_tag: u16,
    /// Bytes of data received since the connection began, for commands that had not ended.
    taken: u64,
}

struct Transfer {
    cid: u16,
    received: u32,
    wanted: u32,
    /// The command has ended: the data are discarded.
    is_abandoned: bool,
}

impl Transfers {
    /// An empty set for a queue with this many entries.
    pub(crate) fn new(entries: usize) -> Self {
        let (by_tag, abandoned) = (BTreeMap::new(), VecDeque::new());
        Self { by_tag, abandoned, max_abandoned: entries, next_tag: 0, taken: 0 }
    }

    /// Number of R2Ts.
    pub(crate) fn len(&self) -> usize {
        self.by_tag.len()
    }

    /// Number of R2Ts of commands that have not ended.
    pub(crate) fn wanted(&self) -> usize {
        self.by_tag.len() - self.abandoned.len()
    }

    /// Bytes of data received since the connection began, for commands that had not ended.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds an R2T for this many bytes; returns its tag.
    pub(crate) fn request(&mut self, cid: u16, bytes: u32) -> u16 {
        assert!(
            self.len() <= 2 * self.max_abandoned,
            "there is at most one for each entry and for each that ended"
        );
        while self.by_tag.contains_key(&self.next_tag) {
            self.next_tag = self.next_tag.wrapping_add(1);
        }
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        self.by_tag.insert(tag, Transfer { cid, received: 0, wanted: bytes, is_abandoned: false });
        tag
    }

    /// Notes that the command of an R2T has ended before its data arrived.
    pub(crate) fn abandon(&mut self, tag: u16) {
        let Some(transfer) = self.by_tag.get_mut(&tag) else { return };
        transfer.is_abandoned = true;
        self.abandoned.push_back(tag);
        if self.abandoned.len() > self.max_abandoned
            && let Some(oldest) = self.abandoned.pop_front()
        {
            self.by_tag.remove(&oldest);
        }
    }

    /// Checks that data were requested and arrive in order; returns whether their command is outstanding.
    pub(crate) fn check(&self, header: &Header) -> Result<bool, Termination> {
        let (cid, tag) = (header.u16::<8>(), header.u16::<10>());
        let (offset, bytes) = (header.u32::<12>(), header.u32::<16>());
        let field = |at, detail| Err(Termination::field(header.bytes(), at, detail));
        let Some(transfer) = self.by_tag.get(&tag) else { return field(10, "no R2T with this tag") };
        if transfer.cid != cid {
            return field(8, "another command than that of the R2T");
        }
        if bytes as usize != header.data_bytes || bytes == 0 {
            return field(16, "another length than that of the PDU");
        }
        let wrong = |detail| Err(Termination::other(FatalError::DataOutOfRange, header.bytes(), detail));
        if offset != transfer.received {
            return wrong("data out of order");
        }
        let end = u64::from(transfer.received) + u64::from(bytes);
        let (wanted, is_last) = (u64::from(transfer.wanted), header.flags() & LAST_PDU != 0);
        if end > wanted || is_last != (end == wanted) {
            return wrong("another amount of data than requested");
        }
        Ok(!transfer.is_abandoned)
    }

    /// Counts checked data. Returns their command, unless it has ended, and whether the data are complete.
    pub(crate) fn advance(&mut self, header: &Header) -> Option<(u16, bool)> {
        let (tag, bytes) = (header.u16::<10>(), header.data_bytes as u32);
        let transfer = self.by_tag.get_mut(&tag)?;
        transfer.received += bytes;
        let (cid, is_abandoned) = (transfer.cid, transfer.is_abandoned);
        let is_whole = transfer.received == transfer.wanted;
        if is_whole {
            self.by_tag.remove(&tag);
            if is_abandoned {
                self.abandoned.retain(|known| *known != tag);
            }
        }
        self.taken += if is_abandoned { 0 } else { u64::from(bytes) };
        (!is_abandoned).then_some((cid, is_whole))
    }

    /// Whether a tag belongs to this outstanding command.
    pub(crate) fn is_of(&self, tag: u16, cid: u16) -> bool {
        self.by_tag.get(&tag).is_some_and(|transfer| transfer.cid == cid && !transfer.is_abandoned)
    }
}
