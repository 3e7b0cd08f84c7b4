//! The daemon as a service: notifications for the service manager, and options in a file.

use crate::process::{ASHLARD, json, start_as};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

/// No message takes longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Receives notifications until one of them has a line.
fn receive(socket: &UnixDatagram, line: &str) {
    let mut bytes = [0; 4096];
    loop {
        let length = socket.recv(&mut bytes).unwrap_or_else(|error| panic!("{line}: {error}"));
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if text.lines().any(|it| it == line) {
            return;
        }
    }
}

#[test]
fn the_service_manager_is_notified_from_readiness_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command = Command::new(ASHLARD);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "4000000").env("JOURNAL_STREAM", "8:1");
    let daemon = start_as(command, &folder.path().join("array"), &[]).unwrap();
    receive(&socket, "READY=1");
    receive(&socket, "WATCHDOG=1");
    receive(&socket, "WATCHDOG=1");
    let log = std::fs::read_to_string(folder.path().join("array.log")).unwrap();
    assert!(log.contains("ashlar user password admin") && !log.contains("with the password"), "{log}");
    assert!(daemon.stop().success());
    receive(&socket, "STOPPING=1");
}

#[test]
fn management_has_a_lower_priority_than_io_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("array");
    let daemon = start_as(Command::new(ASHLARD), &data, &[]).unwrap();
    json(&data, "volume list");
    let nice = daemon.nice_values();
    let of = |name: &str| nice.get(name).unwrap_or_else(|| panic!("{name} in {nice:?}"));
    let normal = of("shard0")[0];
    for name in ["shard0", "background", "shelf", "ashlard"] {
        assert_eq!(of(name).iter().min(), Some(&normal), "{name} in {nice:?}");
    }
    assert_eq!(*of("api"), [(normal + 10).min(19)], "{nice:?}");
}

#[test]
fn an_array_starts_by_a_file_with_options() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("array");
    let file = folder.path().join("ashlar.toml");
    let text = format!(
        "data = {data:?}\nname = \"lab\"\niscsi = [\"127.0.0.1:0\"]\napi = \"127.0.0.1:0\"\nthreads = 1\n\
         drives = 3\ndrive-size = \"64MiB\"\n",
    );
    std::fs::write(&file, &text).unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(ASHLARD).args(words).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = run(&["config", "check"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!data.exists(), "a check changes nothing");
    let mut command = Command::new(ASHLARD);
    command.arg("--config").arg(&file);
    let daemon = crate::process::wait_for(command, &data).unwrap();
    assert_eq!(json(&data, "array status")["name"], "lab");
    assert_eq!(json(&data, "drive list").as_array().unwrap().len(), 3);
    assert_eq!(daemon.ready["portals"].as_array().unwrap().len(), 1);
    assert!(daemon.stop().success());
    let (code, said) = run(&["check", "--config"]);
    assert_eq!((code, said.starts_with("no defects")), (Some(0), true), "{said}");
    std::fs::write(&file, text.replace("threads", "treads")).unwrap();
    assert_eq!(run(&["config", "check"]).0, Some(1));
    assert_eq!(run(&["--config"]).0, Some(2), "and it does not start");
}
