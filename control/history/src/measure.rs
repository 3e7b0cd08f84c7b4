//! Performance samples in three tiers: 1 s for an hour, 10 s for a day, 5 min for a year.
//!
//! A [`Recorder`] receives one sample a second for each active subject and buffers the newest in memory. Every ten
//! seconds it writes one row with the seconds and one with their sum for each active subject, and every five minutes
//! the sum of those. A crash loses at most ten seconds. The subject [`ALL`] has a sample for every second in which the
//! array ran: a time without one is unknown, and a subject without a sample at a known time was idle.

use crate::sample::{Sample, decode, encode};
use crate::store::{Error, Store};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, HashMap};

/// Subject of the samples of the whole array.
pub const ALL: &str = "array";

/// A resolution with its retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    pub(crate) number: i64,
    /// Seconds of one sample.
    pub step: u64,
    /// Seconds of one row.
    row: u64,
    /// Retention in seconds.
    pub keep: u64,
    /// Maximum number of rows of all subjects; the oldest are deleted, but rows of [`ALL`] only by age.
    max_rows: i64,
}

const SECONDS: Tier = Tier { number: 0, step: 1, row: 10, keep: 3600, max_rows: 400_000 };
const TENS: Tier = Tier { number: 1, step: 10, row: 10, keep: 86_400, max_rows: 2_000_000 };
const MINUTES: Tier = Tier { number: 2, step: 300, row: 300, keep: 366 * 86_400, max_rows: 3_000_000 };
pub(crate) const TIERS: [Tier; 3] = [SECONDS, TENS, MINUTES];

/// Minimum number of seconds that the recorder keeps in memory.
const RECENT_S: u64 = 20;

/// Rows that one query may read.
const MAX_ROWS_READ: u64 = 400_000;

/// A time range divided into equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start, in seconds since 1970.
    pub from: u64,
    /// Seconds of a part.
    pub width: u64,
    /// Number of parts.
    pub parts: usize,
    /// The tier that the parts are read from.
    pub tier: Tier,
}

/// Samples for the parts of a span; `None` where nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The parts.
    pub span: Span,
    /// One sample for each part; its `millis` is the known time.
    pub samples: Vec<Option<Sample>>,
}

impl Series {
    /// The sum of all parts.
    pub fn whole(&self) -> Sample {
        let mut whole = Sample::default();
        self.samples.iter().flatten().for_each(|sample| whole.add(sample));
        whole
    }
}

/// Chooses the tier and the parts for a query: about `points` parts from `from` to `to`, from the finest tier whose
/// retention covers `from`. `None` if that would read too many rows for this number of `subjects`.
pub fn tier_for(now: u64, from: u64, to: u64, points: u64, subjects: usize) -> Option<Span> {
    let length = to.saturating_sub(from).max(1);
    let reach = now.saturating_sub(from);
    let rows = |tier: &&Tier| (length / tier.row + 1).saturating_mul(subjects as u64 + 1) <= MAX_ROWS_READ;
    let tier = *TIERS.iter().filter(|tier| reach <= tier.keep || tier.number == MINUTES.number).find(rows)?;
    let width = length.div_ceil(points.max(1)).next_multiple_of(tier.step);
    let from = from / width * width;
    let parts = to.saturating_sub(from).div_ceil(width).max(1) as usize;
    Some(Span { from, width, parts, tier })
}

/// Buffers samples and writes them to the store.
#[derive(Default)]
pub struct Recorder {
    /// Samples by subject and time: all unwritten ones, and some recent written ones.
    recent: BTreeMap<String, BTreeMap<u64, Sample>>,
    /// Sums for the next rows of the coarsest tier.
    open: HashMap<String, Sample>,
    /// Start of the ten seconds that are not in the file yet.
    row: Option<u64>,
    /// Numbers of subjects in the file.
    subjects: HashMap<String, i64>,
    /// Value of `Inner::outages` for which `subjects` is valid.
    outages: u64,
    /// Number of rows in each tier.
    rows: [i64; TIERS.len()],
}

impl Recorder {
    /// Continues after the newest samples of the file, at the time `now`.
    pub fn open(store: &Store, now: u64) -> Result<Self, Error> {
        let mut recorder = Self::default();
        let mut db = store.db();
        for tier in TIERS {
            let count = "SELECT count(*) FROM sample WHERE tier = ?";
            recorder.rows[tier.number as usize] =
                db.query_row(count, params![tier.number], |row| row.get(0))?;
        }
        let change = db.transaction()?;
        recorder.catch_up(&change, now)?;
        change.execute("DELETE FROM subject WHERE id NOT IN (SELECT subject FROM sample)", params![])?;
        change.commit()?;
        Ok(recorder)
    }

    /// Computes five-minute sums that were not written before the last stop, from the 10 s tier.
    fn catch_up(&mut self, db: &Connection, now: u64) -> Result<(), Error> {
        let newest = "SELECT max(time) FROM sample WHERE tier = ?";
        let newest: Option<i64> = db.query_row(newest, params![MINUTES.number], |row| row.get(0))?;
        let first = newest.map_or(0, |time| time + MINUTES.step as i64);
        let sql =
            "SELECT key, time, body FROM sample JOIN subject ON subject = id WHERE tier = ? AND time >= ?";
        let mut sums: BTreeMap<(u64, String), Sample> = BTreeMap::new();
        let mut read = db.prepare(sql)?;
        let mut rows = read.query(params![TENS.number, first])?;
        while let Some(row) = rows.next()? {
            let (key, time, body): (String, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let sum = sums.entry((time as u64 / MINUTES.step * MINUTES.step, key)).or_default();
            decode(&body).iter().for_each(|(_, sample)| sum.add(sample));
        }
        for ((time, key), sample) in sums {
            match time < now / MINUTES.step * MINUTES.step {
                true => self.write(db, MINUTES, &key, time, &[(0, &sample)])?,
                false => self.open.entry(key).or_default().add(&sample),
            }
        }
        Ok(())
    }

    /// Adds the samples of the second `time`: of [`ALL`], and of each active subject. Writes complete rows to the file.
    pub fn add(
        &mut self,
        store: &Store,
        time: u64,
        samples: impl IntoIterator<Item = (String, Sample)>,
    ) -> Result<(), Error> {
        let row = time / SECONDS.row * SECONDS.row;
        let written = match self.row {
            Some(open) if open != row => self.flush(store, time),
            _ => Ok(()),
        };
        self.row = Some(row);
        for (subject, sample) in samples {
            self.recent.entry(subject).or_default().entry(time).or_default().add(&sample);
        }
        written
    }

    /// Writes unwritten samples up to the time `now`. While the file can't be used, samples are dropped.
    pub fn flush(&mut self, store: &Store, now: u64) -> Result<(), Error> {
        let Some(row) = self.row.take() else { return Ok(()) };
        let recent = std::mem::take(&mut self.recent);
        let (outages, is_out) = {
            let inner = store.0.lock();
            (inner.outages, inner.outage.is_some())
        };
        if outages != self.outages {
            self.subjects.clear();
            self.outages = outages;
        }
        let written = if is_out { Ok(()) } else { self.write_row(store, row, &recent, now) };
        self.recent = recent;
        self.recent.retain(|_, samples| {
            *samples = samples.split_off(&now.saturating_sub(RECENT_S));
            !samples.is_empty()
        });
        match written {
            // The transaction was rolled back, so no subject has a number.
            Err(error) if store.0.lock().falls_back(&error.0) => Ok(()),
            written => written,
        }
    }

    fn write_row(
        &mut self,
        store: &Store,
        row: u64,
        recent: &BTreeMap<String, BTreeMap<u64, Sample>>,
        now: u64,
    ) -> Result<(), Error> {
        let end = row + SECONDS.row;
        let mut db = store.db();
        let change = db.transaction()?;
        for (subject, samples) in recent {
            let seconds: Vec<_> = samples.range(row..end).map(|(time, it)| (time - row, it)).collect();
            if seconds.is_empty() {
                continue;
            }
            self.write(&change, SECONDS, subject, row, &seconds)?;
            let mut sum = Sample::default();
            seconds.iter().for_each(|(_, sample)| sum.add(sample));
            self.write(&change, TENS, subject, row, &[(0, &sum)])?;
            self.open.entry(subject.clone()).or_default().add(&sum);
        }
        let period = row / MINUTES.step * MINUTES.step;
        if now / MINUTES.step * MINUTES.step != period {
            for (subject, sum) in std::mem::take(&mut self.open) {
                self.write(&change, MINUTES, &subject, period, &[(0, &sum)])?;
            }
        }
        self.expire(&change, now)?;
        change.commit()?;
        drop(db);
        store.note_series();
        Ok(())
    }

    fn write(
        &mut self,
        db: &Connection,
        tier: Tier,
        subject: &str,
        time: u64,
        samples: &[(u64, &Sample)],
    ) -> Result<(), Error> {
        let id = self.subject(db, subject)?;
        let mut body = Vec::new();
        samples.iter().for_each(|(offset, sample)| encode(&mut body, *offset, sample));
        // Extends a row of an earlier run.
        let sql = "INSERT INTO sample (tier, subject, time, body) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT DO UPDATE SET body = CAST(body || excluded.body AS BLOB)";
        db.prepare_cached(sql)?.execute(params![tier.number, id, time as i64, body])?;
        self.rows[tier.number as usize] += 1;
        Ok(())
    }

    fn subject(&mut self, db: &Connection, key: &str) -> Result<i64, Error> {
        if let Some(id) = self.subjects.get(key) {
            return Ok(*id);
        }
        db.execute("INSERT OR IGNORE INTO subject (key) VALUES (?)", params![key])?;
        let id = db.query_row("SELECT id FROM subject WHERE key = ?", params![key], |row| row.get(0))?;
        self.subjects.insert(key.into(), id);
        Ok(id)
    }

    /// Deletes rows by age, and the oldest if there are too many.
    fn expire(&mut self, db: &Connection, now: u64) -> Result<(), Error> {
        for tier in TIERS {
            let sql = "DELETE FROM sample WHERE tier = ? AND time < ?";
            let old = now.saturating_sub(tier.keep) as i64;
            let rows = &mut self.rows[tier.number as usize];
            *rows -= db.prepare_cached(sql)?.execute(params![tier.number, old])? as i64;
            if *rows > tier.max_rows {
                // Deletes more than necessary, so the deletion is not repeated each time.
                *rows -= trim(db, tier, *rows - tier.max_rows + tier.max_rows / 100)?;
            }
        }
        Ok(())
    }

    /// The newest `seconds`, including the newest sample.
    pub fn newest(&self, seconds: u64) -> Newest<'_> {
        let newest = self.recent.get(ALL).and_then(|all| all.keys().next_back().copied()).unwrap_or(0);
        Newest { recent: &self.recent, from: (newest + 1).saturating_sub(seconds.min(RECENT_S)) }
    }

    /// Calls `visit` for the unwritten samples of a subject.
    fn unwritten(&self, subject: &str, span: &Span, mut visit: impl FnMut(u64, &Sample)) {
        let (Some(row), SECONDS) = (self.row, span.tier) else { return };
        for (time, sample) in self.recent.get(subject).into_iter().flat_map(|samples| samples.range(row..)) {
            visit(*time, sample);
        }
    }

    /// A series with the samples in memory, to be completed by [`Store::read`].
    pub fn begin(&self, span: Span, subjects: &[String]) -> Series {
        let mut series = Series { span, samples: vec![None; span.parts] };
        self.unwritten(ALL, &span, |time, sample| series.known(time, sample));
        for subject in subjects.iter().filter(|subject| *subject != ALL) {
            self.unwritten(subject, &span, |time, sample| series.work(time, sample));
        }
        if subjects.iter().any(|subject| subject == ALL) {
            self.unwritten(ALL, &span, |time, sample| series.work(time, sample));
        }
        series
    }
}

/// Sums of the newest samples of each subject.
pub struct Newest<'a> {
    recent: &'a BTreeMap<String, BTreeMap<u64, Sample>>,
    /// Time of the first sample, in seconds since 1970.
    from: u64,
}

impl Newest<'_> {
    fn sum(&self, samples: &BTreeMap<u64, Sample>) -> Sample {
        let mut sum = Sample::default();
        samples.range(self.from..).for_each(|(_, sample)| sum.add(sample));
        sum
    }

    /// The sum for the array.
    pub fn all(&self) -> Sample {
        self.of(ALL)
    }

    /// The sum for a subject, without reading others.
    pub fn of(&self, subject: &str) -> Sample {
        self.recent.get(subject).map(|samples| self.sum(samples)).unwrap_or_default()
    }

    /// The sums for each subject except the array.
    pub fn each(&self) -> impl Iterator<Item = (&str, Sample)> {
        let others = self.recent.iter().filter(|(subject, _)| *subject != ALL);
        others.map(|(subject, samples)| (subject.as_str(), self.sum(samples)))
    }
}

/// Deletes about `excess` rows, oldest first, except those of [`ALL`]. Returns the number of deleted rows.
fn trim(db: &Connection, tier: Tier, excess: i64) -> Result<i64, Error> {
    let sql = "DELETE FROM sample WHERE tier = ?1 AND subject != (SELECT id FROM subject WHERE key = ?2) AND time <=
               (SELECT time FROM sample WHERE tier = ?1 ORDER BY time LIMIT 1 OFFSET ?3)";
    Ok(db.prepare_cached(sql)?.execute(params![tier.number, ALL, excess])? as i64)
}

impl Series {
    fn part(&mut self, time: u64) -> Option<&mut Option<Sample>> {
        let index = time.checked_sub(self.span.from)? / self.span.width;
        self.samples.get_mut(usize::try_from(index).ok()?)
    }

    fn known(&mut self, time: u64, all: &Sample) {
        if let Some(part) = self.part(time) {
            part.get_or_insert_default().millis += all.millis;
        }
    }

    fn work(&mut self, time: u64, sample: &Sample) {
        if let Some(Some(part)) = self.part(time) {
            part.add_work(sample);
        }
    }
}

impl Store {
    /// Adds the samples of these subjects in the file to a series.
    pub fn read(&self, mut series: Series, subjects: &[String]) -> Result<Series, Error> {
        let all = subjects.iter().any(|subject| subject == ALL);
        for (time, sample) in self.rows(&series.span, ALL)? {
            series.known(time, &sample);
            if all {
                series.work(time, &sample);
            }
        }
        for subject in subjects.iter().filter(|subject| *subject != ALL) {
            for (time, sample) in self.rows(&series.span, subject)? {
                series.work(time, &sample);
            }
        }
        Ok(series)
    }

    fn rows(&self, span: &Span, subject: &str) -> Result<Vec<(u64, Sample)>, Error> {
        let tier = span.tier;
        let (from, to) = (span.from, span.from + span.width * span.parts as u64);
        let sql = "SELECT time, body FROM sample WHERE tier = ? AND subject = ? AND time >= ? AND time < ?";
        let first = (from / tier.row * tier.row) as i64;
        let rows: Vec<(i64, Vec<u8>)> = self.run(|db| {
            let id = "SELECT id FROM subject WHERE key = ?";
            let id: Option<i64> =
                db.prepare_cached(id)?.query_row(params![subject], |row| row.get(0)).optional()?;
            let Some(id) = id else { return Ok(Vec::new()) };
            let mut read = db.prepare_cached(sql)?;
            let rows = read.query_map(params![tier.number, id, first, to as i64], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            rows.collect()
        })?;
        // Decoded without holding the lock.
        let samples = rows.iter().flat_map(|(time, body)| {
            decode(body).into_iter().map(move |(offset, sample)| (*time as u64 + offset * tier.step, sample))
        });
        Ok(samples.collect())
    }
}

#[cfg(test)]
#[path = "measure_test.rs"]
mod tests;
