//! Open files: the limit is raised, and unauthenticated connections keep neither hosts nor operators out.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Daemon {
    child: Child,
    ready: Value,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `ashlard` after a command of the shell that sets limits.
fn start(data: &Path, limit: &str) -> Daemon {
    let script = format!("{limit} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_ashlard"), "--data"]).arg(data);
    command.args(["--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0", "--threads", "1"]);
    command.args(["--drives", "4", "--drive-size", "64MiB"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready = serde_json::from_str(&line).unwrap();
    Daemon { child, ready }
}

impl Daemon {
    /// Soft and hard limit of open files.
    fn limits(&self) -> (String, String) {
        let text = std::fs::read_to_string(format!("/proc/{}/limits", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let mut words = line.split_whitespace().map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    }

    fn portal(&self) -> &str {
        self.ready["portals"][0].as_str().unwrap()
    }

    /// Logs in for discovery: the class of the answer's status.
    fn discover(&self) -> u8 {
        let mut stream = TcpStream::connect(self.portal()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let text = b"InitiatorName=iqn.2026-01.test:host\0SessionType=Discovery\0\0\0";
        let mut login = vec![0; 48];
        (login[0], login[1], login[7]) = (0x43, 0x87, text.len() as u8);
        login.extend(text);
        login.resize(login.len().next_multiple_of(4), 0);
        stream.write_all(&login).unwrap();
        let mut answer = [0; 48];
        stream.read_exact(&mut answer).expect("a login response");
        assert_eq!(answer[0], 0x23);
        answer[36]
    }
}

#[test]
fn the_limit_of_open_files_is_raised() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(&folder.path().join("array"), "ulimit -Sn 256");
    let (soft, hard) = daemon.limits();
    assert_eq!(soft, hard);
    assert_eq!(daemon.discover(), 0);
}

#[test]
fn idle_connections_of_iscsi_keep_neither_hosts_nor_operators_out() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(&folder.path().join("array"), "ulimit -n 400");
    let idle: Vec<TcpStream> = (0..500).map(|_| TcpStream::connect(daemon.portal()).unwrap()).collect();
    assert_eq!(daemon.discover(), 0);
    let url = format!("{}/api/v1/openapi.json", daemon.ready["api"].as_str().unwrap());
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    assert_eq!(agent.get(&url).call().unwrap().status(), 200);
    drop(idle);
}
