//! Directories elsewhere that know people.

use super::access::Role;
use super::{Shown, items};
use crate::ask;
use crate::client::Client;
use crate::show::{facts, rows, text};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Directories.
#[derive(Clone, Subcommand)]
pub enum DirectoryVerb {
    /// Let people log in whom a directory knows
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'; what its people are called here begins with it
        name: String,
        #[command(flatten)]
        settings: Box<Settings>,
        /// The secret of the client, or the password of who searches; that of --bind-dn is asked for when it is not given,
        /// or a line of standard input
        #[arg(long, env = "ASHLAR_DIRECTORY_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// A group and what its people may do, such as storage=operator; may be repeated
        #[arg(long, value_name = "GROUP=ROLE", value_parser = grant)]
        grant: Vec<Grant>,
    },
    /// All directories
    List,
    /// One directory
    Show {
        /// The directory
        name: String,
    },
    /// Change a directory; what is not given stays. Sessions of its people end
    Set {
        /// The directory
        name: String,
        /// Another secret, for the same settings
        #[arg(long, env = "ASHLAR_DIRECTORY_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// All groups and what their people may do, such as storage=operator; may be repeated
        #[arg(long, value_name = "GROUP=ROLE", value_parser = grant)]
        grant: Vec<Grant>,
        /// Whether it is asked
        #[arg(long)]
        enabled: Option<bool>,
    },
    /// Ask it whether it is there and takes what is set
    Test {
        /// The directory
        name: String,
    },
    /// Forget a directory; sessions of its people end
    Delete {
        /// The directory
        name: String,
    },
}

/// A group with its role.
#[derive(Clone)]
pub struct Grant {
    group: String,
    role: Role,
}

fn grant(text: &str) -> Result<Grant, String> {
    // Names of groups in LDAP hold `=`.
    let parts = text.rsplit_once('=').filter(|(group, _)| !group.is_empty());
    let role = |name: &str| <Role as clap::ValueEnum>::from_str(name, false).ok();
    let grant = parts.and_then(|(group, name)| Some(Grant { group: group.into(), role: role(name)? }));
    grant.ok_or_else(|| "write GROUP=viewer, GROUP=operator or GROUP=admin".into())
}

/// Which directory, and how it is asked.
#[derive(Clone, Args)]
pub struct Settings {
    /// Address of an OpenID provider, as it calls itself
    #[arg(long, value_name = "ISSUER", requires_all = ["client_id", "address"], conflicts_with = "ldap")]
    oidc: Option<String>,
    /// Address of an LDAP server: ldaps://NAME, or ldap://NAME with --starttls
    #[arg(long, value_name = "URL", requires = "base")]
    ldap: Option<String>,
    /// Let TLS begin by STARTTLS
    #[arg(long, requires = "ldap")]
    starttls: bool,
    /// Who searches, as a distinguished name; --secret is the password. Nobody in particular when not given
    #[arg(long, value_name = "DN", requires = "ldap")]
    bind_dn: Option<String>,
    /// Below which people are
    #[arg(long, value_name = "DN", requires = "ldap")]
    base: Option<String>,
    /// The attribute that names people [default: uid]
    #[arg(long, value_name = "ATTRIBUTE", requires = "ldap")]
    user_attribute: Option<String>,
    /// Below which groups are, which go by their cn; when not given, people know theirs (memberOf), by distinguished names
    #[arg(long, value_name = "DN", requires = "ldap")]
    group_base: Option<String>,
    /// What the provider calls the array
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Where browsers reach the array; the provider lets them come back there, to /sign-in
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// What is asked for besides openid; may be repeated [default: profile email]
    #[arg(long)]
    scope: Vec<String>,
    /// The claim that names people [default: preferred_username]
    #[arg(long, value_name = "CLAIM")]
    user_claim: Option<String>,
    /// The claim that has their groups; dots lead into claims [default: groups]
    #[arg(long, value_name = "CLAIM")]
    groups_claim: Option<String>,
    /// File with certificates in PEM that are trusted there; those of the system when not given
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Settings {
    fn body(self) -> Result<Value> {
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))
        };
        let ca = self.ca.map(read).transpose()?;
        if let Some(server) = self.ldap {
            let mut body = json!({
                "kind": "ldap", "server": server, "starttls": self.starttls, "bind_dn": self.bind_dn,
                "base": self.base, "group_base": self.group_base, "ca": ca,
            });
            if let Some(attribute) = self.user_attribute {
                body["user_attribute"] = attribute.into();
            }
            return Ok(body);
        }
        let Some(issuer) = self.oidc else {
            bail!("say which directory: --oidc ISSUER, or --ldap URL");
        };
        let mut body = json!({
            "kind": "oidc", "issuer": issuer, "client_id": self.client_id, "address": self.address, "ca": ca,
        });
        let given = [("user_claim", self.user_claim), ("groups_claim", self.groups_claim)];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).for_each(|(name, value)| {
            body[name] = value.into();
        });
        if !self.scope.is_empty() {
            body["scopes"] = self.scope.into();
        }
        Ok(body)
    }
}

const NOUN: &str = "directories";

fn grants(grants: Vec<Grant>) -> Value {
    grants.into_iter().map(|it| json!({ "group": it.group, "role": it.role.name() })).collect()
}

impl DirectoryVerb {
    /// Does it.
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            DirectoryVerb::Create { name, settings, secret, grant } => {
                let (settings, grants) = (settings.body()?, grants(grant));
                let bind_dn = settings["bind_dn"].as_str();
                let asked = || bind_dn.map(|who| ask::secret(&format!("password of {who}"))).transpose();
                let secret = secret.map_or_else(asked, |secret| Ok(Some(secret)))?;
                let body = json!({ "name": name, "settings": settings, "secret": secret, "grants": grants });
                (client.ask("POST", &[NOUN], Some(body))?, directory)
            }
            DirectoryVerb::List => (items(client.ask("GET", &[NOUN], None)?), directories),
            DirectoryVerb::Show { name } => (client.ask("GET", &[NOUN, &name], None)?, directory),
            DirectoryVerb::Set { name, secret, grant, enabled } => {
                let mut body = json!({ "enabled": enabled });
                if let Some(secret) = secret {
                    body["secret"] = secret.into();
                }
                if !grant.is_empty() {
                    body["grants"] = grants(grant);
                }
                let asked = body.as_object().is_some_and(|it| it.values().any(|value| !value.is_null()));
                ensure!(asked, "say what to change: --grant, --secret or --enabled");
                (client.ask("PATCH", &[NOUN, &name], Some(body))?, directory)
            }
            DirectoryVerb::Test { name } => {
                let said = client.ask("POST", &[NOUN, &name, "test"], None)?;
                (said, |it| format!("{}\n", text(&it["message"])))
            }
            DirectoryVerb::Delete { name } => {
                client.ask("DELETE", &[NOUN, &name], None)?;
                (json!({ "deleted": name }), crate::show::deleted)
            }
        })
    }
}

fn grants_of(it: &Value) -> String {
    let grants = it["grants"].as_array().into_iter().flatten();
    let shown: Vec<_> = grants.map(|it| format!("{}={}", text(&it["group"]), text(&it["role"]))).collect();
    shown.join(", ")
}

fn directory(it: &Value) -> String {
    let settings = &it["settings"];
    let own = match settings["kind"].as_str() {
        Some("ldap") => [
            ("Server", "server"),
            ("STARTTLS", "starttls"),
            ("Searches as", "bind_dn"),
            ("People below", "base"),
            ("Groups below", "group_base"),
        ],
        _ => [
            ("Issuer", "issuer"),
            ("Client", "client_id"),
            ("Array", "address"),
            ("User claim", "user_claim"),
            ("Groups claim", "groups_claim"),
        ],
    };
    let own = own.map(|(label, field)| (label, text(&settings[field])));
    let whole = [("Directory", text(&it["name"])), ("Kind", text(&settings["kind"]))];
    let rest =
        [("Grants", grants_of(it)), ("Enabled", text(&it["enabled"])), ("Secret", text(&it["has_secret"]))];
    facts(&[&whole[..], &own, &rest].concat())
}

fn directories(answer: &Value) -> String {
    rows(&["NAME", "KIND", "WHERE", "GRANTS", "ENABLED"], answer, |it| {
        let settings = &it["settings"];
        let at = if settings["kind"] == "ldap" { "server" } else { "issuer" };
        vec![
            text(&it["name"]),
            text(&settings["kind"]),
            text(&settings[at]),
            grants_of(it),
            text(&it["enabled"]),
        ]
    })
}
