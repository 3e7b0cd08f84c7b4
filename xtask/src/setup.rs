//! The Debian packages that the tests use, of which this is the only list, and tools that cargo installs.

use crate::shell::{capture, cargo, command, exec, installed, target_dir};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package, the file or program that shows it is there, and whether `cargo xtask test` needs it.
struct Package {
    name: &'static str,
    shown_by: &'static str,
    test: bool,
}

const fn package(name: &'static str, shown_by: &'static str, test: bool) -> Package {
    Package { name, shown_by, test }
}

const PACKAGES: &[Package] = &[
    package("gcc", "cc", true),
    package("libc6-dev", "/usr/include/stdio.h", true),
    package("g++", "c++", true),
    package("libiscsi-bin", "iscsi-test-cu", true),
    package("qemu-utils", "qemu-io", true),
    package("qemu-block-extra", "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so", true),
    package("libxml2-utils", "xmllint", true),
    package("e2fsprogs", "mkfs.ext4", true),
    package("nodejs", "node", true),
    package("npm", "npm", true),
    package("snmptrapd", "/usr/sbin/snmptrapd", true),
    package("slapd", "/usr/sbin/slapd", true),
    package("tgt", "tgtd", false),
    package("chromium", "chromium", false),
    package("qemu-system-x86", "qemu-system-x86_64", false),
    package("mmdebstrap", "mmdebstrap", false),
    package("cpio", "cpio", false),
    package("iproute2", "ip", false),
    package("kmod", "depmod", false),
    package("xz-utils", "xz", false),
    package("prometheus", "promtool", false),
    package("lintian", "lintian", false),
    package("rpm", "rpm", false),
    package("umoci", "umoci", false),
    package("systemd", "systemd-analyze", false),
];

/// What to install.
#[derive(clap::Args)]
pub struct Args {
    /// Also what `guest` and `bench` need, and a browser for `web --check`
    #[arg(long)]
    all: bool,
}

/// Installs what is missing when it may, else says how.
pub fn run(args: &Args) -> Result<()> {
    install(|package| args.all || package.test)
}

/// What `cargo xtask test` needs.
pub fn need_for_test() -> Result<()> {
    install(|package| package.test)
}

/// Makes sure that everything is there that one verb outside `test` needs.
pub fn need(names: &[&str]) -> Result<()> {
    install(|package| names.contains(&package.name))
}

fn install(wanted: impl Fn(&Package) -> bool) -> Result<()> {
    let missing: Vec<_> =
        PACKAGES.iter().filter(|package| wanted(package) && !present(package)).map(|it| it.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // SAFETY: takes nothing, touches nothing.
    if unsafe { libc::geteuid() } != 0 || !installed("apt-get") {
        bail!("missing programs: as root, run `apt-get install {}`", missing.join(" "));
    }
    let apt = |args: &[&str]| {
        let mut apt = command("apt-get", &["-qq", "-o", "DPkg::Lock::Timeout=300"]);
        apt.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    exec(&mut apt(&["update"]))?;
    exec(apt(&["install", "-y", "--no-install-recommends"]).args(&missing))
}

fn present(package: &Package) -> bool {
    match package.shown_by.starts_with('/') {
        true => Path::new(package.shown_by).exists(),
        false => installed(package.shown_by),
    }
}

/// A tool that cargo installs, in the version that the project was made with.
pub struct CargoTool {
    /// Its package, which is also its program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// The path of a tool; installs it below the target folder if it is not there.
pub fn cargo_tool(tool: &CargoTool) -> Result<PathBuf> {
    let folder = target_dir().join("tools");
    let program = folder.join("bin").join(tool.name);
    let has = capture(Command::new(&program).arg("--version")).is_ok_and(|text| text.contains(tool.version));
    if has {
        return Ok(program);
    }
    let wanted = format!("{}@{}", tool.name, tool.version);
    let mut install = cargo(&["install", "--locked", "--quiet", "--root"]);
    exec(install.arg(&folder).arg(wanted))?;
    match program.exists() {
        true => Ok(program),
        false => bail!("cargo did not install {}", program.display()),
    }
}
