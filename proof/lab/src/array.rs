//! The array as a process: starts, kills and restarts `ashlard`, and configures it with `ashlar`.

use crate::scratch::free_addresses;
use crate::target::{Login, Process, Shape, Target, pinned};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The programs of the array.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The daemon.
    pub ashlard: PathBuf,
    /// The command line.
    pub ashlar: PathBuf,
}

/// Drives of an array.
#[derive(Clone, Debug)]
pub struct Drives {
    /// Number of file-backed drives.
    pub count: u32,
    /// Size of each drive in bytes; the files are sparse.
    pub bytes: u64,
}

impl Drives {
    /// Arguments of `ashlard`.
    pub fn arguments(&self) -> Vec<String> {
        ["--drives".into(), self.count.to_string(), "--drive-size".into(), self.bytes.to_string()].into()
    }

    /// Creates the drive files in an array's folder before its start, with every block written.
    ///
    /// # Errors
    /// If `dd` fails, usually because of a full disk.
    pub fn write_over(&self, folder: &Path) -> Result<()> {
        let folder = folder.join("drives");
        std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        for number in 0..self.count {
            let mut file = OsString::from("of=");
            file.push(folder.join(format!("{number:02}.drive")));
            let mut command = Command::new("dd");
            command.args(["if=/dev/zero", "bs=1M", "oflag=direct", "status=none"]);
            command.arg(format!("count={}", self.bytes >> 20)).arg(file);
            let status = command.status().context("can't start dd")?;
            ensure!(status.success(), "dd ended with {status}");
        }
        Ok(())
    }
}

/// An array in a folder.
pub struct Array {
    programs: Programs,
    folder: PathBuf,
    /// Store options of `ashlard`.
    store: Vec<String>,
    portals: [SocketAddr; 2],
    /// NVMe/TCP portals, if any.
    nvme: Option<[SocketAddr; 2]>,
    api: SocketAddr,
    core: Option<usize>,
    iqn: String,
    login: Option<Login>,
    process: Option<Process>,
    /// Number of starts.
    starts: AtomicUsize,
}

/// A client of the array's HTTP interface with a persistent connection.
pub struct Api {
    agent: ureq::Agent,
    url: String,
    token: String,
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into()
}

impl Api {
    /// The same client before its first request. A server may close a connection between requests, which a client learns
    /// only by the next one.
    pub fn reconnected(&self) -> Self {
        Self { agent: agent(), url: self.url.clone(), token: self.token.clone() }
    }

    /// Requests a path, such as `/metrics`, with a JSON body; returns the response as text.
    ///
    /// # Errors
    /// If there is no response, or its status is not 2xx.
    pub fn text(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(body.to_owned())?;
        let mut answer = self.agent.run(request)?;
        let text = answer.body_mut().with_config().limit(MAX_RESPONSE_BYTES).read_to_string()?;
        if !answer.status().is_success() {
            bail!("{method} {path}: {} {text}", answer.status());
        }
        Ok(text)
    }

    /// Requests a path below `/api/v1/`; returns the response as JSON.
    ///
    /// # Errors
    /// As [`Api::text`].
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.text(method, &format!("/api/v1/{path}"), body)?).unwrap_or(Value::Null))
    }
}

/// The API address of an array in a folder, and the token of its administrator.
///
/// # Errors
/// If the array has never run there.
pub fn access(folder: &Path) -> Result<(String, String)> {
    let path = folder.join("api.json");
    let text = std::fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
    let access: Value = serde_json::from_slice(&text)?;
    let field = |name: &str| {
        access[name].as_str().map(str::to_owned).with_context(|| format!("api.json without {name}"))
    };
    Ok((field("url")?, field("token")?))
}

/// Maximum length of a response.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// Time limit of a start. A small array needs far less; a loaded test machine needs more.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);

impl Array {
    /// Starts an array with two portals and file-backed drives in `folder`, pinned to processor `core` if given.
    pub fn start(programs: &Programs, folder: &Path, drives: Drives, core: Option<usize>) -> Result<Self> {
        Self::start_on(programs, folder, drives.arguments(), core)
    }

    /// Starts an array with these store options of `ashlard`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_on(
        programs: &Programs,
        folder: &Path,
        store: Vec<String>,
        core: Option<usize>,
    ) -> Result<Self> {
        let mut array = Self::prepare(programs, folder, store, "")?;
        array.core = core;
        array.restart()?;
        let status = array.cli(&["array", "status"])?;
        array.iqn = status["target_iqn"].as_str().context("array status without target_iqn")?.to_owned();
        Ok(array)
    }

    /// Prepares an array without starting it: a further controller of an existing one, with its target name.
    ///
    /// # Errors
    /// If there are no free ports.
    pub fn prepare(programs: &Programs, folder: &Path, store: Vec<String>, iqn: &str) -> Result<Self> {
        let [a, b, api] = free_addresses()?;
        Ok(Self {
            programs: programs.clone(),
            folder: folder.to_path_buf(),
            store,
            portals: [a, b],
            nvme: None,
            api,
            core: None,
            iqn: iqn.to_owned(),
            login: None,
            process: None,
            starts: AtomicUsize::new(0),
        })
    }

    /// Adds two NVMe/TCP portals from the next start on; returns them.
    pub fn serve_nvme(&mut self) -> Result<[SocketAddr; 2]> {
        let [a, b, _] = free_addresses()?;
        self.nvme = Some([a, b]);
        Ok([a, b])
    }

    /// The processor that the daemon is pinned to; `None` if it may use all.
    pub fn core(&self) -> Option<usize> {
        self.core
    }

    /// Sets the processor of the daemon from the next start on; `None` allows all.
    pub fn set_core(&mut self, core: Option<usize>) {
        self.core = core;
    }

    /// Restarts the daemon on the same folder and ports, and waits until it serves.
    pub fn restart(&mut self) -> Result<()> {
        self.process = Some(self.launch()?);
        self.wait_ready()
    }

    /// Starts the daemon without waiting.
    pub fn restart_unattended(&mut self) -> Result<()> {
        self.process = Some(self.launch()?);
        Ok(())
    }

    /// Waits until the API responds and every portal listens.
    pub fn wait_ready(&mut self) -> Result<()> {
        let mut process = self.process.take().context("ashlard is not running")?;
        process.wait_until(START_LIMIT, || {
            let listens = |address| std::net::TcpStream::connect(address).is_ok();
            listens(&self.api) && self.portals.iter().all(listens) && self.cli(&["array", "status"]).is_ok()
        })?;
        self.process = Some(process);
        Ok(())
    }

    fn launch(&self) -> Result<Process> {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("ashlard.log"))?;
        let [a, b] = self.portals;
        let mut command = pinned(&self.programs.ashlard, self.core);
        command.arg("--data").arg(&self.folder);
        command.args(&self.store);
        command.args(["--iscsi", &format!("{a},{b}"), "--api", &self.api.to_string()]);
        if let Some([a, b]) = self.nvme {
            command.args(["--nvme", &format!("{a},{b}")]);
        }
        self.starts.fetch_add(1, Ordering::Relaxed);
        Process::start(command.stdout(log.try_clone()?).stderr(log))
    }

    /// Number of starts.
    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    /// Number of times that it joined its cluster, according to its log.
    ///
    /// # Errors
    /// If there is no log.
    pub fn joins(&self) -> Result<usize> {
        self.times_logged("this controller takes part")
    }

    /// Number of lines in its log that contain a text.
    ///
    /// # Errors
    /// If there is no log.
    pub fn times_logged(&self, text: &str) -> Result<usize> {
        let log = std::fs::read(self.folder.join("ashlard.log")).context("no log")?;
        Ok(String::from_utf8_lossy(&log).matches(text).count())
    }

    /// Number of lines in its log.
    ///
    /// # Errors
    /// If there is no log.
    pub fn lines_logged(&self) -> Result<usize> {
        let log = std::fs::read(self.folder.join("ashlard.log")).context("no log")?;
        Ok(log.iter().filter(|byte| **byte == b'\n').count())
    }

    /// Address of its API.
    pub fn api_address(&self) -> SocketAddr {
        self.api
    }

    /// Sets the programs from the next start on.
    pub fn set_programs(&mut self, programs: &Programs) {
        self.programs = programs.clone();
    }

    /// Suspends the daemon (SIGSTOP), or resumes it.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self, pause: bool) -> Result<()> {
        self.process.as_ref().context("ashlard is not running")?.pause(pause)
    }

    /// Waits until the daemon has ended by itself, with any status.
    ///
    /// # Errors
    /// If it keeps running.
    pub fn wait_gone(&mut self, limit: Duration) -> Result<()> {
        self.process.take().context("ashlard is not running")?.wait_gone(limit)
    }

    /// Kills the daemon (kill -9).
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("ashlard is not running")?.kill()
    }

    /// Verifies everything on the drives with `ashlard check`, which writes nothing. The daemon must not run.
    pub fn check(&self) -> Result<()> {
        let mut command = Command::new(&self.programs.ashlard);
        command.arg("check").arg("--data").arg(&self.folder).stdin(Stdio::null());
        let output = command.output().context("can't start ashlard check")?;
        if !output.status.success() {
            let (output_text, log) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            bail!("ashlard check ended with {}:\n{}\n{}", output.status, output_text.trim(), log.trim());
        }
        Ok(())
    }

    /// Stops the daemon and waits for its end.
    pub fn stop(&mut self) -> Result<()> {
        self.process.take().context("ashlard is not running")?.terminate(STOP_LIMIT)
    }

    /// Requests a stop of the daemon without waiting.
    ///
    /// # Errors
    /// If it does not run.
    pub fn ask_to_stop(&self) -> Result<()> {
        self.process.as_ref().context("ashlard is not running")?.ask_to_end()
    }

    /// Whether the daemon has stopped since [`Array::ask_to_stop`].
    ///
    /// # Errors
    /// If it ended otherwise.
    pub fn has_stopped(&mut self) -> Result<bool> {
        self.process.as_mut().context("ashlard is not running")?.has_ended_when_asked()
    }

    /// Waits until the daemon ends by itself, or by Ctrl-C.
    pub fn wait(&mut self) -> Result<()> {
        self.process.take().context("ashlard is not running")?.wait()
    }

    /// Fails if the daemon has died.
    pub fn check_alive(&mut self) -> Result<()> {
        self.process.as_mut().context("ashlard is not running")?.check_alive()
    }

    /// Runs `ashlar` with these arguments and `-o json`; returns its output.
    pub fn cli(&self, words: &[&str]) -> Result<Value> {
        let output = self.command(words).output().context("can't start ashlar")?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("ashlar {} failed: {}", words.join(" "), error.trim());
        }
        match output.stdout.trim_ascii() {
            [] => Ok(Value::Null),
            json => {
                serde_json::from_slice(json).with_context(|| format!("ashlar {} -o json", words.join(" ")))
            }
        }
    }

    /// Starts `ashlar` with these arguments without waiting. Its error output stays in the pipe.
    pub fn start_cli(&self, words: &[&str]) -> Result<Child> {
        self.command(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("can't start ashlar")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.ashlar);
        command.arg("--data").arg(&self.folder).args(words).args(["-o", "json"]).stdin(Stdio::null());
        command
    }

    /// A client of the HTTP interface.
    pub fn api(&self) -> Result<Api> {
        let (url, token) = access(&self.folder)?;
        Ok(Api { agent: agent(), url: url.trim_end_matches('/').to_owned(), token })
    }

    /// Creates a host with an initiator.
    pub fn add_host(&self, name: &str, iqn: &str) -> Result<()> {
        let mut words = vec!["host", "create", name, "--iqn", iqn];
        if let Some(Login { name, secret }) = &self.login {
            words.extend(["--chap-user", name, "--chap-secret", secret]);
        }
        self.cli(&words).map(drop)
    }

    /// Creates a volume.
    pub fn add_volume(&self, name: &str, shape: Shape) -> Result<()> {
        let (size, block) = (shape.bytes.to_string(), shape.block_bytes.to_string());
        self.cli(&["volume", "create", name, "--size", &size, "--block-size", &block]).map(drop)
    }

    /// Connects a volume to a host.
    pub fn connect(&self, volume: &str, host: &str, lun: u16) -> Result<()> {
        self.cli(&["volume", "connect", volume, "--host", host, "--lun", &lun.to_string()]).map(drop)
    }

    /// The names in the output of `ashlar NOUN list`.
    pub fn names(&self, noun: &str) -> Result<Vec<String>> {
        let list = self.cli(&[noun, "list"])?;
        let rows = list.as_array().or_else(|| list["items"].as_array()).context("a list")?;
        Ok(rows.iter().filter_map(|row| row["name"].as_str()).map(str::to_owned).collect())
    }

    fn clear(&self) -> Result<()> {
        for connection in self.cli(&["connection", "list"])?.as_array().context("a list")? {
            let name = |what: &str| connection[what].as_str().context("a name");
            self.cli(&["volume", "disconnect", name("volume")?, "--host", name("host")?])?;
        }
        for host in self.names("host")? {
            self.cli(&["host", "delete", &host])?;
        }
        for volume in self.names("volume")? {
            self.cli(&["volume", "delete", &volume, "--eradicate", "--yes"])?;
        }
        Ok(())
    }
}

impl Target for Array {
    fn name(&self) -> &'static str {
        "ashlar"
    }

    fn iqn(&self) -> &str {
        &self.iqn
    }

    fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    fn pid(&self) -> Result<u32> {
        self.process.as_ref().map(Process::pid).context("ashlard is not running")
    }

    fn set_login(&mut self, login: Option<Login>) {
        self.login = login;
    }

    fn fresh(&mut self, volumes: &[Shape], initiators: &[&str]) -> Result<Vec<u16>> {
        self.clear()?;
        for (index, iqn) in initiators.iter().enumerate() {
            self.add_host(&format!("host{index}"), iqn)?;
        }
        let luns: Vec<u16> = (1..).take(volumes.len()).collect();
        for (lun, shape) in luns.iter().zip(volumes) {
            let volume = format!("volume{lun}");
            self.add_volume(&volume, *shape)?;
            for index in 0..initiators.len() {
                self.connect(&volume, &format!("host{index}"), *lun)?;
            }
        }
        Ok(luns)
    }
}
