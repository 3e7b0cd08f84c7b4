//! The key that the drives are locked with.

use super::array::Encryption;
use super::{Answer, perform};
use crate::Context;
use crate::auth::Operator;
use crate::body::Body;
use crate::problem::Problems;
use array::{NewKey, Secret};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(show_key)).routes(routes!(rotate_key))
}

/// The key that the drives are locked with. It is never shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct Key {
    /// What it comes from.
    lock: Encryption,
    /// One more with every change; `null` when the drives are not encrypted.
    generation: Option<u64>,
    /// Its Unique Identifier on the KMIP server; `null` when it comes from elsewhere.
    kmip_id: Option<String>,
}

/// The key that comes, of the kind that the drives are locked with: nothing for a file, which gets a new key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    /// Another passphrase of at least 12 characters. The next start needs it.
    passphrase: Option<String>,
    /// Unique Identifier of another AES key of 256 bits on the KMIP server.
    kmip_id: Option<String>,
}

/// What the drives are locked with
#[utoipa::path(get, path = "/api/v1/key", tag = "drives", responses(
    (status = 200, description = "The key, without itself", body = Key),
    Problems,
))]
async fn show_key(operator: Operator, State(context): State<Context>) -> Answer<Key> {
    let it = perform(operator, &context, array::ShowKey).await?;
    Ok(Json(it.into()))
}

/// Lock the drives with another key, at once, however much they hold
///
/// Hosts notice nothing. What locked them before opens them no more, but for drives that are not there.
#[utoipa::path(post, path = "/api/v1/key/rotate", tag = "drives", request_body = KeyChange, responses(
    (status = 200, description = "The key as it is now, without itself", body = Key),
    Problems,
))]
async fn rotate_key(
    operator: Operator,
    State(context): State<Context>,
    Body(KeyChange { passphrase, kmip_id }): Body<KeyChange>,
) -> Answer<Key> {
    let new = match (passphrase, kmip_id) {
        (None, None) => NewKey::File,
        (Some(words), None) => NewKey::Passphrase(Secret::new(words)),
        (None, Some(id)) => NewKey::Kmip(id),
        (Some(_), Some(_)) => {
            return Err(array::Error::invalid("a key is a passphrase or on a KMIP server, not both").into());
        }
    };
    let it = perform(operator, &context, array::RotateKey(new)).await?;
    Ok(Json(it.into()))
}

impl From<array::Key> for Key {
    fn from(array::Key { lock, generation, kmip_id }: array::Key) -> Self {
        Self { lock: lock.into(), generation, kmip_id }
    }
}
