//! A small file system that goes away.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A tmpfs of some megabytes.
pub struct Small(tempfile::TempDir);

impl Small {
    /// None, with a reason, where mounting is not permitted.
    pub fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("array")).unwrap();
        let options = format!("size={size},mode=700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "ashlar-test"])
            .arg(folder.path().join("array"))
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(folder)),
            other => {
                eprintln!("skipped: no file system can be mounted here: {other:?}");
                None
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> std::path::PathBuf {
        self.0.path().join("array")
    }

    /// A folder beside it, which is on another file system.
    pub fn beside(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room there is.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    }

    pub fn empty(&self) {
        std::fs::remove_file(self.path().join("filler")).unwrap();
    }

    pub fn make_read_only(&self) {
        let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status();
        assert!(remounted.unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
