//! The Ansible collection: playbooks against the real daemon, run twice, and `ansible-test sanity`.

use super::{folder, left_out};
use crate::python;
use crate::running::Running;
use crate::shell::{capture, command, exec, exec_quietly, target_dir};
use crate::test::Tally;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that the collection is tested with.
const VERSION: &str = "2.19.14";

/// `ansible-test` gets pip from the network unless this is in its cache: Python's own copy, then the release that it wants.
const PIP: &str = "get_pip_24_2.py";
const PIP_TEXT: &str = r#"import ensurepip, os, subprocess, sys
ensurepip.bootstrap()
os.environ.pop("PIP_CONFIG_FILE", None)
subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "pip==24.2"])
"#;

/// Sanity tests and all playbooks. Installs Ansible.
pub fn long(programs: &Path) -> Result<Tally> {
    let Some(environment) = python::environment_with("ansible-core", VERSION, &[])? else {
        return Ok(left_out("ansible", "python3-venv is not installed"));
    };
    sanity(&environment)?;
    let array = Running::start(programs, "ansible-core/array")?;
    let play = |name: &str| play(&environment, &array, name, &[]);
    play("site")?;
    unchanged(&play("site")?)?;
    play("changes")?;
    array.end()?;
    Ok(Tally { passed: 4, ..Tally::default() })
}

/// Some modules, twice.
pub fn short(programs: &Path) -> Result<Tally> {
    let Some(environment) = python::existing("ansible-core", VERSION) else {
        return Ok(left_out("ansible", "`cargo xtask integrations ansible` installs Ansible for it"));
    };
    let array = Running::start(programs, "ansible-core/array")?;
    play(&environment, &array, "site", &["--tags", "short"])?;
    unchanged(&play(&environment, &array, "site", &["--tags", "short"])?)?;
    array.end()?;
    Ok(Tally { passed: 2, ..Tally::default() })
}

/// Ansible finds a collection by the folders that it is in.
fn collection() -> Result<PathBuf> {
    let place = target_dir().join("ansible-core/collections/ansible_collections/ashlar");
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    std::fs::create_dir_all(&place)?;
    exec(command("cp", &["-r"]).arg(folder("ansible")).arg(place.join("array")))?;
    Ok(place.join("array"))
}

fn program(environment: &Path, name: &str) -> Command {
    let bin = environment.join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut program = command(&bin.join(name).to_string_lossy(), &[]);
    // What it keeps for later does not go into the user's folder.
    program.env("PATH", format!("{}:{path}", bin.display())).env("HOME", home()).env("ANSIBLE_NOCOLOR", "1");
    program
}

fn home() -> PathBuf {
    target_dir().join("ansible-core/home")
}

fn sanity(environment: &Path) -> Result<()> {
    let collection = collection()?;
    let cache = home().join(".ansible/test/cache");
    std::fs::create_dir_all(&cache)?;
    std::fs::write(cache.join(PIP), PIP_TEXT)?;
    // It tests what git would take.
    std::fs::write(collection.join(".gitignore"), "tests/output\n__pycache__\n")?;
    exec_quietly(command("git", &["init", "--quiet"]).current_dir(&collection))?;
    exec_quietly(command("git", &["add", "--all"]).current_dir(&collection))?;
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = capture(program(environment, "python").args(["-c", version]))?;
    let mut test = program(environment, "ansible-test");
    test.args(["sanity", "--requirements", "--color", "no", "--python", version.trim()]);
    // There are no PowerShell and shell sources in it.
    test.args(["--skip-test", "pslint", "--skip-test", "shellcheck"]).current_dir(&collection);
    exec(&mut test)
}

/// Runs a playbook that must succeed, and returns what it printed.
fn play(environment: &Path, array: &Running, name: &str, more: &[&str]) -> Result<String> {
    let collection = collection()?;
    let collections = collection.ancestors().nth(3).context("the folder of collections")?;
    let (url, token) = array.access()?;
    let values = serde_json::json!({
        "ansible_python_interpreter": environment.join("bin/python"),
        "array_url": url.replace("http://", "https://"),
        "array_token": token,
        "array_ca": array.data.join("tls.pem"),
    });
    let mut play = program(environment, "ansible-playbook");
    play.args(["--inventory", "localhost,", "--connection", "local", "--extra-vars", &values.to_string()]);
    play.args(more).arg(collection.join(format!("tests/integration/{name}.yml")));
    play.env("ANSIBLE_COLLECTIONS_PATH", collections);
    let output = play.output().context("ansible-playbook can't be started")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        eprintln!("{said}{}", String::from_utf8_lossy(&output.stderr));
        bail!("the playbook {name} failed; see above");
    }
    Ok(said)
}

/// The second run of a playbook must have nothing to do.
fn unchanged(said: &str) -> Result<()> {
    match super::number_after(said, "changed=")? {
        0 => Ok(()),
        changed => {
            eprintln!("{said}");
            bail!("the second run of the playbook changed {changed} things")
        }
    }
}
