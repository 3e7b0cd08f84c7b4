//! `tgtd`, the Linux user-space target of Debian, as a peer.

use crate::scratch::free_addresses;
use crate::target::{Login, Process, Shape, Target, blank_file};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const IQN: &str = "iqn.2001-04.org.example:peer";

/// Backing store mode of tgt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackingStore {
    /// Through the page cache, each command in a thread.
    Buffered,
    /// Linux native asynchronous I/O, which tgt always opens with `O_DIRECT`: its fastest mode. What it acknowledges may be in
    /// the write cache of the disk alone, as it neither opens with `O_DSYNC` nor flushes.
    DirectAio,
    /// Each command in a thread, `O_DIRECT` and `O_SYNC`: what it acknowledges survives a power loss.
    Durable,
}

/// A separate `tgtd`, independent of any other on the machine.
pub struct Tgt {
    folder: PathBuf,
    portals: [SocketAddr; 2],
    backing: BackingStore,
    core: Option<usize>,
    login: Option<Login>,
    process: Option<Process>,
}

impl Tgt {
    /// A target with its files in `folder`, pinned to processor `core` if given. It starts with [`Target::fresh`].
    pub fn new(folder: &Path, backing: BackingStore, core: Option<usize>) -> Result<Self> {
        Ok(Self {
            folder: folder.into(),
            portals: free_addresses()?,
            backing,
            core,
            login: None,
            process: None,
        })
    }

    fn start(&mut self) -> Result<()> {
        self.process = None;
        let [a, b] = self.portals;
        let log = std::fs::File::create(self.folder.join("tgtd.log"))?;
        let mut command = crate::target::pinned("tgtd", self.core);
        command.args(["-f", "-C", "0", "--iscsi", &format!("portal={a},portal={b}")]);
        command.env("TGT_IPC_SOCKET", self.socket()).stdout(Stdio::null()).stderr(log);
        let mut process = Process::start(&mut command)?;
        let socket = PathBuf::from(format!("{}.0", self.socket().display()));
        process.wait_until(Duration::from_secs(20), || {
            socket.exists() && self.portals.iter().all(|portal| std::net::TcpStream::connect(portal).is_ok())
        })?;
        self.process = Some(process);
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("tgt.ipc")
    }

    fn admin(&self, op: &str, mode: &str, args: &[&str]) -> Result<()> {
        let mut command = Command::new("tgtadm");
        command.args(["-C", "0", "--lld", "iscsi", "--op", op, "--mode", mode, "--tid", "1"]).args(args);
        let status = command.env("TGT_IPC_SOCKET", self.socket()).status().context("can't start tgtadm")?;
        match status.success() {
            true => Ok(()),
            false => bail!("tgtadm --op {op} --mode {mode} {} failed", args.join(" ")),
        }
    }

    fn add_volume(&self, lun: u16, shape: Shape) -> Result<()> {
        let file = self.folder.join(format!("lun{lun}"));
        blank_file(&file, shape.bytes)?;
        let (file, lun) = (file.display().to_string(), lun.to_string());
        let block = shape.block_bytes.to_string();
        let mut new = vec!["--lun", &lun, "-b", &file, "--blocksize", &block];
        match self.backing {
            BackingStore::Buffered => {}
            BackingStore::DirectAio => new.extend(["--bstype", "aio"]),
            // In the other order tgt takes the first word alone.
            BackingStore::Durable => new.extend(["--bstype", "rdwr", "--bsoflags", "sync:direct"]),
        }
        self.admin("new", "logicalunit", &new)?;
        self.admin("update", "logicalunit", &["--lun", &lun, "--params", "thin_provisioning=1"])
    }
}

impl Target for Tgt {
    fn name(&self) -> &'static str {
        match self.backing {
            BackingStore::Durable => "tgt durable",
            BackingStore::Buffered | BackingStore::DirectAio => "tgt",
        }
    }

    fn iqn(&self) -> &str {
        IQN
    }

    fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    fn pid(&self) -> Result<u32> {
        self.process.as_ref().map(Process::pid).context("tgtd is not running")
    }

    fn set_login(&mut self, login: Option<Login>) {
        self.login = login;
    }

    /// Restarts it; tgt exposes every LUN to every initiator.
    fn fresh(&mut self, volumes: &[Shape], _: &[&str]) -> Result<Vec<u16>> {
        self.start()?;
        self.admin("new", "target", &["-T", IQN])?;
        let luns: Vec<u16> = (1..).take(volumes.len()).collect();
        for (lun, shape) in luns.iter().zip(volumes) {
            self.add_volume(*lun, *shape)?;
        }
        if let Some(Login { name, secret }) = self.login {
            self.admin("new", "account", &["--user", name, "--password", secret])?;
            self.admin("bind", "account", &["--user", name])?;
        }
        self.admin("bind", "target", &["-I", "ALL"])?;
        Ok(luns)
    }
}
