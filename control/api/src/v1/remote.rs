//! Remote arrays: arrays that this one is paired with.

use super::handler::{Answer, Created, NoContent, no_content, operations, perform, present, utc};
use super::window::{BandwidthWindow, limits};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PARTIAL, PartialList, list};
use crate::problem::{Problem, Problems};
use array::Secret;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(create_pairing_key: CreatePairingKey))
        .routes(operations!(list_remote_arrays: ListRemoteArrays, pair_remote_array: PairRemoteArray))
        .routes(operations!(show_remote_array: ShowRemoteArray, change_remote_array: ChangeRemoteArray, delete_remote_array: DeleteRemoteArray))
}

/// State of the link to a remote array.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// Not known yet.
    Unknown,
    /// The other array responds.
    Connected,
    /// It does not, or does not know this array.
    Disconnected,
}

/// The link to a remote array.
#[derive(Debug, Serialize, ToSchema)]
pub struct RemoteArrayLink {
    /// State.
    state: LinkState,
    /// Time of the last contact since the array started; `null` if there was none.
    #[schema(format = DateTime)]
    last: Option<String>,
    /// Round-trip time in microseconds; `null` if it is not known.
    rtt_us: Option<u64>,
    /// Reason why it is disconnected; `null` if it is not.
    problem: Option<String>,
}

/// A remote array.
#[derive(Debug, Serialize, ToSchema)]
pub struct RemoteArray {
    /// Name on this array.
    name: String,
    /// Time of pairing.
    #[schema(format = DateTime)]
    created: String,
    /// Serial number.
    serial: String,
    /// Host and port at which it listens for other arrays; `null` if only it can open connections.
    address: Option<String>,
    /// Bandwidth limit of replications to it over all of its links, in bytes per second; `null`: no limit.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    bandwidth_limit: Option<u64>,
    /// Weekly windows with another limit.
    bandwidth_windows: Vec<BandwidthWindow>,
    /// Limit that applies now, in bytes per second; `null`: none.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    bandwidth_limit_now: Option<u64>,
    /// SHA-256 of its certificate in hex digits.
    fingerprint: String,
    /// The link.
    link: RemoteArrayLink,
}

/// Remote arrays.
#[derive(Debug, Serialize, ToSchema)]
pub struct RemoteArrays {
    /// Sorted by name unless `sort` is given.
    items: Vec<RemoteArray>,
    /// Total count, regardless of `limit` and `offset`.
    total: usize,
}

/// A pairing key. It can be used once.
#[derive(Debug, Serialize, ToSchema)]
pub struct PairingKey {
    /// The key, to be entered on the other array.
    #[schema(format = Password)]
    key: String,
    /// Port at which this array listens for the other.
    port: u16,
    /// Time until which it can be used.
    #[schema(format = DateTime)]
    expires: String,
}

/// A pairing with another array.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRemoteArray {
    /// Name on this array; default: the name of the other array.
    #[serde(default)]
    name: Option<String>,
    /// Host and port at which the other array listens for arrays.
    #[schema(example = "10.0.0.2:8444")]
    address: String,
    /// Pairing key that was created on the other array.
    #[schema(format = Password)]
    key: String,
}

/// Changes to a remote array. Omitted fields keep their values.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RemoteArrayChange {
    /// New name.
    name: Option<String>,
    /// New host and port; `null`: only the other array opens connections.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    address: Option<Option<String>>,
    /// Bandwidth limit of replications to it, in bytes per second, at least 65536; `null`: no limit.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 65_536, extensions(("x-unit" = json!("bytes/s"))))]
    bandwidth_limit: Option<Option<u64>>,
    /// Complete list of the weekly windows with another limit; they must not overlap.
    bandwidth_windows: Option<Vec<BandwidthWindow>>,
}

/// Create a pairing key
///
/// To be entered on another array within an hour, once.
#[utoipa::path(post, path = "/api/v1/pairing-keys", tag = "array", responses(
    (status = 201, description = "The key, which is not shown again", body = PairingKey),
    Problems,
))]
async fn create_pairing_key(operator: Operator, State(context): State<Context>) -> Created<PairingKey> {
    let it = perform(operator, &context, array::CreatePairingKey).await?;
    let key = PairingKey { key: it.key.expose().to_owned(), port: it.port, expires: utc(it.expires) };
    Ok((StatusCode::CREATED, Json(key)))
}

/// List remote arrays
#[utoipa::path(get, path = "/api/v1/remote-arrays", tag = "array", params(List), responses(
    (status = 200, description = "The remote arrays",
        content((RemoteArrays = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_remote_arrays(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let found = perform(operator, &context, array::ListRemoteArrays).await?;
    list(found.into_iter().map(RemoteArray::from).collect::<Vec<_>>(), part)
}

/// Pair with a remote array
///
/// Both arrays store each other's certificate. The pairing key must have been created on the other one.
#[utoipa::path(post, path = "/api/v1/remote-arrays", tag = "array", request_body = NewRemoteArray, responses(
    (status = 201, description = "The remote array", body = RemoteArray),
    Problems,
))]
async fn pair_remote_array(
    operator: Operator,
    State(context): State<Context>,
    Body(NewRemoteArray { name, address, key }): Body<NewRemoteArray>,
) -> Created<RemoteArray> {
    let request = array::PairRemoteArray { name, address, key: Secret::new(key) };
    let done = perform(operator, &context, request).await?;
    Ok((StatusCode::CREATED, Json(done.into())))
}

/// Get a remote array
#[utoipa::path(get, path = "/api/v1/remote-arrays/{name}", tag = "array", params(("name" = String, Path)), responses(
    (status = 200, description = "The remote array", body = RemoteArray),
    Problems,
))]
async fn show_remote_array(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<RemoteArray> {
    let it = perform(operator, &context, array::ShowRemoteArray { name }).await?;
    Ok(Json(it.into()))
}

/// Change a remote array
#[utoipa::path(patch, path = "/api/v1/remote-arrays/{name}", tag = "array", params(("name" = String, Path)),
    request_body = RemoteArrayChange, responses(
    (status = 200, description = "The remote array", body = RemoteArray),
    Problems,
))]
async fn change_remote_array(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(change): Body<RemoteArrayChange>,
) -> Answer<RemoteArray> {
    let RemoteArrayChange { name: new, address, bandwidth_limit, bandwidth_windows } = change;
    let bandwidth_windows = bandwidth_windows.map(limits).transpose()?;
    let change = array::RemoteArrayChange { name: new, address, bandwidth_limit, bandwidth_windows };
    let done = perform(operator, &context, array::ChangeRemoteArray { name, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a remote array
///
/// It is not trusted any more. The other array keeps trusting this one until it is deleted there as well.
#[utoipa::path(delete, path = "/api/v1/remote-arrays/{name}", tag = "array", params(("name" = String, Path)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_remote_array(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteRemoteArray { name }).await?)
}

impl From<array::LinkState> for LinkState {
    fn from(state: array::LinkState) -> Self {
        match state {
            array::LinkState::Unknown => LinkState::Unknown,
            array::LinkState::Connected => LinkState::Connected,
            array::LinkState::Disconnected => LinkState::Disconnected,
        }
    }
}

impl From<array::RemoteArray> for RemoteArray {
    fn from(it: array::RemoteArray) -> Self {
        let array::LinkStatus { state, last, rtt_us, problem, .. } = it.link;
        Self {
            name: it.name,
            created: utc(it.created),
            serial: it.serial,
            address: it.address,
            bandwidth_limit: it.bandwidth_limit,
            bandwidth_windows: it.bandwidth_windows.into_iter().map(BandwidthWindow::from).collect(),
            bandwidth_limit_now: it.bandwidth_limit_now,
            fingerprint: it.fingerprint,
            link: RemoteArrayLink { state: state.into(), last: last.map(utc), rtt_us, problem },
        }
    }
}
