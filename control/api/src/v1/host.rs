//! Refused log-ins: a list without parts.

use super::handler::{Answer, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::problem::Problems;
use array::RefusedLogin;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(list_refused_logins: ListRefusedLogins))
}

/// Refused log-ins.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedLogins {
    /// Most recent first.
    pub items: Vec<RefusedLogin>,
}

/// List refused log-ins of the last seven days, of hosts and of unknown initiators
#[utoipa::path(get, path = "/api/v1/refused-logins", tag = "hosts", responses(
    (status = 200, description = "The refused log-ins since the array was started", body = RefusedLogins),
    Problems,
))]
async fn list_refused_logins(operator: Operator, State(context): State<Context>) -> Answer<RefusedLogins> {
    let refused = perform(operator, &context, array::ListRefusedLogins).await?;
    Ok(Json(RefusedLogins { items: refused }))
}
