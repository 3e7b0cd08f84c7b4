//! The limit of open files: raised as far as the system allows and divided, so that hosts, the API and the drives can't
//! exhaust each other's share.

use anyhow::{Result, ensure};
use machine::memory;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are neither drives nor connections: logs, databases, listeners, certificates, standard streams.
const OWN_FILES: u64 = 64;
/// Open files of each shard thread: its rings and its runtime.
const THREAD_FILES: u64 = 8;
/// Drives of an array, with replacements; each is open twice while it is examined.
const DRIVE_FILES: u64 = 2 * 72;
/// Connections that are closing while others take their places.
const CLOSING_FILES: u64 = 32;
/// Maximum number of connections of the API.
const MAX_API: u64 = api::MAX_SOCKETS as u64;
/// Minimum for both together.
const MIN_CONNECTIONS: u64 = 24;

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Of hosts, over iSCSI and NVMe/TCP.
    pub hosts: usize,
    /// Of the API and the browser.
    pub api: usize,
}

/// Raises the limit of open files to what the system allows, and shares it out for a number of threads and of devices of Fibre
/// Channel. Hosts get as many connections as there is memory for.
///
/// # Errors
/// If it is too low; the text says what to do.
pub fn connections(threads: usize, devices: usize) -> Result<Connections> {
    let limit = raise();
    let hosts = host_connections(memory::limit().bytes);
    let connections = share_out(limit, (threads as u64, devices as u64), hosts)?;
    tracing::info!(limit, hosts = connections.hosts, api = connections.api, "open files");
    Ok(connections)
}

/// Connections of hosts that there may be: the guarantees of all of them are three quarters of the memory of sessions, and the
/// rest is for what commands take beyond their guarantees.
pub fn host_connections(memory: u64) -> u64 {
    (memory::sessions(memory) / 4 * 3 / iscsi::SESSION_MAX_GUARANTEED_BYTES).min(MAX_HOST_CONNECTIONS)
}

/// Their identifiers are numbers of 16 bits.
const MAX_HOST_CONNECTIONS: u64 = 1 << 14;

/// The limit of open files after it was raised; no limit is a very high one.
pub fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current.unwrap_or(u64::MAX);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files can't be raised");
            current.unwrap_or(u64::MAX)
        }
    }
}

fn share_out(limit: u64, (threads, devices): (u64, u64), max_hosts: u64) -> Result<Connections> {
    let other = OWN_FILES + DRIVE_FILES + CLOSING_FILES + threads * THREAD_FILES + devices;
    let rest = limit.saturating_sub(other);
    ensure!(
        rest >= MIN_CONNECTIONS,
        "at most {limit} files may be open, and {} are needed at least: raise the limit (`ulimit -n`, or LimitNOFILE= \
         of the service)",
        other + MIN_CONNECTIONS,
    );
    // Three of four for hosts, until they have all that they can use.
    let hosts = (rest - rest / 4).min(max_hosts);
    let api = (rest - hosts).min(MAX_API);
    Ok(Connections { hosts: hosts as usize, api: api as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_shared_out_and_never_exceeded() {
        let maximum = Connections { hosts: 1000, api: MAX_API as usize };
        assert_eq!(share_out(u64::MAX, (64, 0), 1000).unwrap(), maximum);
        assert_eq!(share_out(524_288, (4, 1024), 1000).unwrap(), maximum);
        for limit in 0..4096 {
            for threads in [1, 4, 64] {
                let Ok(Connections { hosts, api }) = share_out(limit, (threads, 0), 1000) else { continue };
                let used =
                    (hosts + api) as u64 + OWN_FILES + DRIVE_FILES + CLOSING_FILES + threads * THREAD_FILES;
                assert!(used <= limit, "{used} of {limit}");
                assert!(hosts >= 18 && api >= 6, "{hosts} and {api} of {limit}");
            }
        }
        let usual = share_out(1024, (4, 0), 1000).unwrap();
        assert!(usual.hosts > 500 && usual.api > 150, "{usual:?}");
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_with_what_to_do() {
        let error = share_out(200, (4, 0), 1000).unwrap_err().to_string();
        assert!(error.contains("ulimit -n") && error.contains("LimitNOFILE"), "{error}");
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let raised = raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert_eq!(raised, current.unwrap_or(u64::MAX));
    }

    #[test]
    fn sessions_leave_memory_to_the_engine() {
        assert_eq!(memory::sessions(64 << 30), 8 << 30);
        assert_eq!(memory::sessions(4 << 30), 512 << 20);
        assert_eq!(memory::sessions(128 << 20), 64 << 20);
        for memory in (20..48).map(|exponent| 1 << exponent) {
            let guaranteed = host_connections(memory) * iscsi::SESSION_MAX_GUARANTEED_BYTES;
            assert!(host_connections(memory) >= 64 && guaranteed <= memory::sessions(memory) / 4 * 3);
        }
        assert!(host_connections(8 << 30) > 1024);
    }
}
