//! The address of the API.

use super::handler::{Answer, operations, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::Body;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(show_api_address: ShowApiAddress, change_api_address: ChangeApiAddress))
        .routes(operations!(confirm_api_address: ConfirmApiAddress))
}

/// Addresses at which the home serves the API.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApiAddress {
    /// Address of the options of the start, which always serves.
    #[schema(example = "127.0.0.1:8443")]
    by_option: String,
    /// Address that the array keeps; `null` if there is none.
    #[schema(example = "10.0.0.1:8443")]
    address: Option<String>,
    /// Whether it listens at the address that the array keeps.
    listens: bool,
    /// Address that moves with the home; `null` if there is none.
    #[schema(example = "10.0.0.9:8443")]
    moving: Option<String>,
    /// Whether it listens at the address that moves.
    moving_listens: bool,
    /// Address that is on trial; `null` if there is none. The first authenticated request by it confirms it.
    trial: Option<String>,
    /// Time at which that is given up without such a request.
    #[schema(format = DateTime)]
    trial_until: Option<String>,
}

/// Another address of the API.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ApiAddressChange {
    /// Address of the home's machine, with port 8443 unless another is given; `null`: only that of the options.
    #[schema(example = "10.0.0.1", required = true)]
    #[serde(deserialize_with = "Option::deserialize")]
    address: Option<String>,
    /// Change the address that moves with the home: each home adds it to the interface of its machine that has an address in the
    /// same network. It must not be configured on a machine. `ashlard` needs CAP_NET_ADMIN and CAP_NET_RAW for that.
    #[serde(default)]
    moves: bool,
}

/// Get the addresses of the API
#[utoipa::path(get, path = "/api/v1/api-address", tag = "array", responses(
    (status = 200, description = "The addresses", body = ApiAddress),
    Problems,
))]
async fn show_api_address(operator: Operator, State(context): State<Context>) -> Answer<ApiAddress> {
    Ok(Json(perform(operator, &context, array::ShowApiAddress).await?.into()))
}

/// Try another address of the API
///
/// It serves at once, beside the others. The first authenticated request by it confirms it: it is kept, and the one that was kept before
/// is given up. Without such a request within ten minutes, or after a restart, it is given up, and nothing has changed.
#[utoipa::path(put, path = "/api/v1/api-address", tag = "array", request_body = ApiAddressChange, responses(
    (status = 200, description = "The addresses", body = ApiAddress),
    Problems,
))]
async fn change_api_address(
    operator: Operator,
    State(context): State<Context>,
    Body(ApiAddressChange { address, moves }): Body<ApiAddressChange>,
) -> Answer<ApiAddress> {
    Ok(Json(perform(operator, &context, array::ChangeApiAddress { address, moves }).await?.into()))
}

/// Confirm the address of the API that is on trial
#[utoipa::path(post, path = "/api/v1/api-address/confirm", tag = "array", responses(
    (status = 200, description = "The addresses", body = ApiAddress),
    Problems,
))]
async fn confirm_api_address(operator: Operator, State(context): State<Context>) -> Answer<ApiAddress> {
    Ok(Json(perform(operator, &context, array::ConfirmApiAddress).await?.into()))
}

impl From<array::ApiAddress> for ApiAddress {
    fn from(it: array::ApiAddress) -> Self {
        Self {
            by_option: it.by_option.to_string(),
            address: it.address.map(|address| address.to_string()),
            listens: it.listens,
            moving: it.moving.map(|address| address.to_string()),
            moving_listens: it.moving_listens,
            trial: it.trial.map(|address| address.to_string()),
            trial_until: it.trial_until.map(utc),
        }
    }
}
