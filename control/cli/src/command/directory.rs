//! Identity providers and LDAP directories.

use super::policy::Switch;
use crate::ask;
use crate::client::Client;
use crate::file;
use crate::show::{self, Shown};
use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand};
use client::schemas::{DirectoryChange, DirectorySettings, Grant, NewDirectory, Role};
use client::{Choice, api};
use std::path::PathBuf;

#[derive(Clone, Subcommand)]
pub enum DirectoryVerb {
    /// Create an identity provider or LDAP directory
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'; prefix of the names of its users
        name: String,
        #[command(flatten)]
        settings: Box<Settings>,
        /// Client secret, or password of --bind-dn; without it, the password of --bind-dn is read from the terminal or
        /// from standard input
        #[arg(long, env = "ASHLAR_DIRECTORY_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// Role of the members of a group, such as storage=operator; repeatable
        #[arg(long, value_name = "GROUP=ROLE", value_parser = grant)]
        grant: Vec<Grant>,
    },
    /// List identity providers and LDAP directories
    List,
    /// Show an identity provider or LDAP directory
    Show {
        /// Directory
        name: String,
    },
    /// Change a directory; omitted settings keep their values. Sessions of its users end
    Set {
        /// Directory
        name: String,
        /// New secret
        #[arg(long, env = "ASHLAR_DIRECTORY_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// Complete list of roles of groups, such as storage=operator; repeatable
        #[arg(long, value_name = "GROUP=ROLE", value_parser = grant)]
        grant: Vec<Grant>,
        /// Whether its users can log in
        #[arg(long, value_enum)]
        enabled: Option<Switch>,
    },
    /// Test the connection and the settings
    Test {
        /// Directory
        name: String,
    },
    /// Delete a directory; sessions of its users end
    Delete {
        /// Directory
        name: String,
    },
}

fn grant(text: &str) -> Result<Grant, String> {
    // Names of groups in LDAP contain `=`.
    let parts = text.rsplit_once('=').filter(|(group, _)| !group.is_empty());
    let grant = parts.and_then(|(group, role)| Some(Grant { group: group.into(), role: role.parse().ok()? }));
    let roles = || Role::CHOICES.iter().map(|role| format!("GROUP={role}")).collect::<Vec<_>>().join(", ");
    grant.ok_or_else(|| format!("write one of {}", roles()))
}

/// Kind of directory and connection settings.
#[derive(Clone, Args)]
pub struct Settings {
    /// Issuer URL of an OpenID Connect provider
    #[arg(long, value_name = "ISSUER", requires_all = ["client_id", "address"], conflicts_with = "ldap")]
    oidc: Option<String>,
    /// URL of an LDAP server: ldaps://NAME, or ldap://NAME with --starttls
    #[arg(long, value_name = "URL", requires = "base")]
    ldap: Option<String>,
    /// Use STARTTLS
    #[arg(long, requires = "ldap")]
    starttls: bool,
    /// DN to bind as for searches, with the password in --secret [default: anonymous]
    #[arg(long, value_name = "DN", requires = "ldap")]
    bind_dn: Option<String>,
    /// Base DN of users
    #[arg(long, value_name = "DN", requires = "ldap")]
    base: Option<String>,
    /// User name attribute [default: uid]
    #[arg(long, value_name = "ATTRIBUTE", requires = "ldap")]
    user_attribute: Option<String>,
    /// Base DN of groups, named by cn [default: groups from memberOf of the user, named by DN]
    #[arg(long, value_name = "DN", requires = "ldap")]
    group_base: Option<String>,
    /// Client ID of the array
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// URL under which browsers reach the array; the redirect URI is this URL followed by /sign-in
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// Scope besides openid; repeatable [default: profile email]
    #[arg(long)]
    scope: Vec<String>,
    /// User name claim [default: preferred_username]
    #[arg(long, value_name = "CLAIM")]
    user_claim: Option<String>,
    /// Groups claim, with dots for nested claims [default: groups]
    #[arg(long, value_name = "CLAIM")]
    groups_claim: Option<String>,
    /// File with trusted certificates in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Settings {
    fn read(self) -> Result<DirectorySettings> {
        let ca = self.ca.as_deref().map(file::read).transpose()?;
        if let Some(server) = self.ldap {
            return Ok(DirectorySettings::Ldap {
                server,
                starttls: Some(self.starttls),
                bind_dn: self.bind_dn,
                base: self.base.unwrap_or_default(),
                user_attribute: self.user_attribute,
                group_base: self.group_base,
                ca,
            });
        }
        let Some(issuer) = self.oidc else {
            bail!("give a directory: --oidc ISSUER, or --ldap URL");
        };
        Ok(DirectorySettings::Oidc {
            issuer,
            client_id: self.client_id.unwrap_or_default(),
            address: self.address.unwrap_or_default(),
            scopes: self.scope,
            user_claim: self.user_claim,
            groups_claim: self.groups_claim,
            ca,
        })
    }
}

impl DirectoryVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use DirectoryVerb::*;
        Ok(match self {
            Create { name, settings, secret, grant } => {
                let bind_dn = settings.bind_dn.clone();
                let settings = settings.read()?;
                let ask = || bind_dn.map(|dn| ask::secret(&format!("password of {dn}"))).transpose();
                let secret = secret.map_or_else(ask, |secret| Ok(Some(secret)))?;
                let new = NewDirectory { name, settings, secret, grants: grant, enabled: None };
                client.call(api::create_directory(&new))?.into()
            }
            List => client.call(api::list_directories(&api::ListDirectories::default()))?.into(),
            Show { name } => client.call(api::show_directory(&name))?.into(),
            Set { name, secret, grant, enabled } => {
                let given = secret.is_some() || !grant.is_empty() || enabled.is_some();
                ensure!(given, "give at least one of --grant, --secret and --enabled");
                let change = DirectoryChange {
                    secret: secret.map(Some),
                    grants: (!grant.is_empty()).then_some(Some(grant)),
                    enabled: enabled.map(|it| Some(it.on())),
                    ..DirectoryChange::default()
                };
                client.call(api::change_directory(&name, &change))?.into()
            }
            Test { name } => client.call(api::test_directory(&name))?.into(),
            Delete { name } => {
                client.call(api::delete_directory(&name))?;
                show::deleted(name)
            }
        })
    }
}
