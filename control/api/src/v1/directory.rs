//! Identity providers and LDAP directories.

use super::handler::{Answer, Created, NoContent, no_content, operations, perform, present, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PARTIAL, PartialList, list};
use crate::problem::{Problem, Problems};
use array::{Grant, Secret};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_directories: ListDirectories, create_directory: CreateDirectory))
        .routes(operations!(show_directory: ShowDirectory, change_directory: ChangeDirectory, delete_directory: DeleteDirectory))
        .routes(operations!(test_directory: TestDirectory))
}

/// Connection settings. `ca`: trusted certificates in PEM; default: those of the system.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum DirectorySettings {
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

/// An identity provider or LDAP directory whose users can log in, in addition to the local users.
#[derive(Debug, Serialize, ToSchema)]
pub struct Directory {
    /// Name; prefix of the names of its users.
    name: String,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Connection settings.
    settings: DirectorySettings,
    /// Roles granted to groups.
    grants: Vec<Grant>,
    /// Whether it is enabled.
    enabled: bool,
    /// Whether a secret is set. The secret is never returned.
    has_secret: bool,
}

/// Identity providers and LDAP directories.
#[derive(Debug, Serialize, ToSchema)]
pub struct Directories {
    /// Sorted by name unless `sort` is given.
    items: Vec<Directory>,
    /// Total count, regardless of `limit` and `offset`.
    total: usize,
}

/// A new identity provider or LDAP directory.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewDirectory {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Connection settings.
    settings: DirectorySettings,
    /// Client secret, or password of `bind_dn`; `null` or omitted: none.
    #[serde(default)]
    #[schema(format = Password)]
    secret: Option<String>,
    /// Roles granted to groups.
    #[serde(default)]
    grants: Vec<Grant>,
    /// Whether it is enabled; default true.
    #[serde(default = "yes")]
    enabled: bool,
}

fn yes() -> bool {
    true
}

/// Changes to a directory. Omitted fields keep their values. Sessions of its users end.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DirectoryChange {
    /// New name.
    name: Option<String>,
    /// New settings, complete. The stored secret is discarded.
    settings: Option<DirectorySettings>,
    /// New secret; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    secret: Option<Option<String>>,
    /// Complete list of roles granted to groups.
    grants: Option<Vec<Grant>>,
    /// Whether it is enabled.
    enabled: Option<bool>,
}

/// Result of a test.
#[derive(Serialize, ToSchema)]
struct DirectoryTest {
    /// Result in words.
    message: String,
}

/// List identity providers and LDAP directories
#[utoipa::path(get, path = "/api/v1/directories", tag = "access", params(List), responses(
    (status = 200, description = "The directories",
        content((Directories = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_directories(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let found = perform(operator, &context, array::ListDirectories).await?;
    let found = found.into_iter().map(Directory::from).collect::<Vec<_>>();
    list(found, part)
}

/// Create an identity provider or LDAP directory
#[utoipa::path(post, path = "/api/v1/directories", tag = "access", request_body = NewDirectory, responses(
    (status = 201, description = "The new directory", body = Directory),
    Problems,
))]
async fn create_directory(
    operator: Operator,
    State(context): State<Context>,
    Body(NewDirectory { name, settings, secret, grants, enabled }): Body<NewDirectory>,
) -> Created<Directory> {
    let (settings, secret) = (settings.into(), secret.map(Secret::new));
    let new = array::NewDirectory { name, settings, secret, grants, enabled };
    let done = perform(operator, &context, array::CreateDirectory(Box::new(new))).await?;
    Ok((StatusCode::CREATED, Json(done.into())))
}

/// Get an identity provider or LDAP directory
#[utoipa::path(get, path = "/api/v1/directories/{name}", tag = "access", params(("name" = String, Path)), responses(
    (status = 200, description = "The directory", body = Directory),
    Problems,
))]
async fn show_directory(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Directory> {
    let found = perform(operator, &context, array::ShowDirectory { name }).await?;
    Ok(Json(found.into()))
}

/// Change an identity provider or LDAP directory
#[utoipa::path(patch, path = "/api/v1/directories/{name}", tag = "access", params(("name" = String, Path)),
    request_body = DirectoryChange, responses(
    (status = 200, description = "The directory", body = Directory),
    Problems,
))]
async fn change_directory(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(it): Body<DirectoryChange>,
) -> Answer<Directory> {
    let change = Box::new(array::DirectoryChange {
        name: it.name,
        settings: it.settings.map(Into::into),
        secret: it.secret.map(|secret| secret.map(Secret::new)),
        grants: it.grants,
        enabled: it.enabled,
    });
    let done = perform(operator, &context, array::ChangeDirectory { name, change }).await?;
    Ok(Json(done.into()))
}

/// Delete an identity provider or LDAP directory
#[utoipa::path(delete, path = "/api/v1/directories/{name}", tag = "access", params(("name" = String, Path)),
    responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_directory(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteDirectory { name }).await?)
}

/// Test the connection to an identity provider or LDAP directory
///
/// The returned problem describes the failure.
#[utoipa::path(post, path = "/api/v1/directories/{name}/test", tag = "access", params(("name" = String, Path)),
    responses(
    (status = 200, description = "The test succeeded", body = DirectoryTest),
    Problems,
))]
async fn test_directory(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<DirectoryTest> {
    let message = perform(operator, &context, array::TestDirectory { name }).await?;
    Ok(Json(DirectoryTest { message }))
}

impl From<DirectorySettings> for array::DirectorySettings {
    fn from(it: DirectorySettings) -> Self {
        match it {
            DirectorySettings::Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca } => {
                Self::Oidc(array::Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca })
            }
            DirectorySettings::Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca } => {
                Self::Ldap(array::Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca })
            }
        }
    }
}

impl From<array::DirectorySettings> for DirectorySettings {
    fn from(it: array::DirectorySettings) -> Self {
        match it {
            array::DirectorySettings::Oidc(it) => {
                let array::Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca } = it;
                Self::Oidc { issuer, client_id, address, scopes, user_claim, groups_claim, ca }
            }
            array::DirectorySettings::Ldap(it) => {
                let array::Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca } = it;
                Self::Ldap { server, starttls, bind_dn, base, user_attribute, group_base, ca }
            }
        }
    }
}

impl From<array::Directory> for Directory {
    fn from(it: array::Directory) -> Self {
        let array::Directory { name, created, settings, grants, enabled, has_secret } = it;
        let (created, settings) = (utc(created), settings.into());
        Self { name, created, settings, grants, enabled, has_secret }
    }
}
