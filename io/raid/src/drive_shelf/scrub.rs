//! Scrub: reads and verifies every sector of every live segment, recomputes and compares parity, and rewrites what is
//! wrong.
//!
//! Latent sector errors are found while the other columns can still correct them.

use super::DriveShelf;
use super::read::ReadMode;
use crate::{ALIGN, AlignedBuf};
use bytes::Bytes;
use shelf::pool::{ScrubReport, ScrubbedSegment};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Rebuild gets this many times the rate of a scrub: degraded segments can't wait.
const UNHURRIED: u64 = 4;

impl DriveShelf {
    /// Reads everything in use once, at the background rate, and repairs what is wrong.
    pub async fn scrub(&self) -> ScrubReport {
        self.scrub_from(0, |_, _| true).await
    }

    /// As [`DriveShelf::scrub`], from a segment on. `step` is called before each segment with its number and the
    /// findings so far, and ends the scrub by returning false. Workers may have begun later segments by then: those end first.
    pub async fn scrub_from(
        &self,
        from: u32,
        mut step: impl FnMut(u32, &ScrubReport) -> bool,
    ) -> ScrubReport {
        let mut report = ScrubReport::default();
        let count = self.segments.lock().list.len() as u32;
        let (at_once, mut begun) = (self.workers().count(), VecDeque::with_capacity(self.workers().count()));
        let mut rest = from..count;
        for segment in from..count {
            if self.check_running().is_err() || !step(segment, &report) {
                break;
            }
            let begin =
                |segment| self.on_worker(|shelf| async move { shelf.scrub_segment(segment, false).await });
            begun.extend(rest.by_ref().take(at_once - begun.len()).map(begin));
            if let Some(scrubbed) = begun.pop_front() {
                report += scrubbed.await.unwrap_or_default().report;
            }
        }
        for scrubbed in begun {
            report += scrubbed.await.unwrap_or_default().report;
        }
        tracing::info!(?report, "scrubbed");
        report
    }

    /// Scrubs a segment; `with_stripes` if the payload of its rows is wanted.
    pub(super) async fn scrub_segment(&self, segment: u32, with_stripes: bool) -> ScrubbedSegment {
        let mut report = ScrubReport::default();
        let mut stripes = with_stripes.then(Vec::new);
        self.exclusively(segment, self.scrub_rows(segment, &mut report, stripes.as_mut())).await;
        ScrubbedSegment { report, stripes }
    }

    async fn scrub_rows(&self, segment: u32, report: &mut ScrubReport, mut stripes: Option<&mut Vec<Bytes>>) {
        let found = {
            let segments = self.segments.lock();
            let found = &segments.list[segment as usize];
            found.entry.clone().map(|entry| (entry, found.completed))
        };
        let Some((entry, rows)) = found else { return };
        let chunk = self.plan.chunk_pages(entry.profile);
        let data = usize::from(entry.profile.data);
        report.segments += 1;
        for row in 0..rows {
            let mut found = self
                .read_row(&entry, (row, 0, chunk), ReadMode { with_parity: true, long_timeout: true })
                .await;
            if let Some(stripes) = stripes.as_deref_mut() {
                stripes.push(self.row_payload(segment, &entry, &found).unwrap_or_default());
            }
            if found.never_was() || (found.unread && !found.lost.is_empty()) {
                continue;
            }
            report.bytes += u64::from(chunk) * ALIGN as u64 * entry.profile.width() as u64;
            if found.lost.is_empty() {
                // With correct data, parity can be recomputed.
                let stripe = self.restripe(&found.data, &entry);
                for which in 0..usize::from(entry.profile.parity) {
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
            // Pages of a failed drive are not wrong but missing: rebuild restores them.
            found.wrong.retain(|(part, _)| {
                entry.column(row, *part).is_some_and(|column| self.member(usize::from(column.slot)).is_some())
            });
            report.errors += found.wrong.len() as u64;
            report.lost += found.lost.len() as u64;
            self.counters.lost.fetch_add(found.lost.len() as u64, Ordering::Relaxed);
            report.repaired += self.repair(&entry, &found).await;
            let bytes: usize = found.data.iter().map(|column| column.len()).sum();
            // Who wants the payload waits for it.
            if stripes.is_none() {
                self.throttle(segment, UNHURRIED * bytes as u64).await;
            }
        }
    }
}

#[cfg(test)]
#[path = "scrub_test.rs"]
mod tests;
