//! What the shelf does beside serving: rebuilding, scrubbing, sealing.

use crate::data::{Content, Maker};
use crate::rig::{Rig, Written, block_on, cpu_us, write};
use crate::rows::{Bound, Measure, Row, measure, row};
use block::{Extent, Op};
use bytes::Bytes;
use engine::Options;
use shelf::seal::{DataKey, Envelope, Lock};
use shelf::{
    AlignedBuf, Done, Drive, DriveShelf, Error, FormatOptions, MemDrive, Opening, SegmentId, Shelf, wait,
};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Everything there is to measure.
pub const ALL: &[Measure] = &[
    measure("a stripe of 6 + 2 to the drives", sealing),
    measure("rebuild of one drive of 8", rebuild),
    measure("hosts during a rebuild", during),
    measure("scrub after bit rot", rot),
];

const DRIVES: usize = 8;
const MIB: u64 = 1 << 20;

/// A drive in memory that may fail for good.
struct Failing {
    drive: Arc<MemDrive>,
    failed: AtomicBool,
}

impl Failing {
    fn check<T>(&self, done: Done<T>) -> Option<Done<T>> {
        if self.failed.load(Ordering::Relaxed) {
            done(Err(Error::Drive { what: "it failed".into() }));
            return None;
        }
        Some(done)
    }
}

impl Drive for Failing {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn bytes(&self) -> u64 {
        self.drive.bytes()
    }

    fn read(&self, offset: u64, len: u32, done: Done<Bytes>) {
        self.check(done).into_iter().for_each(|done| self.drive.read(offset, len, done));
    }

    fn write(&self, offset: u64, pieces: Vec<Bytes>, durable: bool, done: Done<()>) {
        self.check(done).into_iter().for_each(|done| self.drive.write(offset, pieces.clone(), durable, done));
    }

    fn sync(&self, done: Done<()>) {
        self.check(done).into_iter().for_each(|done| done(Ok(())));
    }

    fn discard(&self, _offset: u64, _len: u64, done: Done<()>) {
        self.check(done).into_iter().for_each(|done| done(Ok(())));
    }
}

fn drives(mib: u64) -> Vec<Arc<Failing>> {
    let drive = |number| {
        let drive = MemDrive::new(format!("memory {number}"), mib * MIB);
        // Memory that is touched for the first time costs more than the shelf.
        drive.with(|bytes| bytes.iter_mut().step_by(4096).for_each(|byte| *byte = std::hint::black_box(0)));
        Arc::new(Failing { drive, failed: AtomicBool::new(false) })
    };
    (0..DRIVES).map(drive).collect()
}

fn shelf(drives: &[Arc<Failing>], sealed: bool) -> Arc<DriveShelf> {
    let drives = drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
    let key = sealed.then(|| {
        let key = DataKey::new([1; 32]);
        let envelope = Envelope::wrap(1, &key, Lock::File, &[2; 32], [3; 12]);
        (key, envelope)
    });
    let opening = Opening { salt: 1, key };
    let options = FormatOptions { array: 1, force: true, opening, ..FormatOptions::default() };
    block_on(DriveShelf::format(drives, options)).expect("blank drives")
}

/// Writes bytes into new segments until there are that many; the answer is how many there are.
fn fill(shelf: &DriveShelf, bytes: u64) -> u64 {
    let layout = shelf.layout();
    let mut maker = Maker::new(Content::Random);
    let mut stripe = AlignedBuf::with_capacity(layout.stripe_bytes as usize);
    while stripe.len() + 4096 <= layout.stripe_bytes as usize {
        stripe.push(&maker.next(1));
    }
    stripe.set_len(layout.stripe_bytes as usize);
    let (stripe, mut written) = (Arc::new(stripe), 0);
    for segment in 0..layout.segments {
        for offset in (0..layout.segment_bytes).step_by(layout.stripe_bytes as usize) {
            let (done, answer) = wait();
            shelf.write(SegmentId(segment), offset, stripe.clone(), done);
            block_on(answer).expect("written");
        }
        written += u64::from(layout.segment_bytes);
        if written >= bytes || shelf.room() == 0 {
            break;
        }
    }
    let (done, synced) = wait();
    shelf.sync(done);
    block_on(synced).expect("synced");
    written
}

/// Processor time of 4 KiB from the engine to the drives and back, in clear and encrypted.
fn sealing(name: &str) -> Vec<Row> {
    let mut costs = Vec::new();
    for sealed in [false, true] {
        let shelf = shelf(&drives(128), sealed);
        let start = cpu_us();
        let bytes = fill(&shelf, 512 * MIB);
        costs.push((cpu_us() - start) * 4096.0 / bytes as f64);
        let start = cpu_us();
        let layout = shelf.layout();
        let mut read = 0;
        for segment in 0..(bytes / u64::from(layout.segment_bytes)) as u32 {
            for offset in (0..layout.segment_bytes - (32 << 10)).step_by(32 << 10) {
                let (done, answer) = wait();
                shelf.read(SegmentId(segment), offset, 32 << 10, done);
                block_on(answer).expect("read");
                read += 32 << 10;
            }
        }
        costs.push((cpu_us() - start) * 4096.0 / f64::from(read));
    }
    let [clear, clear_read, sealed, sealed_read] = costs[..] else { return Vec::new() };
    // The limits of the machine that the aims were measured on: 0.55 µs to seal or open 4 KiB, 0.07 for P and Q.
    vec![
        row(&format!("{name}, in clear"), Bound::AtMost(1.0), clear, "µs/4 KiB"),
        row(&format!("{name}, AES-256-GCM on top"), Bound::AtMost(0.8), sealed - clear, "µs/4 KiB"),
        row("32K from the drives, in clear", Bound::AtMost(0.8), clear_read, "µs/4 KiB"),
        row(
            "32K from the drives, AES-256-GCM on top",
            Bound::AtMost(0.8),
            sealed_read - clear_read,
            "µs/4 KiB",
        ),
    ]
}

/// Lets a drive fail; the shelf notices with the next thing that it writes there.
fn fail(shelf: &DriveShelf, drive: &Failing) {
    drive.failed.store(true, Ordering::Relaxed);
    let (done, synced) = wait();
    shelf.sync(done);
    block_on(synced).expect("the others are there");
}

/// How long it takes without a pace: the data that are live count, not the drive.
fn rebuild(name: &str) -> Vec<Row> {
    let drives = drives(384);
    let shelf = shelf(&drives, false);
    let bytes = fill(&shelf, 1024 * MIB);
    fail(&shelf, &drives[3]);
    let risk = shelf.status().at_risk;
    let (start, cpu) = (Instant::now(), cpu_us());
    block_on(shelf.settle());
    let (took, cpu) = (start.elapsed().as_secs_f64(), (cpu_us() - cpu) / 1e6);
    let status = shelf.status();
    assert_eq!((status.at_risk, status.lost), (0, 0), "everything is protected again");
    let gib = bytes as f64 / (1024 * MIB) as f64;
    let mut row = row(name, Bound::AtMost(8.0), cpu / gib, "s of one processor for a GiB that is live");
    row.note = format!("{:.1} s by the clock; {risk} segments, {gib:.2} GiB", took / gib);
    vec![row]
}

/// What hosts get while a drive is rebuilt beside them on the same processor, against what they got before.
fn during(name: &str) -> Vec<Row> {
    const BLOCKS: u64 = 1 << 17;
    let drives = drives(384);
    let shelf = shelf(&drives, false);
    let mut options = Options::new([7; 32]);
    options.cache_bytes = 16 << 20;
    let mut rig = Rig::over(shelf.clone(), Arc::new(Written::default()), options);
    let volume = rig.volume(1, BLOCKS * 4096);
    let mut maker = Maker::new(Content::Random);
    rig.perform(&*volume, 32, (0..BLOCKS / 8).map(|number| write(number * 8, maker.next(8))));
    rig.settle();
    let start = Instant::now();
    let mut healing = pin!(shelf.background());
    let mut random = 1u64;
    let mut serve = |rig: &mut Rig, seconds: f64, heal: bool| {
        let (begin, mut count) = (Instant::now(), 0u32);
        while begin.elapsed().as_secs_f64() < seconds && (!heal || shelf.status().at_risk > 0) {
            // Seven reads and a write, 32 at a time.
            let ops: Vec<Op> = (0..256u64)
                .map(|number| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let block = (random >> 20) % BLOCKS;
                    if number % 8 == 0 {
                        write(block, maker.next(1))
                    } else {
                        Op::Read(Extent::new(block, 1))
                    }
                })
                .collect();
            count += ops.len() as u32;
            rig.perform(&*volume, 32, ops.into_iter());
            shelf.tick(Duration::from_millis(100) + start.elapsed());
            if heal {
                let _ = healing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        }
        f64::from(count) / begin.elapsed().as_secs_f64()
    };
    serve(&mut rig, 1.0, false);
    let before = serve(&mut rig, 3.0, false);
    fail(&shelf, &drives[3]);
    let risk = shelf.status().at_risk;
    let begin = Instant::now();
    let beside = serve(&mut rig, 30.0, true);
    let took = begin.elapsed().as_secs_f64();
    let after = serve(&mut rig, 3.0, false);
    let mut row = row(name, Bound::AtLeast(70.0), beside / before * 100.0, "% of the operations before");
    row.note = format!(
        "{before:.0} before, {beside:.0} during, {after:.0} after, of 7 reads and a write of 4 KiB; {risk} segments in \
         {took:.1} s"
    );
    vec![row]
}

/// Bits are flipped in one of a hundred pages of two drives, wherever they are.
fn rot(name: &str) -> Vec<Row> {
    let drives = drives(192);
    let shelf = shelf(&drives, false);
    let bytes = fill(&shelf, 512 * MIB);
    let (mut flipped, mut state) = (0, 1u64);
    for drive in &drives[2..4] {
        drive.drive.with(|bytes| {
            for page in bytes.chunks_exact_mut(4096).skip(2048) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if (state >> 33) % 100 == 0 && page.iter().any(|byte| *byte != 0) {
                    page[(state >> 40) as usize % 4096] ^= 1 << (state >> 61);
                    flipped += 1;
                }
            }
        });
    }
    let start = cpu_us();
    let report = block_on(shelf.scrub());
    let cpu = (cpu_us() - start) / 1e6;
    assert_eq!((report.lost, report.errors), (0, report.repaired), "{report:?}");
    let again = block_on(shelf.scrub());
    assert_eq!(again.errors, 0, "all is repaired: {again:?}");
    let gib = bytes as f64 / (1024 * MIB) as f64;
    let mut row = row(name, Bound::AtMost(8.0), cpu / gib, "s of one processor for a GiB that is live");
    row.note = format!(
        "bits flipped in {flipped} pages of two drives; {} found, {} repaired, {} lost; {} after that",
        report.errors, report.repaired, report.lost, again.errors
    );
    vec![row]
}
