//! What came by each path of a host, and how evenly.

use super::{Work, round};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::Problems;
use crate::v1::{Answer, ask};
use array::Stretch;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list_paths))
}

/// Which paths, and when.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichPaths {
    /// Beginning, in seconds since 1970; five minutes before the end when not given.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End, in seconds since 1970; now when not given.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// Only this host.
    host: Option<String>,
}

/// What came by one path.
#[derive(Debug, Serialize, ToSchema)]
struct Path {
    /// The host.
    host: String,
    /// Which of its initiators.
    initiator: String,
    /// The portal's number, from 1, in the order of the array's portals.
    portal: u16,
    /// Sessions on it now.
    sessions: usize,
    /// Which part of the host's commands came by it, 0 to 1; `null` when there were none.
    share: Option<f64>,
    /// What it did.
    total: Work,
}

/// A host and how evenly it uses its paths.
#[derive(Debug, Serialize, ToSchema)]
struct HostBalance {
    /// The host.
    host: String,
    /// How many paths have a session now.
    paths: usize,
    /// By how much the busiest path did more than the idlest one with a session, as a part of the busiest: 0 is even,
    /// 1 is all on one. `null` with fewer than two paths, or without commands.
    imbalance: Option<f64>,
}

/// Paths, and how evenly hosts use them.
#[derive(Debug, Serialize, ToSchema)]
pub struct Paths {
    /// By host, initiator and portal.
    items: Vec<Path>,
    /// By host.
    hosts: Vec<HostBalance>,
}

/// What came by each path of a host, and how evenly
#[utoipa::path(get, path = "/api/v1/performance/paths", tag = "performance", params(WhichPaths), responses(
    (status = 200, description = "The paths", body = Paths),
    Problems,
))]
async fn list_paths(
    operator: Operator,
    State(context): State<Context>,
    Asked(WhichPaths { from, to, host }): Asked<WhichPaths>,
) -> Answer<Paths> {
    let stretch = Stretch { from, to, points: None };
    let paths = ask(operator, &context, array::ListPaths { host, stretch }).await?;
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
