//! The key that the drives are locked with.

use super::Shown;
use crate::client::Client;
use crate::show::{facts, text};
use anyhow::{Context, Result};
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A passphrase that nobody sees in a list of processes.
const PASSPHRASE: &str = "ASHLAR_NEW_PASSPHRASE";

#[derive(Clone, Subcommand)]
pub enum KeyVerb {
    /// What the drives are locked with
    Show,
    /// Lock the drives with another key of the same kind, at once, while hosts go on; without more, with a new one in
    /// the key file
    Rotate {
        /// File with another passphrase of at least 12 characters [or: ASHLAR_NEW_PASSPHRASE]
        #[arg(long, value_name = "PATH", conflicts_with = "kmip_id")]
        passphrase_file: Option<PathBuf>,
        /// Unique Identifier of another AES key of 256 bits on the KMIP server
        #[arg(long, value_name = "ID")]
        kmip_id: Option<String>,
    },
}

impl KeyVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            KeyVerb::Show => (client.ask("GET", &["key"], None)?, key),
            KeyVerb::Rotate { passphrase_file, kmip_id } => {
                let body = match (kmip_id, passphrase(passphrase_file)?) {
                    (Some(id), _) => json!({ "kmip_id": id }),
                    (None, Some(words)) => json!({ "passphrase": words }),
                    (None, None) => json!({}),
                };
                (client.ask("POST", &["key", "rotate"], Some(body))?, key)
            }
        })
    }
}

fn passphrase(file: Option<PathBuf>) -> Result<Option<String>> {
    let Some(file) = file else { return Ok(std::env::var(PASSPHRASE).ok()) };
    let words = std::fs::read_to_string(&file);
    let words = words.with_context(|| format!("can't read the passphrase in {}", file.display()))?;
    Ok(Some(words.trim_end_matches(['\r', '\n']).to_owned()))
}

fn key(answer: &Value) -> String {
    facts(&[
        ("Lock", text(&answer["lock"])),
        ("Generation", text(&answer["generation"])),
        ("KMIP key", text(&answer["kmip_id"])),
    ])
}
