//! Temporary folders and TCP ports for one run.

use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// A folder that is removed on drop, unless [`Scratch::keep`] was called.
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Creates an empty folder `name` below `parent`, which should be on a disk, for direct I/O.
    pub fn new(parent: &Path, name: &str) -> Result<Self> {
        let path = parent.join(format!("{name}.{}", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path).with_context(|| format!("can't empty {}", path.display()))?;
        }
        std::fs::create_dir_all(&path).with_context(|| format!("can't make {}", path.display()))?;
        Ok(Self { path, keep: false })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder for inspection, and prints its path.
    pub fn keep(&mut self) {
        self.keep = true;
        eprintln!("kept for inspection: {}", self.path.display());
    }

    /// Ends the run; keeps the folder if it failed.
    pub fn end<T>(mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.keep();
        }
        result
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            eprintln!("can't remove {}: {error}", self.path.display());
        }
    }
}

/// Loopback addresses with free TCP ports. Another process could take them before they are used, which has not been
/// observed.
pub fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut held = Vec::new();
    let mut free = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for address in &mut free {
        let listener = TcpListener::bind(*address).context("no free port")?;
        *address = listener.local_addr()?;
        held.push(listener);
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_is_removed() -> Result<()> {
        let scratch = Scratch::new(&std::env::temp_dir(), "scratch-test")?;
        let path = scratch.path().to_path_buf();
        std::fs::write(path.join("file"), b"x")?;
        drop(scratch);
        assert!(!path.exists());
        Ok(())
    }

    #[test]
    fn free_addresses_differ() -> Result<()> {
        let [a, b] = free_addresses()?;
        assert_ne!(a, b);
        Ok(())
    }
}
