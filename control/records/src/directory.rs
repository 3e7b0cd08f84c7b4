//! Settings of directories that authenticate users.

use serde::{Deserialize, Serialize};

/// Settings of a directory. Certificates (`ca`) are PEM; without one the system's trust store is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DirectorySettings {
    /// OpenID Connect. The secret is the client secret.
    Oidc(Oidc),
    /// LDAP. The secret is the password of `bind_dn`.
    Ldap(Ldap),
}

/// An LDAP server with the search bases of its users and groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ldap {
    /// Address of the server: `ldaps://name:port`, or `ldap://name:port`.
    #[serde(serialize_with = "crate::mark::address")]
    pub server: String,
    /// Whether to use STARTTLS.
    pub starttls: bool,
    /// Distinguished name for searches; anonymous if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_dn: Option<String>,
    /// Search base of users.
    pub base: String,
    /// The attribute with the user name.
    pub user_attribute: String,
    /// Search base of groups that list their members and have a `cn`. If `None`, groups are the distinguished names in
    /// the users' `memberOf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_base: Option<String>,
    /// Trusted certificate authority.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::mark::pem")]
    pub ca: Option<String>,
}

/// An OpenID provider, and the array's registration there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// Issuer identifier, which is the provider's address.
    #[serde(serialize_with = "crate::mark::address")]
    pub issuer: String,
    /// Client identifier of the array.
    pub client_id: String,
    /// Address at which browsers reach the array; the redirect URI is below it.
    #[serde(serialize_with = "crate::mark::address")]
    pub address: String,
    /// Scopes requested besides `openid`.
    pub scopes: Vec<String>,
    /// The claim with the user name.
    pub user_claim: String,
    /// The claim with the groups; dots separate nested claims.
    pub groups_claim: String,
    /// Trusted certificate authority.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::mark::pem")]
    pub ca: Option<String>,
}
