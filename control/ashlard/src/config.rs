//! The file with options, `/etc/ashlar/ashlar.toml`: each key is an option of the command line, without the dashes.
//!
//! The file becomes arguments before those of the command line, so that both are read by one parser with the same rules. An
//! option that the command line names is not taken from the file. Nothing is read unless `--config` names it: a trial in
//! another folder must not find the drives of the machine's array.

use crate::args::Args;
use crate::configuration::Configuration;
use crate::portals;
use anyhow::{Context, Result, bail, ensure};
use clap::{ArgAction, Command, CommandFactory, Parser};
use machine::{access, ceph, key};
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The folder of an array that is started by a file which does not name one.
const DEFAULT_DATA: &str = "/var/lib/ashlar";
/// Options that a file must not have: what they consent to, or do, is for one start only.
const COMMAND_LINE_ONLY: [&str; 7] =
    ["config", "format-force", "help", "join", "openapi", "rados-array", "version"];
/// Options of which a file has to name one: no array is made on a default.
const STORES: [&str; 3] = ["drive", "rados", "drives"];
/// Mode bits that let others write.
const OTHERS_WRITE: u32 = 0o002;

/// The command line, with the file that it names.
///
/// # Errors
/// If the file can't be read or is wrong.
pub fn parse(words: Vec<OsString>) -> Result<Args> {
    let (command, at) = command(&words);
    let given = words.get(at..).unwrap_or_default();
    let has_file = command.get_arguments().any(|arg| arg.get_long() == Some("config"));
    let Some(file) = value_of(given, "config").filter(|_| has_file) else {
        return Ok(Args::parse_from(words));
    };
    let file = PathBuf::from(file);
    let from_file = arguments(&read(&file)?, &command, given).with_context(|| wrong(&file))?;
    let front = words.get(..at).unwrap_or_default().iter().cloned();
    let all = front.chain(from_file).chain(given.iter().cloned());
    Args::try_parse_from(all).map_err(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        anyhow::anyhow!("{}\nOptions are from {} and the command line", text(&error), file.display())
    })
}

/// The command that is meant, and where its arguments begin.
fn command(words: &[OsString]) -> (Command, usize) {
    let (mut command, mut at) = (Args::command(), 1);
    while let Some(next) = words.get(at).and_then(|word| command.find_subcommand(word)) {
        command = next.clone();
        at += 1;
    }
    (command, at)
}

/// Whether a file may have an option of serving.
pub fn may_be_in_a_file(arg: &clap::Arg) -> bool {
    !arg.is_hide_set() && arg.get_long().is_some_and(|name| !COMMAND_LINE_ONLY.contains(&name))
}

/// Whether an option is among arguments. Options have long names alone, and no value begins with a dash.
fn names(given: &[OsString], option: &str) -> bool {
    let (exact, with_value) = (format!("--{option}"), format!("--{option}="));
    given.iter().any(|word| {
        let word = word.to_string_lossy();
        word == exact || word.starts_with(&with_value)
    })
}

fn value_of(given: &[OsString], option: &str) -> Option<OsString> {
    let exact = format!("--{option}");
    let at = given.iter().position(|word| *word == *exact);
    let joined = || {
        let value = |word: &OsString| Some(word.to_str()?.strip_prefix(&format!("{exact}="))?.into());
        given.iter().find_map(value)
    };
    at.and_then(|at| given.get(at + 1).cloned()).or_else(joined)
}

/// Reads a file that others can't change.
fn read(file: &Path) -> Result<Table> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {shown}"))?;
    let mode = std::fs::metadata(file).with_context(|| format!("can't look at {shown}"))?.mode();
    ensure!(
        mode & OTHERS_WRITE == 0,
        "every user can write to {shown}, and so choose the drives and portals: check it, then chmod o-w {shown}"
    );
    text.parse().with_context(|| wrong(file))
}

fn wrong(file: &Path) -> String {
    format!("{} is wrong", file.display())
}

/// The options of a file that `command` has, as arguments, but for those that are given already.
fn arguments(table: &Table, command: &Command, given: &[OsString]) -> Result<Vec<OsString>> {
    let root = Args::command();
    let mut words = Vec::new();
    for (key, value) in table {
        ensure!(
            !COMMAND_LINE_ONLY.contains(&key.as_str()),
            "{key} is an option of the command line, for a single start"
        );
        let find = |command: &Command| {
            command.get_arguments().find(|arg| arg.get_long() == Some(key.as_str())).cloned()
        };
        let arg = find(&root).with_context(|| format!("there is no option {key}: ashlar.toml(5) has all"))?;
        let option = words_of(key, value, arg.get_action())?;
        if find(command).is_some() && !names(given, key) {
            words.extend(option);
        }
    }
    let serves = command.get_name() == root.get_name();
    let has = |option: &str| table.contains_key(option) || names(given, option);
    ensure!(
        !serves || STORES.iter().any(|option| has(option)),
        "it names no drives for the array: set `drive` to a list of paths, or `rados` to a pool; for a trial on files in the \
         data folder set `drives` to their number"
    );
    if !has("data") {
        words.push(format!("--data={DEFAULT_DATA}").into());
    }
    Ok(words)
}

/// A key and its value as arguments.
fn words_of(key: &str, value: &Value, action: &ArgAction) -> Result<Vec<OsString>> {
    if !action.takes_values() {
        return match value {
            Value::Boolean(true) => Ok(vec![format!("--{key}").into()]),
            Value::Boolean(false) => Ok(Vec::new()),
            _ => bail!("{key} is true or false"),
        };
    }
    let list = matches!(action, ArgAction::Append);
    match value {
        Value::Array(values) if list => values.iter().map(|value| word(key, value)).collect(),
        Value::Array(_) => bail!("{key} has one value, not a list"),
        _ => Ok(vec![word(key, value)?]),
    }
}

fn word(key: &str, value: &Value) -> Result<OsString> {
    match value {
        Value::String(text) => Ok(format!("--{key}={text}").into()),
        Value::Integer(number) => Ok(format!("--{key}={number}").into()),
        _ => bail!("{key} has a value that is neither text in quotes nor a whole number"),
    }
}

/// The text of an error of the command line, without what is only of use there.
fn text(error: &clap::Error) -> String {
    let text = error.to_string();
    let end = text.find("\nUsage:").or_else(|| text.find("\nFor more information")).unwrap_or(text.len());
    let text = text.get(..end).unwrap_or_default().trim();
    text.strip_prefix("error: ").unwrap_or(text).to_owned()
}

/// Checks a file, and what it names on this machine. Prints what was found; returns the number of defects.
///
/// # Errors
/// If the file can't be read.
pub fn check(file: &Path) -> Result<usize> {
    let words = ["ashlard".into(), "--config".into(), file.as_os_str().to_owned()];
    let found = findings(&parse(words.to_vec())?.configuration());
    for finding in &found {
        match finding {
            Finding::Defect(text) => println!("defect: {text}"),
            Finding::Remark(text) => println!("remark: {text}"),
        }
    }
    let defects = found.iter().filter(|it| matches!(it, Finding::Defect(_))).count();
    match defects {
        0 => println!("{} is valid", file.display()),
        _ => println!("{defects} defects in {}", file.display()),
    }
    Ok(defects)
}

/// Something found about a file.
enum Finding {
    /// The array would not start, or not as it is meant.
    Defect(String),
    /// It would, but there is a better way.
    Remark(String),
}

fn findings(config: &Configuration) -> Vec<Finding> {
    use Finding::{Defect, Remark};
    let mut found = Vec::new();
    let named = &config.store.drives.named;
    for path in named {
        let shown = path.display();
        match path.metadata() {
            Err(error) => found.push(Defect(format!("drive {shown}: {error}"))),
            Ok(it) if it.is_dir() => found.push(Defect(format!("drive {shown} is a folder"))),
            Ok(_) if is_name_of_order(path) => found.push(Remark(format!(
                "drive {shown}: this name may be another drive after a restart; use one of /dev/disk/by-id"
            ))),
            Ok(_) => {}
        }
    }
    for (at, path) in named.iter().enumerate() {
        let real = path.canonicalize().ok();
        let earlier = named.iter().take(at);
        if real.is_some() && earlier.into_iter().any(|other| other.canonicalize().ok() == real) {
            found.push(Defect(format!("drive {} is named twice", path.display())));
        }
    }
    let key::Config { passphrase_file, kmip_cert, kmip_key, kmip_ca, .. } = &config.store.key;
    for path in [passphrase_file, kmip_cert, kmip_key, kmip_ca].into_iter().flatten() {
        if let Err(error) = std::fs::File::open(path) {
            found.push(Defect(format!("{}: {error}", path.display())));
        }
    }
    if let Err(error) = ceph::is_meant(&config.store) {
        found.push(Defect(format!("{error:#}")));
    }
    let running = access::is_locked(&config.store.data);
    let portals::Config { iscsi, nvme, .. } = &config.hosts;
    let addresses = iscsi.iter().chain(nvme).chain([&config.api.address]).chain(&config.replication);
    for address in addresses.filter(|_| !running) {
        if let Err(error) = TcpListener::bind(SocketAddr::new(address.ip(), 0)) {
            found.push(Defect(format!("{} is no address of this machine: {error}", address.ip())));
        } else if address.port() != 0
            && let Err(error) = TcpListener::bind(address)
        {
            found.push(Defect(format!("can't listen on {address}: {error}")));
        }
    }
    if iscsi.iter().any(|address| address.ip().is_unspecified()) {
        found.push(Remark(
            "iscsi: every address of this machine is a portal; name those of the storage networks".into(),
        ));
    }
    found
}

/// Whether the kernel gives a name in the order in which it finds drives.
fn is_name_of_order(path: &Path) -> bool {
    let name = path.strip_prefix("/dev").ok().and_then(Path::to_str).unwrap_or_default();
    !name.contains('/') && ["sd", "nvme", "vd", "xvd"].iter().any(|kind| name.starts_with(kind))
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
