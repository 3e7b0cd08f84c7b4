//! Tests of a failover: clones of a replicated point for hosts, while replication continues.

use super::handler::{Answer, operations, perform};
use super::replication::Replication;
use crate::Context;
use crate::auth::Operator;
use crate::body::{Named, Optional};
use crate::problem::Problems;
use array::PeerName;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(start_test_failover: StartTestFailover, stop_test_failover: StopTestFailover))
}

/// A test of a failover.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewTestFailover {
    /// Hosts to which the clones are connected.
    #[serde(default)]
    hosts: Vec<String>,
    /// Host groups to which the clones are connected.
    #[serde(default)]
    host_groups: Vec<String>,
    /// Number of the point; default: the newest one.
    point: Option<u64>,
}

/// Start a test failover
///
/// On the target. The last complete point, or another one, is cloned to volumes that hosts can use, while replication
/// continues. Each host gets the clones at its lowest free LUNs.
#[utoipa::path(post, path = "/api/v1/replications/{name}/test-failover", tag = "replications", params(("name" = String, Path)),
    request_body = Option<NewTestFailover>, responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn start_test_failover(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Optional(given): Optional<NewTestFailover>,
) -> Answer<Replication> {
    let NewTestFailover { hosts, host_groups, point } = given.unwrap_or_default();
    let hosts = hosts.into_iter().map(PeerName::Host);
    let peers = hosts.chain(host_groups.into_iter().map(PeerName::HostGroup)).collect();
    let done = perform(operator, &context, array::StartTestFailover { name, peers, point }).await?;
    Ok(Json(done.into()))
}

/// Stop a test failover
///
/// The clones are disconnected from the hosts with which the test was started, and deleted with what was written to them. They
/// must not be connected to others.
#[utoipa::path(delete, path = "/api/v1/replications/{name}/test-failover", tag = "replications", params(("name" = String, Path)),
    responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn stop_test_failover(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Replication> {
    let done = perform(operator, &context, array::StopTestFailover { name }).await?;
    Ok(Json(done.into()))
}
