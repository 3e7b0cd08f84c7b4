//! `ashlar doctor`: examines the array and the server that it runs on, and says what to do about what it finds.
//!
//! The server is examined only if the array was found by its data folder, as this program then runs on it. What can't be known
//! is left out.

use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::Result;
use client::api;
use client::schemas::{AlertState, Array, Severity};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// Open files that the service of the packages may have.
const OPEN_FILES: u64 = 65_536;
/// The MTU of Ethernet without jumbo frames.
const STANDARD_MTU: u64 = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Advice,
    Problem,
}

/// What was found about something.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    state: State,
    text: String,
    /// What to do.
    remedy: Option<String>,
}

impl Finding {
    fn ok(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, state: State::Ok, text: text.into(), remedy: None }
    }

    fn advice(about: &'static str, text: impl Into<String>, remedy: &str) -> Self {
        Self { about, state: State::Advice, text: text.into(), remedy: Some(remedy.into()) }
    }

    fn problem(about: &'static str, text: impl Into<String>, remedy: &str) -> Self {
        Self { about, state: State::Problem, text: text.into(), remedy: Some(remedy.into()) }
    }
}

/// Examines everything.
///
/// # Errors
/// If the array can't be reached.
pub fn run(client: &Client) -> Result<Shown> {
    let array = client.call(api::show_array())?.read()?;
    let mut findings = of_array(client, &array)?;
    if let Some(process) = client.process() {
        findings.extend(of_server(client, &array, process)?);
    }
    let findings = json!({ "findings": findings });
    Ok(Shown::text(findings, table))
}

fn table(found: &Value) -> String {
    show::rows(&["State", "About", "Finding"], &found["findings"], |it| {
        let remedy = it["remedy"].as_str().map_or_else(String::new, |remedy| format!(": {remedy}"));
        vec![show::text(it, "state"), show::text(it, "about"), format!("{}{remedy}", show::text(it, "text"))]
    })
}

fn of_array(client: &Client, array: &Array) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    match &array.reason {
        None => found.push(Finding::ok("array", "hosts are served")),
        Some(reason) => found.push(Finding::problem(
            "array",
            format!("it has stopped: {reason}"),
            "repair the drives, then start it again; acknowledged writes are safe",
        )),
    }
    let memory = show::bytes(array.memory.limit);
    found.push(Finding::ok("memory", format!("sizes follow a limit of {memory}: {}", array.memory.source)));
    let query = api::ListAlerts { filter: Some("state=open".into()), ..api::ListAlerts::default() };
    let alerts = client.call(api::list_alerts(&query))?.read()?.items;
    let open = alerts.into_iter().filter(|it| it.state == AlertState::Open && it.severity != Severity::Info);
    let before = found.len();
    found.extend(open.map(|alert| Finding {
        about: "alert",
        state: if alert.severity == Severity::Critical { State::Problem } else { State::Advice },
        text: format!("{}: {}", alert.kind, alert.message),
        remedy: None,
    }));
    if found.len() == before {
        found.push(Finding::ok("alert", "none is open"));
    }
    let protection = client.call(api::show_protection())?.read()?;
    found.push(match (protection.tolerates, protection.promises) {
        (0, _) => Finding::problem("protection", "no drive may fail", "add or replace drives"),
        (now, full) if now < full => Finding::advice(
            "protection",
            format!("{now} of {full} drives may still fail"),
            "wait for the rebuild (`ashlar drive status`), or add a drive",
        ),
        (1, _) => Finding::ok("protection", "any drive may fail"),
        (now, _) => Finding::ok("protection", format!("any {now} drives may fail")),
    });
    Ok(found)
}

fn of_server(client: &Client, array: &Array, process: u64) -> Result<Vec<Finding>> {
    let folder = Path::new("/proc").join(process.to_string());
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let mut found = Vec::new();
    found.extend(read(&folder.join("limits")).and_then(|text| open_files(&text)));
    found.extend(read(&folder.join("status")).and_then(|text| swapped(&text)));
    found.extend(
        output("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]).and_then(|it| clock(&it)),
    );
    let drives = client.call(api::list_drives(&api::ListDrives::default()))?.read()?.items;
    let paths: Vec<_> = drives.into_iter().filter_map(|drive| drive.path).collect();
    let rotates = |path: &String| rotational(Path::new(path)).is_some_and(|it| it);
    let is_file = |path: &String| std::fs::metadata(path).is_ok_and(|it| it.is_file());
    found.push(drive_kinds(
        &paths.iter().filter(|path| rotates(path)).collect::<Vec<_>>(),
        paths.iter().filter(|path| is_file(path)).count(),
        paths.len(),
    ));
    if let Some(links) = output("ip", &["-j", "address"]) {
        found.extend(networks(&serde_json::from_str(&links).unwrap_or_default(), &array.portals));
    }
    Ok(found)
}

fn output(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The limit of open files (proc(5), limits).
fn open_files(limits: &str) -> Option<Finding> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    Some(match soft.parse::<u64>() {
        Ok(limit) if limit < OPEN_FILES => Finding::advice(
            "limits",
            format!("{limit} open files limit the connections of hosts"),
            "set LimitNOFILE=65536 for the service",
        ),
        _ => Finding::ok("limits", format!("open files: {soft}")),
    })
}

/// Memory that was swapped out (proc(5), status).
fn swapped(status: &str) -> Option<Finding> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(match kib {
        0 => Finding::ok("memory", "nothing is swapped out"),
        _ => Finding::problem(
            "memory",
            format!("{kib} KiB of ashlard are swapped out, which delays hosts"),
            "give it less memory (read-memory, write-memory, map-memory, index-memory), or turn swap off",
        ),
    })
}

fn clock(synchronized: &str) -> Option<Finding> {
    match synchronized.trim() {
        "yes" => Some(Finding::ok("clock", "synchronized")),
        "no" => Some(Finding::advice(
            "clock",
            "it is not synchronized; schedules and retention depend on it",
            "install chrony, or run timedatectl set-ntp true",
        )),
        _ => None,
    }
}

/// Whether the kernel knows a drive as one that rotates.
fn rotational(path: &Path) -> Option<bool> {
    let real = path.canonicalize().ok()?;
    let class = Path::new("/sys/class/block").join(real.strip_prefix("/dev").ok()?);
    let read = |path: &Path| std::fs::read_to_string(path.join("queue/rotational")).ok();
    // A partition has the queue of its drive.
    let text = read(&class).or_else(|| read(class.canonicalize().ok()?.parent()?))?;
    Some(text.trim() == "1")
}

fn drive_kinds(rotating: &[&String], files: usize, all: usize) -> Finding {
    if let Some(first) = rotating.first() {
        let text = format!("{} of {all} drives rotate, such as {first}", rotating.len());
        return Finding::advice("drives", text, "use flash: reads of an array are random");
    }
    match files {
        0 => Finding::ok("drives", format!("{all} block devices")),
        _ => Finding::advice(
            "drives",
            format!("{files} of {all} are files"),
            "for more than a trial use block devices",
        ),
    }
}

/// Interfaces that have a portal: their state, MTU, and whether there are two networks. `links` is what `ip -j address` prints.
fn networks(links: &Value, portals: &[String]) -> Vec<Finding> {
    let addresses: BTreeSet<IpAddr> =
        portals.iter().filter_map(|portal| Some(portal.parse::<SocketAddr>().ok()?.ip())).collect();
    if addresses.iter().any(IpAddr::is_unspecified) {
        let remedy = "name the addresses of the storage networks in `iscsi`";
        return vec![Finding::advice("network", "every address of the server is a portal", remedy)];
    }
    let mut found = Vec::new();
    let mut mtus = BTreeSet::new();
    let mut names = BTreeSet::new();
    for link in links.as_array().into_iter().flatten() {
        let own = link["addr_info"].as_array().into_iter().flatten();
        let own = own.filter_map(|it| it["local"].as_str()?.parse::<IpAddr>().ok());
        let name = link["ifname"].as_str().unwrap_or_default();
        if !own.into_iter().any(|address| addresses.contains(&address)) {
            continue;
        }
        if link["operstate"] == "DOWN" {
            found.push(Finding::problem("network", format!("{name} is down"), "check cable and switch"));
        }
        if name != "lo" {
            mtus.extend(link["mtu"].as_u64());
            names.insert(name);
        }
    }
    match mtus.first() {
        Some(least) if mtus.len() > 1 => found.push(Finding::advice(
            "network",
            format!("portals have different MTUs, {mtus:?}; the smallest is {least}"),
            "set one MTU on all storage networks, and the same on switches and hosts",
        )),
        Some(&STANDARD_MTU) => found.push(Finding::advice(
            "network",
            format!("the MTU of portals is {STANDARD_MTU}"),
            "9000 takes less processor time for large transfers, if all switches and hosts have it",
        )),
        Some(mtu) => found.push(Finding::ok("network", format!("the MTU of portals is {mtu}"))),
        None => {}
    }
    match names.len() {
        0 => found.push(Finding::advice(
            "network",
            "portals are on loopback only",
            "name addresses that hosts reach",
        )),
        1 => found.push(Finding::advice(
            "network",
            "all portals are on one interface",
            "use two networks, so that hosts keep a path when one fails",
        )),
        many => found.push(Finding::ok("network", format!("portals on {many} interfaces"))),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_memory_and_clock_are_read_as_the_kernel_prints_them() {
        let limits = |soft: &str| {
            let text = format!(
                "Limit Soft Limit Hard Limit Units\nMax open files            {soft}   524288   files\n"
            );
            open_files(&text).unwrap().state
        };
        assert_eq!(
            (limits("1024"), limits("65536"), limits("unlimited")),
            (State::Advice, State::Ok, State::Ok)
        );
        let swap = |kib: &str| swapped(&format!("Name:\tashlard\nVmSwap:\t{kib} kB\n")).map(|it| it.state);
        assert_eq!((swap("0"), swap("12")), (Some(State::Ok), Some(State::Problem)));
        assert_eq!(swapped("Name:\tashlard\n").map(|it| it.state), None);
        let synchronized = |text: &str| clock(text).map(|it| it.state);
        assert_eq!((synchronized("yes\n"), synchronized("no\n")), (Some(State::Ok), Some(State::Advice)));
        assert_eq!(synchronized(""), None);
    }

    fn link(name: &str, mtu: u64, state: &str, address: &str) -> Value {
        json!({ "ifname": name, "mtu": mtu, "operstate": state, "addr_info": [{ "local": address }] })
    }

    fn states(links: &[Value], portals: &[&str]) -> Vec<State> {
        let portals: Vec<_> = portals.iter().map(|it| (*it).to_owned()).collect();
        networks(&json!(links), &portals).iter().map(|it| it.state).collect()
    }

    #[test]
    fn networks_of_portals_are_up_alike_and_two() {
        use State::{Advice, Ok, Problem};
        let (a, b) = (link("eth0", 9000, "UP", "10.0.0.1"), link("eth1", 9000, "UP", "fd00::1"));
        let other = link("eth2", 1500, "DOWN", "192.0.2.1");
        let portals = ["10.0.0.1:3260", "[fd00::1]:3260"];
        assert_eq!(states(&[a.clone(), b.clone(), other.clone()], &portals), [Ok, Ok]);
        assert_eq!(states(&[a.clone(), other], &portals[..1]), [Ok, Advice], "one network");
        let slow = link("eth1", 1500, "DOWN", "fd00::1");
        assert_eq!(states(&[a, slow], &portals), [Problem, Advice, Ok]);
        assert_eq!(states(&[b], &["0.0.0.0:3260"]), [Advice]);
        assert_eq!(states(&[link("lo", 65536, "UNKNOWN", "127.0.0.1")], &["127.0.0.1:3260"]), [Advice]);
        assert_eq!(states(&[], &["what"]), [Advice]);
    }

    #[test]
    fn kinds_of_drives_are_told_apart() {
        let path = "/dev/sda".to_owned();
        assert_eq!(drive_kinds(&[&path], 0, 3).state, State::Advice);
        assert_eq!(drive_kinds(&[], 3, 3).state, State::Advice);
        assert_eq!(drive_kinds(&[], 0, 3).state, State::Ok);
        assert_eq!(rotational(Path::new("/dev/null")), None);
    }
}
