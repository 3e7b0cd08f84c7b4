//! The log: to standard error, and its newest part in memory for the support bundle.

use crate::log_limit::LogLimit;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Bytes kept in memory.
const KEPT_BYTES: usize = 1 << 20;

/// The newest part of the log.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<VecDeque<u8>>>);

impl Log {
    /// Begins to log. Levels as in `RUST_LOG`; `info` when it is not set.
    pub fn start() -> Self {
        let log = Self::default();
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        let ansi = io::IsTerminal::is_terminal(&io::stderr());
        let lines = tracing_subscriber::fmt::layer().with_ansi(ansi).with_writer(log.clone());
        let writer = log.clone();
        let limit = LogLimit::new(move |about: &tracing::Metadata<'_>, omitted| {
            // The log has no other way to report what it lost.
            _ = writeln!(
                writer.make_writer(),
                "{omitted} lines like the next one were left out ({})",
                about.target()
            );
        });
        tracing_subscriber::registry().with(filter).with(limit).with(lines).init();
        log
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..over);
    }

    /// The part in memory, from the beginning of a line on.
    pub fn text(&self) -> Vec<u8> {
        let bytes: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let cut = if bytes.len() < KEPT_BYTES {
            0
        } else {
            bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        bytes.get(cut..).unwrap_or_default().to_vec()
    }
}

/// One event on its way.
pub struct Line(Log);

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.clone())
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.keep(bytes);
        // A log that can't be written (a full disk, a closed pipe) must not affect the array.
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = io::stderr().flush();
        Ok(())
    }
}

/// Files of the system for the support bundle.
const SYSTEM: [&str; 5] =
    ["/proc/version", "/proc/meminfo", "/proc/loadavg", "/proc/cpuinfo", "/proc/self/status"];

/// The files of the support bundle that are about the machine, by name.
pub fn system(log: &Log) -> Vec<(String, Vec<u8>)> {
    let read =
        |path: &&str| Some((path.trim_start_matches('/').replace('/', "-"), std::fs::read(path).ok()?));
    let mut files: Vec<_> = SYSTEM.iter().filter_map(read).collect();
    files.push(("ashlard.log".into(), log.text()));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_remembered() {
        let log = Log::default();
        assert!(log.text().is_empty());
        log.keep(b"first\n");
        assert_eq!(log.text(), b"first\n");
        let line = format!("{}\n", "x".repeat(999));
        (0..2000).for_each(|_| log.keep(line.as_bytes()));
        let text = log.text();
        assert!(text.len() <= KEPT_BYTES && text.len() > KEPT_BYTES - 1000);
        assert!(text.starts_with(line.as_bytes()) && text.ends_with(line.as_bytes()));
    }
}
