//! Packages: `.deb`, `.rpm`, and an image for containers, with the checks that each of them passes.
//!
//! What is in them is declared in `control/ashlard/Cargo.toml`; man pages and completions are made by the programs.

use crate::setup::{self, CargoTool, cargo_tool};
use crate::shell::{capture, cargo, command, exec, exec_quietly, root, target_dir};
use crate::web;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is made.
#[derive(clap::Args)]
pub struct Args {
    /// Kinds of packages; all without one
    #[arg(value_enum)]
    kinds: Vec<Kind>,
    /// Revision of the packages, after the version of the software
    #[arg(long, value_name = "N", default_value_t = 1)]
    revision: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Deb,
    Rpm,
    Oci,
}

const DEB: CargoTool = CargoTool { name: "cargo-deb", version: "3.8.0" };
const RPM: CargoTool = CargoTool { name: "cargo-generate-rpm", version: "0.21.1" };

/// Maximum size of the daemon in bytes, without debug symbols. The aim is 35 MiB; before what no I/O passes through was built for size
/// it had 45.
const MAX_DAEMON_BYTES: u64 = 40 << 20;
/// Maximum exposure of the service by `systemd-analyze security`, in tenths.
const MAX_EXPOSURE: u32 = 20;
/// The suite of the image.
const SUITE: &str = "bookworm";
/// Debian packages in the image beside the smallest set.
const IN_IMAGE: &str = "libgcc-s1,util-linux,smartmontools";

/// A profile that packages are made from.
struct Profile {
    /// Its name to cargo.
    name: &'static str,
    /// Its folder below the target folder.
    folder: &'static str,
    /// Options of cargo-deb.
    deb: &'static [&'static str],
}

const RELEASE: Profile = Profile { name: "release", folder: "release", deb: &["--dbgsym"] };
/// The programs of the tests, whose packages are used once.
const TEST: Profile =
    Profile { name: "dev", folder: "debug", deb: &["--no-dbgsym", "--strip", "--fast", "--quiet"] };

impl Profile {
    fn programs(&self) -> PathBuf {
        target_dir().join(self.folder)
    }

    /// Where the manifest of the packages looks for what is made.
    fn staging(&self) -> PathBuf {
        self.programs().join("package")
    }
}

/// Makes the packages, and checks them.
pub fn run(args: &Args) -> Result<()> {
    let wants = |kind| args.kinds.is_empty() || args.kinds.contains(&kind);
    web::build()?;
    exec(&mut cargo(&["build", "--release", "-p", "ashlard", "-p", "cli", "--bins"]))?;
    stage(&RELEASE)?;
    let daemon = RELEASE.staging().join("bin/ashlard").metadata()?.len();
    ensure!(daemon <= MAX_DAEMON_BYTES, "ashlard has {daemon} bytes, and {MAX_DAEMON_BYTES} are the limit");
    check_unit()?;
    let out = out("package")?;
    if wants(Kind::Deb) || wants(Kind::Oci) {
        let deb = deb(&RELEASE, args.revision, &out)?;
        setup::need(&["lintian"])?;
        exec(Command::new("lintian").args(["--allow-root", "--fail-on", "error,warning"]).arg(&deb))?;
        if wants(Kind::Oci) {
            image(&deb, &out)?;
        }
    }
    if wants(Kind::Rpm) {
        rpm(args.revision, &out)?;
    }
    println!("packages are in {}", out.display());
    Ok(())
}

/// Makes Debian packages of several revisions from the programs of the tests, which are built already.
pub fn debs_for_test(revisions: &[u32]) -> Result<Vec<PathBuf>> {
    stage(&TEST)?;
    let out = out("package-test")?;
    revisions.iter().map(|revision| deb(&TEST, *revision, &out)).collect()
}

fn out(name: &str) -> Result<PathBuf> {
    let out = target_dir().join(name);
    std::fs::create_dir_all(&out).with_context(|| format!("can't create {}", out.display()))?;
    Ok(out)
}

/// Man pages, completions, and the programs without debug symbols.
fn stage(profile: &Profile) -> Result<()> {
    let (staging, programs) = (profile.staging(), profile.programs());
    if staging.exists() {
        std::fs::remove_dir_all(&staging)?;
    }
    let folder = |name: &str| {
        let folder = staging.join(name);
        std::fs::create_dir_all(&folder).map(|()| folder)
    };
    let (man, bin) = (folder("man")?, folder("bin")?);
    for name in ["ashlard", "ashlar"] {
        let program = programs.join(name);
        exec_quietly(Command::new(&program).arg("manual").arg(&man))?;
        for (shell, file) in
            [("bash", name.to_owned()), ("zsh", format!("_{name}")), ("fish", format!("{name}.fish"))]
        {
            let text = capture(Command::new(&program).args(["completion", shell]))?;
            std::fs::write(folder(&format!("completion/{shell}"))?.join(file), text)?;
        }
        exec_quietly(Command::new("strip").arg("-o").arg(bin.join(name)).arg(&program))?;
    }
    let pages: Vec<_> = std::fs::read_dir(&man)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    // Without a time, so that the same sources make the same package.
    exec_quietly(Command::new("gzip").arg("-9n").args(&pages))
}

/// The privileges of the service.
fn check_unit() -> Result<()> {
    setup::need(&["systemd"])?;
    let unit = root().join("control/ashlard/package/systemd/ashlard.service");
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", &format!("--threshold={MAX_EXPOSURE}")]).arg(unit);
    exec_quietly(&mut analyze)
}

fn deb(profile: &Profile, revision: u32, out: &Path) -> Result<PathBuf> {
    let mut make = Command::new(cargo_tool(&DEB)?);
    make.current_dir(root())
        .args(["--no-build", "-p", "ashlard", "--profile", profile.name])
        .args(profile.deb);
    exec(make.args(["--deb-revision", &revision.to_string(), "-o"]).arg(out))?;
    let deb = out.join(format!("ashlar_{}-{revision}_amd64.deb", env!("CARGO_PKG_VERSION")));
    ensure!(deb.exists(), "cargo-deb did not make {}", deb.display());
    Ok(deb)
}

fn rpm(revision: u32, out: &Path) -> Result<()> {
    setup::need(&["rpm"])?;
    let mut make = Command::new(cargo_tool(&RPM)?);
    make.current_dir(root()).args([
        "-p",
        "control/ashlard",
        "--auto-req",
        "builtin",
        "-s",
        &format!("release = \"{revision}\""),
    ]);
    let rpm = out.join(format!("ashlar-{}-{revision}.x86_64.rpm", env!("CARGO_PKG_VERSION")));
    exec(make.arg("-o").arg(&rpm))?;
    let files = capture(Command::new("rpm").args(["-qlp"]).arg(&rpm))?;
    for file in [
        "/usr/sbin/ashlard",
        "/usr/bin/ashlar",
        "/etc/ashlar/ashlar.toml",
        "/usr/lib/systemd/system/ashlard.service",
    ] {
        ensure!(files.lines().any(|line| line == file), "{file} is not in {}", rpm.display());
    }
    exec_quietly(Command::new("rpm").arg("-K").arg(&rpm))
}

/// An image in the layout of the Open Container Initiative, for labs, without a container engine: a small Debian with the
/// files of the package.
fn image(deb: &Path, out: &Path) -> Result<()> {
    setup::need(&["umoci", "mmdebstrap"])?;
    let (layout, bundle) = (out.join("oci"), out.join("oci-bundle"));
    for old in [&layout, &bundle] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    let tag = format!("{}:ashlar:{}", layout.display(), env!("CARGO_PKG_VERSION"));
    let umoci = |words: &[&str]| exec(Command::new("umoci").args(words));
    umoci(&["init", "--layout", &layout.display().to_string()])?;
    umoci(&["new", "--image", &tag])?;
    umoci(&["unpack", "--image", &tag, &bundle.display().to_string()])?;
    let tree = bundle.join("rootfs");
    let sources = format!("deb {} {SUITE} main", mirror()?);
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--mode=root", "--variant=essential", "--include", IN_IMAGE])
        .args(["--aptopt=APT::Install-Recommends \"0\"", "--dpkgopt=path-exclude=/usr/share/doc/*"])
        .args(["--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]);
    let image = out.join("oci-root");
    if image.exists() {
        std::fs::remove_dir_all(&image)?;
    }
    exec(make.arg(SUITE).arg(&image).arg(sources))?;
    std::fs::remove_dir(&tree)?;
    std::fs::rename(&image, &tree)?;
    // The list of the mirror of this machine is of no use elsewhere.
    std::fs::write(tree.join("etc/apt/sources.list"), "")?;
    exec(Command::new("dpkg").arg("-x").arg(deb).arg(&tree))?;
    let version = capture(Command::new("chroot").arg(&tree).args(["/usr/sbin/ashlard", "--version"]))?;
    ensure!(version.contains(env!("CARGO_PKG_VERSION")), "the program in the image says {version}");
    umoci(&["repack", "--image", &tag, &bundle.display().to_string()])?;
    umoci(&[
        "config",
        "--image",
        &tag,
        "--config.entrypoint",
        "/usr/sbin/ashlard",
        "--config.volume",
        "/var/lib/ashlar",
        "--config.exposedports",
        "3260/tcp",
        "--config.exposedports",
        "8443/tcp",
        "--config.stopsignal",
        "SIGTERM",
        "--config.label",
        "org.opencontainers.image.title=ashlar",
        "--config.label",
        "org.opencontainers.image.licenses=Apache-2.0",
    ])?;
    umoci(&["gc", "--layout", &layout.display().to_string()])?;
    std::fs::remove_dir_all(&bundle)?;
    exec(Command::new("tar").arg("-C").arg(&layout).arg("-cf").arg(out.join("ashlar-oci.tar")).arg("."))
}

/// The mirror that this machine itself uses.
fn mirror() -> Result<String> {
    let listed = capture(&mut command(
        "apt-get",
        &["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
    ))?;
    let mirror = listed.lines().find(|line| !line.contains("security"));
    mirror.map(str::to_owned).context("this machine has no mirror of Debian")
}
