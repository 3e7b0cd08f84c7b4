//! Pairing keys, whose secret is shown once.

use super::handler::{Created, operations, perform, utc};
use crate::Context;
use crate::auth::Operator;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(create_pairing_key: CreatePairingKey))
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
