//! Where operators connect, and what a certificate for that says.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the API listens, and how.
pub struct Config {
    /// The array's folder.
    pub data: PathBuf,
    /// The array's name, for a certificate that is made.
    pub array: String,
    /// The address of the options.
    pub address: SocketAddr,
    /// Whether there is no plain HTTP anywhere.
    pub tls_only: bool,
}

impl Config {
    /// Whether the API accepts plain HTTP beside HTTPS: only on loopback.
    pub fn plain_http(&self) -> bool {
        self.address.ip().is_loopback() && !self.tls_only
    }
}
