//! Processes that end with the test.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A process with its children, killed on drop.
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts the process in a process group of its own.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(command: &mut Command) -> Self {
        let child = command.process_group(0).spawn();
        Self { child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")) }
    }

    /// The process itself, for example for its standard output.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// True if the process has not ended.
    ///
    /// # Panics
    /// If the system reports an error.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Interpreted servers have child processes, which would keep the output of the test open.
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A TCP port on the loopback interface that was free at the time of the call.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
