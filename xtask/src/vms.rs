//! Virtual machines that boot at once, each from its clone of one golden image, through QEMU's own iSCSI initiator:
//! how long it takes, what it costs, and that nothing is lost when the array is killed under them. What runs in them
//! is `xtask/guest/vm.sh`.

use crate::conformance::programs;
use crate::demo::{Space, image_options, settled, store};
use crate::guest;
use crate::real;
use crate::setup;
use crate::shell::target_dir;
use anyhow::{Context, Result, bail, ensure};
use lab::array::{Array, Drives};
use lab::figures::{Case, Figure};
use lab::load::processor_time;
use lab::report;
use lab::scratch::Scratch;
use lab::target::{Process, Shape, Target, pinned};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How many.
#[derive(clap::Args)]
pub struct Args {
    /// Virtual machines; fewer when the memory does not hold them
    #[arg(long, default_value_t = COUNT)]
    count: usize,
    /// Keep what the machines said, and the array
    #[arg(long)]
    keep: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self { count: COUNT, keep: false }
    }
}

const COUNT: usize = 20;

/// Memory of a machine, and what its emulator takes beside it.
const MEMORY_MIB: u64 = 192;
const EMULATOR_MIB: u64 = 96;
/// The part of the available memory that machines may take, in percent: the array and its page cache have the rest.
const MEMORY_SHARE_PERCENT: u64 = 70;
/// A busy machine emulates slowly: how long one machine may take for anything, and each further one on top.
const LIMIT: Duration = Duration::from_secs(120);
const LIMIT_EACH: Duration = Duration::from_secs(60);
/// How long a processor's own virtualization may take to start a kernel that ends at once. Some can be opened, but don't
/// get anywhere.
const PROBE_TIMEOUT_SECONDS: &str = "10";

/// What every machine is started with.
struct Image {
    folder: PathBuf,
    accelerator: &'static [&'static str],
}

struct Machine {
    number: usize,
    process: Process,
    console: PathBuf,
    keyboard: ChildStdin,
}

/// Boots them, and prints what is in docs/benchmarks.md.
pub fn run(args: &Args) -> Result<()> {
    print!("{}", report::case(&measure(args)?));
    Ok(())
}

/// Boots them, and returns what was measured.
pub fn measure(args: &Args) -> Result<Case> {
    guest::prepare().context("no virtual machine can be made here")?;
    setup::need(&["qemu-utils", "qemu-block-extra"])?;
    let mut scratch = Scratch::new(&target_dir(), "vms")?;
    let result = in_folder(scratch.path(), args);
    if args.keep || result.is_err() {
        scratch.keep();
    }
    result
}

fn in_folder(folder: &Path, args: &Args) -> Result<Case> {
    let count = bounded(args.count)?;
    guest::machines(folder)?;
    let image = Image { folder: folder.to_path_buf(), accelerator: accelerator(folder)? };
    let data = folder.join("array");
    std::fs::create_dir_all(&data)?;
    let mut array = Array::start(&programs()?, &data, Drives { count: 4, bytes: 4 << 30 }, None)?;
    let bytes = golden(&array, &folder.join("golden"))?;
    let one = settled(&array)?;

    eprintln!("cloning it {count} times, and booting every clone");
    let cloned = Instant::now();
    clones(&array, count)?;
    let cloned = cloned.elapsed();
    let (start, before) = (Instant::now(), processor_time(array.pid()?)?);
    let mut machines = boot(&image, &array, count)?;
    let up = await_all(&mut machines, "up", start)?;
    let boot_cpu = processor_time(array.pid()?)? - before;
    await_all(&mut machines, "busy", start)?;

    eprintln!("killing the array while they write");
    array.kill()?;
    array.restart()?;
    for machine in &mut machines {
        machine.keyboard.write_all(b"end\n").context("a machine's console")?;
    }
    let verified = await_end(machines, "verified")?;
    eprintln!("killing it again, and booting every clone again");
    array.kill()?;
    array.restart()?;
    let machines = boot(&image, &array, count)?;
    let intact = await_end(machines, "intact")?;
    ensure!(verified == intact, "{verified} files before the second kill, {intact} after it");
    let many = settled(&array)?;
    array.stop()?;
    array.check()?;

    let mut case = real::heading("vms").context("it has a heading")?;
    let how = if image.accelerator.contains(&"kvm") { "with KVM" } else { "emulated" };
    case.story.push(format!(
        "{count} virtual machines, {how}, boot at once from clones of one image. Up: the median, the first and the last."
    ));
    case.figures = times(&up, cloned, boot_cpu)?;
    case.figures.extend(space(&one, &many, bytes, count)?);
    case.notes.push(format!(
        "{intact} files on {count} disks are what they were after two kills of the array; every file system is clean, \
         and so is the array (ashlard check)."
    ));
    Ok(case)
}

/// As many machines as the memory holds.
fn bounded(wanted: usize) -> Result<usize> {
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|it| it.trim().strip_suffix(" kB")).context("no MemAvailable")?;
    let mib = kib.parse::<u64>()? / 1024 * MEMORY_SHARE_PERCENT / 100;
    let most = usize::try_from(mib / (MEMORY_MIB + EMULATOR_MIB))?;
    ensure!(most > 0, "no memory for a machine of {MEMORY_MIB} MiB");
    if most < wanted {
        eprintln!("{wanted} machines were asked for, and the memory that is available holds {most}");
    }
    Ok(wanted.min(most))
}

/// The processor's own virtualization where it works.
fn accelerator(folder: &Path) -> Result<&'static [&'static str]> {
    const KVM: &[&str] = &["-accel", "kvm", "-cpu", "host"];
    const EMULATED: &[&str] = &["-accel", "tcg,tb-size=32", "-cpu", "max"];
    if File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(EMULATED);
    }
    let mut command = Command::new("timeout");
    command.args(["-k", "1", PROBE_TIMEOUT_SECONDS, "qemu-system-x86_64"]).args(KVM);
    command.args(hardware(folder, "vm=probe")).args(["-serial", "stdio"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().context("can't start qemu")?;
    if output.status.success() && String::from_utf8_lossy(&output.stdout).contains("VM probed") {
        return Ok(KVM);
    }
    eprintln!("there is /dev/kvm, but no kernel starts with it: the machines are emulated");
    Ok(EMULATED)
}

fn hardware(folder: &Path, words: &str) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let console = format!(
        "console=ttyS0 quiet panic=-1 mitigations=off nokaslr no_timer_check cryptomgr.notests init_on_alloc=0 audit=0 \
         apparmor=0 {words}"
    );
    let memory = MEMORY_MIB.to_string();
    let (kernel, initrd) = (path("vmlinuz"), path("initrd"));
    let words = ["-M", "pc,usb=off", "-smp", "1", "-m", &memory, "-nodefaults", "-no-user-config"];
    let more =
        ["-display", "none", "-no-reboot", "-kernel", &kernel, "-initrd", &initrd, "-append", &console];
    words.iter().chain(&more).map(|word| (*word).to_owned()).collect()
}

/// Makes the golden volume and its snapshot, and returns the volume's size.
fn golden(array: &Array, image: &Path) -> Result<u64> {
    const WRITER: &str = "iqn.2001-04.org.example:golden";
    let bytes = std::fs::metadata(image)?.len();
    array.add_volume("golden", Shape { bytes, block_bytes: 512 })?;
    array.add_host("writer", WRITER)?;
    array.connect("golden", "writer", 0)?;
    eprintln!("writing the golden image, {} MiB", bytes >> 20);
    store(image, &image_options(array, 0, WRITER, 0))?;
    array.cli(&["snapshot", "create", "golden", "--suffix", "ready"])?;
    Ok(bytes)
}

fn initiator(number: usize) -> String {
    format!("iqn.2001-04.org.example:vm{number}")
}

fn clones(array: &Array, count: usize) -> Result<()> {
    for number in 1..=count {
        let name = format!("vm{number}");
        array.cli(&["snapshot", "clone", "golden.ready", &name])?;
        array.add_host(&name, &initiator(number))?;
        array.connect(&name, &name, 0)?;
    }
    Ok(())
}

fn boot(image: &Image, array: &Array, count: usize) -> Result<Vec<Machine>> {
    (1..=count).map(|number| Machine::start(image, array, number)).collect()
}

impl Machine {
    /// Every other machine takes the other portal.
    fn start(image: &Image, array: &Array, number: usize) -> Result<Self> {
        let console = image.folder.join(format!("vm{number}.out"));
        let disk = image_options(array, number % array.portals().len(), &initiator(number), 0);
        let mut command = pinned("qemu-system-x86_64", None);
        command.args(image.accelerator).args(hardware(&image.folder, &format!("vm={number}")));
        command.args(["-blockdev", &format!("{disk},node-name=disk,cache.direct=on")]);
        command.args(["-device", "virtio-blk-pci,drive=disk"]);
        command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        let errors = File::create(image.folder.join(format!("vm{number}.err")))?;
        command.stdout(File::create(&console)?).stderr(errors);
        let (process, keyboard) = Process::start_with_input(&mut command)?;
        Ok(Self { number, process, console, keyboard })
    }

    /// What it says after a word, if it has said that. Fails when it says that something is wrong.
    fn said(&self, word: &str) -> Result<Option<String>> {
        let text = String::from_utf8_lossy(&std::fs::read(&self.console)?).into_owned();
        let mut lines = text.lines().filter_map(|line| line.trim_end().strip_prefix("VM "));
        if let Some(wrong) = lines.clone().find(|line| line.starts_with("failed")) {
            bail!("machine {}: {wrong}", self.number);
        }
        Ok(lines.find_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_owned()))
    }
}

fn limit(machines: usize) -> Duration {
    LIMIT + LIMIT_EACH * u32::try_from(machines).unwrap_or(u32::MAX)
}

/// Waits until each machine has said a word, and returns when they did, in order.
fn await_all(machines: &mut [Machine], word: &str, start: Instant) -> Result<Vec<Duration>> {
    let mut times = vec![None; machines.len()];
    while times.contains(&None) {
        for (machine, time) in machines.iter_mut().zip(&mut times).filter(|(_, time)| time.is_none()) {
            *time = machine.said(word)?.map(|_| start.elapsed());
            machine.process.check_alive().with_context(|| format!("machine {}", machine.number))?;
        }
        ensure!(start.elapsed() < limit(machines.len()), "some machines don't say {word:?} within the time");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut times: Vec<_> = times.into_iter().flatten().collect();
    times.sort();
    Ok(times)
}

/// Waits until each machine has switched itself off, and adds up what they said after a word.
fn await_end(machines: Vec<Machine>, word: &str) -> Result<u64> {
    let (start, limit) = (Instant::now(), limit(machines.len()));
    let mut sum = 0;
    for mut machine in machines {
        let left = limit.saturating_sub(start.elapsed());
        machine.process.wait_at_most(left).with_context(|| format!("machine {}", machine.number))?;
        let said = machine.said(word)?;
        let said = said.with_context(|| format!("machine {} never said {word:?}", machine.number))?;
        sum += said.parse::<u64>().with_context(|| format!("machine {}: {said:?}", machine.number))?;
    }
    Ok(sum)
}

fn times(up: &[Duration], cloned: Duration, cpu: Duration) -> Result<Vec<Figure>> {
    let seconds: Vec<_> = up.iter().map(Duration::as_secs_f64).collect();
    let each = cpu.as_secs_f64() * 1000.0 / up.len() as f64;
    [
        ("all clones are made", "s", [cloned.as_secs_f64()].as_slice()),
        ("a machine is up", "s", &seconds),
        ("the array's processor time until all are up, for each", "ms", &[each]),
    ]
    .iter()
    .map(|(what, unit, values)| Figure::plain(what, unit, &[("array", values)]))
    .collect()
}

fn space(one: &Space, many: &Space, bytes: u64, count: usize) -> Result<Vec<Figure>> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let ratio = |space: &Space| space.mapped as f64 / space.physical as f64;
    let copies = count as u64 + 1;
    [
        ("provisioned", "MiB", mib(bytes * copies), mib(bytes)),
        ("mapped by hosts", "MiB", mib(many.mapped), mib(one.mapped)),
        ("on the drives", "MiB", mib(many.physical), mib(one.physical)),
        ("mapped for one on the drives", "×", ratio(many), ratio(one)),
    ]
    .iter()
    .map(|(what, unit, many, one)| {
        Figure::plain(what, unit, &[("image and machines", &[*many]), ("image", &[*one])])
    })
    .collect()
}
