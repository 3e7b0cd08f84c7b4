//! The encryption key of the drives.

use super::array::Encryption;
use super::handler::{Answer, operations, perform};
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

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(show_key: ShowKey)).routes(operations!(rotate_key: RotateKey))
}

/// The encryption key of the drives. The key material is never returned.
#[derive(Debug, Serialize, ToSchema)]
pub struct Key {
    /// Key source.
    source: Encryption,
    /// Generation, incremented by each rotation; `null` if the drives are not encrypted.
    generation: Option<u64>,
    /// KMIP Unique Identifier; `null` if the key source is not KMIP.
    kmip_id: Option<String>,
}

/// The new key, from the same kind of source. Empty for a key file, in which a new key is generated.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRotation {
    /// New passphrase of at least 12 characters. The next start requires it.
    passphrase: Option<String>,
    /// Unique Identifier of the new 256-bit AES key on the KMIP server.
    kmip_id: Option<String>,
}

/// Get the encryption key state
#[utoipa::path(get, path = "/api/v1/key", tag = "drives", responses(
    (status = 200, description = "The key state", body = Key),
    Problems,
))]
async fn show_key(operator: Operator, State(context): State<Context>) -> Answer<Key> {
    let it = perform(operator, &context, array::ShowKey).await?;
    Ok(Json(it.into()))
}

/// Rotate the encryption key
///
/// Takes effect immediately, regardless of the amount of data.
///
/// Without interruption to hosts. The old key no longer unlocks any drive that is present.
#[utoipa::path(post, path = "/api/v1/key/rotate", tag = "drives", request_body = KeyRotation, responses(
    (status = 200, description = "The key state", body = Key),
    Problems,
))]
async fn rotate_key(
    operator: Operator,
    State(context): State<Context>,
    Body(KeyRotation { passphrase, kmip_id }): Body<KeyRotation>,
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
    fn from(array::Key { source, generation, kmip_id }: array::Key) -> Self {
        Self { source: source.into(), generation, kmip_id }
    }
}
