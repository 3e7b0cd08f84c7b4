//! The iSCSI target of the Storage Performance Development Kit, a peer if `spdk_tgt` is installed; we know of no
//! distribution package. It polls, so its core is always busy, and the cost of an operation is the core's time divided
//! by the rate.

use crate::scratch::free_addresses;
use crate::target::{Login, Process, Shape, Target, blank_file};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = "spdk_tgt";
const LOG: &str = "spdk_tgt.log";
const IQN: &str = "iqn.2001-04.org.example:spdk";

/// Memory of the program in MiB, in addition to volumes in memory.
const OWN_MIB: u64 = 768;

/// Numbers of its only portal group, initiator group and authentication group.
const GROUP: u32 = 1;

/// Location of its volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bdev {
    /// In memory: not durable, a lower bound for the cost of a command.
    Memory,
    /// In a file, by Linux native asynchronous I/O with direct I/O.
    File,
}

/// An `spdk_tgt` of our own.
pub struct Spdk {
    folder: PathBuf,
    portals: [SocketAddr; 2],
    bdev: Bdev,
    core: Option<usize>,
    login: Option<Login>,
    process: Option<Process>,
}

impl Spdk {
    /// Whether the program is installed.
    pub fn is_installed() -> bool {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(PROGRAM).is_file())
    }

    /// A target with its files in `folder`, on one processor. It starts with [`Target::fresh`].
    pub fn new(folder: &Path, bdev: Bdev, core: Option<usize>) -> Result<Self> {
        let (folder, portals) = (folder.into(), free_addresses()?);
        Ok(Self { folder, portals, bdev, core, login: None, process: None })
    }

    fn start(&mut self, volumes: &[Shape]) -> Result<()> {
        self.process = None;
        let socket = self.socket();
        let _ = std::fs::remove_file(&socket);
        let held: u64 = volumes.iter().map(|shape| shape.bytes >> 20).sum();
        let memory = OWN_MIB + if self.bdev == Bdev::Memory { held } else { 0 };
        let log = std::fs::File::create(self.folder.join(LOG))?;
        let mut command = Command::new(PROGRAM);
        // Without devices of its own, it needs only a core and memory of the machine. Other programs on the same core
        // are idle while it runs.
        command.args(["--no-pci", "--disable-cpumask-locks", "--iova-mode", "va", "-s", &memory.to_string()]);
        if huge_mib() < memory {
            // Older releases need huge pages, and end with that reason in their log.
            command.arg("--no-huge");
        }
        command.args(["-m", &format!("{:#x}", 1u64 << self.core.unwrap_or(0))]).arg("-r").arg(&socket);
        command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::null());
        let mut process = Process::start(&mut command)?;
        let ready = process.wait_until(Duration::from_secs(30), || {
            call(&socket, "rpc_get_methods", &json!({ "current": true })).is_ok()
        });
        ready.with_context(|| {
            let said = std::fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
            let end: Vec<_> = said.lines().rev().take(3).collect();
            format!("{PROGRAM} says: {}", end.into_iter().rev().collect::<Vec<_>>().join("; "))
        })?;
        self.process = Some(process);
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("spdk.sock")
    }

    fn ask(&self, method: &str, params: &Value) -> Result<Value> {
        call(&self.socket(), method, params)
    }

    fn add_volume(&self, name: &str, shape: Shape) -> Result<()> {
        let block = shape.block_bytes;
        match self.bdev {
            Bdev::Memory => {
                let count = shape.bytes / u64::from(block);
                self.ask(
                    "bdev_malloc_create",
                    &json!({ "name": name, "num_blocks": count, "block_size": block }),
                )?;
            }
            Bdev::File => {
                let file = self.folder.join(name);
                blank_file(&file, shape.bytes)?;
                self.ask("bdev_aio_create", &json!({ "name": name, "filename": file, "block_size": block }))?;
            }
        }
        Ok(())
    }
}

/// MiB of free huge pages.
fn huge_mib() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    number("HugePages_Free:").zip(number("Hugepagesize:")).map_or(0, |(pages, kib)| (pages * kib) >> 10)
}

/// Sends a JSON-RPC 2.0 request to a running program.
fn call(socket: &Path, method: &str, params: &Value) -> Result<Value> {
    let stream = UnixStream::connect(socket).with_context(|| format!("can't reach {}", socket.display()))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut request = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    // Methods without parameters refuse an empty object.
    if !params.is_null() {
        request["params"] = params.clone();
    }
    serde_json::to_writer(&stream, &request)?;
    let mut answers = serde_json::Deserializer::from_reader(&stream).into_iter::<Value>();
    let answer = answers.next().with_context(|| format!("{method}: no answer"))??;
    match answer.get("error") {
        Some(error) => bail!("{PROGRAM} refuses {method} {params}: {error}"),
        None => Ok(answer.get("result").cloned().unwrap_or_default()),
    }
}

impl Target for Spdk {
    fn name(&self) -> &'static str {
        match self.bdev {
            Bdev::Memory => "SPDK on memory",
            Bdev::File => "SPDK on a file",
        }
    }

    fn iqn(&self) -> &str {
        IQN
    }

    fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    fn pid(&self) -> Result<u32> {
        self.process.as_ref().map(Process::pid).context("spdk_tgt is not running")
    }

    fn rest(&self, rest: bool) -> Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.pause(rest))
    }

    fn set_login(&mut self, login: Option<Login>) {
        self.login = login;
    }

    /// Restarts it, with every LUN visible to every initiator.
    fn fresh(&mut self, volumes: &[Shape], _: &[&str]) -> Result<Vec<u16>> {
        self.start(volumes)?;
        let portal = |at: &SocketAddr| json!({ "host": at.ip().to_string(), "port": at.port().to_string() });
        let portals: Vec<_> = self.portals.iter().map(portal).collect();
        self.ask("iscsi_create_portal_group", &json!({ "tag": GROUP, "portals": portals }))?;
        let anybody = json!({ "tag": GROUP, "initiators": ["ANY"], "netmasks": ["ANY"] });
        self.ask("iscsi_create_initiator_group", &anybody)?;
        if let Some(Login { name, secret }) = self.login {
            let secrets = json!([{ "user": name, "secret": secret }]);
            self.ask("iscsi_create_auth_group", &json!({ "tag": GROUP, "secrets": secrets }))?;
        }
        let luns: Vec<u16> = (0..).take(volumes.len()).collect();
        let name = |lun: u16| format!("lun{lun}");
        for (lun, shape) in luns.iter().zip(volumes) {
            self.add_volume(&name(*lun), *shape)?;
        }
        let shown: Vec<_> =
            luns.iter().map(|lun| json!({ "lun_id": lun, "bdev_name": name(*lun) })).collect();
        let mut node = json!({
            "name": IQN, "alias_name": "peer", "luns": shown, "queue_depth": 128,
            "pg_ig_maps": [{ "pg_tag": GROUP, "ig_tag": GROUP }], "disable_chap": self.login.is_none(),
        });
        if self.login.is_some() {
            (node["require_chap"], node["chap_group"]) = (json!(true), json!(GROUP));
        }
        self.ask("iscsi_create_target_node", &node)?;
        Ok(luns)
    }
}

#[cfg(test)]
#[path = "spdk_test.rs"]
mod tests;
