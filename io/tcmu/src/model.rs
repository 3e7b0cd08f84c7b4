//! The kernel's side of a ring, as a model for tests: it appends commands with their data, and checks the responses.

use crate::area::Area;
use std::collections::BTreeMap;

/// Offset of the ring, as in the kernel.
const OFFSET: u32 = 128;
const PAGE: usize = 4096;

/// Completion of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// SCSI status.
    pub status: u8,
    /// The length of Data-In, if it was reported.
    pub length: Option<u32>,
    /// The sense buffer.
    pub sense: [u8; 96],
    /// Content of its pages in the data area.
    pub data: Vec<u8>,
}

/// The kernel's side of a device.
pub struct Kernel {
    area: Area,
    bytes: u32,
    head: u32,
    cleaned: u32,
    /// The commands in the ring, with their pages.
    commands: BTreeMap<u16, Pages>,
    free: Vec<usize>,
    next_id: u16,
}

/// Pages of the data area, and the number of bytes that a command uses.
type Pages = (Vec<usize>, usize);

impl Kernel {
    /// A device with a ring of `bytes` and a data area of `pages`.
    ///
    /// # Panics
    /// Like all functions of this model, if the other side violates the protocol.
    pub fn new(bytes: u32, pages: usize) -> Kernel {
        let area = Area::in_memory((OFFSET + bytes) as usize + pages * PAGE);
        let mut mailbox = [0; 12];
        mailbox[..4].copy_from_slice(&[2, 0, 0x0F, 0]);
        mailbox[4..8].copy_from_slice(&OFFSET.to_le_bytes());
        mailbox[8..12].copy_from_slice(&bytes.to_le_bytes());
        let mut kernel = Kernel {
            area,
            bytes,
            head: 0,
            cleaned: 0,
            commands: BTreeMap::new(),
            free: (0..pages).rev().collect(),
            next_id: 1,
        };
        kernel.put(0, &mailbox);
        kernel
    }

    /// The memory of the device.
    pub fn area(&self) -> Area {
        self.area.clone()
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.area.write(at, bytes).expect("the kernel writes into its area");
    }

    fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut out = [0; N];
        self.area.read(at, &mut out).expect("the kernel reads from its area");
        out
    }

    fn page_at(&self, page: usize) -> u64 {
        u64::from(OFFSET + self.bytes) + (page * PAGE) as u64
    }

    /// Free bytes of the ring.
    fn room(&self) -> u32 {
        self.bytes - (self.head + self.bytes - self.cleaned) % self.bytes - 8
    }

    /// Appends an entry, after a filler if it does not fit before the end. Returns false if there is no room.
    fn append(&mut self, entry: &mut [u8], operation: u32) -> bool {
        let length = entry.len() as u32;
        let to_end = self.bytes - self.head;
        let wanted = if to_end >= length { length } else { to_end + length };
        if self.room() < wanted {
            return false;
        }
        if to_end < length {
            self.put(u64::from(OFFSET + self.head), &[&to_end.to_le_bytes()[..], &[0; 4]].concat());
            self.head = 0;
        }
        entry[..4].copy_from_slice(&(length | operation).to_le_bytes());
        self.put(u64::from(OFFSET + self.head), entry);
        self.head = (self.head + length) % self.bytes;
        self.area.store(12, self.head).expect("the head is in the area");
        true
    }

    /// Appends a command with Data-Out or with room for Data-In, filled with `data` in both cases. Returns its
    /// identifier, or `None` if there is no room.
    pub fn command(&mut self, cdb: &[u8], data: &[u8]) -> Option<u16> {
        let count = data.len().div_ceil(PAGE);
        if self.free.len() < count {
            return None;
        }
        let pages = self.free.split_off(self.free.len() - count);
        let vectors = 48 + 16 * count;
        let cdb_at = vectors.max(112);
        let mut entry = vec![0; cdb_at + cdb.len().next_multiple_of(8)];
        entry[4..6].copy_from_slice(&self.next_id.to_le_bytes());
        entry[8..12].copy_from_slice(&(count as u32).to_le_bytes());
        for (index, (page, part)) in pages.iter().zip(data.chunks(PAGE)).enumerate() {
            let at = 48 + 16 * index;
            entry[at..at + 8].copy_from_slice(&self.page_at(*page).to_le_bytes());
            entry[at + 8..at + 16].copy_from_slice(&(part.len() as u64).to_le_bytes());
        }
        entry[cdb_at..cdb_at + cdb.len()].copy_from_slice(cdb);
        // The CDB's offset counts from the start of the area. The entry's position is known once fillers are before it.
        let length = entry.len() as u32;
        let begin = if self.bytes - self.head >= length { self.head } else { 0 };
        let place = u64::from(OFFSET + begin) + cdb_at as u64;
        entry[24..32].copy_from_slice(&place.to_le_bytes());
        for (page, part) in pages.iter().zip(data.chunks(PAGE)) {
            self.put(self.page_at(*page), part);
        }
        if !self.append(&mut entry, 1) {
            self.free.extend(pages);
            return None;
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1).max(1);
        let before = self.commands.insert(id, (pages, data.len()));
        assert!(before.is_none(), "identifiers are unique");
        Some(id)
    }

    /// Appends a task management function; false if there is no room.
    pub fn manage(&mut self, function: u8, aborted: &[u16]) -> bool {
        let mut entry = vec![0; (32 + 2 * aborted.len()).next_multiple_of(8)];
        entry[8] = function;
        entry[12..16].copy_from_slice(&(aborted.len() as u32).to_le_bytes());
        for (index, id) in aborted.iter().enumerate() {
            entry[32 + 2 * index..34 + 2 * index].copy_from_slice(&id.to_le_bytes());
        }
        self.append(&mut entry, 2)
    }

    /// Takes the completed commands: responses by identifier.
    pub fn completed(&mut self) -> Vec<(u16, Completion)> {
        let mut out = Vec::new();
        let tail = self.area.load(64).expect("the tail is in the area");
        while self.cleaned != tail {
            let at = u64::from(OFFSET + self.cleaned);
            let word = u32::from_le_bytes(self.get(at));
            if word & 7 == 1 {
                let id = u16::from_le_bytes(self.get(at + 4));
                let (pages, bytes) =
                    self.commands.remove(&id).expect("a response is to a command in the ring");
                let mut data = Vec::new();
                for page in &pages {
                    data.extend_from_slice(&self.get::<PAGE>(self.page_at(*page)));
                }
                data.truncate(bytes);
                self.free.extend(pages);
                let [status] = self.get(at + 8);
                let [flags] = self.get(at + 7);
                assert_eq!(flags & !2, 0, "no other flag is used");
                let length = (flags & 2 != 0).then(|| u32::from_le_bytes(self.get(at + 12)));
                out.push((id, Completion { status, length, sense: self.get(at + 16), data }));
            }
            self.cleaned = (self.cleaned + (word & !7)) % self.bytes;
        }
        out
    }

    /// Commands without a response.
    pub fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// Whether all entries of the ring were taken and responded to.
    pub fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.cleaned == self.head
    }
}
