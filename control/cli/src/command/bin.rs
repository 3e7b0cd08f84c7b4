//! The recycle bin.

use super::{Shown, items};
use crate::ask::confirm;
use crate::client::Client;
use crate::show;
use anyhow::Result;
use clap::Subcommand;
use serde_json::json;

#[derive(Clone, Subcommand)]
pub enum BinVerb {
    /// Everything in it
    List,
    /// Take a volume out again
    Restore {
        /// Its name, or its id when several had the same name
        volume: String,
        /// Give it this name instead of its old one
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Delete a volume with its data before its time
    Eradicate {
        /// Its name, or its id when several had the same name
        volume: String,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
    },
}

impl BinVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            BinVerb::List => (items(client.ask("GET", &["recycle-bin"], None)?), show::bin),
            BinVerb::Restore { volume, name } => {
                let body = json!({ "name": name });
                (client.ask("POST", &["recycle-bin", &volume, "restore"], Some(body))?, show::disk)
            }
            BinVerb::Eradicate { volume, yes } => {
                confirm(yes, &format!("{volume} is deleted with its data, for good"))?;
                client.ask("DELETE", &["recycle-bin", &volume], None)?;
                (json!({ "deleted": volume }), show::deleted)
            }
        })
    }
}
