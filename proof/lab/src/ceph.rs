//! A small Ceph cluster for one run: a monitor, a manager and storage daemons (OSDs) on loopback addresses, with all
//! files in one folder and in memory. Its daemons end with the run.

use crate::scratch::free_addresses;
use crate::target::Process;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Required programs.
const PROGRAMS: &[&str] = &["ceph-mon", "ceph-mgr", "ceph-osd", "ceph", "ceph-authtool", "monmaptool"];
/// Time limit for the start of daemons, on a loaded machine.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// Location of an array in a cluster, as options of `ashlard`.
#[derive(Clone, Debug)]
pub struct Pools {
    /// The configuration file of the cluster.
    pub conf: PathBuf,
    /// One pool, or two separated by a comma.
    pub pools: String,
    /// The namespace.
    pub namespace: String,
    /// Whether the array is encrypted.
    pub encrypt: bool,
}

impl Pools {
    /// Arguments of `ashlard`.
    pub fn arguments(&self) -> Vec<String> {
        let conf = self.conf.display().to_string();
        let words = [
            "--rados",
            &self.pools,
            "--rados-namespace",
            &self.namespace,
            "--ceph-id",
            "admin",
            "--ceph-conf",
        ];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.push(conf);
        words.extend(self.encrypt.then(|| "--encrypt".to_owned()));
        words
    }
}

/// The cluster.
pub struct Ceph {
    folder: PathBuf,
    /// OSDs by number; `None` while one is killed.
    osds: Vec<Option<Process>>,
    _others: Vec<Process>,
}

/// The reason why this machine can't run a cluster; `None` if it can.
pub fn missing() -> Option<String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = |program: &str| std::env::split_paths(&paths).any(|folder| folder.join(program).exists());
    let program = PROGRAMS.iter().find(|program| !found(program))?;
    Some(format!("{program} is not installed (packages ceph-mon, ceph-mgr, ceph-osd, ceph-common)"))
}

impl Ceph {
    /// Starts a cluster in a folder, with OSDs of this size in bytes, the pools `meta` and `small` with three copies,
    /// and `erasure` with two data chunks and one coding chunk.
    ///
    /// # Errors
    /// If a daemon can't be started, or is not ready in time.
    pub fn start(folder: &Path, osds: usize, osd_bytes: u64) -> Result<Self> {
        let folder = folder.canonicalize()?;
        let [v2, v1] = free_addresses()?;
        std::fs::write(folder.join("ceph.conf"), configuration(&folder, (&v2, &v1), osd_bytes))?;
        let mut ceph = Self { folder, osds: Vec::new(), _others: Vec::new() };
        ceph.make_monitor(&format!("[v2:{v2}/0,v1:{v1}/0]"))?;
        let monitor = ceph.daemon("mon", "a")?;
        ceph._others.push(monitor);
        ceph.until("the monitor answers", || ceph.ceph(&["mon", "stat"]).is_ok())?;
        let key = [
            "auth",
            "get-or-create",
            "mgr.x",
            "mon",
            "allow profile mgr",
            "osd",
            "allow *",
            "mds",
            "allow *",
        ];
        let keyring = ceph.ceph(&key)?;
        std::fs::create_dir_all(ceph.folder.join("mgr.x"))?;
        std::fs::write(ceph.folder.join("mgr.x/keyring"), keyring)?;
        let manager = ceph.daemon("mgr", "x")?;
        ceph._others.push(manager);
        for number in 0..osds {
            ceph.make_osd(number)?;
            let osd = ceph.daemon("osd", &number.to_string())?;
            ceph.osds.push(Some(osd));
        }
        ceph.make_pools()?;
        ceph.wait_clean()?;
        Ok(ceph)
    }

    /// The configuration file.
    pub fn conf(&self) -> PathBuf {
        self.folder.join("ceph.conf")
    }

    /// Runs `ceph` with these arguments.
    ///
    /// # Errors
    /// Its error output.
    pub fn ceph(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("ceph");
        command.arg("--conf").arg(self.conf()).args(["--connect-timeout", "5"]).args(words);
        run(&mut command)
    }

    /// Kills an OSD (kill -9).
    ///
    /// # Errors
    /// If it does not exist.
    pub fn kill_osd(&mut self, number: usize) -> Result<()> {
        let osd = self.osds.get_mut(number).and_then(Option::take);
        osd.with_context(|| format!("osd.{number} is not running"))?.kill()
    }

    /// Waits until every placement group is active and complete.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn wait_clean(&self) -> Result<()> {
        self.until("placement groups are active and clean", || {
            let status = self.ceph(&["status", "--format", "json"]).unwrap_or_default();
            let status: Value = serde_json::from_str(&status).unwrap_or_default();
            let groups = status["pgmap"]["pgs_by_state"].as_array().cloned().unwrap_or_default();
            let clean = groups.iter().filter(|group| group["state_name"] == "active+clean");
            let clean: u64 = clean.filter_map(|group| group["count"].as_u64()).sum();
            let up = status["osdmap"]["num_up_osds"].as_u64().unwrap_or(0);
            up >= self.osds.len() as u64 && clean > 0 && status["pgmap"]["num_pgs"].as_u64() == Some(clean)
        })
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
        let start = Instant::now();
        while !holds() {
            ensure!(start.elapsed() < READY_LIMIT, "{what}: not after {} s", READY_LIMIT.as_secs());
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--conf").arg(self.conf());
        command
    }

    fn daemon(&self, kind: &str, id: &str) -> Result<Process> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{kind}.{id}.out")))?;
        let mut command = self.program(&format!("ceph-{kind}"));
        command.args(["--foreground", "--id", id]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Process::start(&mut command)
    }

    fn make_monitor(&self, addresses: &str) -> Result<()> {
        let (keyring, own) = (self.folder.join("keyring"), self.folder.join("keyring.mon"));
        let tool = |file: &Path, words: &[&str]| run(Command::new("ceph-authtool").arg(file).args(words));
        tool(&own, &["--create-keyring", "--gen-key", "--name", "mon.", "--cap", "mon", "allow *"])?;
        tool(
            &keyring,
            &[
                "--create-keyring",
                "--gen-key",
                "--name",
                "client.admin",
                "--cap",
                "mon",
                "allow *",
                "--cap",
                "osd",
                "allow *",
                "--cap",
                "mgr",
                "allow *",
            ],
        )?;
        run(Command::new("ceph-authtool").arg(&own).arg("--import-keyring").arg(&keyring))?;
        let map = self.folder.join("monmap");
        run(Command::new("monmaptool")
            .args(["--create", "--clobber", "--fsid", FSID, "--addv", "a", addresses])
            .arg(&map))?;
        let mut make = self.program("ceph-mon");
        make.args(["--mkfs", "--id", "a", "--monmap"]).arg(&map).arg("--keyring").arg(&own);
        run(&mut make).map(drop)
    }

    fn make_osd(&self, number: usize) -> Result<()> {
        let (id, folder) = (number.to_string(), self.folder.join(format!("osd.{number}")));
        std::fs::create_dir_all(&folder)?;
        let unique = format!("00000000-0000-4000-8000-{number:012x}");
        self.ceph(&["osd", "new", &unique, &id])?;
        let name = format!("osd.{id}");
        let keyring = self.ceph(&[
            "auth",
            "get-or-create",
            &name,
            "mon",
            "allow profile osd",
            "osd",
            "allow *",
            "mgr",
            "allow profile osd",
        ])?;
        std::fs::write(folder.join("keyring"), keyring)?;
        run(self.program("ceph-osd").args(["--mkfs", "--id", &id, "--osd-uuid", &unique])).map(drop)
    }

    fn make_pools(&self) -> Result<()> {
        self.ceph(&[
            "osd",
            "erasure-code-profile",
            "set",
            "two-one",
            "k=2",
            "m=1",
            "crush-failure-domain=osd",
        ])?;
        for pool in ["meta", "small"] {
            self.ceph(&["osd", "pool", "create", pool, "8", "8", "replicated"])?;
        }
        self.ceph(&["osd", "pool", "create", "erasure", "8", "8", "erasure", "two-one"])?;
        Ok(())
    }
}

/// All clusters have the same identity, since they never connect to each other.
const FSID: &str = "5d7c4a3e-21c5-4f0b-9c55-3f1f9a6c0d01";

/// Detects failures faster than by default, and uses only the folder.
fn configuration(
    folder: &Path,
    (v2, v1): (&std::net::SocketAddr, &std::net::SocketAddr),
    osd_bytes: u64,
) -> String {
    let folder = folder.display();
    format!(
        "[global]
fsid = {FSID}
mon host = [v2:{v2},v1:{v1}]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = {folder}/keyring
run dir = {folder}
pid file =
admin socket =
log file = {folder}/$name.log
crash dir = {folder}
osd pool default size = 3
osd pool default min size = 2
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool delete = true
mon max pg per osd = 2000
mon data avail warn = 2
mon data avail crit = 1
mgr initial modules =
osd heartbeat interval = 1
osd heartbeat grace = 4
mon osd min down reporters = 1
mon osd reporter subtree level = osd
mon osd adjust heartbeat grace = false
mon osd down out interval = 600
[client]
log file =
[mon]
mon data = {folder}/mon.$id
[mgr]
mgr data = {folder}/mgr.$id
keyring = {folder}/mgr.$id/keyring
[osd]
osd data = {folder}/osd.$id
keyring = {folder}/osd.$id/keyring
osd objectstore = memstore
memstore device bytes = {osd_bytes}
"
    )
}

/// Runs a program and returns its output.
fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("can't start {name}"))?;
    if !output.status.success() {
        bail!("{name} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
