//! The interface of every iSCSI target under test, and its process.

use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Shape of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Logical block length in bytes.
    pub block_bytes: u32,
}

/// Login credentials of initiators: one-way CHAP.
#[derive(Clone, Copy, Debug)]
pub struct Login {
    /// The name, CHAP_N.
    pub name: &'static str,
    /// The secret, at least 12 characters.
    pub secret: &'static str,
}

/// A running iSCSI target.
pub trait Target {
    /// Name in reports.
    fn name(&self) -> &'static str;

    /// iSCSI name.
    fn iqn(&self) -> &str;

    /// Addresses of its portals.
    fn portals(&self) -> &[SocketAddr];

    /// The serving process, for measuring its cost.
    fn pid(&self) -> Result<u32>;

    /// Replaces all volumes by empty thin ones, visible to `initiators` under the returned LUNs. State of earlier
    /// volumes, including reservations, is removed.
    fn fresh(&mut self, volumes: &[Shape], initiators: &[&str]) -> Result<Vec<u16>>;

    /// Sets whether initiators must authenticate, from the next [`Target::fresh`] on.
    fn set_login(&mut self, login: Option<Login>);

    /// Suspends or resumes the use of the processor, for targets that poll; others need not.
    fn rest(&self, _rest: bool) -> Result<()> {
        Ok(())
    }

    /// The URL of a LUN at one of the portals, for libiscsi's tools.
    fn url(&self, portal: usize, lun: u16) -> Result<String> {
        let portal = self.portals().get(portal).context("no such portal")?;
        Ok(format!("iscsi://{portal}/{}/{lun}", self.iqn()))
    }

    /// The URL with credentials.
    fn url_with(&self, login: Login, portal: usize, lun: u16) -> Result<String> {
        let url = self.url(portal, lun)?;
        Ok(url.replacen("://", &format!("://{}%{}@", login.name, login.secret), 1))
    }
}

/// A child process that ends with this value.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("can't start {name}"))?;
        Ok(Self { child, name })
    }

    /// Starts a program with a pipe to its input.
    pub fn start_with_input(command: &mut Command) -> Result<(Self, ChildStdin)> {
        let mut process = Self::start(command.stdin(Stdio::piped()))?;
        let input = process.child.stdin.take().context("no pipe to the program")?;
        Ok((process, input))
    }

    /// Process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Suspends or resumes it.
    pub fn pause(&self, pause: bool) -> Result<()> {
        let pid = libc::pid_t::try_from(self.child.id())?;
        // SAFETY: the child has not been waited for, so the ID is still its own.
        match unsafe { libc::kill(pid, if pause { libc::SIGSTOP } else { libc::SIGCONT }) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()).with_context(|| format!("can't pause {}", self.name)),
        }
    }

    /// Polls `ready` until it is true, for at most `limit`; fails at once if the process ends.
    pub fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} before it was ready", self.name);
            }
            if start.elapsed() > limit {
                bail!("{} is not ready after {} s", self.name, limit.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills it (kill -9), and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Requests its end and waits, for at most `limit`.
    pub fn terminate(&mut self, limit: Duration) -> Result<()> {
        self.ask_to_end()?;
        let start = Instant::now();
        while !self.has_ended_when_asked()? {
            if start.elapsed() > limit {
                bail!("{} does not stop", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Requests its end without waiting.
    pub fn ask_to_end(&self) -> Result<()> {
        let pid = libc::pid_t::try_from(self.child.id())?;
        // SAFETY: the child has not been waited for, so the id is still its own.
        match unsafe { libc::kill(pid, libc::SIGTERM) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error())
                .with_context(|| format!("can't ask {} to end", self.name)),
        }
    }

    /// Whether it has ended, successfully.
    pub fn has_ended_when_asked(&mut self) -> Result<bool> {
        match self.child.try_wait()? {
            Some(status) if status.success() => Ok(true),
            Some(status) => bail!("{} ended with {status} when asked to stop", self.name),
            None => Ok(false),
        }
    }

    /// Waits until it ends by itself, or by a signal from the terminal.
    pub fn wait(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }

    /// Waits until it ends successfully by itself, for at most `limit`.
    pub fn wait_at_most(&mut self, limit: Duration) -> Result<()> {
        self.wait_gone(limit)?;
        self.wait()
    }

    /// Waits until it ends by itself, with any status, for at most `limit`.
    pub fn wait_gone(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > limit {
                bail!("{} did not end within the time", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Fails if the process has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended with {status}", self.name),
            None => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Recreates a volume's file, empty and sparse.
pub(crate) fn blank_file(file: &Path, bytes: u64) -> Result<()> {
    let _ = std::fs::remove_file(file);
    Ok(std::fs::File::create(file)?.set_len(bytes)?)
}

/// A command that runs on one core only, if given.
pub fn pinned(program: impl AsRef<std::ffi::OsStr>, core: Option<usize>) -> Command {
    let Some(core) = core else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}
