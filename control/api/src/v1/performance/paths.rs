//! Path statistics of hosts.

use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use crate::v1::handler::operations;
use crate::v1::handler::{Answer, ask};
use array::{TimeRange, Work, round};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(list_paths: ListPaths))
}

/// Host and time range of a path query.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichPaths {
    /// Start of the range, in seconds since 1970; default: five minutes before the end.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End of the range, in seconds since 1970; default: now.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// Only this host.
    host: Option<String>,
}

/// Performance of one path.
#[derive(Debug, Serialize, ToSchema)]
struct Path {
    /// Host.
    host: String,
    /// Initiator.
    initiator: String,
    /// Portal number, from 1, in the order of the array's portals.
    portal: u16,
    /// Current number of sessions.
    sessions: usize,
    /// Share of the host's commands, 0 to 1; `null` if there were none.
    #[schema(extensions(("x-unit" = json!("fraction"))))]
    share: Option<f64>,
    /// Performance.
    total: Work,
}

/// Path balance of a host.
#[derive(Debug, Serialize, ToSchema)]
struct HostBalance {
    /// Host.
    host: String,
    /// Number of paths with a session.
    paths: usize,
    /// Difference between the busiest and the least busy path with a session, as a fraction of the busiest: 0 is even,
    /// 1 is all on one path. `null` with fewer than two paths, or without commands.
    imbalance: Option<f64>,
}

/// Path statistics.
#[derive(Debug, Serialize, ToSchema)]
pub struct Paths {
    /// Sorted by host, initiator and portal.
    items: Vec<Path>,
    /// Sorted by host.
    hosts: Vec<HostBalance>,
}

/// Get statistics of host paths
#[utoipa::path(get, path = "/api/v1/performance/paths", tag = "performance", params(WhichPaths), responses(
    (status = 200, description = "The paths", body = Paths),
    Problems,
))]
async fn list_paths(
    operator: Operator,
    State(context): State<Context>,
    Asked(WhichPaths { from, to, host }): Asked<WhichPaths>,
) -> Answer<Paths> {
    let range = TimeRange { from, to, points: None };
    let paths = ask(operator, &context, array::ListPaths { host, range }).await?;
    Ok(Json(Paths::of(&paths)))
}

impl Paths {
    fn of(paths: &[array::PathUse]) -> Self {
        let count = |path: &array::PathUse| path.sample.sum(|_, _| true).latency.count();
        let names: BTreeSet<&str> = paths.iter().map(|path| path.host.as_str()).collect();
        let (mut items, mut hosts) = (Vec::new(), Vec::new());
        for host in names {
            let own: Vec<_> = paths.iter().filter(|path| path.host == host).collect();
            let all: u64 = own.iter().map(|path| count(path)).sum();
            for path in &own {
                items.push(Path {
                    host: path.host.clone(),
                    initiator: path.initiator.clone(),
                    portal: path.portal,
                    sessions: path.sessions,
                    share: (all > 0).then(|| round(count(path) as f64 / all as f64)),
                    total: Work::of(&path.sample.sum(|_, _| true), path.sample.millis),
                });
            }
            hosts.push(HostBalance {
                host: host.into(),
                paths: own.iter().filter(|path| path.sessions > 0).count(),
                imbalance: array::imbalance(own).map(round),
            });
        }
        Self { items, hosts }
    }
}
