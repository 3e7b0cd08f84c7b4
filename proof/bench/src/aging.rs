//! Aged arrays: power losses with a full journal, overwrites of many times the capacity while it is almost full, a
//! thousand clones.

use crate::data::{BLOCK, Content, Maker};
use crate::recover::compare;
use crate::rig::{Rig, Shape, cpu_us, write};
use crate::rows::{Bound, DEPTH, GIB, Measure, Row, measure, row, serial_part, shuffled};
use block::{CopySegment, DiskId, Op};
use engine::LogWrites;
use raid::Sizes;
use std::sync::atomic::{AtomicU64, Ordering};

/// The measurements of this program.
pub const ALL: &[Measure] = &[
    measure("recovery with ten times the data", compare),
    // Dual parity over four drives doubles all that is written, so that four bytes are the journal and the data alone.
    measure("4K random overwrite, 80 % full", |name| overwrite(name, Shape::new(512), 80, Bound::None)),
    measure("4K random overwrite, 90 % full", |name| overwrite(name, Shape::new(512), 90, Bound::None)),
    measure("4K random overwrite, 24 drives, 80 % full", |name| {
        overwrite(name, full_shelf(), 80, Bound::AtMost(4.0))
    }),
    measure("64K sequential write, 2:1, 8 drives", sequential),
    measure("1,000 full clones of 20 GiB that hold 14 GiB", clones),
];

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// How often the whole capacity is overwritten.
const PASSES: u64 = 8;

/// Parts of the time whose throughput is compared.
const PARTS: usize = 20;

/// As many drives as a segment has columns, and as many segments as an array of some TB has: fewer would have to keep a
/// larger part of them free.
fn full_shelf() -> Shape {
    let sizes =
        Sizes { chunk_bytes: Some(8 << 10), segment_bytes: Some(1 << 20), journal_bytes: Some(32 << 20) };
    Shape { drives: 24, sizes, ..Shape::new(160) }
}

/// Of an overwrite of an array that is almost full, in the busiest part that no second thread can take from it.
const SERIAL_OVERWRITE_MAX_US: f64 = 1.5;

/// Random overwrites of data that do not reduce, in multiples of the existing data.
fn overwrite(name: &str, shape: Shape, percent: u64, bound: Bound) -> Vec<Row> {
    let mut rig = Rig::new(shape);
    let blocks = rig.engine.space().total / 100 * percent / (BLOCK as u64 + 64);
    let volume = rig.volume(1, blocks * BLOCK as u64);
    let mut maker = Maker::new(Content::Random);
    rig.perform(&*volume, DEPTH, (0..blocks).map(|block| write(block, maker.next(1))));
    rig.settle();
    let (before, background_us) = (Traffic::of(&rig), rig.background_us);
    let each = blocks * PASSES / PARTS as u64;
    let mut order = shuffled(40, u64::MAX).map(|n| n % blocks);
    let (mut times, mut parts) = (Vec::new(), Vec::with_capacity(PARTS));
    for _ in 0..PARTS {
        let start = cpu_us();
        let ops = order.by_ref().take(each as usize).map(|block| write(block, maker.next(1)));
        rig.perform_timed(&*volume, DEPTH, ops, |us| times.push(us as f32));
        parts.push((cpu_us() - start) / each as f64);
    }
    rig.settle();
    let count = each * PARTS as u64;
    let media = before.until_now(name, bound, &rig, count * BLOCK as u64);
    let serial =
        serial_part(name, (rig.background_us - background_us) / count as f64, SERIAL_OVERWRITE_MAX_US);
    times.sort_by(f32::total_cmp);
    let of =
        |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0.0, |us| f64::from(*us) / 1e3);
    let longest = times.last().map_or(0.0, |us| f64::from(*us) / 1e3);
    let mut stall = row(&format!("{name}: longest wait"), Bound::AtMost(100.0), longest, "ms");
    stall.note = format!(
        "of processor time, 32 at a time; p50 {:.2}, p99 {:.2}, p99.9 {:.2} ms",
        of(0.5),
        of(0.99),
        of(0.999)
    );
    let ordered: Vec<String> = parts.iter().map(|us| format!("{us:.1}")).collect();
    parts.sort_by(f64::total_cmp);
    let (middle, worst) = (parts[PARTS / 2], parts[PARTS - 1]);
    let mut steady =
        row(&format!("{name}: slowest part of the time"), Bound::AtMost(1.5), worst / middle, "×");
    steady.note = format!("µs a block, {PASSES} times the capacity in {PARTS} parts: {}", ordered.join(" "));
    vec![media, serial, stall, steady]
}

/// What a host that writes new data in order makes the array write.
fn sequential(name: &str) -> Vec<Row> {
    const COMMAND_BLOCKS: u64 = 16;
    let mut rig = Rig::new(Shape { drives: 8, ..Shape::new(512) });
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(Content::Half);
    let before = Traffic::of(&rig);
    let commands = GIB / BLOCK as u64 / COMMAND_BLOCKS;
    let ops = (0..commands).map(|n| write(n * COMMAND_BLOCKS, maker.next(COMMAND_BLOCKS as usize)));
    rig.perform(&*volume, 8, ops);
    rig.settle();
    vec![before.until_now(name, Bound::None, &rig, GIB)]
}

/// Bytes written to drives so far.
struct Traffic {
    journal: u64,
    log: u64,
    log_writes: LogWrites,
}

impl Traffic {
    fn of(rig: &Rig) -> Self {
        let (journal, log) = (load(&rig.written.durable), load(&rig.written.log));
        Self { journal, log, log_writes: rig.engine.log_writes() }
    }

    /// What the drives got since then for each byte of this many that the host wrote.
    fn until_now(self, name: &str, bound: Bound, rig: &Rig, host_bytes: u64) -> Row {
        let (now, host) = (Self::of(rig), host_bytes as f64);
        let journal = (now.journal - self.journal) as f64 / host;
        let log = (now.log - self.log) as f64 / host;
        let mut media = row(&format!("{name}: media bytes for a host byte"), bound, journal + log, "bytes");
        media.note = breakdown(now.log_writes - self.log_writes, host, journal, log);
        media
    }
}

fn breakdown(log_writes: LogWrites, host: f64, journal: f64, log: f64) -> String {
    let part = |bytes: u64| bytes as f64 / host;
    format!(
        "journal {journal:.2}; data {:.2}; cleaning {:.2}; maps {:.2}; frame table {:.2}; page indexes {:.2}; deduplication \
         index {:.2}; catalog and roots {:.2}; padding {:.2}; parity {:.2}; {} checkpoints, one for {:.1} MiB of the host",
        part(log_writes.data),
        part(log_writes.moved),
        part(log_writes.maps),
        part(log_writes.table),
        part(log_writes.indexes),
        part(log_writes.fingerprints),
        part(log_writes.roots),
        part(log_writes.padding),
        log - part(log_writes.total()),
        log_writes.checkpoints,
        host / log_writes.checkpoints.max(1) as f64 / f64::from(1 << 20)
    )
}

/// Clones by the host's commands of 16 MiB, as over a network.
fn clones(name: &str) -> Vec<Row> {
    const SIZE: u64 = 20 * GIB;
    const EACH: u64 = (16 << 20) / BLOCK as u64;
    const CLONES: u128 = 1000;
    let mut rig = Rig::new(Shape::new(512));
    let source = rig.volume(1, SIZE);
    let mut maker = Maker::new(Content::Duplicate);
    let filled = 14 * GIB / BLOCK as u64;
    rig.perform(&*source, 8, (0..filled / 32).map(|n| write(n * 32, maker.next(32))));
    rig.settle();
    let before = rig.engine.space();
    let start = cpu_us();
    for clone in 0..CLONES {
        let target = rig.volume(2 + clone, SIZE);
        let copy = |n: u64| {
            let (source, target, lba) = (DiskId(1), DiskId(2 + clone), n * EACH);
            Op::Copy(vec![CopySegment { source, source_lba: lba, target, target_lba: lba, blocks: EACH }])
        };
        rig.perform(&*target, 4, (0..SIZE / BLOCK as u64 / EACH).map(copy));
    }
    rig.settle();
    let mut row = row(name, Bound::AtMost(60.0), (cpu_us() - start) / 1e6, "s");
    let after = rig.engine.space();
    row.note = format!(
        "XCOPY of 16 MiB, {:.1} µs a command; {} KiB of metadata a clone",
        (cpu_us() - start) / (CLONES as f64 * (SIZE / BLOCK as u64 / EACH) as f64),
        ((after.metadata - before.metadata) / CLONES as u64) >> 10
    );
    vec![row]
}
