//! Hosts and host groups.

use super::connection::Connection;
use super::{Answer, Created, Gone, gone, perform, present, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
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
        .routes(routes!(list_hosts, create_host))
        .routes(routes!(show_host, change_host, delete_host))
        .routes(routes!(list_refused_logins))
        .routes(routes!(list_host_groups, create_host_group))
        .routes(routes!(show_host_group, change_host_group, delete_host_group))
}

/// A host. Secrets are never shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct Host {
    /// Its name.
    name: String,
    /// Its iSCSI initiator names, in lower case.
    initiators: Vec<String>,
    /// The CHAP user that it logs in as; `null` when it needs none.
    chap_user: Option<String>,
    /// The CHAP user that the array answers as; `null` when it does not.
    mutual_user: Option<String>,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// The host group that it is in; `null` when it is in none.
    host_group: Option<String>,
    /// What it sees, by itself or because of its group.
    connections: Vec<Connection>,
    /// Number of its iSCSI sessions now.
    sessions: usize,
    /// Log-ins of its initiators that were refused, the last one first.
    refused_logins: Vec<RefusedLogin>,
}

/// A log-in that was refused, or did not come to its end, once or several times.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedLogin {
    /// The iSCSI initiator name; `null` when it gave none.
    initiator: Option<String>,
    /// The host that has the name; `null` when no host has it.
    host: Option<String>,
    /// The address that it came from.
    address: String,
    /// Number of the portal that it came to, from 1.
    portal: u16,
    /// Why, for programs: `unknown-initiator`, `unknown-target`, `chap-required`, `chap-not-configured`,
    /// `wrong-chap-user`, `wrong-chap-secret`, `mutual-chap-not-configured`, `too-many-connections`,
    /// `access-changed`, `broken-off` or `protocol-error`.
    cause: String,
    /// Why, for people.
    reason: String,
    /// How often.
    count: u64,
    /// When first.
    #[schema(format = DateTime)]
    first: String,
    /// When last.
    #[schema(format = DateTime)]
    last: String,
}

/// Refused log-ins.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedLogins {
    /// The last one first.
    pub items: Vec<RefusedLogin>,
}

/// Hosts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Hosts {
    /// In order of names, or as asked for.
    pub items: Vec<Host>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// A host to make known.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHost {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// iSCSI initiator names, 1 to 64.
    initiators: Vec<String>,
    /// What it must log in with.
    chap: Option<Chap>,
    /// What the array proves itself to it with. Only together with `chap`.
    mutual: Option<Chap>,
}

/// What to change in a host; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostChange {
    /// Another name.
    name: Option<String>,
    /// All of its iSCSI initiator names, 1 to 64.
    initiators: Option<Vec<String>>,
    /// What it must log in with; `null`: nothing.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Chap>)]
    chap: Option<Option<Chap>>,
    /// What the array proves itself to it with; `null`: nothing.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Chap>)]
    mutual: Option<Option<Chap>>,
}

/// One direction of CHAP.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// The CHAP name.
    user: String,
    /// 12 to 255 characters; never shown again.
    #[schema(format = Password)]
    secret: String,
}

impl std::fmt::Debug for Chap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chap({})", self.user)
    }
}

/// A host group.
#[derive(Debug, Serialize, ToSchema)]
pub struct HostGroup {
    /// Its name.
    name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// Names of its hosts.
    hosts: Vec<String>,
    /// What all of them see.
    connections: Vec<Connection>,
}

/// Host groups.
#[derive(Debug, Serialize, ToSchema)]
pub struct HostGroups {
    /// In order of names, or as asked for.
    pub items: Vec<HostGroup>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// A host group to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHostGroup {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Names of its hosts.
    #[serde(default)]
    hosts: Vec<String>,
}

/// What to change in a host group; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostGroupChange {
    /// Another name.
    name: Option<String>,
    /// Names of all of its hosts.
    hosts: Option<Vec<String>>,
}

/// All hosts
#[utoipa::path(get, path = "/api/v1/hosts", tag = "hosts", params(Part), responses(
    (status = 200, description = "The hosts", content(
        (Hosts = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_hosts(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let hosts = perform(operator, &context, array::ListHosts).await?;
    list(hosts.into_iter().map(Host::from).collect(), &part)
}

/// Make a host known, so that it may log in
#[utoipa::path(post, path = "/api/v1/hosts", tag = "hosts", request_body = NewHost, responses(
    (status = 201, description = "The host as it is now", body = Host),
    Problems,
))]
async fn create_host(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewHost>,
) -> Created<Host> {
    let NewHost { name, initiators, chap, mutual } = new;
    let (chap, mutual) = (chap.map(Into::into), mutual.map(Into::into));
    let action = array::CreateHost { name, initiators, chap, mutual };
    let made = perform(operator, &context, action).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// One host
#[utoipa::path(get, path = "/api/v1/hosts/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 200, description = "The host as it is now", body = Host),
    Problems,
))]
async fn show_host(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Host> {
    let it = perform(operator, &context, array::ShowHost { name }).await?;
    Ok(Json(it.into()))
}

/// Change a host
#[utoipa::path(patch, path = "/api/v1/hosts/{name}", tag = "hosts", params(("name" = String, Path,)),
    request_body = HostChange, responses(
    (status = 200, description = "The host as it is now", body = Host),
    Problems,
))]
async fn change_host(
    operator: Operator,
    State(context): State<Context>,
    Named(host): Named<String>,
    Body(change): Body<HostChange>,
) -> Answer<Host> {
    let HostChange { name, initiators, chap, mutual } = change;
    let of = |chap: Option<Option<Chap>>| chap.map(|chap| chap.map(Into::into));
    let change = array::HostChange { name, initiators, chap: of(chap), mutual: of(mutual) };
    let done = perform(operator, &context, array::ChangeHost { name: host, change }).await?;
    Ok(Json(done.into()))
}

/// Forget a host that sees no volume
#[utoipa::path(delete, path = "/api/v1/hosts/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_host(operator: Operator, State(context): State<Context>, Named(name): Named<String>) -> Gone {
    gone(perform(operator, &context, array::DeleteHost { name }).await?)
}

/// Refused log-ins of the last seven days, of hosts and of unknown initiators
#[utoipa::path(get, path = "/api/v1/refused-logins", tag = "hosts", responses(
    (status = 200, description = "The refused log-ins since the array was started", body = RefusedLogins),
    Problems,
))]
async fn list_refused_logins(operator: Operator, State(context): State<Context>) -> Answer<RefusedLogins> {
    let refused = perform(operator, &context, array::ListRefusedLogins).await?;
    Ok(Json(RefusedLogins { items: refused.into_iter().map(Into::into).collect() }))
}

/// All host groups
#[utoipa::path(get, path = "/api/v1/host-groups", tag = "hosts", params(Part), responses(
    (status = 200, description = "The host groups", content(
        (HostGroups = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_host_groups(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let groups = perform(operator, &context, array::ListHostGroups).await?;
    list(groups.into_iter().map(HostGroup::from).collect(), &part)
}

/// Make a host group
#[utoipa::path(post, path = "/api/v1/host-groups", tag = "hosts", request_body = NewHostGroup, responses(
    (status = 201, description = "The host group as it is now", body = HostGroup),
    Problems,
))]
async fn create_host_group(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewHostGroup>,
) -> Created<HostGroup> {
    let NewHostGroup { name, hosts } = new;
    let made = perform(operator, &context, array::CreateHostGroup { name, hosts }).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// One host group
#[utoipa::path(get, path = "/api/v1/host-groups/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 200, description = "The host group as it is now", body = HostGroup),
    Problems,
))]
async fn show_host_group(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<HostGroup> {
    let group = perform(operator, &context, array::ShowHostGroup { name }).await?;
    Ok(Json(group.into()))
}

/// Change a host group
#[utoipa::path(patch, path = "/api/v1/host-groups/{name}", tag = "hosts", params(("name" = String, Path,)),
    request_body = HostGroupChange, responses(
    (status = 200, description = "The host group as it is now", body = HostGroup),
    Problems,
))]
async fn change_host_group(
    operator: Operator,
    State(context): State<Context>,
    Named(group): Named<String>,
    Body(HostGroupChange { name, hosts }): Body<HostGroupChange>,
) -> Answer<HostGroup> {
    let change = array::HostGroupChange { name, hosts };
    let done = perform(operator, &context, array::ChangeHostGroup { name: group, change }).await?;
    Ok(Json(done.into()))
}

/// Forget a host group that sees no volume; its hosts stay
#[utoipa::path(delete, path = "/api/v1/host-groups/{name}", tag = "hosts", params(("name" = String, Path,)),
    responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_host_group(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Gone {
    gone(perform(operator, &context, array::DeleteHostGroup { name }).await?)
}

impl From<array::Host> for Host {
    fn from(host: array::Host) -> Self {
        Self {
            name: host.name,
            initiators: host.initiators,
            chap_user: host.chap_user,
            mutual_user: host.mutual_user,
            created: utc(host.created),
            host_group: host.host_group,
            connections: host.connections.into_iter().map(Into::into).collect(),
            sessions: host.sessions,
            refused_logins: host.refused_logins.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<array::RefusedLogin> for RefusedLogin {
    fn from(refused: array::RefusedLogin) -> Self {
        Self {
            initiator: refused.initiator,
            host: refused.host,
            address: refused.address.to_string(),
            portal: refused.portal,
            cause: refused.cause.to_owned(),
            reason: refused.reason,
            count: refused.count,
            first: utc(refused.first),
            last: utc(refused.last),
        }
    }
}

impl From<array::HostGroup> for HostGroup {
    fn from(group: array::HostGroup) -> Self {
        let array::HostGroup { name, created, hosts, connections } = group;
        let connections = connections.into_iter().map(Into::into).collect();
        Self { name, created: utc(created), hosts, connections }
    }
}

impl From<Chap> for array::Chap {
    fn from(chap: Chap) -> Self {
        array::Chap::new(chap.user, chap.secret)
    }
}
