//! A real Linux initiator in a throw-away virtual machine against the array: `xtask/guest/`.

use crate::conformance::programs;
use crate::integrations::{cinder, go};
use crate::package;
use crate::real;
use crate::setup;
use crate::shell::{capture, exec, root, target_dir};
use crate::test::Tally;
use anyhow::{Context, Result, bail, ensure};
use lab::array::{Array, Drives, Programs, access};
use lab::figures;
use lab::load::processor_time;
use lab::replication;
use lab::report;
use lab::scratch::Scratch;
use lab::target::{Shape, Target};
use lab::tgt::{BackingStore, Tgt};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod controllers;

/// Which cases.
#[derive(clap::Args)]
pub struct Args {
    /// Cases by name; all without one
    case: Vec<String>,
    /// Print the output of the guest even if all cases pass
    #[arg(long)]
    verbose: bool,
}

/// A host of a case: name, initiator, further options of `ashlar host create`.
type Host = (&'static str, &'static str, &'static [&'static str]);
/// A volume of a case: name, MiB, block length, and where it is connected: host and LUN.
type Volume = (&'static str, u64, u32, &'static [(&'static str, u16)]);

/// How long a case may take before the guest is stopped; a busy machine emulates it slowly.
const LIMIT: Duration = Duration::from_secs(1800);
/// The same where the array is emulated, too.
const LIMIT_INSIDE: Duration = Duration::from_secs(3600);

struct Case {
    name: &'static str,
    home: Home,
    hosts: &'static [Host],
    volumes: &'static [Volume],
}

/// Where the array of a case runs.
enum Home {
    /// On this machine, on files; the guest is a host of it.
    Here,
    /// The same, with two portals for NVMe/TCP and a host `nvme` that has an NQN.
    HereNvme(Kind),
    /// The same with a portal that requires TLS, and a guest that has a daemon for its handshakes.
    HereNvmeTls,
    /// The same with one volume, and with nvme-cli's own tests as /run/lab/tree.
    HereNvmeCli,
    /// The same with something that is /run/lab/tree in the guest; `$API` and `$TOKEN` are for its clients.
    HereWith(Tree),
    /// The same with a channel for a guest agent: `ask freeze` runs `ashlar-freeze` here.
    HereWithAgent,
    /// The same, whose volumes are the group `bench`, replicated to another array: `ask there` is its command line. `ask kill`
    /// kills the first one for good. The script makes the replication synchronous if `sync` says so.
    HerePair { sync: bool },
    /// Two controllers of an array in a Ceph cluster, on this machine: `ask kill|freeze|thaw|stop|start NUMBER`.
    HereControllers,
    /// As `Here`, with the programs, for arrays in the guest whose drives are volumes of this one.
    Shelf,
    /// In the guest of a kind, by the case's script, with a disk of `disk` MiB and an NVMe drive.
    Guest { kind: Kind, disk: u64 },
    /// In a Debian of a suite with systemd, where the case `package` installs the package and takes an initiator of its own.
    Server(&'static str),
}

/// What a guest gets.
#[derive(Clone, Copy)]
enum Tree {
    /// A folder of the tree.
    Folder(&'static str),
    /// Programs of the Go module, by their packages.
    Programs(&'static [&'static str]),
    /// os-brick, with what uses it on a node. `ask cinder` calls the driver, which runs here.
    Cinder,
}

/// Which guest: what is installed there (`xtask/guest/boot.sh`).
#[derive(Clone, Copy)]
enum Kind {
    /// A host.
    Hosts,
    /// One with other arrays.
    Peers,
    /// A host that can do TLS.
    Tls,
    /// A server of a Debian suite, which boots as often as it wants.
    Server(&'static str),
}

/// How long a guest may be frozen: emulated, it takes longer than one that anybody uses.
const FREEZE_LIMIT: &str = "60s";

/// What an array on this machine has.
const DRIVES: Drives = Drives { count: 4, bytes: 2 << 30 };
/// Size of the NVMe drive in MiB.
const NVME: u64 = 384;
/// Drives of a server beside the NVMe drive, and the size of each in MiB.
const SERVER_DRIVES: u32 = 3;
const SERVER_DRIVE: u64 = 1024;

/// Packages of the CSI driver, of the suite for such drivers, and of the program that freezes guests.
const CSI: &str = "./cmd/ashlar-csi";
const CSI_SANITY: &str = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity";
const FREEZE: &str = "./cmd/ashlar-freeze";

const GUEST: Host = ("guest", "iqn.2001-04.org.example:guest", &[]);
const ONE_WAY: Host =
    ("oneway", "iqn.2001-04.org.example:oneway", &["--chap-user=alice", "--chap-secret=alice-secret-1"]);
const MUTUAL: Host = (
    "mutual",
    "iqn.2001-04.org.example:mutual",
    &[
        "--chap-user=bob",
        "--chap-secret=bob-secret-123",
        "--mutual-user=array",
        "--mutual-secret=array-secret-1",
    ],
);

/// The volumes of a host with an NQN: name, block length and LUN, which is one less than the namespace identifier.
const NVME_VOLUMES: &[(&str, u32, u16)] = &[("small", 512, 1), ("native", 4096, 6)];

/// The volumes of a database with its log on one of its own.
const DATABASE: &[Volume] = &[("data", 1024, 512, &[("guest", 0)]), ("log", 512, 512, &[("guest", 1)])];

const CASES: &[Case] = &[
    Case {
        name: "discovery",
        home: Home::Here,
        hosts: &[GUEST, ("elsewhere", "iqn.2001-04.org.example:elsewhere", &[])],
        volumes: &[
            ("small", 512, 512, &[("guest", 1), ("elsewhere", 3)]),
            ("native", 64, 4096, &[("guest", 7)]),
            ("far", 64, 512, &[("guest", 300)]),
            ("late", 64, 512, &[]),
            ("hidden", 64, 512, &[("elsewhere", 1)]),
        ],
    },
    Case {
        name: "chap",
        home: Home::Here,
        hosts: &[ONE_WAY, MUTUAL],
        volumes: &[("one", 64, 512, &[("oneway", 0)]), ("two", 64, 512, &[("mutual", 0)])],
    },
    Case {
        name: "multipath",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[("shared", 256, 512, &[("guest", 0)])],
    },
    Case {
        name: "controllers",
        home: Home::HereControllers,
        hosts: &[GUEST],
        volumes: &[("shared", 256, 512, &[("guest", 0)])],
    },
    // Only the newer kernel of the two can authenticate over NVMe/TCP.
    Case { name: "nvme", home: Home::HereNvme(Kind::Peers), hosts: &[], volumes: &[] },
    Case { name: "nvme-reuse", home: Home::HereNvme(Kind::Hosts), hosts: &[], volumes: &[] },
    Case { name: "nvme-tls", home: Home::HereNvmeTls, hosts: &[], volumes: &[] },
    Case { name: "nvme-cli", home: Home::HereNvmeCli, hosts: &[], volumes: &[] },
    Case { name: "nvmet", home: Home::Guest { kind: Kind::Peers, disk: 4 * 512 }, hosts: &[], volumes: &[] },
    Case {
        name: "proxmox",
        home: Home::HereWith(Tree::Folder("integrations/proxmox")),
        hosts: &[],
        volumes: &[],
    },
    Case { name: "csi", home: Home::HereWith(Tree::Programs(&[CSI, CSI_SANITY])), hosts: &[], volumes: &[] },
    Case { name: "cinder", home: Home::HereWith(Tree::Cinder), hosts: &[], volumes: &[] },
    Case {
        name: "freeze",
        home: Home::HereWithAgent,
        hosts: &[GUEST],
        volumes: &[("data", 128, 512, &[("guest", 1)]), ("log", 512, 512, &[("guest", 2)])],
    },
    Case {
        name: "filesystem",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[("small", 512, 512, &[("guest", 0)]), ("native", 512, 4096, &[("guest", 1)])],
    },
    Case {
        name: "offload",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[("a", 256, 512, &[("guest", 0)]), ("b", 256, 512, &[("guest", 1)])],
    },
    Case {
        name: "odx",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[
            ("a", 64 << 10, 512, &[("guest", 0)]),
            ("b", 64 << 10, 512, &[("guest", 1)]),
            ("native", 64 << 10, 4096, &[("guest", 2)]),
            ("hidden", 64, 512, &[("guest", 3)]),
        ],
    },
    Case {
        name: "restart",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[("fs", 256, 512, &[("guest", 0)]), ("raw", 256, 512, &[("guest", 1)])],
    },
    Case {
        name: "quota",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[("data", 512, 512, &[("guest", 0)])],
    },
    Case {
        name: "raw",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[("raw", 256, 512, &[("guest", 0)]), ("fs", 256, 512, &[("guest", 1)])],
    },
    Case {
        name: "postgres",
        home: Home::Here,
        hosts: &[GUEST],
        volumes: &[("database", 1024, 512, &[("guest", 0)])],
    },
    Case { name: "failover", home: Home::HerePair { sync: false }, hosts: &[GUEST], volumes: DATABASE },
    Case { name: "failover-sync", home: Home::HerePair { sync: true }, hosts: &[GUEST], volumes: DATABASE },
    Case { name: "drives", home: Home::Guest { kind: Kind::Hosts, disk: 9 * 384 }, hosts: &[], volumes: &[] },
    Case {
        name: "shared",
        home: Home::Shelf,
        hosts: &[
            ("server1", "iqn.2001-04.org.example:server1", &[]),
            ("server2", "iqn.2001-04.org.example:server2", &[]),
        ],
        volumes: &[
            ("d0", 384, 512, &[("server1", 0), ("server2", 0)]),
            ("d1", 384, 512, &[("server1", 1), ("server2", 1)]),
            ("d2", 384, 512, &[("server1", 2), ("server2", 2)]),
            ("d3", 384, 512, &[("server1", 3), ("server2", 3)]),
            ("d4", 384, 512, &[("server1", 4), ("server2", 4)]),
        ],
    },
    Case { name: "fc", home: Home::Guest { kind: Kind::Peers, disk: 4 * 512 }, hosts: &[], volumes: &[] },
    Case { name: "package", home: Home::Server("bookworm"), hosts: &[], volumes: &[] },
    Case { name: "package-trixie", home: Home::Server("trixie"), hosts: &[], volumes: &[] },
    Case { name: "peers", home: Home::Guest { kind: Kind::Peers, disk: 15 << 10 }, hosts: &[], volumes: &[] },
];

/// The case of [`short`].
const SHORT: &str = "discovery";

/// What `cargo xtask test` does while it compiles: what [`short`] needs. That says it when none can be made.
pub fn image() -> Result<Tally> {
    if let Err(error) = prepare() {
        eprintln!("no guest can be made here: {error:#}");
    }
    Ok(Tally::default())
}

/// What `cargo xtask test` runs: one case. Where no guest can be made, that says why and leaves it out.
pub fn short() -> Result<Tally> {
    if let Err(error) = prepare() {
        eprintln!("left out, no guest can be made here: {error:#}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    run(&Args { case: vec![SHORT.to_owned()], verbose: false })?;
    Ok(Tally { passed: 1, ..Tally::default() })
}

/// Installs what guests need.
fn tools() -> Result<()> {
    setup::need(&["qemu-system-x86", "mmdebstrap", "cpio", "kmod", "xz-utils", "e2fsprogs"])
}

/// Installs what guests need and builds the image of hosts, unless it is there.
pub fn prepare() -> Result<()> {
    tools()?;
    let built = boot(Kind::Hosts, &["build", &cache().display().to_string()]).status()?;
    ensure!(built.success(), "building the guest's image ended with {built}");
    Ok(())
}

/// Puts into a folder what machines with a disk of their own are made of: `vmlinuz`, `initrd` and the disk, `golden`.
pub fn machines(folder: &Path) -> Result<()> {
    let words = ["machines", &cache().display().to_string(), &folder.display().to_string()];
    let made = boot(Kind::Hosts, &words).status()?;
    ensure!(made.success(), "making the machines' image ended with {made}");
    Ok(())
}

/// Runs the cases; fails when one did.
pub fn run(args: &Args) -> Result<()> {
    let wanted = |case: &&Case| args.case.is_empty() || args.case.iter().any(|it| it == case.name);
    // Other guests are built when they start.
    match CASES.iter().filter(wanted).all(|case| matches!(case.home, Home::Server(_))) {
        true => tools()?,
        false => prepare()?,
    }
    let programs = programs()?;
    let unknown = args.case.iter().find(|name| !CASES.iter().any(|case| case.name == **name));
    if let Some(name) = unknown {
        bail!(
            "no case {name}; there are {}",
            CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ")
        );
    }
    let mut failed = 0;
    for case in CASES.iter().filter(wanted) {
        let start = Instant::now();
        let verdict = match run_case(case, &programs, args.verbose) {
            Ok(measured) => {
                measured.iter().for_each(|case| print!("{}", report::case(case)));
                "passed".to_owned()
            }
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        println!("{:<12}{:>5} s  {verdict}", case.name, start.elapsed().as_secs());
    }
    if failed > 0 {
        bail!("{failed} cases failed");
    }
    Ok(())
}

/// Runs a case that measures, and returns what it measured.
pub fn measure(name: &str) -> Result<Vec<figures::Case>> {
    let case = CASES.iter().find(|case| case.name == name).with_context(|| format!("no case {name}"))?;
    run_case(case, &programs()?, false)
}

/// Returns what the case measured, if it measures.
fn run_case(case: &Case, programs: &Programs, verbose: bool) -> Result<Vec<figures::Case>> {
    let scratch = Scratch::new(&target_dir(), &format!("guest-{}", case.name))?;
    let lab = scratch.path().join("lab");
    std::fs::create_dir_all(&lab)?;
    let figures = lab.join("figures");
    if let Some(heading) = real::heading(case.name) {
        std::fs::write(&figures, heading.to_string())?;
    }
    let result = match case.home {
        Home::Here
        | Home::HereNvme(_)
        | Home::HereNvmeTls
        | Home::HereNvmeCli
        | Home::HereWith(_)
        | Home::HereWithAgent
        | Home::HerePair { .. }
        | Home::Shelf => run_here(case, programs, &scratch.path().join("array"), &lab),
        Home::HereControllers => controllers::run(case, programs, &scratch.path().join("array"), &lab),
        Home::Guest { kind, disk } => run_in_guest(case, programs, (kind, disk), &lab),
        Home::Server(suite) => run_server(case, suite, &lab),
    };
    let output = std::fs::read(lab.join("out")).unwrap_or_default();
    // Cases of that kind print the I/O of hosts for each second, which is their purpose.
    if verbose || result.is_err() || matches!(case.home, Home::Guest { .. }) {
        println!("{}", String::from_utf8_lossy(&output));
    }
    let measured = || if figures.exists() { figures::read(&figures) } else { Ok(Vec::new()) };
    let result = result.and_then(|()| measured());
    scratch.end(result)
}

/// The guest as a host of an array that runs here.
fn run_here(case: &Case, programs: &Programs, data: &Path, lab: &Path) -> Result<()> {
    std::fs::create_dir_all(data)?;
    let mut array = Array::start(programs, data, DRIVES, None)?;
    create_hosts_and_volumes(&array, case)?;
    let nvme = match case.home {
        Home::HereNvme(_) => nvme_variables(&mut array, NVME_VOLUMES)?,
        Home::HereNvmeTls => {
            let variables = nvme_variables(&mut array, NVME_VOLUMES)?;
            let port = free_port()?;
            let address = format!("127.0.0.1:{port}");
            array.cli(&["portal", "add", &address, "--protocol", "nvme-tcp", "--tls"])?;
            format!("{variables}NVME_TLS={port}\n")
        }
        Home::HereNvmeCli => nvme_variables(&mut array, &[("small", 512, 0)])?,
        _ => String::new(),
    };
    let ports: Vec<_> = array.portals().iter().map(|portal| portal.port()).collect();
    let mut variables = format!("IQN={}\nPORT_A={}\nPORT_B={}\n{nvme}", array.iqn(), ports[0], ports[1]);
    match case.home {
        Home::HereWith(tree) => {
            fill(&lab.join("tree"), tree)?;
            let (url, token) = access(data)?;
            // The host's loopback, as the guest sees it.
            variables += &format!("API={}\nTOKEN={token}\n", url.replace("127.0.0.1", "10.0.2.2"));
        }
        Home::HereWithAgent => {
            go::binary(FREEZE, &lab.with_file_name("ashlar-freeze"))?;
            std::fs::write(lab.join("channel"), "")?;
        }
        Home::HereNvmeCli => nvme_cli(&lab.join("tree"))?,
        Home::Shelf => copy_programs(programs, lab)?,
        _ => {}
    }
    let other = match case.home {
        Home::HerePair { .. } => Some(replicated(case, programs, &array, &lab.with_file_name("there"))?),
        _ => None,
    };
    if let Some(other) = &other {
        let sync = matches!(case.home, Home::HerePair { sync: true });
        let port = other.portals()[0].port();
        variables += &format!("IQN_THERE={}\nPORT_THERE={port}\nSYNC={}\n", other.iqn(), u8::from(sync));
    }
    std::fs::write(lab.join("script"), script(case, &variables)?)?;
    let mut peer = None;
    let kind = match case.home {
        Home::HereNvme(kind) => kind,
        Home::HereNvmeCli => Kind::Peers,
        Home::HereNvmeTls => Kind::Tls,
        _ => Kind::Hosts,
    };
    let limit = if let Home::Shelf = case.home { LIMIT_INSIDE } else { LIMIT };
    serve(start(kind, lab, limit)?, lab, |words| {
        answer(&mut array, (other.as_ref(), &mut peer), lab, words)
    })?;
    if other.is_none() {
        array.check_alive()?;
    }
    verdict(lab)
}

/// Another array, to which the volumes of a case are replicated, as the group `bench`.
fn replicated(case: &Case, programs: &Programs, array: &Array, folder: &Path) -> Result<Array> {
    let (other, address) = replication::start(programs, folder, &DRIVES, None)?;
    replication::pair(array, &other, &address.to_string())?;
    for (name, iqn, _) in case.hosts {
        other.add_host(name, iqn)?;
    }
    array.cli(&["group", "create", "bench"])?;
    for (name, ..) in case.volumes {
        array.cli(&["volume", "set", name, "--group", "bench"])?;
    }
    let words = ["replication", "create", "bench", "--group", "bench", "--to", replication::TARGET];
    array.cli(&words.iter().chain(&["--rpo", "1h"]).copied().collect::<Vec<_>>())?;
    Ok(other)
}

/// Puts what a guest gets into a folder.
fn fill(folder: &Path, tree: Tree) -> Result<()> {
    match tree {
        Tree::Folder(source) => exec(Command::new("cp").arg("-r").arg(root().join(source)).arg(folder)),
        Tree::Programs(packages) => packages.iter().try_for_each(|package| {
            let name = Path::new(package).file_name().context("a package has a name")?;
            go::binary(package, &folder.join(name))
        }),
        Tree::Cinder => cinder::on_node(folder),
    }
}

/// Takes snapshots of volumes while the guest is frozen, and returns what `ashlar-freeze` says.
fn freeze(lab: &Path, suffix: &str, volumes: &[&str]) -> Result<String> {
    let (url, token) = access(&lab.with_file_name("array"))?;
    let mut command = Command::new(lab.with_file_name("ashlar-freeze"));
    command.args(["snapshot", "--array", &url, "--suffix", suffix]).env("ASHLAR_TOKEN", token);
    command.arg("--limit").arg(FREEZE_LIMIT).arg("--socket").arg(lab.join("agent"));
    volumes.iter().for_each(|volume| _ = command.args(["--volume", volume]));
    capture(&mut command)
}

/// Serves NVMe/TCP, and creates a host with an NQN that sees volumes: of each name, block length and LUN, which is one less
/// than the namespace identifier. Another volume is there for later.
fn nvme_variables(array: &mut Array, volumes: &[(&str, u32, u16)]) -> Result<String> {
    const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:7a3f0c5e-1f3b-4e55-9d0e-5c2b7f9a1d10";
    let [a, b] = array.serve_nvme()?;
    array.stop()?;
    array.restart()?;
    array.cli(&["host", "create", "nvme", "--nqn", NQN])?;
    for (name, block_bytes, lun) in volumes {
        array.add_volume(name, Shape { bytes: 256 << 20, block_bytes: *block_bytes })?;
        array.connect(name, "nvme", *lun)?;
    }
    array.add_volume("late", Shape { bytes: 64 << 20, block_bytes: 512 })?;
    // For a portal that is added while hosts are connected.
    Ok(format!("HOSTNQN={NQN}\nNVME_A={}\nNVME_B={}\nNVME_C={}\n", a.port(), b.port(), free_port()?))
}

/// Puts the tests of nvme-cli into a folder, of the version that the guest has, with what runs them.
fn nvme_cli(folder: &Path) -> Result<()> {
    let source = target_dir().join("nvme-cli");
    exec(
        Command::new("bash")
            .arg(root().join("xtask/guest/source.sh"))
            .args(["bookworm", "nvme-cli"])
            .arg(&source),
    )?;
    std::fs::create_dir_all(folder)?;
    exec(Command::new("cp").arg("-r").arg(source.join("tests")).arg(folder))?;
    exec(Command::new("cp").arg(root().join("xtask/guest/nvme_cli.py")).arg(folder))
}

/// The array in the guest, and the guest as its host: there the drives are devices that fail on request.
fn run_in_guest(case: &Case, programs: &Programs, (kind, disk): (Kind, u64), lab: &Path) -> Result<()> {
    copy_programs(programs, lab)?;
    std::fs::File::create(lab.join("disk"))?.set_len(disk << 20)?;
    std::fs::File::create(lab.join("nvme"))?.set_len(NVME << 20)?;
    std::fs::write(lab.join("script"), script(case, "")?)?;
    start(kind, lab, LIMIT_INSIDE)?.wait()?;
    verdict(lab)
}

fn copy_programs(programs: &Programs, lab: &Path) -> Result<()> {
    for program in [&programs.ashlard, &programs.ashlar] {
        let name = program.file_name().context("a program has a name")?;
        std::fs::copy(program, lab.join(name))
            .with_context(|| format!("can't copy {}", program.display()))?;
    }
    Ok(())
}

/// A server on which two builds of the package are installed, one after the other.
fn run_server(case: &Case, suite: &'static str, lab: &Path) -> Result<()> {
    for (deb, name) in package::debs_for_test(&[1, 2])?.iter().zip(["old.deb", "new.deb"]) {
        std::fs::copy(deb, lab.join(name))?;
    }
    for number in 0..SERVER_DRIVES {
        std::fs::File::create(lab.join(format!("drive{number}")))?.set_len(SERVER_DRIVE << 20)?;
    }
    std::fs::File::create(lab.join("nvme"))?.set_len(SERVER_DRIVE << 20)?;
    std::fs::write(lab.join("script"), script(case, "")?)?;
    start(Kind::Server(suite), lab, LIMIT_INSIDE)?.wait()?;
    verdict(lab)
}

fn start(kind: Kind, lab: &Path, limit: Duration) -> Result<Child> {
    let words =
        ["run", &cache().display().to_string(), &lab.display().to_string(), &limit.as_secs().to_string()];
    boot(kind, &words).stdin(Stdio::null()).spawn().context("can't start the guest")
}

fn verdict(lab: &Path) -> Result<()> {
    let code = std::fs::read_to_string(lab.join("rc")).context("the guest ended without a result")?;
    match code.trim() {
        "0" => Ok(()),
        code => bail!("the guest ended with {code}"),
    }
}

fn create_hosts_and_volumes(array: &Array, case: &Case) -> Result<()> {
    for (name, iqn, options) in case.hosts {
        let words: Vec<_> = ["host", "create", name, "--iqn", iqn].iter().chain(*options).copied().collect();
        array.cli(&words)?;
    }
    for (name, mib, block_bytes, connections) in case.volumes {
        array.add_volume(name, Shape { bytes: mib << 20, block_bytes: *block_bytes })?;
        for (host, lun) in *connections {
            array.connect(name, host, *lun)?;
        }
    }
    Ok(())
}

/// The script of a case, after its variables and what all of them share.
fn script(case: &Case, variables: &str) -> Result<String> {
    let guest = root().join("xtask/guest");
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))
    };
    let name = match case.home {
        Home::Server(_) => "package",
        Home::HerePair { .. } => "failover",
        _ => case.name,
    };
    let (lib, body) = (read(guest.join("lib.sh"))?, read(guest.join(format!("cases/{name}.sh")))?);
    Ok(format!("{variables}{lib}\n{body}"))
}

/// Performs a request of the guest, and returns the answer.
fn answer(
    array: &mut Array,
    (other, peer): (Option<&Array>, &mut Option<Tgt>),
    lab: &Path,
    words: &[&str],
) -> Result<String> {
    match words {
        ["crash"] => array.kill().and_then(|()| array.restart()).map(|()| String::new()),
        ["restart"] => array.stop().and_then(|()| array.restart()).map(|()| String::new()),
        ["kill"] => array.kill().map(|()| String::new()),
        ["there", words @ ..] => {
            let other = other.context("the case has no other array")?;
            other.cli(words).map(|answer| format!("{answer}\n"))
        }
        ["peer", mib] => start_peer(peer, &lab.with_file_name("peer"), mib),
        ["cpu"] => processor_times(array, peer.as_ref()),
        ["mapped", volume] => mapped(array, volume).map(|bytes| format!("{bytes}\n")),
        ["cinder", words @ ..] => {
            let data = lab.with_file_name("array");
            let (url, token) = access(&data)?;
            let (_, port) = url.rsplit_once(':').context("a URL without a port")?;
            cinder::call(port, &token, &data.join("tls.pem"), words)
        }
        ["freeze", suffix, volumes @ ..] => freeze(lab, suffix, volumes),
        ["cli", words @ ..] => array.cli(words).map(|answer| format!("{answer}\n")),
        other => bail!("unknown request of the guest: {other:?}"),
    }
}

/// Lets a guest run, and answers what it asks for, until it has ended.
fn serve(mut guest: Child, lab: &Path, mut answer: impl FnMut(&[&str]) -> Result<String>) -> Result<()> {
    while guest.try_wait()?.is_none() {
        if let Err(error) = reply(lab, &mut answer) {
            guest.kill()?;
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A port of this machine's loopback that was free a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Takes a request of the guest, if there is one, and gives it the answer or why there is none.
fn reply(lab: &Path, answer: impl FnOnce(&[&str]) -> Result<String>) -> Result<()> {
    let question = lab.join("question");
    let Ok(words) = std::fs::read_to_string(&question) else { return Ok(()) };
    std::fs::remove_file(&question)?;
    let words: Vec<_> = words.split_whitespace().collect();
    let text =
        answer(&words).map_or_else(|error| format!("failed\n{error:#}\n"), |text| format!("ok\n{text}"));
    std::fs::write(lab.join("answer.new"), text)?;
    Ok(std::fs::rename(lab.join("answer.new"), lab.join("answer"))?)
}

/// Starts tgt on a file in a folder, with a volume of `mib` MiB, and returns port, name and LUN.
fn start_peer(peer: &mut Option<Tgt>, folder: &Path, mib: &str) -> Result<String> {
    setup::need(&["tgt"])?;
    std::fs::create_dir_all(folder)?;
    let tgt = peer.insert(Tgt::new(folder, BackingStore::DirectAio, None)?);
    let luns = tgt.fresh(&[Shape { bytes: mib.parse::<u64>()? << 20, block_bytes: 512 }], &[])?;
    let port = tgt.portals().first().context("a peer without a portal")?.port();
    Ok(format!("{port} {} {}\n", tgt.iqn(), luns.first().context("a peer without a LUN")?))
}

/// Milliseconds of processor time that the array and its peer have used since they were started.
fn processor_times(array: &Array, peer: Option<&Tgt>) -> Result<String> {
    let used = |target: &dyn Target| anyhow::Ok(processor_time(target.pid()?)?.as_millis());
    let peer = peer.map_or(Ok(0), |peer| used(peer))?;
    Ok(format!("{} {peer}\n", used(array)?))
}

/// Bytes of a volume that its host has allocated.
fn mapped(array: &Array, volume: &str) -> Result<u64> {
    let show = array.cli(&["volume", "show", volume])?;
    let mapped = show.get("mapped").or_else(|| show.get("space")?.get("mapped"));
    mapped.and_then(serde_json::Value::as_u64).context("volume show without mapped bytes")
}

fn boot(kind: Kind, words: &[&str]) -> Command {
    let mut command = Command::new("bash");
    let (guest, suite) = match kind {
        Kind::Hosts => ("hosts", "bookworm"),
        Kind::Peers => ("peers", "bookworm"),
        // Debian has tlshd from this one on.
        Kind::Tls => ("tls", "trixie"),
        Kind::Server(suite) => ("server", suite),
    };
    command.env("GUEST", guest).env("SUITE", suite).arg(root().join("xtask/guest/boot.sh")).args(words);
    command
}

/// The folder of the image, among the user's caches, so that `cargo clean` keeps it.
fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    caches.unwrap_or_else(target_dir).join("ashlar-guest")
}
