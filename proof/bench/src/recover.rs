//! What a process that has just been started takes until it answers: after a power loss with a full journal, over little
//! and over much that is stored.

use crate::data::{BLOCK, Content, Maker};
use crate::rig::{Rig, Shape, Written, counted, process_us, write};
use crate::rows::{Bound, DEPTH, Row, read, row, shuffled};
use crate::shards::{Files, sleep_on};
use block::{Disk, DiskId};
use engine::{Engine, Options};
use shelf::device::{self, Ring};
use shelf::{DriveShelf, Opening};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Opens the drives in a folder, reads a block and writes one, and prints what that took: processor time in ms until
/// the read and until the write was answered, MiB read from the drives until the read was, and both times by the clock.
pub fn first_answers(folder: &Path) {
    let start = Instant::now();
    let written = Arc::new(Written::default());
    let ring = Ring::start().expect("io_uring");
    let drive = |number: usize| {
        let drive = device::open(&ring, &folder.join(number.to_string())).expect("a drive");
        counted(drive, &written)
    };
    let drives = (0..).take_while(|number| folder.join(number.to_string()).exists()).map(drive).collect();
    let shelf = sleep_on(DriveShelf::open(drives, Opening { salt: 2, key: None })).expect("the drives");
    let options = Options { deepen: false, ..Options::new([7; 32]) };
    let engine = sleep_on(Engine::open(shelf, options)).expect("an array in order");
    let volume = engine.volume(DiskId(1)).expect("the volume is there");
    sleep_on(volume.execute(read(0, 1))).expect("a read");
    let read = process_us() / 1e3;
    let mib = written.read.load(Ordering::Relaxed) as f64 / f64::from(1 << 20);
    let read_clock = start.elapsed();
    let background = engine.background();
    let background = std::thread::spawn(move || sleep_on(background));
    sleep_on(volume.execute(write(0, Maker::new(Content::Half).next(1)))).expect("a write");
    let write = process_us() / 1e3;
    let clock = [read_clock, start.elapsed()].map(|time| time.as_secs_f64() * 1e3);
    println!("{read} {write} {mib} {} {}", clock[0], clock[1]);
    sleep_on(engine.shutdown()).expect("the last checkpoint");
    background.join().expect("the background");
}

/// Power losses with a full journal, over so many MiB that were written once as single blocks at random: what each took,
/// and the writes in the journal.
fn recover(mib: u64, times: usize) -> (Vec<Vec<f64>>, usize) {
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
    drop(volume);
    let runs = (0..times).map(|_| {
        let files = Files::new("recover");
        rig.save(&files.0);
        let this = std::env::current_exe().expect("this program");
        let run = Command::new(this).arg("--recover").arg(&files.0).output().expect("it starts");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let told = String::from_utf8_lossy(&run.stdout);
        told.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect()
    });
    (runs.collect(), journal)
}

/// Recovery with ten times the data, each time by a process of its own.
pub fn compare(name: &str) -> Vec<Row> {
    const MIB: u64 = 160;
    const TIMES: usize = 5;
    let ((small, in_small), (large, in_large)) = (recover(MIB, TIMES), recover(10 * MIB, TIMES));
    // Memory that a process touches first costs as much as the machine likes, up to all the rest: the least of the runs.
    let least =
        |runs: &[Vec<f64>], figure: usize| runs.iter().map(|run| run[figure]).fold(f64::INFINITY, f64::min);
    let compare = |what: &str, unit: &str, figure: usize, clock: Option<usize>| {
        let (from, to) = (least(&small, figure), least(&large, figure));
        let mut row = row(&format!("{name}: {what}"), Bound::AtMost(1.2), to / from, "×");
        let large_mib = 10 * MIB;
        row.note = format!(
            "{from:.1} {unit} with {MIB} MiB and {in_small} writes in the journal, {to:.1} {unit} with {large_mib} MiB and \
             {in_large}"
        );
        if let Some(clock) = clock {
            let (from, to) = (least(&small, clock), least(&large, clock));
            row.note += &format!("; by the clock, on files, {from:.0} and {to:.0} ms");
        }
        row
    };
    vec![
        compare("processor time to the first read", "ms", 0, Some(3)),
        compare("processor time to the first write", "ms", 1, Some(4)),
        compare("bytes read from the drives", "MiB", 2, None),
    ]
}
