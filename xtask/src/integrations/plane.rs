//! The CSI driver in a Kubernetes control plane without nodes: etcd, kube-apiserver, kube-controller-manager, the snapshot
//! controller, the five sidecars, and CSI-Addons are built from their modules, and `integrations/kubernetes/plane` runs them.

use super::{folder, go};
use crate::shell::{capture, exec, target_dir};
use crate::test::Tally;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Go module of the tests, whose `go.mod` has the programs as tools.
const FOLDER: &str = "kubernetes/plane";
/// The modules of programs that are made for earlier versions of what the others use.
const SIDECAR: &str = "kubernetes/plane/sidecar";
const ADDONS: &str = "kubernetes/plane/addons";
/// What Kubernetes reports as its version: it is set when its programs are linked.
const VERSION: &str = "k8s.io/component-base/version.gitVersion";
/// The tests share their compiled packages with the programs if both are compiled in the same way.
const COMPILED: &[&str] = &["-trimpath", "-buildvcs=false"];

/// Builds the programs, then runs the tests.
pub fn long(programs: &Path) -> Result<Tally> {
    let helm = go::install_helm()?;
    let kubernetes = build()?;
    let driver = target_dir().join("integrations/ashlar-csi");
    go::binary("./cmd/ashlar-csi", &driver)?;
    let scratch = Scratch::new()?;
    formatted()?;
    exec(go(&["vet"]).args(COMPILED).arg("./..."))?;
    let mut tests = go(&["test", "-json", "-timeout=30m"]);
    tests.args(COMPILED).arg("./...").env("TMPDIR", &scratch.0);
    tests.env("PLANE", kubernetes).env("ASHLAR_CSI", driver).env("HELM", helm);
    let tally = go::tested(&mut tests, programs)?;
    if tally.passed == 0 && tally.failed == 0 {
        bail!("no test ran");
    }
    Ok(tally)
}

/// It is not part of `cargo xtask test`: building the programs takes too long for that.
#[expect(clippy::unnecessary_wraps, reason = "all parts have this form")]
pub fn short(_: &Path) -> Result<Tally> {
    Ok(super::left_out("plane", "`cargo xtask integrations plane` builds a Kubernetes control plane for it"))
}

/// Builds the programs one package at a time and with low priority: it is long, and the machine stays usable. What was built
/// before is not built again.
fn build() -> Result<PathBuf> {
    let programs = target_dir().join("integrations/plane");
    std::fs::create_dir_all(&programs)?;
    let version = capture(&mut go(&["list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"]))?;
    for module in [FOLDER, SIDECAR, ADDONS] {
        let mut build = Command::new("nice");
        build
            .args(["go", "build", "-p", "1"])
            .args(COMPILED)
            .arg(format!("-ldflags=-s -w -X {VERSION}={}", version.trim()));
        // A folder that exists, and its name says so: each program goes there by its name.
        build
            .arg("-o")
            .arg(programs.join(""))
            .arg("tool")
            .current_dir(folder(module))
            .env("CGO_ENABLED", "0");
        exec(&mut build)?;
    }
    Ok(programs)
}

fn go(words: &[&str]) -> Command {
    let mut go = Command::new("go");
    go.args(words).current_dir(folder(FOLDER)).env("CGO_ENABLED", "0");
    go
}

fn formatted() -> Result<()> {
    let unformatted = capture(Command::new("gofmt").args(["-l", "."]).current_dir(folder(FOLDER)))?;
    if !unformatted.is_empty() {
        bail!("not formatted, `gofmt -w` does it: {}", unformatted.trim().replace('\n', ", "));
    }
    Ok(())
}

/// A folder for what the tests write, gone afterwards also if they were killed. It is not below `target`: paths of sockets
/// have at most 108 bytes.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("ashlar-plane-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("{} can't be created", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed is a few files in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
