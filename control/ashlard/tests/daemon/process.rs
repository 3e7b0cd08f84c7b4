//! The real daemon on files in a folder that goes away, and the real command line.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;

/// The program.
pub const ASHLARD: &str = env!("CARGO_BIN_EXE_ashlard");

/// A running `ashlard`; killed when it is dropped.
pub struct Daemon {
    child: Child,
    /// What it printed when everything listened.
    pub ready: Value,
}

/// Starts `ashlard` in a folder and waits until it is ready; what it logged when it ends before that.
pub fn start(data: &Path, more: &[&str]) -> Result<Daemon, String> {
    start_as(Command::new(ASHLARD), data, more)
}

/// The same, with a limit on open descriptors.
pub fn start_within(data: &Path, descriptors: u32) -> Result<Daemon, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""), ASHLARD]);
    start_as(shell, data, &[])
}

/// The same by a command that is not complete yet.
pub fn start_as(mut command: Command, data: &Path, more: &[&str]) -> Result<Daemon, String> {
    command.arg("--data").arg(data).args(["--iscsi", "127.0.0.1:0,127.0.0.1:0", "--api", "127.0.0.1:0"]);
    command.args(["--threads", "1"]).args(more);
    if !more.contains(&"--drive") {
        for default in [["--drive-size", "64MiB"], ["--drives", "4"]] {
            if !more.contains(&default[0]) {
                command.args(default);
            }
        }
    }
    wait_for(command, data)
}

/// Runs a whole command, and waits as [`start`] does.
pub fn wait_for(mut command: Command, data: &Path) -> Result<Daemon, String> {
    let log = data.with_extension("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        child.wait().unwrap();
        return Err(std::fs::read_to_string(log).unwrap());
    }
    Ok(Daemon { child, ready: serde_json::from_str(&line).unwrap() })
}

impl Daemon {
    /// Nice values of its threads, by name.
    pub fn nice_values(&self) -> BTreeMap<String, Vec<i32>> {
        let mut values: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap() {
            // A blocking thread may end in between.
            let Ok(stat) = std::fs::read_to_string(task.unwrap().path().join("stat")) else { continue };
            let (start, rest) = stat.rsplit_once(')').unwrap();
            // The name ends field 2; the nice value is field 19 (proc_pid_stat(5)).
            let nice = rest.split_whitespace().nth(16).unwrap().parse().unwrap();
            let name = start.split_once('(').unwrap().1.to_owned();
            values.entry(name).or_default().push(nice);
        }
        values
    }

    /// Kill -9.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }

    /// Address of the API.
    pub fn url(&self) -> &str {
        self.ready["api"].as_str().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The `ashlar` that belongs to this `ashlard`, built when first asked for.
fn ashlar() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let release = Path::new(ASHLARD).parent().unwrap().ends_with("release");
        let mut build = Command::new(env!("CARGO"));
        // All of the workspace: with fewer packages their dependencies would be compiled again, with fewer features.
        build.args(["build", "--quiet", "--workspace", "--bins", "--examples"]);
        // The build of `api` looks at it: everything from there on would be compiled for this test alone.
        build.env_remove("CARGO_MANIFEST_DIR");
        build.args(release.then_some("--release"));
        assert!(build.status().unwrap().success());
        Path::new(ASHLARD).with_file_name("ashlar")
    })
}

/// Runs `ashlar` on the array in a folder.
pub fn run(data: &Path, words: &str) -> Output {
    let mut command = Command::new(ashlar());
    command.env_clear().arg("--data").arg(data).args(words.split_whitespace());
    command.output().unwrap()
}

/// Runs `ashlar` with a line on its standard input.
pub fn run_with(data: &Path, words: &str, line: &str) -> Output {
    let mut command = Command::new(ashlar());
    command.env_clear().arg("--data").arg(data).args(words.split_whitespace());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), line.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// How often a terminal is looked at until it is as expected.
const LOOKS: usize = 10_000;

/// Runs `ashlar` at a terminal of its own: types each text when the terminal has shown what comes before it, and, where
/// that is asked for, shows nothing any more. What the terminal showed.
pub fn on_terminal(data: &Path, words: &str, typed: &[(&str, bool, &str)]) -> String {
    // What waits for input from a terminal ends as well.
    let line = format!(
        "tty && exec timeout --foreground 60 {} --data {} {words}",
        ashlar().display(),
        data.display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = String::new();
    let mut read = |shown: &mut String| {
        let mut part = [0; 1024];
        let count = std::io::Read::read(&mut screen, &mut part).unwrap();
        shown.push_str(&String::from_utf8_lossy(&part[..count]));
        count > 0
    };
    for (prompt, hidden, text) in typed {
        let from = shown.len();
        while !shown[from..].contains(prompt) {
            assert!(read(&mut shown), "{prompt:?} never came: {shown}");
        }
        let terminal = shown.lines().next().unwrap().trim().to_owned();
        let quiet = || {
            let said = Command::new("stty").args(["-a", "-F", &terminal]).output().unwrap();
            String::from_utf8_lossy(&said.stdout).split_whitespace().any(|word| word == "-echo")
        };
        assert!(!hidden || (0..LOOKS).any(|_| quiet()), "the terminal shows what is typed: {shown}");
        std::io::Write::write_all(&mut keys, format!("{text}\n").as_bytes()).unwrap();
    }
    while read(&mut shown) {}
    child.wait().unwrap();
    shown
}

/// What `ashlar -o json` prints.
pub fn json(data: &Path, words: &str) -> Value {
    let output = run(data, &format!("{words} -o json"));
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `ashlar` says when it fails with this status.
pub fn fails(data: &Path, words: &str, status: i32) -> String {
    let output = run(data, words);
    assert_eq!(output.status.code(), Some(status), "{words}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Runs `ashlard check` on a folder: whether it ended with 0, and what it printed.
pub fn check(data: &Path) -> (bool, String) {
    check_with(data, &[])
}

/// The same with more words.
pub fn check_with(data: &Path, more: &[&str]) -> (bool, String) {
    let output = Command::new(ASHLARD).arg("check").arg("--data").arg(data).args(more).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// What an `ashlard` logs that does something else than serving.
pub fn ashlard(words: &str) -> String {
    let output = Command::new(ASHLARD).args(words.split_whitespace()).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// Runs `ashlard --openapi` with a reader that takes a few bytes and closes the pipe: how it ended, and what it logged.
pub fn openapi_to_a_reader_that_leaves() -> (ExitStatus, String) {
    let mut command = Command::new(ASHLARD);
    let mut child = command.arg("--openapi").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    std::io::Read::read_exact(&mut output, &mut [0; 16]).unwrap();
    drop(output);
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

/// The files that are the drives of an array.
pub fn drives(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("drives")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}
