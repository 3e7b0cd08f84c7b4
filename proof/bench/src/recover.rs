//! Time to recover: from the start of the process after a power loss with a full journal, with little and with much data.

use crate::data::{BLOCK, Content, Maker};
use crate::rig::{Rig, Shape, Written, counted, process_us, write};
use crate::rows::{Bound, DEPTH, Row, median, read, row, shuffled};
use crate::shards::{Files, sleep_on};
use block::{Disk, DiskId};
use engine::{Engine, Options};
use raid::device::{self, Ring};
use raid::{DriveShelf, Opening};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Opens the drives in a folder, reads a block and writes one, and prints what that took: processor time in ms and
/// MiB read from the drives until the read completed, and the times in ms until the read and until the write completed.
pub fn print_first_responses(folder: &Path) {
    touch_memory();
    let (start, before) = (Instant::now(), process_us());
    let written = Arc::new(Written::default());
    let ring = Ring::start().expect("io_uring");
    let drive = |number: usize| {
        let drive = device::open(&ring, &folder.join(number.to_string())).expect("a drive");
        counted(drive, &written)
    };
    let drives = (0..).take_while(|number| folder.join(number.to_string()).exists()).map(drive).collect();
    let shelf = sleep_on(DriveShelf::open(drives, Opening { salt: 2, key: None })).expect("the drives");
    let options = Options { recompress: false, ..Options::new([7; 32]) };
    let engine = sleep_on(Engine::open(shelf, options)).expect("an array in order");
    let volume = engine.volume(DiskId(1)).expect("the volume is there");
    sleep_on(volume.execute(read(0, 1))).expect("a read");
    let read = (process_us() - before) / 1e3;
    let mib = written.read.load(Ordering::Relaxed) as f64 / f64::from(1 << 20);
    let read_clock = start.elapsed();
    let background = engine.background();
    let background = std::thread::spawn(move || sleep_on(background));
    sleep_on(volume.execute(write(0, Maker::new(Content::Half).next(1)))).expect("a write");
    let clock = [read_clock, start.elapsed()].map(|time| time.as_secs_f64() * 1e3);
    println!("{read} {mib} {} {}", clock[0], clock[1]);
    sleep_on(engine.shutdown()).expect("the last checkpoint");
    background.join().expect("the background");
}

/// Drives with a full journal, over `mib` MiB that were written once as single blocks at random, and the writes in the
/// journal.
fn filled(mib: u64) -> (Rig, usize) {
    let mut rig = Rig::new(Shape::new(1024));
    let blocks = (mib << 20) / BLOCK as u64;
    let volume = rig.volume(1, blocks * BLOCK as u64);
    let mut maker = Maker::new(Content::Half);
    let within = |bits: u32, count: u64| shuffled(bits, count).map(move |n| n % blocks);
    let all = blocks.next_power_of_two();
    let once = shuffled(all.ilog2(), all).filter(|block| *block < blocks);
    rig.perform(&*volume, DEPTH, once.map(|block| write(block, maker.next(1))));
    rig.settle();
    let more = within(40, 1 << 20).map(|block| write(block, maker.next(1)));
    let journal = rig.perform_until_full(&*volume, DEPTH, more);
    (rig, journal)
}

/// A power loss and the start of a process after it: the figures of [`print_first_responses`].
fn restarted(rig: &Rig) -> Vec<f64> {
    let files = Files::new("recover");
    rig.save(&files.0);
    let this = std::env::current_exe().expect("this program");
    let run = Command::new(this).arg("--recover").arg(&files.0).output().expect("it starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&run.stdout);
    text.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect()
}

/// Touches as much memory as opening will need, and frees it. The first use of a page that a virtual machine has not used
/// recently takes up to 20 µs, in total many times as much as recovery, and varies from second to second.
fn touch_memory() {
    const PIECE_BYTES: usize = 64 << 10;
    let pieces: Vec<Vec<u8>> = (0..(512 << 20) / PIECE_BYTES).map(|_| vec![1; PIECE_BYTES]).collect();
    drop(std::hint::black_box(pieces));
}

/// Recovery with ten times the data, each time in a separate process, one after the other.
pub fn compare(name: &str) -> Vec<Row> {
    const MIB: u64 = 160;
    const TIMES: usize = 7;
    let ((few, in_few), (much, in_much)) = (filled(MIB), filled(10 * MIB));
    let (small, large): (Vec<_>, Vec<_>) = (0..TIMES).map(|_| (restarted(&few), restarted(&much))).unzip();
    let medians =
        |figure: usize| [&small, &large].map(|runs| median(runs.iter().map(|run| run[figure]).collect()));
    let row_of = |what: &str, bound: Bound, [from, to]: [f64; 2], unit: &str| {
        let mut row = row(&format!("{name}: {what}"), bound, to / from, "×");
        row.note = format!("{from:.1} {unit} with {MIB} MiB, {to:.1} {unit} with {} MiB", 10 * MIB);
        row
    };
    // Wall-clock time: reported, not checked by `--check`.
    let clock = |what: &str, figure: usize| {
        let mut row = row_of(what, Bound::None, medians(figure), "ms");
        row.note = format!("aim ≤ 1.2; {}; by the clock, on files, medians of {TIMES}", row.note);
        row
    };
    // The requirement is the time. This bounds its components, with room for ten times the map, which no longer fits the
    // processor's caches. A full journal holds a few more writes if fewer of them are to the same block.
    let [from, to] = medians(0);
    let each = [from * 1e3 / in_few as f64, to * 1e3 / in_much as f64];
    let what = "processor time to the first read, per write in the journal";
    let mut cost = row_of(what, Bound::AtMost(1.5), each, "µs");
    cost.note += &format!("; {from:.1} ms for {in_few} writes, {to:.1} ms for {in_much}");
    vec![
        clock("time to the first read", 2),
        clock("time to the first write", 3),
        cost,
        row_of("bytes read from the drives", Bound::AtMost(1.2), medians(1), "MiB"),
    ]
}
