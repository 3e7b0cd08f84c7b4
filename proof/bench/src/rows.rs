//! Rows of the table, each measured on an array of its own.

use crate::allocator::held_bytes;
use crate::data::{BLOCK, Content, Maker};
use crate::rig::{Rig, Shape, cpu_us, write};
use block::{CopySegment, Data, DiskId, Extent, Op};
use std::sync::atomic::Ordering;

/// A line of the table.
pub struct Row {
    pub name: String,
    pub bound: Bound,
    pub result: f64,
    pub unit: &'static str,
    pub note: String,
}

impl Row {
    /// True if the aim was met.
    pub fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(max) => self.result <= max,
            Bound::AtLeast(least) => self.result >= least,
            Bound::None => true,
        }
    }
}

/// The aim of a row.
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    None,
}

/// A measurement, which yields rows.
pub struct Measure {
    pub name: &'static str,
    pub run: fn(&'static str) -> Vec<Row>,
}

pub const fn measure(name: &'static str, run: fn(&'static str) -> Vec<Row>) -> Measure {
    Measure { name, run }
}

impl Measure {
    /// Its rows. If one misses its aim, everything is measured twice more and the median of each row counts: other load
    /// of the machine seldom disturbs two of three measurements.
    pub fn rows(&self) -> Vec<Row> {
        let run = || (self.run)(self.name).into_iter();
        let first: Vec<Row> = run().collect();
        if first.iter().all(Row::is_met) {
            return first;
        }
        first
            .into_iter()
            .zip(run())
            .zip(run())
            .map(|((first, second), third)| median_row([first, second, third]))
            .collect()
    }
}

fn median_row(mut rows: [Row; 3]) -> Row {
    assert!(rows.iter().all(|row| row.name == rows[0].name), "the same rows each time");
    rows.sort_by(|a, b| a.result.total_cmp(&b.result));
    let [low, mut row, high] = rows;
    row.note = format!("between {:.2} and {:.2}; {}", low.result, high.result, row.note);
    row
}

/// All measurements.
pub const ALL: &[Measure] = &[
    measure("the machine: 4 KiB copied from memory to memory", copies),
    measure("4K random write, unique, incompressible", |name| write_cost(name, Content::Random, 6.0)),
    measure("4K random write, unique, 2:1", |name| write_cost(name, Content::Half, 12.0)),
    measure("4K random write, duplicate", |name| write_cost(name, Content::Duplicate, 4.0)),
    measure("4K random read, slot or cache hit", read_hits),
    measure("4K random read, miss in a 4K frame", |name| read_misses(name, 1, 6.0)),
    measure("4K random read, miss in a 32K frame", |name| read_misses(name, 16, 14.0)),
    measure("4K random read, miss in a 32K frame after idle time", deep_reads),
    measure("64K sequential write, 2:1", |name| sequential(name, Content::Half, 4)),
    measure("64K sequential write, 2:1, eight drives", |name| sequential(name, Content::Half, 8)),
    measure("64K sequential write, incompressible, eight drives", |name| {
        sequential(name, Content::Random, 8)
    }),
    measure("4K write at depth 1, 2:1", alone),
    measure("64K sequential read, misses", sequential_reads),
    measure("64K sequential read, a quarter overwritten at random", reads_in_some_disorder),
    measure("64K sequential read, all overwritten at random", reads_in_great_disorder),
    measure("XCOPY of 50 GiB in 16 MiB commands", xcopy),
    measure("WRITE SAME of 100 GiB zeros in 1 MiB commands", write_same),
    measure("UNMAP of 8 TiB in 4 GiB commands", unmap),
    measure("resident metadata", resident),
];

pub const DEPTH: usize = 32;
pub const GIB: u64 = 1 << 30;

pub fn row(name: &str, bound: Bound, result: f64, unit: &'static str) -> Row {
    Row { name: name.to_owned(), bound, result, unit, note: String::new() }
}

/// All numbers below `2^bits`, each once, in a pseudo-random order.
pub fn shuffled(bits: u32, count: u64) -> impl Iterator<Item = u64> + Clone {
    let mask = (1 << bits) - 1;
    (0..count).map(move |n: u64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        (mixed ^ (mixed >> (bits / 2))).wrapping_mul(0xd6e8_feb8_6659_fd93) & mask
    })
}

/// Cost of a copy on this machine: a write is copied at least three times on its way to drives in memory, at a cost that
/// depends on other users of the memory.
fn copies(name: &str) -> Vec<Row> {
    const COUNT: usize = 1 << 15;
    let from = vec![1; COUNT * BLOCK];
    let mut to = vec![2; COUNT * BLOCK];
    let start = cpu_us();
    for block in shuffled(15, COUNT as u64) {
        let at = block as usize * BLOCK;
        std::hint::black_box(&mut to)[at..at + BLOCK].copy_from_slice(&from[at..at + BLOCK]);
    }
    vec![row(name, Bound::None, (cpu_us() - start) / COUNT as f64, "µs")]
}

/// Processor time of generating the data alone, for `count` pieces of `blocks` blocks.
fn cost_of_data(content: Content, count: u64, blocks: usize) -> f64 {
    let mut maker = Maker::new(content);
    let start = cpu_us();
    (0..count).for_each(|_| drop(std::hint::black_box(maker.next(blocks))));
    cpu_us() - start
}

/// Total cost of a random write until it is in a checkpoint.
fn write_cost(name: &str, content: Content, max: f64) -> Vec<Row> {
    const COUNT: u64 = 100_000;
    let mut rig = Rig::new(Shape::new(768));
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(content);
    let data_us = cost_of_data(content, COUNT, 1);
    let start = cpu_us();
    rig.perform(&*volume, DEPTH, shuffled(18, COUNT).map(|block| write(block, maker.next(1))));
    let foreground = cpu_us() - start;
    rig.finish();
    let each = (cpu_us() - start - data_us) / COUNT as f64;
    let mut row = row(name, Bound::AtMost(max), each, "µs/block");
    let space = rig.engine.space();
    row.note = format!(
        "{:.1} before the end of the writes; {:.2} bytes stored for one written; {}",
        (foreground - data_us) / COUNT as f64,
        (space.physical + space.metadata) as f64 / (COUNT as f64 * BLOCK as f64),
        media_bytes(&rig, COUNT * BLOCK as u64)
    );
    vec![row, serial_part(name, rig.background_us / COUNT as f64, SERIAL_WRITE_MAX_US)]
}

/// Processor time of a write in the busiest part that no second thread can take from it: what bounds a server with many
/// cores.
pub fn serial_part(name: &str, each: f64, max: f64) -> Row {
    row(&format!("{name}: serial part"), Bound::AtMost(max), each, "µs/block")
}

/// Of a block that is written for the first time.
const SERIAL_WRITE_MAX_US: f64 = 1.0;

pub fn read(block: u64, blocks: u64) -> Op {
    Op::Read(Extent::new(block, blocks))
}

fn read_hits(name: &str) -> Vec<Row> {
    const COUNT: u64 = 200_000;
    let mut rig = Rig::new(Shape::new(768));
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(Content::Half);
    rig.perform_alone(&*volume, DEPTH, shuffled(13, 1 << 13).map(|block| write(block, maker.next(1))));
    let hits = |rig: &mut Rig, kind: &str| {
        let start = cpu_us();
        rig.perform_alone(
            &*volume,
            DEPTH,
            (0..COUNT / (1 << 13)).flat_map(|_| shuffled(13, 1 << 13)).map(|block| read(block, 1)),
        );
        let count = COUNT / (1 << 13) * (1 << 13);
        row(&format!("{name}: {kind}"), Bound::AtMost(1.5), (cpu_us() - start) / count as f64, "µs")
    };
    let slots = hits(&mut rig, "slots");
    rig.settle();
    rig.finish();
    // Fills the cache.
    hits(&mut rig, "");
    vec![slots, hits(&mut rig, "decoded frames")]
}

/// Random reads that the cache does not have, of data that were written `blocks` at a time.
fn read_misses(name: &str, blocks: usize, max: f64) -> Vec<Row> {
    const BITS: u32 = 16;
    let mut shape = Shape::new(512);
    shape.options.cache_bytes = 0;
    let mut rig = Rig::new(shape);
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(Content::Half);
    let each = blocks as u64;
    match blocks {
        1 => rig.perform(&*volume, DEPTH, shuffled(BITS, 1 << BITS).map(|block| write(block, maker.next(1)))),
        _ => rig.perform(&*volume, 8, (0..(1 << BITS) / each).map(|n| write(n * each, maker.next(blocks)))),
    }
    rig.finish();
    let (start, before) = (cpu_us(), Reads::of(&rig));
    rig.perform_alone(&*volume, DEPTH, shuffled(BITS, 1 << BITS).map(|block| read(block, 1)));
    let mut row = row(name, Bound::AtMost(max), (cpu_us() - start) / f64::from(1 << BITS), "µs");
    row.note = before.note(&rig, 1 << BITS);
    vec![row]
}

/// What was read from the drives until some moment: number of reads, and bytes.
struct Reads(u64, u64);

impl Reads {
    fn of(rig: &Rig) -> Self {
        let [count, bytes] = [&rig.written.reads, &rig.written.read].map(|it| it.load(Ordering::Relaxed));
        Self(count, bytes)
    }

    /// What was read since then for each of `count` operations.
    fn note(&self, rig: &Rig, count: u64) -> String {
        let Self(reads, bytes) = Self::of(rig);
        let each = |more: u64| more as f64 / count as f64;
        format!("{:.2} reads of a drive, {:.1} KiB", each(reads - self.0), each(bytes - self.1) / 1024.0)
    }
}

/// The same after idle-time recompression has moved single blocks into frames of eight with zstd.
fn deep_reads(name: &str) -> Vec<Row> {
    const BITS: u32 = 16;
    let mut shape = Shape::new(512);
    (shape.options.cache_bytes, shape.options.recompress) = (0, true);
    let mut rig = Rig::new(shape);
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(Content::Half);
    rig.perform(&*volume, DEPTH, shuffled(BITS, 1 << BITS).map(|block| write(block, maker.next(1))));
    rig.settle();
    rig.finish();
    let moved = rig.engine.log_writes().moved as f64 / (f64::from(1 << BITS) * BLOCK as f64);
    let start = cpu_us();
    rig.perform_alone(&*volume, DEPTH, shuffled(BITS, 1 << BITS).map(|block| read(block, 1)));
    let mut row = row(name, Bound::AtMost(14.0), (cpu_us() - start) / f64::from(1 << BITS), "µs");
    row.note = format!("{moved:.2} bytes written again for each byte, all of it compressed");
    vec![row]
}

/// What the drives got for `bytes` of hosts.
fn media_bytes(rig: &Rig, bytes: u64) -> String {
    let [journal, log] = [&rig.written.durable, &rig.written.log]
        .map(|written| written.load(Ordering::Relaxed) as f64 / bytes as f64);
    format!("{journal:.2} bytes of the journal and {log:.2} of the log for one written")
}

fn sequential(name: &str, content: Content, drives: u64) -> Vec<Row> {
    const BYTES: u64 = 768 << 20;
    let mut rig = Rig::new(Shape { drives, ..Shape::new(768) });
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(content);
    let count = BYTES / (64 << 10);
    let data_us = cost_of_data(content, count, 16);
    let start = cpu_us();
    rig.perform(&*volume, 8, (0..count).map(|n| write(n * 16, maker.next(16))));
    rig.finish();
    let us = cpu_us() - start - data_us;
    let aim = if drives == 4 { Bound::AtLeast(500.0) } else { Bound::None };
    let mut row = row(name, aim, BYTES as f64 / us, "MB/s of one core");
    row.note = format!("{:.1} µs a write; {}", us / count as f64, media_bytes(&rig, BYTES));
    vec![row, serial_part(name, rig.background_us / (BYTES / BLOCK as u64) as f64, SERIAL_WRITE_MAX_US)]
}

/// Writes of one block that share no batch.
fn alone(name: &str) -> Vec<Row> {
    const COUNT: u64 = 20_000;
    let mut rig = Rig::new(Shape::new(768));
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(Content::Half);
    let before = rig.written.durable.load(Ordering::Relaxed);
    rig.perform(&*volume, 1, shuffled(18, COUNT).map(|block| write(block, maker.next(1))));
    let bytes = (rig.written.durable.load(Ordering::Relaxed) - before) as f64;
    let name = format!("{name}: each of three copies of the journal");
    vec![row(&name, Bound::AtMost(4.2), bytes / 3.0 / COUNT as f64 / 1024.0, "KiB")]
}

fn sequential_reads(name: &str) -> Vec<Row> {
    const BYTES: u64 = 256 << 20;
    let mut shape = Shape::new(512);
    shape.options.cache_bytes = 16 << 20;
    let mut rig = Rig::new(shape);
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(Content::Half);
    let count = BYTES / (64 << 10);
    rig.perform(&*volume, 8, (0..count).map(|n| write(n * 16, maker.next(16))));
    rig.finish();
    let (start, before) = (cpu_us(), Reads::of(&rig));
    rig.perform_alone(&*volume, 8, (0..count).map(|n| read(n * 16, 16)));
    let seconds = (cpu_us() - start) / 1e6;
    let mut row = row(name, Bound::None, BYTES as f64 / 1e6 / seconds, "MB/s of one core");
    row.note = before.note(&rig, count);
    vec![row]
}

/// Sequential reads of a volume of which a quarter was overwritten in 4 KiB blocks at random, all flushed together.
fn reads_in_some_disorder(name: &str) -> Vec<Row> {
    reads_in_disorder(name, 1 << 14, 1 << 14)
}

/// The same of a volume that was overwritten whole, a little at a time.
fn reads_in_great_disorder(name: &str) -> Vec<Row> {
    reads_in_disorder(name, 1 << 16, 1 << 9)
}

/// Two passes over 2^16 blocks after some of them were overwritten, `each` in one flush.
fn reads_in_disorder(name: &str, overwritten: u64, each: usize) -> Vec<Row> {
    const BITS: u32 = 16;
    let mut shape = Shape::new(512);
    shape.options.cache_bytes = 16 << 20;
    let mut rig = Rig::new(shape);
    let volume = rig.volume(1, GIB);
    let mut maker = Maker::new(Content::Half);
    let count = (1 << BITS) / 16;
    rig.perform(&*volume, 8, (0..count).map(|n| write(n * 16, maker.next(16))));
    rig.settle();
    let blocks: Vec<u64> = shuffled(BITS, overwritten).collect();
    for group in blocks.chunks(each) {
        rig.perform(&*volume, DEPTH, group.iter().map(|block| write(*block, maker.next(1))));
        rig.settle();
    }
    let mut pass = |which: &str| {
        let (start, before) = (cpu_us(), Reads::of(&rig));
        rig.perform(&*volume, 8, (0..count).map(|n| read(n * 16, 16)));
        let cpu = (cpu_us() - start) / count as f64;
        let (reads, written) = (before.note(&rig, count), rig.engine.log_writes().moved >> 20);
        let mut row = row(&format!("{name}: {which} pass"), Bound::None, cpu, "µs");
        row.note = format!("{reads}; {written} MiB written again so far");
        rig.settle();
        row
    };
    vec![pass("first"), pass("second")]
}

fn xcopy(name: &str) -> Vec<Row> {
    const BYTES: u64 = 50 * GIB;
    const EACH: u64 = (16 << 20) / BLOCK as u64;
    let mut rig = Rig::new(Shape::new(512));
    let (source, target) = (rig.volume(1, BYTES), rig.volume(2, BYTES));
    let mut maker = Maker::new(Content::Half);
    // Something in every other leaf.
    let written = (0..BYTES >> 22).map(|n| write(n * 1024, maker.next(1)));
    rig.perform(&*source, DEPTH, written);
    rig.settle();
    let copies = (0..BYTES / BLOCK as u64 / EACH).map(|n| {
        let (source_lba, target_lba) = (n * EACH, n * EACH);
        Op::Copy(vec![CopySegment {
            source: DiskId(1),
            source_lba,
            target: DiskId(2),
            target_lba,
            blocks: EACH,
        }])
    });
    let start = cpu_us();
    rig.perform(&*target, 4, copies);
    vec![row(name, Bound::AtMost(1.0), (cpu_us() - start) / 1e6, "s")]
}

fn write_same(name: &str) -> Vec<Row> {
    const COUNT: u64 = (100 * GIB) >> 20;
    let mut rig = Rig::new(Shape::new(512));
    let volume = rig.volume(1, 100 * GIB);
    let zeros = bytes::Bytes::from(vec![0; BLOCK]);
    let fill = |n| Op::Fill { extent: Extent::new(n * 256, 256), block: Data::from(zeros.clone()) };
    let start = cpu_us();
    rig.perform(&*volume, 4, (0..COUNT).map(fill));
    vec![row(name, Bound::AtMost(20.0), (cpu_us() - start) / COUNT as f64, "µs/command")]
}

fn unmap(name: &str) -> Vec<Row> {
    const BYTES: u64 = 8 << 40;
    const EACH: u64 = 4 * GIB / BLOCK as u64;
    let mut rig = Rig::new(Shape::new(512));
    let volume = rig.volume(1, BYTES);
    let mut maker = Maker::new(Content::Half);
    rig.perform(&*volume, DEPTH, shuffled(31, 20_000).map(|block| write(block, maker.next(1))));
    rig.settle();
    let count = BYTES / BLOCK as u64 / EACH;
    let start = cpu_us();
    rig.perform_alone(&*volume, 4, (0..count).map(|n| Op::Unmap(vec![Extent::new(n * EACH, EACH)])));
    let foreground = cpu_us() - start;
    rig.settle();
    let mut row = row(name, Bound::AtMost(20.0), foreground / count as f64, "µs/command");
    row.note = format!("{:.0} with the release of 20,000 leaves", (cpu_us() - start) / count as f64);
    vec![row]
}

/// Bytes of memory, and of the log, after 2^`bits` random blocks, with minimal caches and without the deduplication
/// index.
fn memory(bits: u32) -> (u64, u64) {
    let mut shape = Shape::new(768);
    (shape.options.cache_bytes, shape.options.index_bytes, shape.options.page_bytes) = (0, 0, 1 << 20);
    let mut rig = Rig::new(shape);
    let volume = rig.volume(1, GIB);
    let before = held_bytes();
    let mut maker = Maker::new(Content::Random);
    rig.perform(&*volume, DEPTH, shuffled(bits, 1 << bits).map(|block| write(block, maker.next(1))));
    rig.settle();
    rig.finish();
    (held_bytes().saturating_sub(before), rig.engine.space().physical)
}

/// Resident metadata, which grows with the stored data.
fn resident(name: &str) -> Vec<Row> {
    let ((less, from), (more, to)) = (memory(16), memory(18));
    let each = more.saturating_sub(less) as f64 * 1e3 / (to - from) as f64;
    let constant = more as f64 - each * to as f64 / 1e3;
    let mut row = row(name, Bound::AtMost(1.0), each, "GB/TB");
    row.note = format!(
        "{} KiB for {} MiB, {:.0} KiB of it independent of the data",
        more >> 10,
        to >> 20,
        constant / 1024.0
    );
    vec![row]
}

/// The median; NaN if there are no figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
