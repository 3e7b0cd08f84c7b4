//! Reading: every sector is verified, and what a drive can't give comes from the other columns.

use super::{DriveShelf, Member};
use crate::parity::{Known, reconstruct};
use crate::sector::{PAYLOAD_BYTES, Position};
use crate::segment_map::Entry;
use crate::{ALIGN, AlignedBuf, Done, Error, Result, wait};
use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pages of one column of one row that are contiguous on a drive and in the payload.
#[derive(Clone, Copy, Debug)]
struct Piece {
    row: u32,
    /// The data column.
    part: usize,
    /// First page within the chunk.
    page: u32,
    pages: u32,
    /// First page within the segment's payload.
    first: u32,
}

/// Some pages of every column of a row, as read, and what is correct of them.
pub(super) struct Row {
    pub row: u32,
    /// First page within the chunk, and the number of pages.
    pub page: u32,
    pub pages: u32,
    /// As read from the drive of each part, data first, then parities.
    given: Vec<Option<Bytes>>,
    /// Sectors of payload that should be there.
    expected: usize,
    /// A drive that may have some of the pages did not return them: what is lost now may be readable later.
    pub unread: bool,
    /// The data columns, corrected.
    pub data: Vec<AlignedBuf>,
    /// Pages that could not be corrected: part and page.
    pub lost: Vec<(usize, u32)>,
    /// Pages that are wrong or missing on a drive that should have them: part and page.
    pub wrong: Vec<(usize, u32)>,
}

impl DriveShelf {
    /// The pieces of a segment's columns that hold pages `first..first + count` of its payload.
    fn pieces(&self, entry: &Entry, first: u32, count: u32) -> SmallVec<[Piece; 2]> {
        let (stripe, chunk) = (self.plan.stripe_pages, self.plan.chunk_pages(entry.profile));
        let (mut next, end) = (first, first + count);
        let mut pieces = SmallVec::new();
        while next < end {
            let (row, within) = (next / stripe, next % stripe);
            let (part, page) = (within / chunk, within % chunk);
            let pages = (end - next).min(chunk - page).min(stripe - within);
            pieces.push(Piece { row, part: part as usize, page, pages, first: next });
            next += pages;
        }
        pieces
    }

    /// Reads the payload; `in_background` if it is to be verified on the workers.
    pub(super) fn read_payload(
        &self,
        segment: u32,
        offset: u32,
        len: u32,
        in_background: bool,
        done: Done<Bytes>,
    ) {
        let entry = {
            let segments = self.segments.lock();
            let end = u64::from(offset) + u64::from(len);
            let exists = end <= u64::from(self.plan.rows) * u64::from(self.plan.stripe_bytes());
            segments.list.get(segment as usize).filter(|_| exists).and_then(|found| found.entry.clone())
        };
        let Some(entry) = entry else {
            let what = format!("{len} bytes at {offset} of segment {segment} were never written");
            return done(Err(Error::Corrupt { what }));
        };
        if len == 0 {
            return done(Ok(Bytes::new()));
        }
        self.counters.foreground.fetch_add(1, Ordering::Relaxed);
        let (first, last) = (offset / PAYLOAD_BYTES as u32, (offset + len - 1) / PAYLOAD_BYTES as u32);
        let pieces = self.pieces(&entry, first, last - first + 1);
        let whole = Wanted { segment, offset, len };
        let members: Option<SmallVec<[Arc<Member>; 2]>> = pieces
            .iter()
            .map(|piece| {
                let column = entry.column(piece.row, piece.part)?;
                self.member(usize::from(column.slot)).filter(|member| !member.is_read_avoided())
            })
            .collect();
        let Some(members) = members else { return self.reconstruct_read(whole, done) };
        let (me, held, found) = (self.me.clone(), entry.clone(), pieces.clone());
        let finish = move |outcome: Result<Parts>| {
            let Some(shelf) = me.upgrade() else { return drop(done) };
            let parts = outcome.unwrap_or_default();
            match shelf.assemble(&held, &found, &parts, whole) {
                Some(payload) => done(Ok(payload)),
                None => shelf.reconstruct_read(whole, done),
            }
        };
        let workers = in_background.then(|| self.workers());
        let finish: Done<Parts> = match workers {
            Some(workers) => Box::new(move |outcome| workers.run(move || finish(outcome))),
            None => Box::new(finish),
        };
        let gather = super::gather::Gather::new(pieces.len(), smallvec![Bytes::new(); pieces.len()], finish);
        for (index, (piece, member)) in pieces.into_iter().zip(members).enumerate() {
            let column = entry.column(piece.row, piece.part).expect("its member was found");
            let at = self.plan.page_at(entry.profile, column.granule, piece.row, piece.page);
            let gather = gather.clone();
            let part: Done<Bytes> =
                Box::new(move |read| gather.part(read, |parts: &mut Parts, pages| parts[index] = pages));
            member.read(at, piece.pages * ALIGN as u32, part);
        }
    }

    /// The wanted range of pieces as they were read; `None` if a part is missing or a sector is not what was written.
    fn assemble(&self, entry: &Entry, pieces: &[Piece], parts: &[Bytes], wanted: Wanted) -> Option<Bytes> {
        // Exactly what is wanted, so that it becomes `Bytes` without another allocation; pages are decrypted in place.
        let spare = if self.keyring.sectors(entry.salt).is_clear() { 0 } else { PAYLOAD_BYTES };
        let mut payload = Vec::with_capacity(wanted.len as usize + spare);
        let is_whole = pieces.len() == parts.len()
            && pieces
                .iter()
                .zip(parts)
                .all(|(piece, pages)| self.copy_out(entry, piece.first, pages, wanted, &mut payload));
        (is_whole && payload.len() == wanted.len as usize).then(|| payload.into())
    }

    /// Verifies pages and adds their part of the wanted range to the payload; false if one is wrong.
    fn copy_out(
        &self,
        entry: &Entry,
        first: u32,
        pages: &[u8],
        wanted: Wanted,
        payload: &mut Vec<u8>,
    ) -> bool {
        let sectors = self.keyring.sectors(entry.salt);
        for (page, sector) in (first..).zip(pages.chunks_exact(ALIGN)) {
            let position = Position { generation: entry.generation, page };
            let start = page * PAYLOAD_BYTES as u32;
            let from = wanted.offset.max(start) - start;
            let to = (wanted.offset + wanted.len).min(start + PAYLOAD_BYTES as u32) - start;
            let range = from as usize..to as usize;
            if sectors.is_clear() {
                if !sectors.verify(position, sector) {
                    return false;
                }
                payload.extend_from_slice(&sector[range]);
                continue;
            }
            // Decrypted in place, and then what is around the range is taken away.
            let at = payload.len();
            payload.resize(at + PAYLOAD_BYTES, 0);
            if !sectors.read(position, sector, &mut payload[at..]) {
                return false;
            }
            payload.truncate(at + range.end);
            payload.drain(at..at + range.start);
        }
        true
    }

    /// The payload of a whole row that was read; `None` if a page of it is lost.
    pub(super) fn row_payload(&self, segment: u32, entry: &Entry, found: &Row) -> Option<Bytes> {
        let (stripe, len) = (self.plan.stripe_pages, self.plan.stripe_bytes());
        let wanted = Wanted { segment, offset: found.row * len, len };
        let mut payload = Vec::with_capacity(len as usize + PAYLOAD_BYTES);
        for piece in self.pieces(entry, found.row * stripe, stripe) {
            let pages = found.data.get(piece.part)?.get(..piece.pages as usize * ALIGN)?;
            if found.lost.iter().any(|(part, _)| *part == piece.part)
                || !self.copy_out(entry, piece.first, pages, wanted, &mut payload)
            {
                return None;
            }
        }
        Some(payload.into())
    }

    /// Degraded read: reconstructs from the other columns what a drive can't give.
    fn reconstruct_read(&self, wanted: Wanted, done: Done<Bytes>) {
        self.spawn(|shelf| async move { done(shelf.read_with_parity(wanted).await) });
    }

    async fn read_with_parity(&self, wanted: Wanted) -> Result<Bytes> {
        let Wanted { segment, offset, len } = wanted;
        let (first, last) = (offset / PAYLOAD_BYTES as u32, (offset + len - 1) / PAYLOAD_BYTES as u32);
        let mut failure = None;
        let mut mode = ReadMode { with_parity: false, long_timeout: false };
        // It ends: a segment moves only as often as drives fail or space is found for it.
        loop {
            let entry = self.segments.lock().list[segment as usize].entry.clone();
            let Some(entry) = entry else { break };
            let mut payload = Vec::with_capacity(len as usize);
            let (mut lost, mut unread) = (None, false);
            for piece in self.pieces(&entry, first, last - first + 1) {
                let row = self.read_row(&entry, (piece.row, piece.page, piece.pages), mode).await;
                unread |= row.unread;
                let within = |page: &u32| (piece.page..piece.page + piece.pages).contains(page);
                lost = row.lost.iter().find(|(part, page)| *part == piece.part && within(page)).copied();
                if lost.is_some()
                    || !self.copy_out(&entry, piece.first, &row.data[piece.part], wanted, &mut payload)
                {
                    let what = format!("page {} of segment {segment} can't be reconstructed", piece.first);
                    lost.get_or_insert((piece.part, piece.page));
                    failure = Some(Error::Corrupt { what });
                    break;
                }
                if row.found_wrong() {
                    self.background.queue_repair(segment);
                }
            }
            if lost.is_none() {
                assert!(payload.len() == len as usize, "the pieces are all of the range");
                return Ok(payload.into());
            }
            let now = self.segments.lock().list[segment as usize].entry.clone();
            let moved =
                now.is_none_or(|now| now.columns != entry.columns || now.generation != entry.generation);
            if !moved && (mode.long_timeout || !unread) {
                break;
            }
            mode.long_timeout = true;
        }
        Err(failure.unwrap_or(Error::Corrupt { what: format!("segment {segment} was discarded") }))
    }

    /// Reads some pages of every column of a row and corrects the data columns as far as parity allows. Parity is read
    /// only if it is needed, or if `mode` says so.
    pub(super) async fn read_row(
        &self,
        entry: &Entry,
        (row, page, pages): (u32, u32, u32),
        mode: ReadMode,
    ) -> Row {
        let (data, width) = (usize::from(entry.profile.data), entry.profile.width());
        let mut given: Vec<Option<Bytes>> = vec![None; width];
        let unread = self.read_parts(entry, (row, page, pages), 0..data, mode, &mut given).await;
        let mut found = self.verify_row(entry, (row, page, pages), given, unread);
        if (mode.with_parity || !found.wrong.is_empty()) && width > data {
            let mut given = std::mem::take(&mut found.given);
            found.unread |= self.read_parts(entry, (row, page, pages), data..width, mode, &mut given).await;
            found.given = given;
        }
        if !found.wrong.is_empty() {
            self.counters.reconstructed.fetch_add(1, Ordering::Relaxed);
            self.reconstruct_pages(entry, &mut found);
        }
        found
    }

    /// True if a drive that should have some pages is missing, did not complete in time, or returned an error.
    async fn read_parts(
        &self,
        entry: &Entry,
        (row, page, pages): (u32, u32, u32),
        parts: std::ops::Range<usize>,
        mode: ReadMode,
        given: &mut [Option<Bytes>],
    ) -> bool {
        let (mut waits, mut unread) = (Vec::new(), false);
        for part in parts {
            let Some(column) = entry.column(row, part) else { continue };
            let member = self.member(usize::from(column.slot));
            // Slow drives are skipped at first; with the long timeout all are read.
            let Some(member) = member.filter(|member| mode.long_timeout || !member.is_read_avoided()) else {
                unread = true;
                continue;
            };
            let at = self.plan.page_at(entry.profile, column.granule, row, page);
            let len = pages * ALIGN as u32;
            let read = if mode.long_timeout {
                member.read_with_write_timeout(at, len)
            } else {
                let (done, read) = wait();
                member.read(at, len, done);
                read
            };
            waits.push((part, member, read));
        }
        for (part, member, read) in waits {
            match read.await {
                Ok(bytes) => given[part] = Some(bytes),
                Err(cause) => {
                    unread = true;
                    member.counters.read_errors.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%cause, "a read is served from other drives");
                }
            }
        }
        unread
    }

    /// The position of a data page of a row; `None` after the end of the stripe, where there are only zeros.
    pub(super) fn position(&self, entry: &Entry, row: u32, part: usize, page: u32) -> Option<Position> {
        let within = part as u32 * self.plan.chunk_pages(entry.profile) + page;
        let number = row * self.plan.stripe_pages + within;
        (within < self.plan.stripe_pages).then_some(Position { generation: entry.generation, page: number })
    }

    /// Verifies every sector that was read.
    fn verify_row(
        &self,
        entry: &Entry,
        (row, page, pages): (u32, u32, u32),
        given: Vec<Option<Bytes>>,
        unread: bool,
    ) -> Row {
        let (data, lost, wrong) = (Vec::new(), Vec::new(), Vec::new());
        let sectors = self.keyring.sectors(entry.salt);
        let mut found = Row { row, page, pages, given, expected: 0, unread, data, lost, wrong };
        for part in 0..usize::from(entry.profile.data) {
            let mut column = AlignedBuf::zeroed(pages as usize * ALIGN);
            for (index, number) in (page..page + pages).enumerate() {
                let Some(position) = self.position(entry, row, part, number) else { continue };
                found.expected += 1;
                let range = index * ALIGN..(index + 1) * ALIGN;
                let sector = found.given[part].as_ref().and_then(|bytes| bytes.get(range.clone()));
                match sector.filter(|sector| sectors.verify(position, sector)) {
                    Some(sector) => column[range].copy_from_slice(sector),
                    None => found.wrong.push((part, number)),
                }
            }
            found.data.push(column);
        }
        found
    }

    /// Reconstructs wrong pages from the others, page by page; one that fails its check afterwards is lost.
    fn reconstruct_pages(&self, entry: &Entry, found: &mut Row) {
        let data = usize::from(entry.profile.data);
        let sectors = self.keyring.sectors(entry.salt);
        for index in 0..found.pages {
            let number = found.page + index;
            let range = index as usize * ALIGN..(index as usize + 1) * ALIGN;
            let wrong: Vec<usize> =
                found.wrong.iter().filter(|(_, page)| *page == number).map(|(part, _)| *part).collect();
            if wrong.is_empty() {
                continue;
            }
            let parity = |which: usize| {
                found.given.get(data + which).and_then(|bytes| bytes.as_ref()?.get(range.clone()))
            };
            let columns: Vec<Option<&[u8]>> = (0..data)
                .map(|part| (!wrong.contains(&part)).then(|| &found.data[part][range.clone()]))
                .collect();
            // One page can be computed from either parity, and one of the parities may be wrong.
            let tries = [(parity(0), None), (None, parity(1)), (parity(0), parity(1))];
            let right = tries.into_iter().find_map(|(p, q)| {
                let pages = reconstruct(&Known { data: &columns, p, q }, ALIGN)?;
                let fits = wrong.iter().zip(&pages).all(|(part, page)| {
                    let position = self.position(entry, found.row, *part, number);
                    position.is_none_or(|position| sectors.verify(position, page))
                });
                fits.then_some(pages)
            });
            match right {
                Some(pages) => {
                    for (part, page) in wrong.iter().zip(pages) {
                        found.data[*part][range.clone()].copy_from_slice(&page);
                    }
                }
                None => found.lost.extend(wrong.into_iter().map(|part| (part, number))),
            }
        }
    }

    /// Writes corrected pages back to the drives where they were wrong.
    pub(super) async fn repair(&self, entry: &Entry, found: &Row) -> u64 {
        let mut waits = Vec::new();
        for (part, page) in &found.wrong {
            let Some(column) = entry.column(found.row, *part) else { continue };
            let Some(member) = self.member(usize::from(column.slot)) else { continue };
            if found.lost.contains(&(*part, *page)) || member.is_overdue() {
                continue;
            }
            let Some(right) = found.data.get(*part) else { continue };
            let index = (page - found.page) as usize;
            let mut sector = AlignedBuf::with_capacity(ALIGN);
            sector.push(&right[index * ALIGN..(index + 1) * ALIGN]);
            let at = self.plan.page_at(entry.profile, column.granule, found.row, *page);
            member.counters.bad_pages.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(drive = member.name(), at, "a page was not what had been written: written again");
            waits.push((member.clone(), member.write_page(at, Arc::new(sector).share(0..ALIGN))));
        }
        let mut repaired = 0;
        for (member, written) in waits {
            match written.await {
                Ok(()) => repaired += 1,
                // It is as wrong as before, and the next scrub finds it again.
                Err(Error::NoSpace { what }) => tracing::warn!(what, "a page can't be written again"),
                Err(cause) => self.fail_drive(member.slot, &cause),
            }
        }
        self.counters.repaired.fetch_add(repaired, Ordering::Relaxed);
        repaired
    }
}

impl Row {
    /// True if no sector of it is correct: it was in flight at a crash, and nothing refers to it.
    pub(super) fn never_was(&self) -> bool {
        self.lost.len() == self.expected
    }

    /// True if a drive returned something else than was written, and not just nothing.
    fn found_wrong(&self) -> bool {
        self.wrong.iter().any(|(part, _)| self.given.get(*part).is_some_and(Option::is_some))
    }

    /// Parity as read from its drive.
    pub(super) fn parity(&self, entry: &Entry, which: usize) -> Option<&[u8]> {
        self.given.get(usize::from(entry.profile.data) + which)?.as_deref()
    }
}

/// How a row is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadMode {
    /// Reads the parities even if they are not needed.
    pub with_parity: bool,
    /// Waits for slow drives instead of reconstructing without them.
    pub long_timeout: bool,
}

/// What was read of each piece.
type Parts = SmallVec<[Bytes; 2]>;

#[derive(Clone, Copy, Debug)]
struct Wanted {
    segment: u32,
    offset: u32,
    len: u32,
}
