//! The demonstration: an array in a folder, a real file system image stored on it by a client that is not ours, a
//! kill -9, the image read back, and what it cost in space.

use crate::conformance::{only_programs, programs};
use crate::setup;
use crate::shell::{command, exec, target_dir};
use crate::web;
use anyhow::{Context, Result, bail, ensure};
use lab::array::{Array, Drives, Programs, access};
use lab::scratch::Scratch;
use lab::target::{Shape, Target};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const HOST: &str = "demo";
const INITIATOR: &str = "iqn.2026-11.io.ashlar.demo:client";
const VOLUME: &str = "demo";
const COPY: &str = "copy";
const SHAPE: Shape = Shape { bytes: 1 << 30, block_bytes: 512 };
const IMAGE_BYTES: u64 = SHAPE.bytes;

/// How to show it.
#[derive(clap::Args)]
pub struct Args {
    /// Run to the end unattended and fail when anything differs
    #[arg(long)]
    check: bool,
    /// Folder of the array, kept for the next time [default: target/demo]
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    data: Option<PathBuf>,
}

/// Shows the array at work.
pub fn run(args: &Args) -> Result<()> {
    if args.check {
        return check();
    }
    let data = args.data.clone().unwrap_or_else(|| target_dir().join("demo"));
    stay(&data)
}

/// What `cargo xtask test` runs.
pub fn check() -> Result<()> {
    let scratch = Scratch::new(&target_dir(), "demo-check")?;
    let data = scratch.path().join("array");
    let shown = programs().and_then(|programs| start(&programs, &data)).and_then(|mut array| {
        walk(&mut array, scratch.path())?;
        array.stop()
    });
    scratch.end(shown)
}

/// Shows a new array at work, says what to type, and waits for Ctrl-C.
fn stay(data: &Path) -> Result<()> {
    // Side by side: npm waits for the network, cargo for the processors. The daemon takes the interface in afterwards.
    step("building the programs and the web interface (some minutes the first time)");
    std::thread::scope(|scope| {
        let interface = scope.spawn(web::build);
        let programs = only_programs();
        if let Err(error) = interface.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            eprintln!("the array will run without its web interface: {error:#}");
        }
        programs
    })?;
    let mut array = start(&only_programs()?, data)?;
    if array.cli(&["volume", "list"])?.as_array().is_none_or(Vec::is_empty) {
        let scratch = Scratch::new(&target_dir(), "demo-files")?;
        walk(&mut array, scratch.path())?;
    }
    let (portal, iqn) = (array.portals()[0], array.iqn().to_owned());
    let (url, token) = access(data)?;
    println!(
        "\nThe array runs in {data}, with volume {VOLUME:?} as LUN 0 for host {HOST:?} ({INITIATOR}).\n\n\
         Web:         {url}/#token={token}\n\
         Ask it:      {ashlar} --data {data} array status\n\
         See LUNs:    iscsi-ls -i {INITIATOR} -s iscsi://{portal}\n\
         Read it:     qemu-io -r --image-opts {image} -c 'read 0 1M'\n\
         Attach it:   a Linux host needs its own name known first (see /etc/iscsi/initiatorname.iscsi):\n\
        \x20            {ashlar} --data {data} host create me --iqn $(sed -n 's/^InitiatorName=//p' \
         /etc/iscsi/initiatorname.iscsi)\n\
        \x20            {ashlar} --data {data} volume connect {VOLUME} --host me\n\
        \x20            iscsiadm -m discovery -t sendtargets -p {portal}\n\
        \x20            iscsiadm -m node -T {iqn} -p {portal} --login\n\n\
         Ctrl-C ends it; what was written stays for the next time.",
        data = data.display(),
        ashlar = target_dir().join("debug/ashlar").display(),
        image = image_options(&array, 0, INITIATOR, 0),
    );
    // The terminal sends Ctrl-C to the array as well, which stops in good order; this program waits for that.
    // SAFETY: ignoring a signal touches no memory of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    array.wait()
}

fn start(programs: &Programs, data: &Path) -> Result<Array> {
    setup::need(&["e2fsprogs", "qemu-utils", "qemu-block-extra"])?;
    std::fs::create_dir_all(data).with_context(|| format!("can't make {}", data.display()))?;
    step("starting the array on eight file-backed drives of 4 GiB (sparse)");
    Array::start(programs, data, Drives { count: 8, bytes: 4 << 30 }, None)
}

/// The demonstration, with files in `folder`; an error when anything is not as it should be.
fn walk(array: &mut Array, folder: &Path) -> Result<()> {
    step("making a host and two volumes of 1 GiB");
    array.add_host(HOST, INITIATOR)?;
    for (lun, volume) in [(0, VOLUME), (1, COPY)] {
        array.add_volume(volume, SHAPE)?;
        array.connect(volume, HOST, lun)?;
    }
    println!("{}", array.cli(&["array", "status"])?["target_iqn"]);

    step("making an ext4 file system with this project's sources and programs in it");
    let image = folder.join("image");
    make_image(folder, &image)?;

    step("writing it to the volume with qemu-img, over iSCSI");
    store(&image, &image_options(array, 0, INITIATOR, 0))?;
    step("kill -9 of the array, and a new start");
    array.kill()?;
    array.restart()?;
    step("reading it back with qemu-img, comparing every byte, and checking the file system in the copy");
    let back = folder.join("back");
    fetch(array, 0, &back)?;
    same(&image, &back)?;
    exec(&mut administrator("e2fsck", &["-f", "-n", text(&back)?]))?;

    let first = settled(array)?;
    show("one copy on the array", &first);
    step("writing the same image to the second volume");
    store(&image, &image_options(array, 0, INITIATOR, 1))?;
    let second = settled(array)?;
    show("two copies on the array", &second);
    fetch(array, 1, &back)?;
    same(&image, &back)?;
    deduplicated(&first, &second)?;

    step("shutting the array down, and starting it again");
    array.stop()?;
    array.restart()?;
    fetch(array, 0, &back)?;
    same(&image, &back)?;
    println!("\nEverything was read back bit by bit as it was written.");
    Ok(())
}

/// An ext4 image with real files in it.
fn make_image(folder: &Path, image: &Path) -> Result<()> {
    let files = folder.join("files");
    std::fs::create_dir_all(&files)?;
    for part in ["io", "control", "proof/lab", "docs", "Cargo.lock"] {
        exec(&mut command("cp", &["-r", "--parents", part, text(&files)?]))?;
    }
    let built = target_dir().join("debug");
    exec(command("cp", &[]).arg(built.join("ashlard")).arg(built.join("ashlar")).arg(&files))?;
    File::create(image)?.set_len(IMAGE_BYTES)?;
    exec(&mut administrator("mke2fs", &["-q", "-t", "ext4", "-d", text(&files)?, text(image)?]))
}

/// A program that Debian keeps off the search path of ordinary users.
fn administrator(program: &str, args: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = command(program, args);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// What QEMU opens a LUN by a portal as an initiator.
pub fn image_options(array: &Array, portal: usize, initiator: &str, lun: u16) -> String {
    let (portal, iqn) = (array.portals()[portal], array.iqn());
    format!("driver=iscsi,transport=tcp,portal={portal},target={iqn},lun={lun},initiator-name={initiator}")
}

/// Writes an image to what [`image_options`] names.
pub fn store(image: &Path, to: &str) -> Result<()> {
    exec(&mut command("qemu-img", &["convert", "-n", "-f", "raw", "--target-image-opts", text(image)?, to]))
}

fn fetch(array: &Array, lun: u16, to: &Path) -> Result<()> {
    let from = image_options(array, 0, INITIATOR, lun);
    exec(&mut command("qemu-img", &["convert", "--image-opts", "-O", "raw", &from, text(to)?]))
}

/// Fails at the first byte that differs.
fn same(written: &Path, read: &Path) -> Result<()> {
    let open = |path: &Path| {
        File::open(path).map(BufReader::new).with_context(|| format!("can't open {}", path.display()))
    };
    let (mut written, mut read) = (open(written)?, open(read)?);
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut offset = 0;
    loop {
        let (len_a, len_b) = (fill(&mut written, &mut a)?, fill(&mut read, &mut b)?);
        if a[..len_a] != b[..len_b] {
            let differs = a[..len_a].iter().zip(&b[..len_b]).position(|(a, b)| a != b);
            bail!("what was read differs at byte {}", offset + differs.unwrap_or(len_a.min(len_b)));
        }
        if len_a == 0 {
            println!("   {offset} bytes are the same");
            return Ok(());
        }
        offset += len_a;
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match from.read(&mut buffer[len..])? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

/// Space in bytes as `ashlar array status` reports it.
pub struct Space {
    /// Allocated by hosts.
    pub mapped: u64,
    /// Of that, what is not the same.
    pub unique: u64,
    /// What it takes on the drives.
    pub physical: u64,
}

fn space(array: &Array) -> Result<Space> {
    let status = array.cli(&["array", "status"])?;
    let field = |name: &str| status["space"][name].as_u64().with_context(|| format!("no space.{name}"));
    Ok(Space { mapped: field("mapped")?, unique: field("unique")?, physical: field("physical")? })
}

/// Space when reduction, which runs after the writes, has caught up: it stays the same for a few seconds.
pub fn settled(array: &Array) -> Result<Space> {
    let (mut last, mut same) = (space(array)?, 0);
    for _ in 0..120 {
        std::thread::sleep(Duration::from_secs(1));
        let now = space(array)?;
        same = if (now.unique, now.physical) == (last.unique, last.physical) { same + 1 } else { 0 };
        if same == 3 {
            return Ok(now);
        }
        last = now;
    }
    bail!("reduction does not come to an end")
}

fn show(what: &str, space: &Space) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "   {what}: {:.1} MiB mapped by the host, {:.1} MiB of different data, {:.1} MiB on the drives",
        mib(space.mapped),
        mib(space.unique),
        mib(space.physical)
    );
}

/// The second copy must cost next to nothing.
fn deduplicated(first: &Space, second: &Space) -> Result<()> {
    ensure!(second.mapped > first.mapped, "the second copy is not counted as mapped");
    let grown = second.unique.saturating_sub(first.unique);
    ensure!(grown * 10 <= first.unique, "the second copy of the same data took {grown} bytes");
    Ok(())
}

fn step(what: &str) {
    println!("\n== {what}");
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
