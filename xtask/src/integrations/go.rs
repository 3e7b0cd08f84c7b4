//! The Go module `integrations/go`: client of the API, CSI driver with its Helm chart, Terraform provider, the program for
//! vSphere, the adapter for its Site Recovery Manager, and the provider for Forklift. Go's own tools build and test it.

use super::windows;
use crate::python;
use crate::shell::{capture, command, exec, installed, root, target_dir};
use crate::test::Tally;
use crate::web;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages of the CSI driver, with those that both programs use.
const CSI: &[&str] =
    &["./array/...", "./size/...", "./rig/...", "./csi/...", "./chart/...", "./cmd/ashlar-csi/..."];
/// Packages of the Terraform provider.
const TERRAFORM: &[&str] = &["./terraform/...", "./cmd/terraform-provider-ashlar/..."];
/// Packages of the program for vSphere, and the program in it.
const VSPHERE: &[&str] = &["./vsphere/...", "./cmd/ashlar-vsphere/..."];
const VSPHERE_PROGRAM: &str = "./cmd/ashlar-vsphere";
/// Packages of the Storage Replication Adapter, and the program in it.
const SRA: &[&str] = &["./pin/...", "./sra/...", "./cmd/ashlar-sra/...", "./cmd/ashlar-sra-package/..."];
const SRA_PROGRAM: &str = "./cmd/ashlar-sra";
/// The provider for Forklift.
const FORKLIFT: &[&str] = &["./forklift/..."];
/// What takes snapshots while guests are frozen.
const FREEZE: &[&str] = &["./freeze/...", "./cmd/ashlar-freeze/..."];
/// Tests of the workflow for blades.
const UCS: &[&str] = &["./ucs/..."];
/// Packages of the server for existing clients of other arrays, and the program in it.
const DIALECT: &[&str] = &["./admission", "./dialect/...", "./cmd/ashlar-dialect/..."];
const DIALECT_PROGRAM: &str = "./cmd/ashlar-dialect";
/// The package of Python, and its version, that one kind of generated scripts uses.
const PYVMOMI: (&str, &str) = ("pyvmomi", "9.1.1.0");
/// The module, and what is generated in it: file, and the package that generates it.
const MODULE: &str = "integrations/go";
const GENERATED: &[&str] = &[
    "array/api.gen.go",
    "vsphere/catalogue/kinds.gen.go",
    "../../docs/monitoring/ashlar.vlcp",
    "../../docs/monitoring/grafana-logs.json",
];
/// Documentation of the Terraform provider: the program that writes it, where it goes, and what it shows.
const PROVIDER_DOCS: &str = "github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs@v0.25.0";
const PROVIDER_FOLDER: &str = "integrations/terraform";
/// The program that the chart is rendered with.
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.22.0";

/// The CSI driver and its chart, in full.
pub fn csi(programs: &Path) -> Result<Tally> {
    install_helm()?;
    csi_short(programs)
}

/// The same without installing Helm: the chart is tested only where it was installed before.
pub fn csi_short(programs: &Path) -> Result<Tally> {
    current()?;
    let mut all = checked(CSI, programs)?;
    // The suite runs once in a process, and volumes of both kinds must pass it.
    let block = ["test", "-json", "-run", "TestSanity", "./csi"];
    let more = tested(go(&block).env("CSI_ACCESS", "block"), programs)?;
    all.add(&more);
    all.failures.extend(more.failures);
    Ok(all)
}

/// The Terraform provider and its documentation.
pub fn terraform(programs: &Path) -> Result<Tally> {
    provider_docs_are_current()?;
    terraform_short(programs)
}

/// The provider alone.
pub fn terraform_short(programs: &Path) -> Result<Tally> {
    current()?;
    checked(TERRAFORM, programs)
}

/// The program for vSphere, against a simulated vCenter, with pyvmomi and the grammar of PowerShell for the scripts that it
/// writes, and the pages of its plug-in in a browser.
pub fn vsphere(programs: &Path) -> Result<Tally> {
    python::environment(PYVMOMI.0, PYVMOMI.1)?;
    windows::install_grammar()?;
    // The pages are embedded in the program.
    let browser = web::browser_tests()?;
    let mut all = vsphere_short(programs)?;
    if let Some(folder) = browser {
        let mut pages = go(&["test", "-json", "-run", "TestPages", "./vsphere/plugin"]);
        let more = tested(pages.env("ASHLAR_WEB", folder), programs)?;
        all.add(&more);
        all.failures.extend(more.failures);
    }
    Ok(all)
}

/// The same without installing pyvmomi, whose script is run only where it was installed before, and without a browser.
pub fn vsphere_short(programs: &Path) -> Result<Tally> {
    current()?;
    exec(go(&["vet"]).args(VSPHERE))?;
    let mut tests = go(&["test", "-json"]);
    if let Some(folder) = python::existing(PYVMOMI.0, PYVMOMI.1) {
        tests.env("PYVMOMI", folder.join("bin/python"));
    }
    if let Some(folder) = windows::grammar() {
        tests.env("POWERSHELL_GRAMMAR", folder.join("bin/python"));
    }
    tested(tests.args(VSPHERE), programs)
}

/// The Storage Replication Adapter against two arrays, and its packages below `target/`.
pub fn sra(programs: &Path) -> Result<Tally> {
    let tally = sra_short(programs)?;
    let (program, packages) = (tools().join("ashlar-sra"), target_dir().join("sra"));
    std::fs::create_dir_all(&packages)?;
    let mut build = go(&["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o"]);
    exec(build.arg(&program).arg(SRA_PROGRAM).env("GOOS", "linux").env("GOARCH", "amd64"))?;
    let mut write = go(&["run", "./cmd/ashlar-sra-package", "-program"]);
    exec(write.arg(&program).arg("-out").arg(&packages))?;
    Ok(tally)
}

/// The adapter without its packages.
pub fn sra_short(programs: &Path) -> Result<Tally> {
    current()?;
    checked(SRA, programs)
}

/// The copy-offload provider for Forklift.
pub fn forklift(programs: &Path) -> Result<Tally> {
    current()?;
    checked(FORKLIFT, programs)
}

/// The server for existing clients of other arrays, without these.
pub fn dialect(programs: &Path) -> Result<Tally> {
    current()?;
    checked(DIALECT, programs)
}

/// Builds that server.
pub fn build_dialect() -> Result<PathBuf> {
    build(DIALECT_PROGRAM)
}

/// Builds the server of the plug-in for vSphere.
pub fn build_vsphere() -> Result<PathBuf> {
    build(VSPHERE_PROGRAM)
}

fn build(package: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(tools())?;
    let program = tools().join(package.trim_start_matches("./cmd/"));
    exec(go(&["build", "-trimpath", "-buildvcs=false", "-o"]).arg(&program).arg(package))?;
    Ok(program)
}

/// Snapshots of frozen guests, with stand-ins for guest agents.
pub fn freeze(programs: &Path) -> Result<Tally> {
    current()?;
    checked(FREEZE, programs)
}

/// The workflow that gives a blade its boot LUN.
pub fn ucs(programs: &Path) -> Result<Tally> {
    current()?;
    checked(UCS, programs)
}

fn checked(packages: &[&str], programs: &Path) -> Result<Tally> {
    exec(go(&["vet"]).args(packages))?;
    tested(go(&["test", "-json"]).args(packages).env("CSI_ACCESS", "mount"), programs)
}

/// Writes everything that is generated.
pub fn write() -> Result<()> {
    generate()?;
    provider_docs(&root().join(PROVIDER_FOLDER).join("docs"))
}

/// Writes what is generated. `cargo xtask openapi --write` does it as well where Go is.
pub fn generate() -> Result<()> {
    exec(&mut go(&["generate", "./..."]))
}

/// Writes the documentation of the Terraform provider into a folder.
fn provider_docs(folder: &Path) -> Result<()> {
    if !installed("terraform") {
        eprintln!("the documentation of the provider is not written: terraform is not installed");
        return Ok(());
    }
    let program = capture(&mut command("sh", &["-c", "command -v terraform"]))?;
    let mut write = go(&["run", PROVIDER_DOCS, "generate", "--provider-name", "ashlar"]);
    write
        .args(["--provider-dir", "cmd/terraform-provider-ashlar", "--rendered-website-dir"])
        .arg(from_provider(folder));
    write.arg("--examples-dir").arg(from_provider(&root().join(PROVIDER_FOLDER).join("examples")));
    exec(write.env("TF_ACC_TERRAFORM_PATH", program.trim()).env("CHECKPOINT_DISABLE", "1"))
}

/// A folder as seen from the provider's: the program takes no other paths.
fn from_provider(folder: &Path) -> PathBuf {
    Path::new("../../../..").join(folder.strip_prefix(root()).unwrap_or(folder))
}

fn provider_docs_are_current() -> Result<()> {
    let now = target_dir().join("integrations/provider-docs");
    if now.exists() {
        std::fs::remove_dir_all(&now)?;
    }
    provider_docs(&now)?;
    if !now.exists() {
        return Ok(());
    }
    let kept = root().join(PROVIDER_FOLDER).join("docs");
    let mut compare = command("diff", &["-r"]);
    exec(compare.arg(&kept).arg(&now)).with_context(|| {
        format!(
            "{} is out of date: `cargo xtask integrations --write` and review the difference",
            kept.display()
        )
    })
}

/// Builds a program for any Linux of this processor.
pub fn binary(package: &str, program: &Path) -> Result<()> {
    if !installed("go") {
        bail!("{package} can't be built: Go is not installed");
    }
    exec(go(&["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o"]).arg(program).arg(package))
}

/// True if the client can be generated here.
pub fn can_generate() -> bool {
    installed("go")
}

/// What is generated and the format of the sources are as they would be written now.
fn current() -> Result<()> {
    let files: Vec<_> = GENERATED.iter().map(|name| root().join(MODULE).join(name)).collect();
    let before =
        files.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>().context("a generated file")?;
    generate()?;
    for (file, before) in files.iter().zip(before) {
        if std::fs::read(file)? != before {
            // What was checked in stays, so that a second run says the same.
            std::fs::write(file, before)?;
            bail!(
                "{} is out of date: `cargo xtask integrations --write` and review the difference",
                file.display()
            );
        }
    }
    let unformatted = capture(command("gofmt", &["-l", "."]).current_dir(root().join(MODULE)))?;
    if !unformatted.is_empty() {
        bail!("not formatted, `gofmt -w` does it: {}", unformatted.trim().replace('\n', ", "));
    }
    Ok(())
}

/// Installs Helm, and returns the program.
pub fn install_helm() -> Result<PathBuf> {
    if !helm().exists() {
        std::fs::create_dir_all(tools())?;
        exec(go(&["install", HELM]).current_dir(target_dir()).env("GOBIN", tools()))?;
    }
    Ok(helm())
}

fn helm() -> PathBuf {
    tools().join("helm")
}

fn tools() -> PathBuf {
    target_dir().join("integrations")
}

fn go(words: &[&str]) -> Command {
    let mut go = command("go", words);
    go.current_dir(root().join(MODULE)).env("CGO_ENABLED", "0");
    go
}

/// Runs `go test -json` and counts tests; what a failed one printed is repeated.
pub fn tested(tests: &mut Command, programs: &Path) -> Result<Tally> {
    tests.env("ASHLARD", programs.join("ashlard")).env("CHECKPOINT_DISABLE", "1");
    // Go repeats an earlier result unless a file of the module has changed: the daemon and the chart are not in it.
    let flags = std::env::var("GOFLAGS").unwrap_or_default();
    tests.env("GOFLAGS", format!("{flags} -count=1"));
    if helm().exists() {
        tests.env("HELM", helm());
    }
    let words = tests.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    eprintln!("$ go {words}");
    let mut child = tests.stdout(Stdio::piped()).spawn().context("go can't be started")?;
    let output = child.stdout.take().context("the output of go test")?;
    let mut said = HashMap::<String, String>::new();
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        // What is no test's, such as errors of the compiler, is no JSON or has other actions.
        let Ok(event) = serde_json::from_str::<Value>(&line) else {
            eprintln!("{line}");
            continue;
        };
        let field = |name: &str| event[name].as_str().unwrap_or_default();
        let name =
            format!("{} {}", field("Package").trim_start_matches("ashlar/integrations/"), field("Test"));
        match field("Action") {
            "output" | "build-output" => said.entry(name).or_default().push_str(field("Output")),
            "pass" if event["Test"].is_string() => {
                let summary = said.remove(&name).unwrap_or_default();
                summary
                    .lines()
                    .filter(|line| line.contains("Passed"))
                    .for_each(|line| println!("{name}: {line}"));
                tally.passed += 1;
            }
            "skip" if event["Test"].is_string() => {
                let reason = said.remove(&name).unwrap_or_default();
                eprint!("{name}: left out\n{reason}");
                tally.skipped += 1;
            }
            "fail" => {
                eprint!("{name}: FAILED\n{}", said.remove(&name).unwrap_or_default());
                if event["Test"].is_string() {
                    tally.failed += 1;
                    tally.failures.push(name);
                }
            }
            _ => {}
        }
    }
    if !child.wait()?.success() && tally.failed == 0 {
        bail!("go {words} failed before it ran every test");
    }
    Ok(tally)
}
