//! The array's front end alone, over disks in memory: `io/iscsi/examples/mem_target.rs`. A failure here is not caused
//! by the engine.

use crate::scratch::free_addresses;
use crate::target::{Login, Process, Shape, Target, pinned};
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const IQN: &str = "iqn.2001-04.org.example:front";

/// A running example.
pub struct Front {
    program: PathBuf,
    portals: [SocketAddr; 2],
    core: Option<usize>,
    login: Option<Login>,
    process: Option<Process>,
}

impl Front {
    /// A target from a built example. It starts with [`Target::fresh`].
    pub fn new(program: &Path, core: Option<usize>) -> Result<Self> {
        Ok(Self { program: program.into(), portals: free_addresses()?, core, login: None, process: None })
    }
}

impl Target for Front {
    fn name(&self) -> &'static str {
        "front"
    }

    fn iqn(&self) -> &str {
        IQN
    }

    fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    fn pid(&self) -> Result<u32> {
        self.process.as_ref().map(Process::pid).context("the example is not running")
    }

    fn set_login(&mut self, login: Option<Login>) {
        self.login = login;
    }

    /// Restarts the example; its disks have equal sizes.
    fn fresh(&mut self, volumes: &[Shape], initiators: &[&str]) -> Result<Vec<u16>> {
        self.process = None;
        let shape = *volumes.first().context("no volume")?;
        ensure!(volumes.iter().all(|other| other.bytes == shape.bytes), "these disks are all of one size");
        let mut command = pinned(&self.program, self.core);
        command.args(["--name", IQN, "--disks", &volumes.len().to_string()]);
        command.args(["--mib", &(shape.bytes >> 20).to_string(), "--block", &shape.block_bytes.to_string()]);
        for portal in self.portals {
            command.args(["--portal", &portal.to_string()]);
        }
        for initiator in initiators {
            command.args(["--initiator", initiator]);
        }
        if let Some(Login { name, secret }) = self.login {
            command.args(["--chap", &format!("{name}:{secret}")]);
        }
        let mut process = Process::start(command.stdout(Stdio::null()))?;
        process.wait_until(Duration::from_secs(20), || {
            self.portals.iter().all(|portal| std::net::TcpStream::connect(portal).is_ok())
        })?;
        self.process = Some(process);
        Ok((0..).take(volumes.len()).collect())
    }
}
