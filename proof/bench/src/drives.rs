//! Background work and encryption of the store: rebuild, scrub, and their cost during host I/O.

use crate::data::{Content, Maker};
use crate::rig::{Rig, Written, block_on, cpu_us, own, write};
use crate::rows::{Bound, Measure, Row, measure, median, row};
use ::rig::drive::FailingDrive;
use block::{Extent, Op};
use engine::{Options, Volume};
use raid::encryption::{Cipher, DataKey, Envelope};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening};
use shelf::pool::KeySource;
use shelf::{AlignedBuf, Drive, SegmentId, Shelf, wait};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// All measurements.
pub const ALL: &[Measure] = &[
    measure("P and Q", parities),
    measure("AES-256-GCM of a page", cipher),
    measure("a stripe of 6 + 2 to the drives", sealing),
    measure("rebuild of one drive of 8", rebuild),
    measure("hosts during a rebuild", during),
    measure("scrub after bit bit_rot", bit_rot),
];

const DRIVES: usize = 8;
const MIB: u64 = 1 << 20;

/// Mean processor time of `times` calls in µs.
fn each(times: u32, mut what: impl FnMut(u32)) -> f64 {
    what(0);
    let start = cpu_us();
    (0..times).for_each(&mut what);
    (cpu_us() - start) / f64::from(times)
}

/// Dual parity alone, over columns that are in the cache, as after encryption. ISA-L takes 0.06 µs for 6 + 2.
fn parities(name: &str) -> Vec<Row> {
    let widths = [(6, 64 << 10, 0.08), (14, 32 << 10, 0.10), (22, 16 << 10, 0.12)];
    let row = |(data, chunk, max): (usize, usize, f64)| {
        let bytes = Maker::new(Content::Random).next(data * chunk / 4096);
        let columns: Vec<&[u8]> = bytes.chunks_exact(chunk).collect();
        let (mut p, mut q) = (vec![0; chunk], vec![0; chunk]);
        let took = each(2000, |_| {
            raid::parity::compute(std::hint::black_box(&columns), &mut p, Some(&mut q));
        });
        let result = took * 4096.0 / (data * chunk) as f64;
        row(&format!("{name} of {data} + 2"), Bound::AtMost(max), result, "µs/4 KiB")
    };
    widths.into_iter().map(row).collect()
}

/// Sealing and opening alone. The library takes 0.55 µs for either on the machine that aims were measured on.
fn cipher(name: &str) -> Vec<Row> {
    let cipher = Cipher::new(&[1; 32]);
    let mut page = [7; 4096];
    let sealed = each(50_000, |number| {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&number.to_le_bytes());
        std::hint::black_box(cipher.seal(&nonce, b"", &mut page));
    });
    let tag = cipher.seal(&[0; 12], b"", &mut page);
    let mut clear = [0; 4096];
    let opened = each(50_000, |_| assert!(cipher.open(&[0; 12], b"", &page, &tag, &mut clear)));
    vec![
        row(&format!("{name}, sealed"), Bound::AtMost(0.6), sealed, "µs/4 KiB"),
        row(&format!("{name}, opened"), Bound::AtMost(0.6), opened, "µs/4 KiB"),
    ]
}

fn drives(mib: u64) -> Vec<Arc<FailingDrive<MemDrive>>> {
    let drive = |number| {
        let drive = MemDrive::new(format!("memory {number}"), mib * MIB);
        // Memory that is touched for the first time costs more than the shelf.
        drive.with(|bytes| bytes.iter_mut().step_by(4096).for_each(|byte| *byte = std::hint::black_box(0)));
        FailingDrive::new(drive)
    };
    (0..DRIVES).map(drive).collect()
}

fn shelf(drives: &[Arc<FailingDrive<MemDrive>>], sealed: bool) -> Arc<DriveShelf> {
    let drives = drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
    let key = sealed.then(|| {
        let key = DataKey::new([1; 32]);
        let envelope = Envelope::wrap(1, &key, KeySource::File, &[2; 32], [3; 12]);
        (key, envelope)
    });
    let opening = Opening { salt: 1, key };
    let options = FormatOptions { array: 1, consent: own(), opening, ..FormatOptions::default() };
    block_on(DriveShelf::format(drives, options)).expect("blank drives")
}

/// Writes new segments until they hold `bytes`; returns the number of bytes written.
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
        if written >= bytes || shelf.room().any == 0 {
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

/// Makes a drive fail; the shelf detects it with the next write.
fn fail(shelf: &DriveShelf, drive: &FailingDrive<MemDrive>) {
    drive.set_failed(true);
    let (done, synced) = wait();
    shelf.sync(done);
    block_on(synced).expect("the others are there");
}

/// Duration without throttling: live data count, not the size of the drive.
fn rebuild(name: &str) -> Vec<Row> {
    let drives = drives(384);
    let shelf = shelf(&drives, false);
    let bytes = fill(&shelf, 1024 * MIB);
    fail(&shelf, &drives[3]);
    let risk = shelf.status().degraded_segments;
    let (start, cpu) = (Instant::now(), cpu_us());
    block_on(shelf.settle());
    let (took, cpu) = (start.elapsed().as_secs_f64(), (cpu_us() - cpu) / 1e6);
    let status = shelf.status();
    assert_eq!((status.degraded_segments, status.lost_pages), (0, 0), "everything is protected again");
    let gib = bytes as f64 / (1024 * MIB) as f64;
    let mut row = row(name, Bound::AtMost(8.0), cpu / gib, "s of one processor for a GiB that is live");
    row.note = format!("{:.1} s by the clock; {risk} segments, {gib:.2} GiB", took / gib);
    vec![row]
}

/// Hosts with seven reads for each write, at a queue depth of 32.
struct Hosts {
    rig: Rig,
    volume: Arc<Volume>,
    maker: Maker,
    random: u64,
}

impl Hosts {
    const BLOCKS: u64 = 1 << 16;

    /// Hosts of a volume that has been written completely.
    fn new(shelf: &Arc<DriveShelf>) -> Self {
        let mut options = Options::new([7; 32]);
        options.cache_bytes = 16 << 20;
        let mut rig = Rig::over(shelf.clone(), Arc::new(Written::default()), options);
        let volume = rig.volume(1, Self::BLOCKS * 4096);
        let mut maker = Maker::new(Content::Random);
        rig.perform(&*volume, 32, (0..Self::BLOCKS / 8).map(|number| write(number * 8, maker.next(8))));
        rig.settle();
        Self { rig, volume, maker, random: 1 }
    }

    fn op(&mut self, number: u64) -> Op {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (self.random >> 20) % Self::BLOCKS;
        if number.is_multiple_of(8) {
            write(block, self.maker.next(1))
        } else {
            Op::Read(Extent::new(block, 1))
        }
    }

    /// Operations per second until `goes_on`, which runs on the same processor, returns false.
    fn serve(&mut self, mut goes_on: impl FnMut(Duration) -> bool) -> f64 {
        let (begin, mut count) = (clock(), 0u32);
        while goes_on(clock() - begin) {
            let ops: Vec<Op> = (0..256).map(|number| self.op(number)).collect();
            count += ops.len() as u32;
            self.rig.perform(&*self.volume, 32, ops.into_iter());
        }
        f64::from(count) / (clock() - begin).as_secs_f64()
    }
}

/// Processor time of this thread, independent of other load of the machine.
fn clock() -> Duration {
    Duration::from_secs_f64(cpu_us() / 1e6)
}

/// Background work of the shelf and its clock, polled once per call.
fn shelf_background(shelf: Arc<DriveShelf>) -> impl FnMut() {
    const TICK: Duration = Duration::from_millis(100);
    let served = shelf.clone();
    let mut background = Box::pin(async move { served.background().await });
    let mut next = clock();
    move || {
        if next <= clock() {
            next = clock() + TICK;
            shelf.tick(clock());
        }
        let _ = background.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// Host I/O during a rebuild on the same processor, relative to host I/O before. One pair for each drive, sequentially; a
/// failed drive is added again as a new one.
fn during(name: &str) -> Vec<Row> {
    const WINDOW: Duration = Duration::from_secs(1);
    const MAX_DURATION: Duration = Duration::from_secs(10);
    // Little more space than hosts, cleaning and a rebuild need together, so that they compete for it.
    let drives = drives(192);
    let shelf = shelf(&drives, false);
    let mut hosts = Hosts::new(&shelf);
    hosts.rig.beside(shelf_background(shelf.clone()));
    let (mut before, mut beside, mut took, mut risk) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for drive in &drives[1..] {
        before.push(hosts.serve(|time| time < WINDOW));
        fail(&shelf, drive);
        risk = risk.max(shelf.status().degraded_segments);
        let begin = clock();
        beside.push(hosts.serve(|time| shelf.status().degraded_segments > 0 && time < MAX_DURATION));
        took.push((clock() - begin).as_secs_f64());
        drive.set_failed(false);
        block_on(shelf.add_drive(drive.clone(), &own())).expect("a drive like the others");
        hosts.serve(|time| time < WINDOW);
    }
    let parts: Vec<f64> =
        beside.iter().zip(&before).map(|(beside, before)| beside / before * 100.0).collect();
    let least = parts.iter().copied().fold(f64::MAX, f64::min);
    let mut row = row(name, Bound::AtLeast(70.0), median(parts), "% of the operations before");
    row.note = format!(
        "median of {} pairs, {least:.0} at the least; {:.0} operations a second before, {:.0} during, of 7 reads and a \
         write of 4 KiB; up to {risk} segments in {:.1} s",
        before.len(),
        median(before),
        median(beside),
        median(took)
    );
    vec![row]
}

/// Flips a bit in one of a hundred pages of two drives.
fn bit_rot(name: &str) -> Vec<Row> {
    let drives = drives(192);
    let shelf = shelf(&drives, false);
    let bytes = fill(&shelf, 512 * MIB);
    let (mut flipped, mut state) = (0, 1u64);
    for drive in &drives[2..4] {
        drive.drive.with(|bytes| {
            let labels = bytes.len() - 4096;
            for page in bytes[8 << 20..labels].chunks_exact_mut(4096) {
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
