//! Directories elsewhere that know people.

use super::user::Role;
use super::{Answer, Created, Gone, gone, perform, present, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{PARTIAL, Part, PartialList, list};
use crate::problem::{Problem, Problems};
use array::Secret;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(list_directories, create_directory))
        .routes(routes!(show_directory, change_directory, delete_directory))
        .routes(routes!(test_directory))
}

/// Which directory, and how it is asked. `ca`: certificates in PEM that are trusted there; those that the system trusts
/// when it is `null` or left out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum DirectorySettings {
    /// OpenID Connect: the authorization code flow with PKCE. The secret is the client's. The provider lets the client
    /// come back to `address` with `/sign-in` behind it.
    Oidc {
        /// The provider's address as it calls itself; https, or this machine.
        #[schema(example = "https://id.example.com/realms/staff")]
        issuer: String,
        /// What the provider calls the array.
        client_id: String,
        /// Where browsers reach the array; https, or this machine.
        #[schema(example = "https://array.example.com:8080")]
        address: String,
        /// What is asked for besides `openid`; `profile` and `email` when left out.
        #[serde(default = "scopes")]
        scopes: Vec<String>,
        /// The claim that names people; `preferred_username` when left out.
        #[serde(default = "user_claim")]
        user_claim: String,
        /// The claim that has their groups; dots lead into claims; `groups` when left out.
        #[serde(default = "groups_claim")]
        groups_claim: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
    },
    /// LDAP: people give their password to the array. The secret is that of `bind_dn`.
    Ldap {
        /// `ldaps://`, or `ldap://` with STARTTLS, a name, and a port when it is not the usual one.
        #[schema(example = "ldaps://ldap.example.com")]
        server: String,
        /// Whether TLS begins by STARTTLS; no when left out.
        #[serde(default)]
        starttls: bool,
        /// Who searches; `null` or left out: nobody in particular.
        #[serde(default)]
        bind_dn: Option<String>,
        /// Below which people are.
        #[schema(example = "ou=people,dc=example,dc=com")]
        base: String,
        /// The attribute that names people; `uid` when left out.
        #[serde(default = "user_attribute")]
        user_attribute: String,
        /// Below which groups are, which have members and go by their `cn`; `null` or left out: people know theirs
        /// (`memberOf`), which go by distinguished names.
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

/// What people of a group may do. Of several groups the best counts; in none of them, nobody comes in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The group, as the directory calls it.
    group: String,
    /// What its people may do.
    role: Role,
}

/// A directory elsewhere whose people may log in. Users of the array itself always can, too.
#[derive(Debug, Serialize, ToSchema)]
pub struct Directory {
    /// Its name; what its people are called here begins with it.
    name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// Which directory, and how it is asked.
    settings: DirectorySettings,
    /// What groups may do.
    grants: Vec<Grant>,
    /// Whether it is asked.
    enabled: bool,
    /// There is a secret; it is never told.
    has_secret: bool,
}

/// Directories.
#[derive(Debug, Serialize, ToSchema)]
pub struct Directories {
    /// By name, when nothing else is asked for.
    items: Vec<Directory>,
    /// How many there are without `limit` and `offset`.
    total: usize,
}

/// A new directory.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewDirectory {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Which directory, and how it is asked.
    settings: DirectorySettings,
    /// The client's secret, or the password of who searches; `null` or left out: none is wanted.
    #[serde(default)]
    #[schema(format = Password)]
    secret: Option<String>,
    /// What groups may do.
    #[serde(default)]
    grants: Vec<Grant>,
    /// Whether it is asked; yes when left out.
    #[serde(default = "yes")]
    enabled: bool,
}

fn yes() -> bool {
    true
}

/// What to change of a directory; what is left out stays. Sessions of its people end.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DirectoryChange {
    /// Another name.
    name: Option<String>,
    /// Other settings, all of them. The secret goes, as it was meant for the old ones.
    settings: Option<DirectorySettings>,
    /// Another secret; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    secret: Option<Option<String>>,
    /// What groups may do, all of them.
    grants: Option<Vec<Grant>>,
    /// Whether it is asked.
    enabled: Option<bool>,
}

/// What came of a test.
#[derive(Serialize, ToSchema)]
struct DirectoryTest {
    /// What the directory said, for people.
    said: String,
}

/// Directories
#[utoipa::path(get, path = "/api/v1/directories", tag = "access", params(Part), responses(
    (status = 200, description = "The directories",
        content((Directories = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_directories(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let found = perform(operator, &context, array::ListDirectories).await?;
    let found = found.into_iter().map(Directory::from).collect::<Vec<_>>();
    list(found, &part)
}

/// Let people log in whom a directory knows
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
    let grants = grants.into_iter().map(Into::into).collect();
    let new = array::NewDirectory { name, settings, secret, grants, enabled };
    let done = perform(operator, &context, array::CreateDirectory(Box::new(new))).await?;
    Ok((StatusCode::CREATED, Json(done.into())))
}

/// A directory
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

/// Change a directory
#[utoipa::path(patch, path = "/api/v1/directories/{name}", tag = "access", params(("name" = String, Path)),
    request_body = DirectoryChange, responses(
    (status = 200, description = "The directory as it is now", body = Directory),
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
        grants: it.grants.map(|grants| grants.into_iter().map(Into::into).collect()),
        enabled: it.enabled,
    });
    let done = perform(operator, &context, array::ChangeDirectory { name, change }).await?;
    Ok(Json(done.into()))
}

/// Forget a directory
#[utoipa::path(delete, path = "/api/v1/directories/{name}", tag = "access", params(("name" = String, Path)),
    responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_directory(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Gone {
    gone(perform(operator, &context, array::DeleteDirectory { name }).await?)
}

/// Ask a directory whether it is there and takes what is set
///
/// The problem says what is wrong.
#[utoipa::path(post, path = "/api/v1/directories/{name}/test", tag = "access", params(("name" = String, Path)),
    responses(
    (status = 200, description = "It is, and does", body = DirectoryTest),
    Problems,
))]
async fn test_directory(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<DirectoryTest> {
    let said = perform(operator, &context, array::TestDirectory { name }).await?;
    Ok(Json(DirectoryTest { said }))
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

impl From<Grant> for array::Grant {
    fn from(Grant { group, role }: Grant) -> Self {
        Self { group, role: role.into() }
    }
}

impl From<array::Grant> for Grant {
    fn from(array::Grant { group, role }: array::Grant) -> Self {
        Self { group, role: role.into() }
    }
}

impl From<array::Directory> for Directory {
    fn from(it: array::Directory) -> Self {
        let array::Directory { name, created, settings, grants, enabled, has_secret } = it;
        let (created, settings) = (utc(created), settings.into());
        Self {
            name,
            created,
            settings,
            grants: grants.into_iter().map(Into::into).collect(),
            enabled,
            has_secret,
        }
    }
}
