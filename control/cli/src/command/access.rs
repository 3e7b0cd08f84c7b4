//! Users, tokens and the certificate.

use super::{Shown, items};
use crate::ask::secret;
use crate::client::Client;
use crate::show::{facts, rows, text};
use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What somebody may do.
#[derive(Clone, Copy, ValueEnum)]
pub enum Role {
    /// Look
    Viewer,
    /// Operate volumes, hosts and snapshots
    Operator,
    /// Everything
    Admin,
}

/// Users.
#[derive(Clone, Subcommand)]
pub enum UserVerb {
    /// Make a user; the password is asked for, or a line of standard input
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// What the user may do
        #[arg(long, value_enum)]
        role: Role,
    },
    /// All users
    List,
    /// One user
    Show {
        /// The user
        name: String,
    },
    /// Give a user another role
    Role {
        /// The user
        name: String,
        /// What the user may do
        #[arg(value_enum)]
        role: Role,
    },
    /// Set a password, which is asked for, or a line of standard input
    Password {
        /// The user
        name: String,
    },
    /// Forget a user, with its tokens
    Delete {
        /// The user
        name: String,
    },
}

/// Tokens.
#[derive(Clone, Subcommand)]
pub enum TokenVerb {
    /// Make a token for a program; its secret is shown this once
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Whose it is; yours when not given
        #[arg(long)]
        user: Option<String>,
        /// What may be done with it; what its user may when not given
        #[arg(long, value_enum)]
        role: Option<Role>,
        /// When it stops to be good, such as 2030-01-01T00:00:00Z; never when not given
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// All tokens
    List,
    /// Forget a token
    Delete {
        /// The token
        name: String,
    },
}

/// The certificate.
#[derive(Clone, Subcommand)]
pub enum CertificateVerb {
    /// The certificate in use
    Show,
    /// Use another one
    Replace {
        /// File with the chain in PEM, the array's own certificate first
        #[arg(long, value_name = "FILE")]
        chain: PathBuf,
        /// File with its key in PEM
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

impl Role {
    /// What it is called in requests.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl UserVerb {
    /// Does it.
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            UserVerb::Create { name, role } => {
                let body = json!({ "name": name, "role": role.name(), "password": secret("password")? });
                (client.ask("POST", &["users"], Some(body))?, user)
            }
            UserVerb::List => (items(client.ask("GET", &["users"], None)?), users),
            UserVerb::Show { name } => (client.ask("GET", &["users", &name], None)?, user),
            UserVerb::Role { name, role } => {
                let body = json!({ "role": role.name() });
                (client.ask("PATCH", &["users", &name], Some(body))?, user)
            }
            UserVerb::Password { name } => {
                let body = json!({ "password": secret("password")? });
                (client.ask("PATCH", &["users", &name], Some(body))?, user)
            }
            UserVerb::Delete { name } => {
                client.ask("DELETE", &["users", &name], None)?;
                (json!({ "deleted": name }), crate::show::deleted)
            }
        })
    }
}

impl TokenVerb {
    /// Does it.
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            TokenVerb::Create { name, user, role, expires } => {
                let role = role.map(Role::name);
                let body = json!({ "name": name, "user": user, "role": role, "expires": expires });
                (client.ask("POST", &["tokens"], Some(body))?, token)
            }
            TokenVerb::List => (items(client.ask("GET", &["tokens"], None)?), tokens),
            TokenVerb::Delete { name } => {
                client.ask("DELETE", &["tokens", &name], None)?;
                (json!({ "deleted": name }), crate::show::deleted)
            }
        })
    }
}

impl CertificateVerb {
    /// Does it.
    pub fn run(self, client: &Client) -> Result<Shown> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
        };
        Ok(match self {
            CertificateVerb::Show => (client.ask("GET", &["certificate"], None)?, certificate),
            CertificateVerb::Replace { chain, key } => {
                let body = json!({ "chain": read(&chain)?, "key": read(&key)? });
                (client.ask("PUT", &["certificate"], Some(body))?, certificate)
            }
        })
    }
}

fn user(it: &Value) -> String {
    facts(&[
        ("User", text(&it["name"])),
        ("Role", text(&it["role"])),
        ("Created", text(&it["created"])),
        ("Password set", text(&it["password_set"])),
    ])
}

fn users(answer: &Value) -> String {
    rows(&["NAME", "ROLE", "CREATED", "PASSWORD SET"], answer, |it| {
        ["name", "role", "created", "password_set"].map(|field| text(&it[field])).to_vec()
    })
}

fn token(it: &Value) -> String {
    let facts = facts(&[
        ("Token", text(&it["name"])),
        ("User", text(&it["user"])),
        ("Role", text(&it["role"])),
        ("Expires", text(&it["expires"])),
        ("Secret", text(&it["secret"])),
    ]);
    format!("{facts}The secret is not shown again.\n")
}

fn tokens(answer: &Value) -> String {
    rows(&["NAME", "USER", "ROLE", "CREATED", "EXPIRES"], answer, |it| {
        ["name", "user", "role", "created", "expires"].map(|field| text(&it[field])).to_vec()
    })
}

fn certificate(it: &Value) -> String {
    text(&it["chain"])
}
