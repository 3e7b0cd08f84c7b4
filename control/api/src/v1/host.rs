//! Hosts and host groups.

use super::connection::Connection;
use super::handler::{
    Answer, Created, NoContent, created, digits, no_content, operations, perform, present, utc,
};
use super::label::{selector, setting};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Labelled, List, PartialList, list};
use crate::problem::{Problem, Problems};
use array::Secret;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_hosts: ListHosts, create_host: CreateHost))
        .routes(operations!(show_host: ShowHost, change_host: ChangeHost, delete_host: DeleteHost))
        .routes(operations!(list_refused_logins: ListRefusedLogins))
        .routes(operations!(list_host_groups: ListHostGroups, create_host_group: CreateHostGroup))
        .routes(operations!(show_host_group: ShowHostGroup, change_host_group: ChangeHostGroup, delete_host_group: DeleteHostGroup))
}

/// A host. Secrets are never shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct Host {
    /// Name.
    name: String,
    /// Permanent identifier: 16 hex digits.
    id: String,
    /// iSCSI initiator names, in lower case.
    initiators: Vec<String>,
    /// NVMe qualified names (NQNs) for NVMe/TCP.
    nqns: Vec<String>,
    /// N_Port names (WWPNs) for Fibre Channel, as pairs of hexadecimal digits with colons.
    wwpns: Vec<String>,
    /// CHAP user of the host; `null` if CHAP is not required.
    chap_user: Option<String>,
    /// CHAP user of the array (mutual CHAP); `null` if mutual CHAP is off.
    mutual_user: Option<String>,
    /// The host must authenticate over NVMe/TCP with its DH-HMAC-CHAP secret.
    dhchap: bool,
    /// The array has a DH-HMAC-CHAP secret of its own, with which it authenticates if the host asks.
    dhchap_controller: bool,
    /// The host has a PSK and must use TLS over NVMe/TCP.
    tls: bool,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Host group; `null` if it is in none.
    host_group: Option<String>,
    /// Permanent identifier of the host group.
    host_group_id: Option<String>,
    /// Labels.
    labels: BTreeMap<String, String>,
    /// Connected volumes and snapshots, including those of its host group.
    connections: Vec<Connection>,
    /// Current number of iSCSI sessions, at the portals of all controllers.
    sessions: usize,
    /// Current number of NVMe/TCP controllers.
    controllers: usize,
    /// Current number of Fibre Channel sessions: pairs of an initiator port and a target port.
    fibre_channel_sessions: usize,
    /// Refused iSCSI log-ins of its initiators, most recent first.
    refused_logins: Vec<RefusedLogin>,
}

/// A log-in over iSCSI or a connect over NVMe/TCP that was refused or broke off, once or repeatedly.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedLogin {
    /// iSCSI initiator name or NQN; `null` if none was sent.
    initiator: Option<String>,
    /// Host with this name; `null` if there is none.
    host: Option<String>,
    /// Source address.
    address: String,
    /// Portal number, from 1; those of NVMe/TCP come after those of iSCSI.
    portal: u16,
    /// Machine-readable cause: `unknown-initiator`, `unknown-target`, `chap-required`, `chap-not-configured`,
    /// `wrong-chap-user`, `wrong-chap-secret`, `mutual-chap-not-configured`, `too-many-attempts`, `too-many-connections`,
    /// `access-changed`, `broken-off`, `dhchap-required`, `wrong-dhchap-secret`, `dhchap-controller-refused`,
    /// `tls-required`, `tls-handshake`, `tls-identity` or `protocol-error`.
    cause: String,
    /// Human-readable cause.
    reason: String,
    /// Number of occurrences.
    count: u64,
    /// First occurrence.
    #[schema(format = DateTime)]
    first: String,
    /// Most recent occurrence.
    #[schema(format = DateTime)]
    last: String,
}

/// Refused log-ins.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedLogins {
    /// Most recent first.
    pub items: Vec<RefusedLogin>,
}

/// Hosts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Hosts {
    /// Sorted by name unless `sort` is given.
    pub items: Vec<Host>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// Which hosts a list has.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct HostFilter {
    /// Only the host that has this iSCSI initiator name.
    initiator: Option<String>,
}

/// A new host.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHost {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// iSCSI initiator names, at most 64; may be left out if there are NQNs or WWPNs.
    #[serde(default)]
    initiators: Vec<String>,
    /// NVMe qualified names (NQNs) for NVMe/TCP, at most 64.
    #[serde(default)]
    nqns: Vec<String>,
    /// N_Port names (WWPNs) for Fibre Channel, at most 64.
    #[serde(default)]
    wwpns: Vec<String>,
    /// CHAP credentials that the host must present.
    chap: Option<Chap>,
    /// CHAP credentials that the array presents (mutual CHAP). Requires `chap`.
    mutual: Option<Chap>,
    /// DH-HMAC-CHAP secret of the host for NVMe/TCP, as `nvme gen-dhchap-key` makes it: `DHHC-1:HH:BASE64:`. Never returned.
    #[schema(format = Password)]
    dhchap_secret: Option<String>,
    /// DH-HMAC-CHAP secret of the array, likewise. Requires `dhchap_secret`.
    #[schema(format = Password)]
    dhchap_controller_secret: Option<String>,
    /// PSK of TLS over NVMe/TCP in the interchange format, as `nvme gen-tls-key` makes it: `NVMeTLSkey-1:HH:BASE64:`. The host can
    /// connect at portals with TLS only. Never returned.
    #[schema(format = Password)]
    tls_psk: Option<String>,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Changes to a host. Omitted fields keep their values.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostChange {
    /// New name.
    name: Option<String>,
    /// Complete list of iSCSI initiator names, at most 64.
    initiators: Option<Vec<String>>,
    /// Complete list of NQNs, at most 64.
    nqns: Option<Vec<String>>,
    /// Complete list of WWPNs, at most 64.
    wwpns: Option<Vec<String>>,
    /// CHAP credentials that the host must present; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Chap>)]
    chap: Option<Option<Chap>>,
    /// CHAP credentials that the array presents (mutual CHAP); `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Chap>)]
    mutual: Option<Option<Chap>>,
    /// DH-HMAC-CHAP secret of the host; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    dhchap_secret: Option<Option<String>>,
    /// DH-HMAC-CHAP secret of the array; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    dhchap_controller_secret: Option<Option<String>>,
    /// PSK of TLS over NVMe/TCP; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = Password)]
    tls_psk: Option<Option<String>>,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
}

/// CHAP credentials for one direction.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// CHAP user name.
    user: String,
    /// CHAP secret, 12 to 255 bytes. Never returned.
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
    /// Name.
    name: String,
    /// Permanent identifier: 16 hex digits.
    id: String,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Hosts.
    hosts: Vec<String>,
    /// Labels.
    labels: BTreeMap<String, String>,
    /// Volumes and snapshots connected to all of its hosts.
    connections: Vec<Connection>,
}

/// Host groups.
#[derive(Debug, Serialize, ToSchema)]
pub struct HostGroups {
    /// Sorted by name unless `sort` is given.
    pub items: Vec<HostGroup>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A new host group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHostGroup {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Hosts; default: none.
    hosts: Option<Vec<String>>,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Changes to a host group. Omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostGroupChange {
    /// New name.
    name: Option<String>,
    /// Complete list of hosts.
    hosts: Option<Vec<String>>,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
}

/// List hosts
#[utoipa::path(get, path = "/api/v1/hosts", tag = "hosts", params(List, Labelled, HostFilter), responses(
    (status = 200, description = "The hosts", content(
        (Hosts = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_hosts(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
    Asked(Labelled { label }): Asked<Labelled>,
    Asked(HostFilter { initiator }): Asked<HostFilter>,
) -> Result<Response, Problem> {
    let wanted = selector(label.as_deref())?;
    let hosts = array::ListHosts { initiator };
    let mut hosts = perform(operator, &context, hosts).await?;
    hosts.retain(|host| wanted.selects(&host.labels));
    list(hosts.into_iter().map(Host::from).collect(), part)
}

/// Create a host
#[utoipa::path(post, path = "/api/v1/hosts", tag = "hosts", request_body = NewHost, responses(
    (status = 201, description = "The host", body = Host),
    (status = 200, description = "The host, which existed with equal content", body = Host),
    Problems,
))]
async fn create_host(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewHost>,
) -> Created<Host> {
    let NewHost {
        name,
        initiators,
        nqns,
        wwpns,
        chap,
        mutual,
        dhchap_secret,
        dhchap_controller_secret,
        tls_psk,
        labels,
    } = new;
    let (chap, mutual, labels) = (chap.map(Into::into), mutual.map(Into::into), setting(labels));
    let secrets = [dhchap_secret, dhchap_controller_secret, tls_psk];
    let [dhchap, dhchap_controller, tls_psk] = secrets.map(|it| it.map(Secret::new));
    let action = array::CreateHost {
        name,
        initiators,
        nqns,
        wwpns,
        chap,
        mutual,
        dhchap,
        dhchap_controller,
        tls_psk,
        labels,
    };
    created(perform(operator, &context, action).await?)
}

/// Get a host
#[utoipa::path(get, path = "/api/v1/hosts/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 200, description = "The host", body = Host),
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
    (status = 200, description = "The host", body = Host),
    Problems,
))]
async fn change_host(
    operator: Operator,
    State(context): State<Context>,
    Named(host): Named<String>,
    Body(change): Body<HostChange>,
) -> Answer<Host> {
    let HostChange {
        name,
        initiators,
        nqns,
        wwpns,
        chap,
        mutual,
        dhchap_secret,
        dhchap_controller_secret,
        tls_psk,
        labels,
    } = change;
    let labels = array::LabelsChange(labels);
    let of = |chap: Option<Option<Chap>>| chap.map(|chap| chap.map(Into::into));
    let change = array::HostChange {
        name,
        initiators,
        nqns,
        wwpns,
        chap: of(chap),
        mutual: of(mutual),
        dhchap: dhchap_secret.map(|it| it.map(Secret::new)),
        dhchap_controller: dhchap_controller_secret.map(|it| it.map(Secret::new)),
        tls_psk: tls_psk.map(|it| it.map(Secret::new)),
        labels,
    };
    let done = perform(operator, &context, array::ChangeHost { name: host, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a host
///
/// It must not be connected to a volume.
#[utoipa::path(delete, path = "/api/v1/hosts/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_host(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteHost { name }).await?)
}

/// List refused log-ins of the last seven days, of hosts and of unknown initiators
#[utoipa::path(get, path = "/api/v1/refused-logins", tag = "hosts", responses(
    (status = 200, description = "The refused log-ins since the array was started", body = RefusedLogins),
    Problems,
))]
async fn list_refused_logins(operator: Operator, State(context): State<Context>) -> Answer<RefusedLogins> {
    let refused = perform(operator, &context, array::ListRefusedLogins).await?;
    Ok(Json(RefusedLogins { items: refused.into_iter().map(Into::into).collect() }))
}

/// List host groups
#[utoipa::path(get, path = "/api/v1/host-groups", tag = "hosts", params(List, Labelled), responses(
    (status = 200, description = "The host groups", content(
        (HostGroups = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_host_groups(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
    Asked(Labelled { label }): Asked<Labelled>,
) -> Result<Response, Problem> {
    let wanted = selector(label.as_deref())?;
    let mut groups = perform(operator, &context, array::ListHostGroups).await?;
    groups.retain(|group| wanted.selects(&group.labels));
    list(groups.into_iter().map(HostGroup::from).collect(), part)
}

/// Create a host group
#[utoipa::path(post, path = "/api/v1/host-groups", tag = "hosts", request_body = NewHostGroup, responses(
    (status = 201, description = "The host group", body = HostGroup),
    (status = 200, description = "The host group, which existed with equal content", body = HostGroup),
    Problems,
))]
async fn create_host_group(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewHostGroup>,
) -> Created<HostGroup> {
    let NewHostGroup { name, hosts, labels } = new;
    let action = array::CreateHostGroup { name, hosts, labels: setting(labels) };
    created(perform(operator, &context, action).await?)
}

/// Get a host group
#[utoipa::path(get, path = "/api/v1/host-groups/{name}", tag = "hosts", params(("name" = String, Path,)), responses(
    (status = 200, description = "The host group", body = HostGroup),
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
    (status = 200, description = "The host group", body = HostGroup),
    Problems,
))]
async fn change_host_group(
    operator: Operator,
    State(context): State<Context>,
    Named(group): Named<String>,
    Body(HostGroupChange { name, hosts, labels }): Body<HostGroupChange>,
) -> Answer<HostGroup> {
    let change = array::HostGroupChange { name, hosts, labels: array::LabelsChange(labels) };
    let done = perform(operator, &context, array::ChangeHostGroup { name: group, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a host group
///
/// It must not be connected to a volume. Its hosts are kept.
#[utoipa::path(delete, path = "/api/v1/host-groups/{name}", tag = "hosts", params(("name" = String, Path,)),
    responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_host_group(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteHostGroup { name }).await?)
}

impl From<array::Host> for Host {
    fn from(host: array::Host) -> Self {
        Self {
            name: host.name,
            id: digits(host.id),
            initiators: host.initiators,
            nqns: host.nqns,
            wwpns: host.wwpns,
            chap_user: host.chap_user,
            mutual_user: host.mutual_user,
            dhchap: host.dhchap,
            dhchap_controller: host.dhchap_controller,
            tls: host.tls,
            created: utc(host.created),
            host_group: host.host_group,
            host_group_id: host.host_group_id.map(digits),
            labels: host.labels.into(),
            connections: host.connections.into_iter().map(Into::into).collect(),
            sessions: host.sessions,
            controllers: host.controllers,
            fibre_channel_sessions: host.fibre_channel_sessions,
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
            cause: refused.cause.into_owned(),
            reason: refused.reason,
            count: refused.count,
            first: utc(refused.first),
            last: utc(refused.last),
        }
    }
}

impl From<array::HostGroup> for HostGroup {
    fn from(group: array::HostGroup) -> Self {
        let array::HostGroup { id, name, created, hosts, labels, connections } = group;
        let connections = connections.into_iter().map(Into::into).collect();
        Self { name, id: digits(id), created: utc(created), hosts, labels: labels.into(), connections }
    }
}

impl From<Chap> for array::Chap {
    fn from(chap: Chap) -> Self {
        array::Chap::new(chap.user, chap.secret)
    }
}
