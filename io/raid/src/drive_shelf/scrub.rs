//! Scrub: every sector of every live segment is read and verified, parity is computed again and compared, and what is
//! wrong is written again.

use super::DriveShelf;
use super::read::How;
use crate::{ALIGN, AlignedBuf};
use shelf::pool::ScrubReport;
use std::sync::atomic::Ordering;

/// A rebuild gets so many times as many bytes a second: what is at risk can't wait.
const UNHURRIED: u64 = 4;

impl DriveShelf {
    /// Reads everything that is in use once, at the pace of the background, and repairs what is wrong.
    pub async fn scrub(&self) -> ScrubReport {
        self.scrub_from(0, |_, _| true).await
    }

    /// As [`DriveShelf::scrub`], from a segment on. `step` is told before each segment its number and what was seen so
    /// far, and ends the scrub by answering false. To be polled to its end: a segment that is read waits for nobody else.
    pub async fn scrub_from(
        &self,
        from: u32,
        mut step: impl FnMut(u32, &ScrubReport) -> bool,
    ) -> ScrubReport {
        let mut report = ScrubReport::default();
        let count = self.segments.lock().list.len() as u32;
        for segment in from..count {
            if self.check_running().is_err() || !step(segment, &report) {
                break;
            }
            self.scrub_segment(segment, &mut report).await;
        }
        tracing::info!(?report, "scrubbed");
        report
    }

    pub(super) async fn scrub_segment(&self, segment: u32, report: &mut ScrubReport) {
        self.alone(segment, self.scrub_rows(segment, report)).await;
    }

    async fn scrub_rows(&self, segment: u32, report: &mut ScrubReport) {
        let found = {
            let segments = self.segments.lock();
            let found = &segments.list[segment as usize];
            found.entry.clone().map(|entry| (entry, found.answered))
        };
        let Some((entry, rows)) = found else { return };
        let chunk = self.plan.chunk_pages(entry.form);
        let data = usize::from(entry.form.data);
        report.segments += 1;
        for row in 0..rows {
            let mut found = self.read_row(&entry, (row, 0, chunk), How { all: true, patient: true }).await;
            if found.never_was() || (found.unread && !found.lost.is_empty()) {
                continue;
            }
            report.bytes += u64::from(chunk) * ALIGN as u64 * entry.form.width() as u64;
            if found.lost.is_empty() {
                // With the data certain, parity is what it gives.
                let stripe = self.restripe(&found.data, &entry);
                for which in 0..usize::from(entry.form.parity) {
                    let column = &stripe[(data + which) * chunk as usize * ALIGN..][..chunk as usize * ALIGN];
                    for page in 0..chunk {
                        let range = page as usize * ALIGN..(page as usize + 1) * ALIGN;
                        let given = found.parity(&entry, which).and_then(|bytes| bytes.get(range.clone()));
                        if given != Some(&column[range]) {
                            found.wrong.push((data + which, page));
                        }
                    }
                    let mut right = AlignedBuf::with_capacity(column.len());
                    right.push(column);
                    found.data.push(right);
                }
            }
            // What is on a drive that is out is not wrong but gone: it is healed, not repaired.
            found.wrong.retain(|(part, _)| {
                entry.column(row, *part).is_some_and(|column| self.member(usize::from(column.slot)).is_some())
            });
            report.errors += found.wrong.len() as u64;
            report.lost += found.lost.len() as u64;
            self.counters.lost.fetch_add(found.lost.len() as u64, Ordering::Relaxed);
            report.repaired += self.repair(&entry, &found).await;
            let bytes: usize = found.data.iter().map(|column| column.len()).sum();
            self.background.spend(UNHURRIED * bytes as u64).await;
        }
    }
}

#[cfg(test)]
#[path = "scrub_test.rs"]
mod tests;
