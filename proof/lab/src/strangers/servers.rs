//! The servers of `integrations/go` beside an array, which speak HTTPS, and a client of each.

use super::attack::{self, Door};
use super::known::{Clients, Known};
use crate::array::access;
use crate::scratch::free_addresses;
use crate::stats::Latencies;
use crate::target::Process;
use anyhow::{Context, Result, ensure};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Their programs.
#[derive(Clone, Debug)]
pub struct ServerPrograms {
    /// `ashlar-dialect`
    pub dialect: PathBuf,
    /// `ashlar-vsphere`
    pub vsphere: PathBuf,
}

/// Time limit of start and end, and of a client's request.
const LIMIT: Duration = Duration::from_secs(30);

/// A running server.
pub struct Server {
    name: &'static str,
    process: Process,
    address: SocketAddr,
    /// Path of a resource that every client may read.
    path: &'static str,
    certificate: PathBuf,
    pub log: PathBuf,
}

impl Server {
    /// Process ID.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its listener.
    pub fn door(&self) -> Door {
        attack::https(self.name, self.address)
    }

    /// Ends it in good order.
    pub fn stop(mut self) -> Result<()> {
        self.process.terminate(LIMIT).context("SIGTERM while strangers are connected")
    }

    fn is_served(&self) -> Result<()> {
        let mut client = Command::new("curl");
        client.args(["--silent", "--show-error", "--fail", "--max-time", &LIMIT.as_secs().to_string()]);
        client.arg("--cacert").arg(&self.certificate).arg(format!("https://{}{}", self.address, self.path));
        let output = client.output().context("can't start curl")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

/// A client of a server beside those of the array.
pub struct Visitor<'a> {
    /// The array's clients.
    pub known: &'a mut Known,
    /// The server.
    pub server: Server,
}

impl Clients for Visitor<'_> {
    fn are_served(&mut self) -> Result<()> {
        self.known.are_served()?;
        self.server.is_served().with_context(|| format!("a client of {}", self.server.name))
    }

    fn waits(&mut self, time: Duration) -> Result<Latencies> {
        self.known.waits(time)
    }
}

/// Starts both for the array in the folder `home`, with their files in `folder`.
pub fn start(programs: &ServerPrograms, home: &Path, folder: &Path) -> Result<Vec<Server>> {
    let ((url, token), [vsphere, dialect]) = (access(home)?, free_addresses()?);
    let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
    let with_certificate = |command: &mut Command, listen: SocketAddr| {
        command.args(["--listen", &listen.to_string()]);
        command.arg("--tls-certificate").arg(&certificate).arg("--tls-key").arg(&key);
    };
    let plug_in = |words: &[&str]| {
        let mut command = Command::new(&programs.vsphere);
        command.args(words).env("ASHLAR_TOKEN", &token).current_dir(folder);
        command.args(["--config", "arrays.json", "--key-file", "arrays.key"]);
        command
    };
    let added = plug_in(&["arrays", "add", "array", "--array", &url]).output().context("can't start it")?;
    ensure!(added.status.success(), "arrays add: {}", String::from_utf8_lossy(&added.stderr));
    // Of vCenter nothing is needed to serve the pages, whose certificate the server makes itself.
    let nowhere = ["serve", "--vcenter", "127.0.0.1:1", "--name", "127.0.0.1"];
    let mut serve = plug_in(&[&nowhere[..], &["--thumbprint", &"ab".repeat(32)]].concat());
    with_certificate(&mut serve, vsphere);
    let plug_in = launch(serve, ("vSphere plug-in", vsphere, "/plugin.json"), (&certificate, folder))?;
    let mut serve = Command::new(&programs.dialect);
    serve.args(["flash", "--array", &url]);
    with_certificate(&mut serve, dialect);
    Ok(vec![plug_in, launch(serve, ("dialect", dialect, "/api/api_version"), (&certificate, folder))?])
}

fn launch(
    mut command: Command,
    (name, address, path): (&'static str, SocketAddr, &'static str),
    (certificate, folder): (&Path, &Path),
) -> Result<Server> {
    let log = folder.join(format!("{}.log", name.replace(' ', "-")));
    let file = std::fs::File::create(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut process = Process::start(&mut command)?;
    process.wait_until(LIMIT, || TcpStream::connect(address).is_ok())?;
    Ok(Server { name, process, address, path, certificate: certificate.into(), log })
}
