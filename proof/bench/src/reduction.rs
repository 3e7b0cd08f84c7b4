//! Data reduction by kind of data: deduplication, compression, and both, after the flush and after the array was idle.
//!
//! The data come from what is installed and from the history of this repository, so that nothing is downloaded.

use crate::data::BLOCK;
use crate::rig::{Rig, Shape, write};
use crate::rows::{Bound, Row};
use block::DiskId;
use bytes::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of a write.
const PIECE_BYTES: usize = 64 << 10;

/// Sizes of the data sets.
pub struct Sizes {
    /// MiB of the desktop image and of the table.
    pub mib: usize,
    /// Clones of the desktop.
    pub clones: u64,
    /// Versions of the source tree.
    pub versions: usize,
}

/// Changes of a clone: blocks of logs, which are text, and of caches and page files, which compress to half. One in
/// `one_in` blocks of the image changes.
struct Churn {
    name: &'static str,
    mark: f64,
    one_in: usize,
}

const CHURNS: [Churn; 2] = [
    Churn { name: "clones of a desktop, fresh", mark: 68.0, one_in: 1024 },
    Churn { name: "clones of a desktop, after office work", mark: 36.0, one_in: 128 },
];

/// A temporary folder, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("reduction-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Measures all data sets.
///
/// # Errors
/// When one can't be made: a program is missing, or the disk is full.
pub fn measure(sizes: &Sizes, repository: &Path) -> io::Result<Vec<Row>> {
    let scratch = Scratch::new()?;
    let desktop = desktop(&scratch, sizes.mib << 20)?;
    let mut rows = alone("desktop image (ext4 of installed files)", &desktop, Bound::None);
    rows.extend(qcow2(&scratch.path("desktop.img"))?);
    for churn in &CHURNS {
        rows.extend(clones(churn, &desktop, sizes.clones));
    }
    let (table, packed) = table((sizes.mib << 20) / 2);
    rows.extend(alone("fact table, heap pages", &table, Bound::AtLeast(3.15)));
    rows.extend(alone("fact table, packed rows", &packed, Bound::None));
    match zstd(&scratch, &packed)? {
        Some(bytes) => {
            rows.extend(alone("fact table, packed and compressed by the host", &bytes, Bound::None))
        }
        None => eprintln!("no zstd program: the table is not compressed by the host"),
    }
    rows.extend(alone("random", &noise(1, 16 << 20), Bound::None));
    rows.extend(alone("zeros and patterns", &patterns(16 << 20), Bound::None));
    rows.extend(alone(
        "source tree, many versions",
        &source(&scratch, repository, sizes.versions)?,
        Bound::None,
    ));
    Ok(rows)
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
    };
    (0..bytes / 8).flat_map(|_| word()).collect()
}

fn patterns(bytes: usize) -> Vec<u8> {
    let block =
        |n: usize| if n.is_multiple_of(2) { vec![0; BLOCK] } else { vec![(n / 2 % 7) as u8 + 1; BLOCK] };
    (0..bytes / BLOCK).flat_map(block).collect()
}

fn run(command: &mut Command) -> io::Result<()> {
    let status = command.stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}

/// An ext4 image of a folder with contents of `bytes`.
fn ext4(folder: &Path, image: &Path, bytes: usize) -> io::Result<Vec<u8>> {
    let size = format!("{}k", (bytes + bytes / 4 + (16 << 20)) >> 10);
    run(Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-i", "4096", "-d"])
        .arg(folder)
        .arg(image)
        .arg(size))?;
    std::fs::read(image)
}

/// Copies files into a folder until `left` bytes of a file system are used.
fn gather(from: &Path, to: &Path, left: &mut usize) -> io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(from)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    std::fs::create_dir_all(to)?;
    for entry in entries {
        let (kind, path) = (entry.file_type()?, to.join(entry.file_name()));
        let bytes = entry.metadata()?.len() as usize;
        if kind.is_dir() {
            gather(&entry.path(), &path, left)?;
        } else if kind.is_file() && bytes <= *left && bytes <= 16 << 20 {
            std::fs::copy(entry.path(), path)?;
            *left = left.saturating_sub(bytes.next_multiple_of(BLOCK) + 512);
        }
    }
    Ok(())
}

/// A file system with installed programs, libraries and documents, nearly full.
fn desktop(scratch: &Scratch, bytes: usize) -> io::Result<Vec<u8>> {
    let folder = scratch.path("desktop");
    for (part, share) in [("bin", 4), ("lib/x86_64-linux-gnu", 4), ("share", 4)] {
        let mut left = bytes / share;
        gather(&Path::new("/usr").join(part), &folder.join(part), &mut left)?;
    }
    ext4(&folder, &scratch.path("desktop.img"), bytes)
}

/// Versions of this repository's files side by side in a file system.
fn source(scratch: &Scratch, repository: &Path, versions: usize) -> io::Result<Vec<u8>> {
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(repository).args(words).output()?;
        Ok::<_, io::Error>(output.stdout)
    };
    let log = String::from_utf8_lossy(&git(&["log", "--format=%H", "--", "io"])?).into_owned();
    let commits: Vec<&str> = log.lines().collect();
    let folder = scratch.path("source");
    let mut bytes = 0;
    for commit in commits.iter().step_by((commits.len() / versions).max(1)).take(versions) {
        let (to, archive) = (folder.join(commit), scratch.path("source.tar"));
        std::fs::create_dir_all(&to)?;
        std::fs::write(&archive, git(&["archive", commit])?)?;
        bytes += std::fs::metadata(&archive)?.len() as usize;
        run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&to))?;
    }
    ext4(&folder, &scratch.path("source.img"), 2 * bytes)
}

/// A table of sales as a database writes it (8 KiB pages, a header of 24 bytes for each row) and with its rows packed:
/// keys that go up, dates, small numbers, a few hundred names.
fn table(bytes: usize) -> (Vec<u8>, Vec<u8>) {
    const PAGE: usize = 8192;
    let (mut pages, mut packed) = (Vec::with_capacity(bytes), Vec::new());
    let words = noise(3, 4 << 20);
    let number = |n: usize, below: u32| {
        let at = n * 4 % (words.len() - 4);
        words[at..at + 4].iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte)) % below
    };
    let mut row = 0usize;
    while pages.len() < bytes {
        let start = pages.len();
        pages.extend_from_slice(&[&(row as u64).to_le_bytes()[..], &[0; 16]].concat());
        while pages.len() - start + 24 + 56 <= PAGE {
            let day = 18_000 + row / 5000;
            let mut fields = Vec::with_capacity(56);
            fields.extend_from_slice(&(row as u64).to_le_bytes());
            fields.extend_from_slice(&(day as u32).to_le_bytes());
            fields.extend_from_slice(&number(row * 5, 20_000).to_le_bytes());
            fields.extend_from_slice(&number(row * 5 + 1, 3000).to_le_bytes());
            fields.extend_from_slice(&(1 + number(row * 5 + 2, 12)).to_le_bytes());
            fields.extend_from_slice(&number(row * 5 + 3, 100_000).to_le_bytes());
            fields.extend_from_slice(
                format!("region {:02} store {:03}", row % 17, number(row * 5 + 4, 400)).as_bytes(),
            );
            packed.extend_from_slice(&fields);
            pages.extend_from_slice(
                &[
                    &(700 + row as u32 / 200).to_le_bytes()[..],
                    &[0; 8],
                    &(row as u32).to_le_bytes(),
                    &[8, 0, 2, 9, 24, 0, 0, 0],
                ]
                .concat(),
            );
            pages.extend_from_slice(&fields);
            row += 1;
        }
        pages.resize(start + PAGE, 0);
    }
    (pages, packed)
}

fn zstd(scratch: &Scratch, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let (plain, packed) = (scratch.path("table"), scratch.path("table.zst"));
    std::fs::write(&plain, bytes)?;
    let done = run(Command::new("zstd").args(["-q", "-f"]).arg(&plain).arg("-o").arg(&packed));
    if done.is_err() {
        return Ok(None);
    }
    std::fs::read(packed).map(Some)
}

/// A rig with room for `bytes` of irreducible data; twelve drives, because two of four would hold parity.
fn rig(bytes: usize) -> Rig {
    let mut shape = Shape { drives: 12, ..Shape::new((bytes as u64 >> 20) / 10 + 96) };
    shape.options.recompress = true;
    Rig::new(shape)
}

fn fill(rig: &mut Rig, number: u128, image: &[u8]) {
    let blocks = image.len().div_ceil(BLOCK);
    let volume = rig.volume(number, (blocks * BLOCK) as u64);
    let ops = (0u64..).zip(image.chunks(PIECE_BYTES)).map(|(piece, bytes)| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().div_ceil(BLOCK) * BLOCK, 0);
        write(piece * (PIECE_BYTES / BLOCK) as u64, Bytes::from(bytes))
    });
    rig.perform(&*volume, 8, ops);
}

/// The row of an array with `logical` bytes of data other than zeros. The total ratio is compared with the bound.
fn reduction_row(rig: &Rig, name: &str, bound: Bound, logical: u64) -> Row {
    let space = rig.engine.space();
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    let (dedup, compression) = (ratio(logical, space.unique), ratio(space.unique, space.physical));
    let total = ratio(logical, space.physical + space.metadata);
    let note = format!(
        "deduplication {dedup:.2}, compression {compression:.2}; {} MiB in {} MiB, of which metadata {} KiB",
        logical >> 20,
        (space.physical + space.metadata) >> 20,
        space.metadata >> 10
    );
    Row { name: name.to_owned(), bound, result: total, unit: ": 1", note }
}

/// An image on one volume.
fn alone(name: &str, image: &[u8], bound: Bound) -> Vec<Row> {
    let mut rig = rig(image.len());
    fill(&mut rig, 1, image);
    rig.settle();
    rig.finish();
    let space = rig.engine.space();
    vec![reduction_row(&rig, name, bound, space.mapped - space.zero)]
}

/// Clones: two written by the host as a whole, the others made by the array; then each gets blocks of its own.
fn clones(churn: &Churn, image: &[u8], count: u64) -> Vec<Row> {
    let own = image.len() / BLOCK / churn.one_in;
    // The full copies deduplicate to one, and other writes compress to half: with room for unreduced data, a thousand
    // clones of 2 GiB would not fit in the memory of this machine.
    let mut rig = rig(image.len() / 2 + own * BLOCK * count as usize / 5 * 3);
    for number in [1, 2, 3] {
        fill(&mut rig, number, image);
    }
    for number in 3..count {
        let (engine, id) = (rig.engine.clone(), u128::from(number) + 1);
        rig.run(engine.clone_volume(DiskId(1), DiskId(id), 0)).expect("a clone");
    }
    let blocks = (image.len() / BLOCK) as u64;
    for number in 1..=count {
        let volume = rig.engine.volume(DiskId(u128::from(number))).expect("it was made");
        let ops = (0..own as u64).map(|n| {
            let mut bytes = noise(number << 32 | n, BLOCK);
            if n % 2 == 0 {
                let line = |at: usize| {
                    format!("host {number} event {} code {:08x}\n", at + n as usize * 99, bytes[at % BLOCK])
                };
                bytes = (0..BLOCK).flat_map(|at| line(at).into_bytes()).take(BLOCK).collect();
            } else {
                bytes[BLOCK / 2..].fill(0);
            }
            // Half of it is where logs grow, half of it anywhere.
            let at = if n % 4 == 0 { blocks / 2 + n } else { (n * 7919 + number * 104_729) % blocks };
            write(at % blocks, Bytes::from(bytes))
        });
        rig.perform(&*volume, 8, ops);
    }
    rig.settle();
    rig.finish();
    let space = rig.engine.space();
    let name = format!("{count} {}, {own} blocks of each its own", churn.name);
    vec![reduction_row(&rig, &name, Bound::AtLeast(churn.mark), space.mapped - space.zero)]
}

/// A peer that runs here: the same image as a compressed qcow2 file, which does not deduplicate.
fn qcow2(image: &Path) -> io::Result<Vec<Row>> {
    let packed = image.with_extension("qcow2");
    let done = run(Command::new("qemu-img")
        .args(["convert", "-c", "-f", "raw", "-O", "qcow2"])
        .arg(image)
        .arg(&packed));
    if done.is_err() {
        eprintln!("no qemu-img: qcow2 is not compared");
        return Ok(Vec::new());
    }
    let bytes = std::fs::read(image)?;
    let data = bytes.chunks(BLOCK).filter(|block| !block::is_zero(block)).count() * BLOCK;
    let len = std::fs::metadata(&packed)?.len();
    let (name, note) = ("desktop image as compressed qcow2 (peer)".to_owned(), format!("{} MiB", len >> 20));
    Ok(vec![Row { name, bound: Bound::None, result: data as f64 / len as f64, unit: ": 1", note }])
}
