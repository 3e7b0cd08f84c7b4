//! Hosts: who may log in.

use super::policy::put;
use super::{Shown, items};
use crate::ask::secret;
use crate::client::Client;
use crate::show;
use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

#[derive(Clone, Subcommand)]
pub enum HostVerb {
    /// Make a host known, so that it may log in
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Its iSCSI initiator name; may be given several times
        #[arg(long = "iqn", required = true, value_name = "IQN", value_delimiter = ',')]
        iqns: Vec<String>,
        #[command(flatten)]
        secrets: Secrets,
    },
    /// All hosts
    List,
    /// Log-ins that were refused, of hosts and of unknown initiators, with the reasons
    RefusedLogins,
    /// One host
    Show {
        /// The host
        name: String,
    },
    /// Change a host; what is not given stays
    Set {
        /// The host
        name: String,
        /// Another name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// All of its iSCSI initiator names; may be given several times
        #[arg(long = "iqn", value_name = "IQN", value_delimiter = ',')]
        iqns: Option<Vec<String>>,
        #[command(flatten)]
        secrets: Secrets,
        /// It logs in without CHAP, in either direction
        #[arg(long, conflicts_with_all = ["chap_user", "mutual_user"])]
        no_chap: bool,
        /// The array does not prove itself to it
        #[arg(long, conflicts_with = "mutual_user")]
        no_mutual: bool,
    },
    /// Let it log in with another initiator name as well
    AddIqn {
        /// The host
        name: String,
        /// Its iSCSI initiator name
        #[arg(required = true)]
        iqns: Vec<String>,
    },
    /// Let it no longer log in with an initiator name
    RemoveIqn {
        /// The host
        name: String,
        /// Its iSCSI initiator name
        #[arg(required = true)]
        iqns: Vec<String>,
    },
    /// Forget a host that sees no volume
    Delete {
        /// The host
        name: String,
    },
}

/// What a host logs in with, and what the array proves itself with.
#[derive(Clone, Args)]
pub struct Secrets {
    /// CHAP name that it logs in with; without --chap-secret the secret is asked for, or a line of standard input
    #[arg(long, value_name = "USER")]
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
    /// CHAP name that the array proves itself with; its secret likewise
    #[arg(long, value_name = "USER", requires = "chap_user")]
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

impl Secrets {
    /// Both, in the body of a request.
    fn put(self, body: &mut Map<String, Value>) -> Result<()> {
        let chap = |user: Option<String>, given: Option<String>| -> Result<Option<Value>> {
            let Some(user) = user else { return Ok(None) };
            let secret = match given {
                Some(secret) => secret,
                None => secret(&format!("CHAP secret of {user}"))?,
            };
            Ok(Some(json!({ "user": user, "secret": secret })))
        };
        put(body, "chap", chap(self.chap_user, self.chap_secret)?);
        put(body, "mutual", chap(self.mutual_user, self.mutual_secret)?);
        Ok(())
    }
}

impl HostVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let mut body = Map::new();
        Ok(match self {
            HostVerb::Create { name, iqns, secrets } => {
                body.insert("name".into(), name.into());
                body.insert("initiators".into(), iqns.into());
                secrets.put(&mut body)?;
                (client.ask("POST", &["hosts"], Some(body.into()))?, show::host)
            }
            HostVerb::List => (items(client.ask("GET", &["hosts"], None)?), show::hosts),
            HostVerb::RefusedLogins => {
                (items(client.ask("GET", &["refused-logins"], None)?), show::refused_logins)
            }
            HostVerb::Show { name } => (client.ask("GET", &["hosts", &name], None)?, show::host),
            HostVerb::Set { name, new_name, iqns, secrets, no_chap, no_mutual } => {
                put(&mut body, "name", new_name.map(Value::String));
                put(&mut body, "initiators", iqns.map(Value::from));
                put(&mut body, "mutual", (no_mutual || no_chap).then_some(Value::Null));
                put(&mut body, "chap", no_chap.then_some(Value::Null));
                secrets.put(&mut body)?;
                (client.ask("PATCH", &["hosts", &name], Some(body.into()))?, show::host)
            }
            HostVerb::AddIqn { name, iqns } => (change_initiators(client, &name, &iqns, &[])?, show::host),
            HostVerb::RemoveIqn { name, iqns } => (change_initiators(client, &name, &[], &iqns)?, show::host),
            HostVerb::Delete { name } => {
                client.ask("DELETE", &["hosts", &name], None)?;
                (json!({ "deleted": name }), show::deleted)
            }
        })
    }
}

/// The host with some initiator names more or less; refused when somebody else changes it meanwhile.
fn change_initiators(client: &Client, name: &str, more: &[String], less: &[String]) -> Result<Value> {
    let (host, tag) = client.ask_tagged(&["hosts", name])?;
    let now = host["initiators"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut wanted: Vec<String> = now.map(str::to_owned).collect();
    for iqn in less.iter().map(|iqn| iqn.to_lowercase()) {
        let at = wanted.iter().position(|known| *known == iqn);
        wanted.remove(at.with_context(|| {
            format!("{iqn} is none of the initiators of {name}: it has {}", wanted.join(", "))
        })?);
    }
    for iqn in more.iter().map(|iqn| iqn.to_lowercase()) {
        ensure!(!wanted.contains(&iqn), "{name} has {iqn} already");
        wanted.push(iqn);
    }
    ensure!(!wanted.is_empty(), "a host has one initiator at least: `ashlar host delete {name}` forgets it");
    client.change_if(&["hosts", name], &tag, json!({ "initiators": wanted }))
}
