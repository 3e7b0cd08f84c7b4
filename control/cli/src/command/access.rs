//! Users, API tokens and the TLS certificate.

use super::outcome::{choice, each};
use crate::ask::secret;
use crate::client::Client;
use crate::file;
use crate::show::{self, Shown};
use anyhow::Result;
use clap::Subcommand;
use client::api;
use client::schemas::{NewCertificate, NewToken, NewUser, Role, UserChange};
use jiff::Timestamp;
use std::path::PathBuf;

#[derive(Clone, Subcommand)]
pub enum UserVerb {
    /// Create a user; the password is read from the terminal or from standard input
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Role
        #[arg(long, value_parser = choice::<Role>())]
        role: Role,
    },
    /// List users
    List,
    /// Show a user
    Show {
        /// User
        name: String,
    },
    /// Change the role of a user
    Role {
        /// User
        name: String,
        /// Role
        #[arg(value_parser = choice::<Role>())]
        role: Role,
    },
    /// Change the password of a user, which is read from the terminal or from standard input
    Password {
        /// User
        name: String,
    },
    /// Delete a user and its tokens
    Delete {
        /// User; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Clone, Subcommand)]
pub enum TokenVerb {
    /// Create an API token; its secret is shown only once
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Owner [default: the current user]
        #[arg(long)]
        user: Option<String>,
        /// Role [default: the role of the owner]
        #[arg(long, value_parser = choice::<Role>())]
        role: Option<Role>,
        /// Expiry time, such as 2030-01-01T00:00:00Z [default: never]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Allow acting on behalf of users; the audit log names them
        #[arg(long)]
        on_behalf: bool,
    },
    /// List API tokens
    List,
    /// Delete an API token
    Delete {
        /// Token; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Clone, Subcommand)]
pub enum CertificateVerb {
    /// Print the certificate chain
    Show,
    /// Replace the certificate
    Replace {
        /// File with the certificate chain in PEM, the array's own certificate first
        #[arg(long, value_name = "FILE")]
        chain: PathBuf,
        /// File with the private key in PEM
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

impl UserVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use UserVerb::*;
        let change = |name: &str, change: UserChange| client.call(api::change_user(name, &change));
        Ok(match self {
            Create { name, role } => {
                let password = secret("password")?;
                client.call(api::create_user(&NewUser { name, role, password }))?.into()
            }
            List => client.call(api::list_users(&api::ListUsers::default()))?.into(),
            Show { name } => client.call(api::show_user(&name))?.into(),
            Role { name, role } => {
                change(&name, UserChange { role: Some(Some(role)), ..UserChange::default() })?.into()
            }
            Password { name } => {
                let password = Some(Some(secret("password")?));
                change(&name, UserChange { password, ..UserChange::default() })?.into()
            }
            Delete { names } => each(names, |name| {
                client.call(api::delete_user(&name))?;
                Ok(show::deleted(name))
            })?,
        })
    }
}

impl TokenVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use TokenVerb::*;
        Ok(match self {
            Create { name, user, role, expires, on_behalf } => {
                let asked = NewToken { name, user, role, expires, on_behalf: Some(on_behalf) };
                let made = client.call(api::create_token(&asked))?;
                eprintln!("The secret is not shown again.");
                made.into()
            }
            List => client.call(api::list_tokens(&api::ListTokens::default()))?.into(),
            Delete { names } => each(names, |name| {
                client.call(api::delete_token(&name))?;
                Ok(show::deleted(name))
            })?,
        })
    }
}

impl CertificateVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        let answer = match self {
            CertificateVerb::Show => client.call(api::show_certificate())?,
            CertificateVerb::Replace { chain, key } => {
                let new = NewCertificate { chain: file::read(&chain)?, key: file::read(&key)? };
                client.call(api::replace_certificate(&new))?
            }
        };
        let it = answer.read()?;
        let expires = it.expires.as_deref().map_or_else(
            || "unknown".into(),
            |expires| {
                let left =
                    expires.parse::<Timestamp>().map(|end| end.duration_since(Timestamp::now()).as_secs());
                match left.ok().and_then(|left| u64::try_from(left).ok()) {
                    Some(left) => format!("{}, in {}", show::time(expires), show::duration(left)),
                    None => format!("{}: it has expired", show::time(expires)),
                }
            },
        );
        eprintln!("In use since {}. Expires {expires}.", show::time(&it.since));
        Ok(Shown::text(answer.value, |it| show::text(it, "chain")))
    }
}
