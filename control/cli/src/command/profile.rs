//! Arrays that are known by a name.

use super::Shown;
use crate::profile::{Profile, Profiles};
use crate::show::{self, facts, rows, text};
use anyhow::{Result, bail};
use clap::{ArgGroup, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Clone, Subcommand)]
pub enum ProfileVerb {
    /// All profiles; tokens are not shown
    List,
    /// Make a profile, or put another in its place
    #[command(group(ArgGroup::new("place").required(true).args(["url", "folder"])))]
    Set {
        /// Its name
        name: String,
        /// Address of the array's API, such as https://10.0.0.1:8080
        #[arg(long)]
        url: Option<String>,
        /// Folder of the array, on this machine
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
        /// File with the token; kept in the profile
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// File with the certificate of the array in PEM
        #[arg(long = "trust", value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Use it when nothing else is said
        #[arg(long)]
        usual: bool,
    },
    /// Use a profile when nothing else is said
    Use {
        /// Its name
        name: String,
    },
    /// Forget a profile
    Delete {
        /// Its name
        name: String,
    },
}

impl ProfileVerb {
    /// Asks no array.
    pub fn run(self) -> Result<Shown> {
        let mut profiles = Profiles::read()?;
        Ok(match self {
            ProfileVerb::List => {
                let all = profiles.array.iter().map(|(name, profile)| shape(name, profile, &profiles));
                (all.collect(), list)
            }
            ProfileVerb::Set { name, url, folder, token_file, certificate, usual } => {
                let token = token_file.map(std::fs::read_to_string).transpose()?;
                let token = token.map(|token| token.trim().to_owned());
                let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
                let (data, certificate) = (folder.map(real), certificate.map(real));
                let profile = Profile { url, data, token, certificate };
                profiles.array.insert(name.clone(), profile.clone());
                if usual {
                    profiles.usual = Some(name.clone());
                }
                profiles.write()?;
                (shape(&name, &profile, &profiles), one)
            }
            ProfileVerb::Use { name } => {
                profiles.usual = Some(name.clone());
                let Some(profile) = profiles.array.get(&name).cloned() else {
                    bail!("there is no profile {name:?}: `ashlar profile set {name}` makes it");
                };
                profiles.write()?;
                (shape(&name, &profile, &profiles), one)
            }
            ProfileVerb::Delete { name } => {
                profiles.take(&name)?;
                if profiles.usual.as_ref() == Some(&name) {
                    profiles.usual = None;
                }
                profiles.write()?;
                (json!({ "deleted": name }), show::deleted)
            }
        })
    }
}

fn shape(name: &str, profile: &Profile, all: &Profiles) -> Value {
    json!({
        "name": name,
        "usual": all.usual.as_deref() == Some(name),
        "url": profile.url,
        "data": profile.data,
        "token": profile.token.as_ref().map(|_| "…"),
        "certificate": profile.certificate,
    })
}

fn place(it: &Value) -> String {
    text(if it["url"].is_null() { &it["data"] } else { &it["url"] })
}

fn one(answer: &Value) -> String {
    facts(&[
        ("Profile", text(&answer["name"])),
        ("Array", place(answer)),
        ("Certificate", text(&answer["certificate"])),
        ("Used when nothing is said", show::yes(&answer["usual"])),
    ])
}

fn list(answer: &Value) -> String {
    rows(&["NAME", "ARRAY", "CERTIFICATE", "USUAL"], answer, |it| {
        vec![text(&it["name"]), place(it), text(&it["certificate"]), show::yes(&it["usual"])]
    })
}
