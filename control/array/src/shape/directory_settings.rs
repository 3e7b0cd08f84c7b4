//! Settings of a directory as operators write and see them. Their record takes fields of newer software; a request with a field
//! that is not known is refused.

use records::{Ldap, Oidc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// Connection settings. `ca`: trusted certificates in PEM; default: those of the system.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum DirectorySettings {
    /// OpenID Connect (authorization code flow with PKCE). The secret is the client secret. The redirect URI to register with
    /// the provider is `address` followed by `/sign-in`.
    Oidc {
        /// Issuer URL; https, or localhost.
        #[schema(example = "https://id.example.com/realms/staff")]
        issuer: String,
        /// Client ID of the array.
        client_id: String,
        /// URL under which browsers reach the array; https, or localhost.
        #[schema(example = "https://array.example.com:8080")]
        address: String,
        /// Scopes besides `openid`; default `profile` and `email`.
        #[serde(default = "scopes")]
        scopes: Vec<String>,
        /// User name claim; default `preferred_username`.
        #[serde(default = "user_claim")]
        user_claim: String,
        /// Groups claim, with dots for nested claims; default `groups`.
        #[serde(default = "groups_claim")]
        groups_claim: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// LDAP: users enter their password at the array. The secret is the password of `bind_dn`.
    Ldap {
        /// Server URL: `ldaps://`, or `ldap://` with STARTTLS.
        #[schema(example = "ldaps://ldap.example.com")]
        server: String,
        /// Whether to use STARTTLS; default false.
        #[serde(default)]
        starttls: bool,
        /// DN to bind as for searches; `null` or omitted: anonymous.
        #[serde(default)]
        bind_dn: Option<String>,
        /// Base DN of users.
        #[schema(example = "ou=people,dc=example,dc=com")]
        base: String,
        /// User name attribute; default `uid`.
        #[serde(default = "user_attribute")]
        user_attribute: String,
        /// Base DN of groups with a member attribute, named by `cn`; `null` or omitted: groups are taken from `memberOf` of the
        /// user, named by DN.
        #[serde(default)]
        group_base: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
}

fn user_attribute() -> String {
    "uid".into()
}

fn scopes() -> Vec<String> {
    vec!["profile".into(), "email".into()]
}

fn user_claim() -> String {
    "preferred_username".into()
}

fn groups_claim() -> String {
    "groups".into()
}

impl From<DirectorySettings> for records::DirectorySettings {
    fn from(it: DirectorySettings) -> Self {
        match it {
            DirectorySettings::Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca } => {
                Self::Oidc(Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca })
            }
            DirectorySettings::Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca } => {
                Self::Ldap(Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca })
            }
        }
    }
}

impl From<records::DirectorySettings> for DirectorySettings {
    fn from(it: records::DirectorySettings) -> Self {
        match it {
            records::DirectorySettings::Oidc(it) => {
                let Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca } = it;
                Self::Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca }
            }
            records::DirectorySettings::Ldap(it) => {
                let Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca } = it;
                Self::Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca }
            }
        }
    }
}

/// The settings of a record, as they are shown.
pub(crate) fn shown<S: Serializer>(
    settings: &records::DirectorySettings,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    DirectorySettings::from(settings.clone()).serialize(serializer)
}

/// The settings of a request.
pub(crate) fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<records::DirectorySettings, D::Error> {
    DirectorySettings::deserialize(deserializer).map(Into::into)
}

/// The settings of a request that may have none.
pub(crate) fn some_given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<records::DirectorySettings>, D::Error> {
    Ok(Option::<DirectorySettings>::deserialize(deserializer)?.map(Into::into))
}
