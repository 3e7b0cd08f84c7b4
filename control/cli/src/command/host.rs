//! Hosts: who may log in.

use super::{Shown, items};
use crate::client::Client;
use crate::show;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Clone, Subcommand)]
pub enum HostVerb {
    /// Make a host known, so that it may log in
    Create(NewHost),
    /// All hosts
    List,
    /// One host
    Show {
        /// The host
        name: String,
    },
    /// Forget a host that sees no volume
    Delete {
        /// The host
        name: String,
    },
}

#[derive(Clone, Args)]
pub struct NewHost {
    /// 1 to 63 letters, digits, '-', '_' or '.'
    name: String,
    /// Its iSCSI initiator name; may be given several times
    #[arg(long = "iqn", required = true, value_name = "IQN", value_delimiter = ',')]
    iqns: Vec<String>,
    /// CHAP name that it logs in with
    #[arg(long, value_name = "USER", requires = "chap_secret")]
    chap_user: Option<String>,
    /// CHAP secret that it logs in with, 12 to 255 characters
    #[arg(
        long,
        value_name = "SECRET",
        requires = "chap_user",
        env = "ASHLAR_CHAP_SECRET",
        hide_env_values = true
    )]
    chap_secret: Option<String>,
    /// CHAP name that the array proves itself with
    #[arg(long, value_name = "USER", requires_all = ["mutual_secret", "chap_user"])]
    mutual_user: Option<String>,
    /// CHAP secret that the array proves itself with
    #[arg(
        long,
        value_name = "SECRET",
        requires = "mutual_user",
        env = "ASHLAR_MUTUAL_SECRET",
        hide_env_values = true
    )]
    mutual_secret: Option<String>,
}

impl HostVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            HostVerb::Create(new) => (client.ask("POST", &["hosts"], Some(new.body()))?, show::host),
            HostVerb::List => (items(client.ask("GET", &["hosts"], None)?), show::hosts),
            HostVerb::Show { name } => (client.ask("GET", &["hosts", &name], None)?, show::host),
            HostVerb::Delete { name } => {
                client.ask("DELETE", &["hosts", &name], None)?;
                (json!({ "deleted": name }), show::deleted)
            }
        })
    }
}

impl NewHost {
    fn body(self) -> Value {
        let chap = |user: Option<String>, secret: Option<String>| {
            user.zip(secret).map(|(user, secret)| json!({ "user": user, "secret": secret }))
        };
        json!({
            "name": self.name,
            "initiators": self.iqns,
            "chap": chap(self.chap_user, self.chap_secret),
            "mutual": chap(self.mutual_user, self.mutual_secret),
        })
    }
}
