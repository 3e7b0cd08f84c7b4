//! Profiles: named arrays in a configuration file of the user, readable only by that user, as it holds tokens.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// The location of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Address of its API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its data folder, on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// File with its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
}

/// All profiles.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// The default profile.
    #[serde(alias = "usual", skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// By name.
    #[serde(default)]
    pub array: BTreeMap<String, Profile>,
}

impl Profiles {
    /// The file: ASHLAR_CONFIG, else `ashlar/config.toml` in XDG_CONFIG_HOME or `~/.config`.
    pub fn path() -> Option<PathBuf> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = || variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
        variable("ASHLAR_CONFIG").or_else(|| Some(folder()?.join("ashlar/config.toml")))
    }

    /// Reads the file; empty if there is none.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub fn read() -> Result<Self> {
        let Some(path) = Self::path() else { return Ok(Self::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("{} is wrong", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
        }
    }

    /// Writes the file as a whole, for its owner alone.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self) -> Result<()> {
        let path = Self::path().context("there is no home folder: set ASHLAR_CONFIG to a file")?;
        let text = toml::to_string_pretty(self)?;
        let written = (|| {
            if let Some(folder) = path.parent() {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let new = path.with_extension("new");
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
            std::fs::rename(&new, &path)
        })();
        written.with_context(|| format!("can't write {}", path.display()))
    }

    /// The profile of that name.
    pub fn take(&mut self, name: &str) -> Result<Profile> {
        let Some(profile) = self.array.remove(name) else {
            bail!(
                "there is no profile {name:?}: `ashlar profile list` shows them, `ashlar profile set` makes one"
            );
        };
        Ok(profile)
    }

    /// The default profile.
    pub fn default_profile(mut self) -> Result<Option<Profile>> {
        self.default.take().map(|name| self.take(&name)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_several_arrays_and_may_name_the_default_as_usual() {
        let text = "usual = \"lab\"\n[array.lab]\nurl = \"https://10.0.0.1:8080\"\ntoken = \"t\"\n[array.here]\ndata = \"/d\"\n";
        let mut profiles: Profiles = toml::from_str(text).expect("a file");
        assert_eq!(toml::to_string_pretty(&profiles).expect("text").lines().count(), 8);
        assert!(profiles.take("none").expect_err("none").to_string().contains("profile list"));
        assert_eq!(profiles.take("here").expect("one").data, Some("/d".into()));
        assert_eq!(profiles.default_profile().expect("one").and_then(|it| it.token), Some("t".into()));
        assert!(toml::from_str::<Profiles>("[array.a]\nurll = \"x\"").is_err());
    }
}
