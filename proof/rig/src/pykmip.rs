//! PyKMIP, a third-party key server, on the loopback interface.

use crate::{Running, certificates, free_port};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// Serves; prints the identifiers of two 256-bit keys, the value of the first, and the identifier of a 128-bit key.
/// From then on it destroys the keys whose identifiers it reads.
const SERVER: &str = r#"
import sys, threading, time
folder, port = sys.argv[1], int(sys.argv[2])
from kmip.services.server import KmipServer
from kmip.pie.client import ProxyKmipClient
from kmip.core import enums
ca, cert, key = (folder + name for name in ("/ca.pem", "/cert.pem", "/key.pem"))
def client(): return ProxyKmipClient("127.0.0.1", port, cert, key, ca, ssl_version="PROTOCOL_TLSv1_2")
def make():
    for _ in range(100):
        try:
            with client() as server:
                one, other, short = (server.create(enums.CryptographicAlgorithm.AES, bits) for bits in (256, 256, 128))
                return print(one, other, server.get(one).value.hex(), short, flush=True)
        except Exception as error:
            last = error
            time.sleep(0.1)
    print("failed:", last, flush=True)
def ask():
    make()
    for line in sys.stdin:
        with client() as server: server.destroy(line.strip())
        print("destroyed", flush=True)
server = KmipServer(hostname="127.0.0.1", port=port, certificate_path=cert, key_path=key, ca_path=ca,
    auth_suite="TLS1.2", config_path=None, log_path=folder + "/server.log", policy_path=folder,
    enable_tls_client_auth=True, database_path=folder + "/pykmip.db")
server.start()
threading.Thread(target=ask, daemon=True).start()
server.serve()
"#;

/// A server; it ends with the test.
pub struct Server {
    _running: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: PathBuf,
    /// Address of the server.
    pub address: String,
    /// Two keys of 256 bits.
    pub keys: [String; 2],
    /// Bytes of the first key, in hexadecimal.
    pub value: String,
    /// A key of 128 bits.
    pub short: String,
}

impl Server {
    /// Starts a server in a folder, which gets the certificates of both sides; `None`, with a message, if it can't be
    /// installed.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(folder: &Path) -> Option<Self> {
        let Some(python) = python() else {
            eprintln!("skipped: PyKMIP can't be installed (python3 -m venv, pip install pykmip)");
            return None;
        };
        certificates::write(folder, "array");
        let port = free_port();
        let mut command = Command::new(python);
        command.arg("-c").arg(SERVER).arg(folder).arg(port.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Running::start(&mut command);
        let child = process.child();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let address = format!("127.0.0.1:{port}");
        let (keys, value, short) = Default::default();
        let folder = folder.to_owned();
        let mut running = Self { _running: process, stdin, stdout, folder, address, keys, value, short };
        let line = running.line();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [one, other, value, short] = words[..] else { panic!("output of PyKMIP: {line:?}") };
        running.keys = [one.to_owned(), other.to_owned()];
        (running.value, running.short) = (value.to_owned(), short.to_owned());
        Some(running)
    }

    /// `ca.pem`, `cert.pem` or `key.pem`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Destroys a key.
    ///
    /// # Panics
    /// If the server does not destroy it.
    pub fn destroy(&mut self, key: &str) {
        writeln!(self.stdin, "{key}").unwrap();
        assert_eq!(self.line(), "destroyed\n");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }
}

/// Python with PyKMIP, in a folder that later runs reuse.
fn python() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.join("pykmip");
    let python = folder.join("bin/python");
    let run = |program: &Path, args: &[&str]| {
        let done = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    let is_installed = |python: &Path| run(python, &["-c", "import kmip.services.server"]);
    if !is_installed(&python) {
        let made = run(Path::new("python3"), &["-m", "venv", folder.to_str()?])
            && run(&python, &["-m", "pip", "install", "--quiet", "pykmip==0.11.0"]);
        return (made && is_installed(&python)).then_some(python);
    }
    Some(python)
}
