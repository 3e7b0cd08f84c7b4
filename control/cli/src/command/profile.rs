//! Profiles: named arrays.

use crate::profile::{Profile, Profiles};
use crate::show::Shown;
use crate::show::{self, facts, rows, text};
use anyhow::{Result, bail};
use clap::{ArgGroup, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Clone, Subcommand)]
pub enum ProfileVerb {
    /// List profiles; tokens are not shown
    List,
    /// Create or replace a profile
    #[command(group(ArgGroup::new("place").required(true).args(["url", "folder"])))]
    Set {
        /// Profile
        name: String,
        /// URL of the array's API, such as https://10.0.0.1:8080
        #[arg(long)]
        url: Option<String>,
        /// Data folder of an array on this machine
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
        /// File with the token, which is stored in the profile
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// File with the certificate of the array in PEM
        #[arg(long = "trust", value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Make it the default profile
        #[arg(long)]
        default: bool,
    },
    /// Make a profile the default
    Use {
        /// Profile
        name: String,
    },
    /// Delete a profile
    Delete {
        /// Profile
        name: String,
    },
}

impl ProfileVerb {
    pub fn run(self) -> Result<Shown> {
        let mut profiles = Profiles::read()?;
        Ok(match self {
            ProfileVerb::List => {
                let all = profiles.array.iter().map(|(name, profile)| shape(name, profile, &profiles));
                Shown::text(all.collect(), list)
            }
            ProfileVerb::Set { name, url, folder, token_file, certificate, default } => {
                let token = token_file.map(std::fs::read_to_string).transpose()?;
                let token = token.map(|token| token.trim().to_owned());
                let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
                let (data, certificate) = (folder.map(real), certificate.map(real));
                let profile = Profile { url, data, token, certificate };
                profiles.array.insert(name.clone(), profile.clone());
                if default {
                    profiles.default = Some(name.clone());
                }
                profiles.write()?;
                Shown::text(shape(&name, &profile, &profiles), one)
            }
            ProfileVerb::Use { name } => {
                profiles.default = Some(name.clone());
                let Some(profile) = profiles.array.get(&name).cloned() else {
                    bail!("there is no profile {name:?}: `ashlar profile set {name}` makes it");
                };
                profiles.write()?;
                Shown::text(shape(&name, &profile, &profiles), one)
            }
            ProfileVerb::Delete { name } => {
                profiles.take(&name)?;
                if profiles.default.as_ref() == Some(&name) {
                    profiles.default = None;
                }
                profiles.write()?;
                show::deleted(name)
            }
        })
    }
}

fn shape(name: &str, profile: &Profile, all: &Profiles) -> Value {
    json!({
        "name": name,
        "default": all.default.as_deref() == Some(name),
        "url": profile.url,
        "data": profile.data,
        "token": profile.token.as_ref().map(|_| "…"),
        "certificate": profile.certificate,
    })
}

fn url(it: &Value) -> String {
    text(it, if it["url"].is_null() { "data" } else { "url" })
}

fn yes(it: &Value) -> String {
    if it["default"] == true { "yes".into() } else { "no".into() }
}

fn one(answer: &Value) -> String {
    facts(&[
        ("Profile", text(answer, "name")),
        ("Array", url(answer)),
        ("Certificate", text(answer, "certificate")),
        ("Default", yes(answer)),
    ])
}

fn list(answer: &Value) -> String {
    rows(&["NAME", "ARRAY", "CERTIFICATE", "DEFAULT"], answer, |it| {
        vec![text(it, "name"), url(it), text(it, "certificate"), yes(it)]
    })
}
