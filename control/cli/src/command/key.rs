//! The encryption key of the drives.

use crate::client::Client;
use crate::show::Shown;
use anyhow::{Context, Result};
use clap::Subcommand;
use client::api;
use client::schemas::KeyRotation;
use std::path::PathBuf;

/// A passphrase that does not show in the list of processes.
const PASSPHRASE: &str = "ASHLAR_NEW_PASSPHRASE";

#[derive(Clone, Subcommand)]
pub enum KeyVerb {
    /// Show the key source and generation
    Show,
    /// Rotate the key without interruption to hosts; without options, a new key is generated in the key file
    Rotate {
        /// File with the new passphrase of at least 12 characters [or: ASHLAR_NEW_PASSPHRASE]
        #[arg(long, value_name = "PATH", conflicts_with = "kmip_id")]
        passphrase_file: Option<PathBuf>,
        /// Unique Identifier of the new 256-bit AES key on the KMIP server
        #[arg(long, value_name = "ID")]
        kmip_id: Option<String>,
    },
}

impl KeyVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            KeyVerb::Show => client.call(api::show_key())?.into(),
            KeyVerb::Rotate { passphrase_file, kmip_id } => {
                let passphrase = passphrase(passphrase_file)?.filter(|_| kmip_id.is_none());
                client.call(api::rotate_key(&KeyRotation { kmip_id, passphrase }))?.into()
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
