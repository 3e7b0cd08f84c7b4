//! The formats of the array, and the commit to the newest.

use super::handler::{Answer, operations, perform};
use crate::Context;
use crate::auth::Operator;
use crate::problem::Problems;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(show_upgrade: ShowUpgrade))
        .routes(operations!(commit_upgrade: CommitUpgrade))
}

/// The formats of the array, and what a commit changes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Upgrade {
    /// Software version.
    software: String,
    /// Whether the array has the newest format that the software knows. An earlier release that does not know it refuses the array.
    committed: bool,
    /// Formats by part.
    formats: Vec<Format>,
    /// What the commit enables; empty once it is done. Until then the array works as with the release before.
    enables: Vec<String>,
    /// Why it can't be committed now; `null` if it can, or is.
    blocked: Option<String>,
}

/// Format of a part.
#[derive(Debug, Serialize, ToSchema)]
pub struct Format {
    /// Part.
    part: FormatPart,
    /// Format in use; `null` if each object or connection has its own.
    active: Option<u32>,
    /// Oldest that the software reads or speaks.
    oldest: u32,
    /// Newest that it reads or speaks.
    newest: u32,
}

/// What has a format.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormatPart {
    /// Volumes, maps and journal; raised by the commit.
    Engine,
    /// Store on drives or in Ceph.
    Store,
    /// Configuration records.
    Records,
    /// Saved reservations and mode pages, each in the oldest version that can hold it.
    UnitState,
    /// Replication between arrays: the newest that both ends speak.
    ReplicationLink,
}

/// Get the formats of the array
#[utoipa::path(get, path = "/api/v1/upgrade", tag = "array", responses(
    (status = 200, description = "The formats", body = Upgrade),
    Problems,
))]
async fn show_upgrade(operator: Operator, State(context): State<Context>) -> Answer<Upgrade> {
    Ok(Json(perform(operator, &context, array::ShowUpgrade).await?.into()))
}

/// Commit the upgrade
///
/// Raises the array to the newest format, durably and without interruption to hosts. Earlier releases that do not know it refuse
/// the array from then on. Refused while a controller runs such a release. Does nothing if it is done.
#[utoipa::path(post, path = "/api/v1/upgrade/commit", tag = "array", responses(
    (status = 200, description = "The formats", body = Upgrade),
    Problems,
))]
async fn commit_upgrade(operator: Operator, State(context): State<Context>) -> Answer<Upgrade> {
    Ok(Json(perform(operator, &context, array::CommitUpgrade).await?.into()))
}

impl From<array::Upgrade> for Upgrade {
    fn from(it: array::Upgrade) -> Self {
        let array::Upgrade { software, committed, formats, enables, blocked } = it;
        Self {
            software,
            committed,
            formats: formats.into_iter().map(Format::from).collect(),
            enables,
            blocked,
        }
    }
}

impl From<array::Format> for Format {
    fn from(array::Format { part, active, oldest, newest }: array::Format) -> Self {
        let part = match part {
            array::FormatPart::Engine => FormatPart::Engine,
            array::FormatPart::Store => FormatPart::Store,
            array::FormatPart::Records => FormatPart::Records,
            array::FormatPart::UnitState => FormatPart::UnitState,
            array::FormatPart::ReplicationLink => FormatPart::ReplicationLink,
        };
        Self { part, active, oldest, newest }
    }
}
