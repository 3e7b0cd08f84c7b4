//! libiscsi's test program against a target: a process per family, a fresh volume for each, skips accounted for.
//!
//! Traps that this avoids: without a family the program runs some tests several times; one test of the
//! CompareAndWrite family leaves a hook that spoils what the same process sends later; a reservation left
//! by one family fails the next; and the program counts a skipped test as passed.

mod reasons;
mod report;

use crate::ceph::with_cluster;
use crate::shell::{release_binary, root, target_dir, test_binaries};
use crate::test::Tally;
use crate::{setup, shell};
use anyhow::{Context, Result, bail};
use lab::array::{Array, Drives, Programs};
use lab::ceph::Pools;
use lab::crash;
use lab::front::Front;
use lab::pair::Pair;
use lab::scratch::Scratch;
use lab::target::{Login, Shape, Target};
use lab::tgt::{BackingStore, Tgt};
use report::{Outcome, Verdict};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What to test with what.
#[derive(clap::Args)]
pub struct Args {
    /// Only this family; may be given more than once
    #[arg(long)]
    family: Vec<String>,
    /// The target under test
    #[arg(long, value_enum, default_value = "ashlar")]
    target: Kind,
    /// The test program, to try one that is newer than the system's
    #[arg(long, default_value = "iscsi-test-cu")]
    program: String,
    /// Logical block length of the volume in bytes
    #[arg(long, default_value_t = 512)]
    block_size: u32,
}

/// The targets that can be tested.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// The array
    Ashlar,
    /// Its front end alone, over disks in memory: what fails there is not the engine's fault
    Front,
    /// The Linux user-space target, to check this harness against known figures
    Tgt,
    /// Two controllers of an array in a Ceph cluster that is made for the run: one path by the home, the other one by the
    /// controller that forwards. Families that use two paths, unless others are named
    Controllers,
}

/// Families of tests that use two paths, or state that all paths share.
const OF_TWO_PATHS: [&str; 10] = [
    "MultipathIO",
    "CompareAndWrite",
    "Reserve6",
    "PrinReadKeys",
    "PrinServiceactionRange",
    "PrinReportCapabilities",
    "ProutRegister",
    "ProutReserve",
    "ProutClear",
    "ProutPreempt",
];

/// Which portals are the first and the second path.
type Paths = [usize; 2];

/// The two initiators that the test program plays by default.
const INITIATORS: [&str; 2] = [
    "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test",
    "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test-2",
];
/// The logins of the CHAP family: some of its tests want a name that looks like a number in one notation or the other.
const LOGINS: [Option<Login>; 2] = [
    Some(Login { name: "0xc0ffee", secret: "a-secret-of-ours" }),
    Some(Login { name: "0bY29mZmVl", secret: "a-secret-of-ours" }),
];

/// The logins with which a family is run.
fn logins(family: &str) -> &'static [Option<Login>] {
    if family == "iSCSICHAP" { &LOGINS } else { &[None] }
}

const FAMILY_LIMIT: Duration = Duration::from_secs(180);
const VOLUME_BYTES: u64 = 1 << 30;

/// Runs the families, prints a table and fails when a test failed or was skipped without a stated reason.
pub fn run(args: &Args) -> Result<()> {
    match args.target {
        Kind::Controllers => with_cluster("conformance", |ceph| {
            let namespace = format!("conformance-{:x}", crash::new_seed());
            let place = Pools { conf: ceph.conf(), pools: "meta".into(), namespace, encrypt: false };
            let pair = |folder: &Path| -> Result<Box<dyn Target>> {
                Ok(Box::new(Pair::start(&programs()?, folder, &place)?))
            };
            judge(&tally_of(args, &pair, &[[0, 1], [1, 0]])?)
        }),
        _ => judge(&tally(args)?),
    }
}

fn judge(tally: &Tally) -> Result<()> {
    match tally.failed {
        0 => Ok(()),
        failed => bail!("{failed} failed"),
    }
}

/// What `cargo xtask test` runs: the whole program.
pub fn whole() -> Result<Tally> {
    let program = "iscsi-test-cu".into();
    tally(&Args { family: Vec::new(), target: Kind::Ashlar, program, block_size: 512 })
}

fn tally(args: &Args) -> Result<Tally> {
    tally_of(args, &|folder| start(args.target, folder), &[[0, 1]])
}

/// Runs the families against what `start` starts, with each of these pairs of paths.
fn tally_of(args: &Args, start: &dyn Fn(&Path) -> Result<Box<dyn Target>>, paths: &[Paths]) -> Result<Tally> {
    setup::need(&["libiscsi-bin"])?;
    let families = match args.target {
        _ if !args.family.is_empty() => args.family.clone(),
        Kind::Controllers => OF_TWO_PATHS.map(str::to_owned).into(),
        _ => families(&args.program)?,
    };
    let logs = target_dir().join("conformance");
    std::fs::create_dir_all(&logs)?;
    let mut scratch = Scratch::new(&logs, "target")?;
    let mut target = start(scratch.path())?;
    let shape = Shape { bytes: VOLUME_BYTES, block_bytes: args.block_size };
    let expected = reasons::read(&root().join("xtask/conformance-reasons.txt"))?;
    let mut all = Vec::new();
    println!("{:<26}{:>7}{:>7}{:>8}{:>8}{:>9}", "family", "passed", "failed", "skipped", "faulty", "seconds");
    for family in &families {
        let start = Instant::now();
        let mut outcomes = Vec::new();
        let runs = logins(family).iter().flat_map(|login| paths.iter().map(move |paths| (login, *paths)));
        for (login, [first, second]) in runs {
            target.set_login(*login);
            let luns = target.fresh(&[shape], &INITIATORS)?;
            let url = |portal| match login {
                Some(login) => target.url_with(*login, portal, luns[0]),
                None => target.url(portal, luns[0]),
            };
            let urls = [url(first)?, url(second)?];
            let logs = logs.join(format!("{family}.log"));
            outcomes = report::merge(outcomes, run_family(&args.program, family, &urls, &logs)?);
        }
        if args.target != Kind::Tgt {
            reasons::judge(&mut outcomes, &expected);
        }
        let [passed, failed, skipped, faulty] = Verdict::ALL.map(|verdict| report::count(&outcomes, verdict));
        let seconds = start.elapsed().as_secs_f32();
        println!("{family:<26}{passed:>7}{failed:>7}{skipped:>8}{faulty:>8}{seconds:>9.1}");
        all.append(&mut outcomes);
    }
    let tally = finish(&all, &logs);
    if tally.failed > 0 {
        scratch.keep();
    }
    Ok(tally)
}

fn start(kind: Kind, folder: &Path) -> Result<Box<dyn Target>> {
    Ok(match kind {
        Kind::Tgt => {
            setup::need(&["tgt"])?;
            Box::new(Tgt::new(folder, BackingStore::Buffered, None)?)
        }
        Kind::Front => Box::new(Front::new(&test_binaries()?.join("examples/mem_target"), None)?),
        Kind::Controllers => bail!("they need a cluster"),
        Kind::Ashlar => {
            let drives = Drives { count: 4, bytes: 4 << 30 };
            Box::new(Array::start(&programs()?, folder, drives, None)?)
        }
    })
}

/// The array's programs: built now, or those in the folder that `ASHLAR_PROGRAMS` names.
pub fn programs() -> Result<Programs> {
    programs_in(test_binaries)
}

/// The array's programs alone, for a user who waits to see them and tests nothing.
pub fn only_programs() -> Result<Programs> {
    programs_in(|| shell::binaries(&["ashlard", "cli"]))
}

/// The array's programs in the folder that `ASHLAR_PROGRAMS` names, or else in that of a build.
fn programs_in(build: impl FnOnce() -> Result<PathBuf>) -> Result<Programs> {
    let folder = std::env::var_os("ASHLAR_PROGRAMS").map(PathBuf::from);
    let folder = folder.map_or_else(build, Ok)?;
    Ok(Programs { ashlard: folder.join("ashlard"), ashlar: folder.join("ashlar") })
}

/// The array's programs as they are measured and shipped: built now, or those in the folder that `ASHLAR_PROGRAMS` names.
pub fn release_programs() -> Result<Programs> {
    if std::env::var_os("ASHLAR_PROGRAMS").is_some() {
        return programs();
    }
    Ok(Programs { ashlard: release_binary("ashlard", "ashlard")?, ashlar: release_binary("cli", "ashlar")? })
}

/// Every family that the program knows, in its order.
fn families(program: &str) -> Result<Vec<String>> {
    let list = shell::capture(Command::new(program).arg("--list"))?;
    let families = list.lines().filter_map(|line| line.strip_prefix("ALL."));
    let families: Vec<_> = families.filter(|name| !name.contains('.')).map(str::to_owned).collect();
    if families.is_empty() {
        bail!("{program} --list names no family");
    }
    Ok(families)
}

/// Runs a family in one process. A test may leave the process without a session for those after it, which then find
/// "no iSCSI device": each of them gets a process of its own.
fn run_family(program: &str, family: &str, urls: &[String; 2], log: &Path) -> Result<Vec<Outcome>> {
    let mut outcomes = run_tests(program, family, &format!("ALL.{family}"), urls, log)?;
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.has_lost_its_session()) {
        let log = log.with_file_name(format!("{}.log", outcome.name));
        let alone = run_tests(program, family, &format!("ALL.{}", outcome.name), urls, &log)?;
        if let Some(alone) = alone.into_iter().find(|other| other.name == outcome.name) {
            *outcome = alone;
        }
    }
    Ok(outcomes)
}

fn run_tests(
    program: &str,
    family: &str,
    tests: &str,
    urls: &[String; 2],
    log: &Path,
) -> Result<Vec<Outcome>> {
    let file = std::fs::File::create(log).with_context(|| format!("can't write {}", log.display()))?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &FAMILY_LIMIT.as_secs().to_string(), program]);
    command.args([&format!("--test={tests}"), "-d", "-S", "-g", "-v"]).args(urls);
    let status = command.stdout(file.try_clone()?).stderr(file).status()?;
    let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    let mut outcomes = report::read(family, &text);
    if outcomes.is_empty() || status.code() == Some(124) {
        let name = format!("{family}.(the program itself)");
        let what = format!("ended with {status} after {} tests", outcomes.len());
        outcomes.push(Outcome { name, verdict: Verdict::Failed, detail: vec![what] });
    }
    Ok(outcomes)
}

/// Prints what failed and the sum.
fn finish(all: &[Outcome], logs: &Path) -> Tally {
    let of = |verdict| all.iter().filter(move |outcome| outcome.verdict == verdict);
    for outcome in of(Verdict::Failed) {
        println!("\nFAILED {}", outcome.name);
        outcome.detail.iter().take(12).for_each(|line| println!("    {line}"));
    }
    let [passed, failed, skipped, faulty] = Verdict::ALL.map(|verdict| report::count(all, verdict));
    print!("\n{passed} passed, {failed} failed, {skipped} skipped");
    if faulty > 0 {
        print!(", {faulty} failed by a fault of their own");
    }
    println!("; logs in {}", logs.display());
    let skipped = skipped + faulty;
    let failures = of(Verdict::Failed).map(|outcome| outcome.name.to_string()).collect();
    Tally { passed, failed, skipped, failures }
}
