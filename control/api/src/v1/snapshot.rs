//! Taking snapshots: of a volume, of a group, or of several volumes.

use super::handler::{Created, created, operations, perform};
use super::label::setting;
use crate::Context;
use crate::auth::Operator;
use crate::body::Body;
use crate::list::Items;
use crate::problem::{Problem, Problems};
use array::{Snapshot, SnapshotSource, SubjectName, rfc3339};
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(create_snapshots: CreateSnapshots))
}

pub type Snapshots = Items<Snapshot>;

/// New snapshots of one of: a `volume`, all volumes of a `group` at the same instant, the volumes of `sources` at the same
/// instant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshots {
    /// Volume.
    volume: Option<String>,
    /// Volume group.
    group: Option<String>,
    /// Volumes, 1 to 1000: all snapshots are taken, or none.
    sources: Option<Vec<SnapshotSource>>,
    /// Name of the snapshot, 1 to 189 letters, digits, '-', '_' or '.', beginning with a letter or digit. Only with `volume`,
    /// and not with `suffix`.
    name: Option<String>,
    /// Suffix of the name after the volume name and a dot; default: the time. A request with names or a suffix can be
    /// repeated: snapshots that it took already are returned.
    suffix: Option<String>,
    /// Labels of each snapshot: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at
    /// most. The labels of the volume are not inherited.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Retention lock: it cannot be deleted or changed before this time.
    #[serde(default, deserialize_with = "rfc3339")]
    #[schema(value_type = Option<String>, format = DateTime)]
    retain_until: Option<u64>,
}

/// Take a snapshot of a volume, or of all volumes of a group at the same instant
#[utoipa::path(post, path = "/api/v1/snapshots", tag = "snapshots", request_body = NewSnapshots, responses(
    (status = 201, description = "The new snapshots", body = Snapshots),
    (status = 200, description = "The snapshots, which an equal request took", body = Snapshots),
    Problems,
))]
async fn create_snapshots(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewSnapshots>,
) -> Created<Snapshots> {
    let NewSnapshots { volume, group, sources, name, suffix, labels, retain_until } = new;
    let (labels, keep_until) = (setting(labels), retain_until);
    let sources = match (name, &volume, group.is_none() && suffix.is_none() && sources.is_none()) {
        (None, ..) => sources,
        (Some(name), Some(volume), true) => {
            Some(vec![SnapshotSource { volume: volume.clone(), name: Some(name), ..Default::default() }])
        }
        _ => {
            let detail = "a name is for the snapshot of one volume, and stands alone: leave out the group, the sources \
                          and the suffix";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let done = match sources {
        Some(_) if group.is_some() => {
            let detail = "name one of: a volume, a volume group, or sources";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
        Some(sources) => {
            let action = array::CreateSnapshotSet { sources, suffix, keep_until, labels };
            perform(operator, &context, action).await?
        }
        None => {
            let subject = subject(volume, group)?;
            let action = array::CreateSnapshots { subject, suffix, keep_until, labels };
            perform(operator, &context, action).await?
        }
    };
    created(done)
}

/// Either a volume or a volume group.
pub fn subject(volume: Option<String>, group: Option<String>) -> Result<SubjectName, Problem> {
    match (volume, group) {
        (Some(volume), None) => Ok(SubjectName::Volume(volume)),
        (None, Some(group)) => Ok(SubjectName::Group(group)),
        _ => Err(Problem::rejected(StatusCode::BAD_REQUEST, "name either a volume or a volume group".into())),
    }
}
