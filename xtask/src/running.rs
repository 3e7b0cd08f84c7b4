//! A daemon for checks that ask its API from outside: drives in a folder, ports that are free, gone afterwards.

use crate::shell::{command, root, target_dir};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A daemon with drives in a folder; killed when it is dropped.
pub struct Running {
    child: Child,
    /// Its data folder.
    pub data: PathBuf,
}

impl Running {
    /// Starts the daemon of `programs` with its data in this folder of the target folder, which is emptied.
    pub fn start(programs: &Path, folder: &str) -> Result<Self> {
        let data = target_dir().join(folder);
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        let mut daemon = command(&programs.join("ashlard").to_string_lossy(), &["--data"]);
        daemon.arg(&data).args(["--drives", "4", "--drive-size", "256MiB", "--threads", "1"]);
        daemon.args(["--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0"]).env("RUST_LOG", "error");
        let child =
            daemon.current_dir(root()).stdout(Stdio::piped()).spawn().context("ashlard can't be started")?;
        let mut array = Self { child, data };
        let mut line = String::new();
        let out = array.child.stdout.take().context("the daemon's output")?;
        BufReader::new(out).read_line(&mut line)?;
        if line.is_empty() {
            bail!("ashlard ended before it was ready");
        }
        Ok(array)
    }

    /// The address of its API and the token of its administrator.
    pub fn access(&self) -> Result<(String, String)> {
        lab::array::access(&self.data)
    }

    /// It must still be there, and goes with its folder.
    pub fn end(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("ashlard ended early: {status}");
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(std::fs::remove_dir_all(&self.data)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already when all is well.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
