//! Volumes.

use super::handler::{
    Answer, Created, NoContent, created, digits, no_content, operations, perform, present, utc,
};
use super::label::{selector, setting};
use super::performance::Recent;
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Labelled, List, PartialList, paged};
use crate::problem::{Problem, Problems};
use array::{Connection, Limits, LimitsChange, Policy, PolicyChange, PolicyInForce};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

/// Block length of a volume when none is asked for, in bytes: what every host can use.
const BLOCK_BYTES: u32 = 512;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_volumes: ListVolumes, create_volume: CreateVolume))
        .routes(
            operations!(show_volume: ShowVolume, change_volume: ChangeVolume, delete_volume: DeleteVolume),
        )
        .routes(operations!(create_volumes: CreateVolumes))
        .routes(operations!(restore_volume: RestoreVolume))
}

/// A volume.
#[derive(Debug, Serialize, ToSchema)]
pub struct Volume {
    /// Name.
    name: String,
    /// Permanent identifier: 32 hex digits.
    id: String,
    /// Size presented to hosts, in bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    size: u64,
    /// Logical block length in bytes: 512 or 4096.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    block_size: u32,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    mapped: u64,
    /// Identifier reported to hosts (NAA, VPD page 83h).
    naa: String,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Volume group; `null` if it is in none.
    group: Option<String>,
    /// Permanent identifier of the volume group.
    group_id: Option<String>,
    /// Volume or snapshot that it was cloned from; `null` if it is no clone, or the source has been deleted.
    source: Option<String>,
    /// Permanent identifier of the volume or snapshot that it was cloned from, even if that has been deleted.
    source_id: Option<String>,
    /// Whether writes are refused.
    read_only: bool,
    /// Data reduction settings of this volume.
    #[serde(serialize_with = "Policy::whole")]
    policy: Policy,
    /// Effective data reduction settings for new writes.
    policy_in_force: PolicyInForce,
    /// QoS limits of this volume, in addition to those of its group.
    #[serde(serialize_with = "Limits::whole")]
    limits: Limits,
    /// Whether SCSI-2 RESERVE and RELEASE are supported.
    scsi2_reservations: bool,
    /// Whether hosts may see it over iSCSI and over NVMe/TCP at once.
    mixed_transports: bool,
    /// Labels.
    labels: BTreeMap<String, String>,
    /// Number of snapshots.
    snapshots: usize,
    /// Performance in the last five seconds.
    performance: Recent,
    /// Data reduction when it was measured last, in the background: data with snapshots to the space that only it takes. `null`
    /// if it was not measured, has no data, or shares all of them.
    #[schema(extensions(("x-unit" = json!("ratio"))))]
    reduction: Option<f64>,
    /// Connections to hosts and host groups.
    connections: Vec<Connection>,
}

/// Volumes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Volumes {
    /// Sorted by name unless `sort` is given.
    pub items: Vec<Volume>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A new volume: empty with a `size`, or a clone of a `source`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Size in bytes, 1 MiB to 16 PiB, a multiple of the block size. Not allowed with `source`.
    size: Option<u64>,
    /// 512 (default) or 4096. Not allowed with `source`.
    block_size: Option<u32>,
    /// Volume or snapshot to clone; the clone shares its space.
    source: Option<String>,
    /// Volume group.
    group: Option<String>,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most. A clone does
    /// not inherit those of its source.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// New empty volumes that differ in their names alone: `names`, or `numbered` names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolumes {
    /// Names, 1 to 1000.
    names: Option<Vec<String>>,
    numbered: Option<NumberedNames>,
    /// Size of each in bytes, 1 MiB to 16 PiB, a multiple of the block size.
    size: u64,
    /// 512 (default) or 4096.
    block_size: Option<u32>,
    /// Volume group.
    group: Option<String>,
    /// Labels of each: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Names with consecutive numbers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NumberedNames {
    /// Name in which the number, with leading zeros, replaces a run of '#': `db###` makes db001, db002 and so on.
    pattern: String,
    /// First number; default: 1.
    first: Option<u32>,
    /// How many names, 1 to 1000.
    count: u32,
}

impl NumberedNames {
    fn expand(&self) -> Result<Vec<String>, Problem> {
        let rejected = |detail: String| Problem::rejected(StatusCode::BAD_REQUEST, detail);
        let Self { pattern, first, count } = self;
        let (before, rest) = pattern.split_once('#').unwrap_or((pattern, ""));
        let after = rest.trim_start_matches('#');
        if before == pattern || after.contains('#') {
            return Err(rejected(format!(
                "{pattern:?} is no pattern: write one run of '#' where the number belongs"
            )));
        }
        let (digits, first) = (rest.len() - after.len() + 1, u64::from(first.unwrap_or(1)));
        if *count as usize > array::maxima::MAX_NEW_VOLUMES {
            return Err(rejected(format!(
                "one request creates at most {} volumes",
                array::maxima::MAX_NEW_VOLUMES
            )));
        }
        let numbers = first..first + u64::from(*count);
        if numbers.end.saturating_sub(1).to_string().len() > digits {
            return Err(rejected(format!(
                "{pattern:?} has room for numbers of {digits} digits: write more '#'"
            )));
        }
        Ok(numbers.map(|number| format!("{before}{number:0digits$}{after}")).collect())
    }
}

/// Changes to a volume. Omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// New name.
    name: Option<String>,
    /// New size in bytes. Must be the only field of the request besides `shrink`.
    size: Option<u64>,
    /// Allow a smaller size. Data after the new end is destroyed.
    #[serde(default)]
    shrink: bool,
    /// New volume group; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    group: Option<Option<String>>,
    /// Effective data reduction settings for new writes.
    #[serde(default)]
    policy: PolicyChange,
    /// QoS limits.
    #[serde(default)]
    limits: LimitsChange,
    /// Whether SCSI-2 RESERVE and RELEASE are supported.
    scsi2_reservations: Option<bool>,
    /// Whether hosts may see it over iSCSI and over NVMe/TCP at once. Reservations and atomic writes hold across both; clusters of
    /// ESXi hosts do not support it.
    mixed_transports: Option<bool>,
    /// Whether writes are refused. Must be the only field of the request.
    read_only: Option<bool>,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
}

/// The source of a volume restore.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Overwrite {
    /// Snapshot or volume whose contents and size the volume takes.
    source: String,
    /// First take a snapshot of the current contents whose name has this suffix. A snapshot of the volume that has the name
    /// already is kept instead, so that a repeated request does not save what was restored.
    safety_snapshot: Option<String>,
    /// Refuse the restore if the volume has snapshots that are newer than the source.
    #[serde(default)]
    only_if_latest: bool,
    /// Keep the size of the volume: what is beyond the end of a smaller source reads as zeros; a larger source is refused.
    #[serde(default)]
    keep_size: bool,
}

/// Options for deleting a volume or snapshot.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Deletion {
    /// Eradicate the data immediately instead of moving it to the recycle bin.
    #[serde(default)]
    pub eradicate: bool,
}

/// List volumes
#[utoipa::path(get, path = "/api/v1/volumes", tag = "volumes", params(List, Labelled), responses(
    (status = 200, description = "The volumes", content(
        (Volumes = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_volumes(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
    Asked(Labelled { label }): Asked<Labelled>,
) -> Result<Response, Problem> {
    let wanted = selector(label.as_deref())?;
    paged::<_, Volume>(operator, &context, array::ListVolumes, (wanted, part)).await
}

/// Create a volume, or clone a volume or snapshot
#[utoipa::path(post, path = "/api/v1/volumes", tag = "volumes", request_body = NewVolume, responses(
    (status = 201, description = "The volume", body = Volume),
    (status = 200, description = "The volume, which existed with equal content", body = Volume),
    Problems,
))]
async fn create_volume(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewVolume>,
) -> Created<Volume> {
    let NewVolume { name, size, block_size, source, group, labels } = new;
    let labels = setting(labels);
    let made = match (source, size) {
        (Some(source), None) if block_size.is_none() => {
            perform(operator, &context, array::CloneVolume { source, name, group, labels }).await?
        }
        (Some(_), _) => {
            let detail = "a clone has the size and block size of its source: leave them out";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
        (None, Some(bytes)) => {
            let block_bytes = block_size.unwrap_or(BLOCK_BYTES);
            perform(operator, &context, array::CreateVolume { name, bytes, block_bytes, group, labels })
                .await?
        }
        (None, None) => {
            let detail = "a volume needs a size in bytes, or a source to clone";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    created(made)
}

/// Create volumes
///
/// All of them are created, or none: a refusal names the volume that cannot be. A request can be repeated: volumes that exist
/// with equal content are returned.
#[utoipa::path(post, path = "/api/v1/bulk/volumes", tag = "volumes", request_body = NewVolumes, responses(
    (status = 201, description = "The volumes, in the order of their names in the request", body = Volumes),
    (status = 200, description = "The volumes, all of which existed with equal content", body = Volumes),
    Problems,
))]
async fn create_volumes(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewVolumes>,
) -> Created<Volumes> {
    let NewVolumes { names, numbered, size: bytes, block_size, group, labels } = new;
    let names = match (names, numbered) {
        (Some(names), None) => names,
        (None, Some(numbered)) => numbered.expand()?,
        _ => {
            let detail = "name the volumes by one of: names, or numbered names";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let (block_bytes, labels) = (block_size.unwrap_or(BLOCK_BYTES), setting(labels));
    created(
        perform(operator, &context, array::CreateVolumes { names, bytes, block_bytes, group, labels })
            .await?,
    )
}

/// Get a volume
#[utoipa::path(get, path = "/api/v1/volumes/{name}", tag = "volumes", params(("name" = String, Path,)), responses(
    (status = 200, description = "The volume", body = Volume),
    Problems,
))]
async fn show_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Volume> {
    let it = perform(operator, &context, array::ShowVolume { name }).await?;
    Ok(Json(it.into()))
}

/// Change a volume
///
/// A size change raises a unit attention condition on connected hosts.
#[utoipa::path(patch, path = "/api/v1/volumes/{name}", tag = "volumes", params(("name" = String, Path,)),
    request_body = VolumeChange, responses(
    (status = 200, description = "The volume", body = Volume),
    Problems,
))]
async fn change_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(volume): Named<String>,
    Body(change): Body<VolumeChange>,
) -> Answer<Volume> {
    let change = array::VolumeChange {
        name: change.name,
        bytes: change.size,
        shrink: change.shrink,
        group: change.group,
        policy: change.policy,
        limits: change.limits,
        scsi2_reservations: change.scsi2_reservations,
        mixed_transports: change.mixed_transports,
        read_only: change.read_only,
        labels: array::LabelsChange(change.labels),
    };
    let done = perform(operator, &context, array::ChangeVolume { name: volume, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a volume
///
/// It must not be connected to a host. It moves to the recycle bin, or its data is eradicated.
#[utoipa::path(delete, path = "/api/v1/volumes/{name}", tag = "volumes",
    params(("name" = String, Path,), Deletion), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(Deletion { eradicate }): Asked<Deletion>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteVolume { name, eradicate }).await?)
}

/// Restore a volume from a snapshot or another volume
///
/// The current contents are lost. Connected hosts are notified by a unit attention condition.
#[utoipa::path(post, path = "/api/v1/volumes/{name}/restore", tag = "volumes", params(("name" = String, Path,)),
    request_body = Overwrite, responses(
    (status = 200, description = "The volume", body = Volume),
    Problems,
))]
async fn restore_volume(
    operator: Operator,
    State(context): State<Context>,
    Named(volume): Named<String>,
    Body(overwrite): Body<Overwrite>,
) -> Answer<Volume> {
    let Overwrite { source, safety_snapshot, only_if_latest, keep_size } = overwrite;
    let action = array::RestoreVolume { volume, source, safety_snapshot, only_if_latest, keep_size };
    let done = perform(operator, &context, action).await?;
    Ok(Json(done.into()))
}

impl From<Vec<array::Volume>> for Volumes {
    fn from(all: Vec<array::Volume>) -> Self {
        Self { total: all.len(), items: all.into_iter().map(Into::into).collect() }
    }
}

impl From<array::Volume> for Volume {
    fn from(volume: array::Volume) -> Self {
        Self {
            name: volume.name,
            id: digits(volume.id),
            size: volume.bytes,
            block_size: volume.block_bytes,
            mapped: volume.mapped,
            naa: volume.naa,
            created: utc(volume.created),
            group: volume.group,
            group_id: volume.group_id.map(digits),
            source: volume.source,
            source_id: volume.source_id.map(digits),
            read_only: volume.read_only,
            policy: volume.policy,
            policy_in_force: volume.in_force,
            limits: volume.limits,
            scsi2_reservations: volume.scsi2_reservations,
            mixed_transports: volume.mixed_transports,
            labels: volume.labels.into(),
            snapshots: volume.snapshots,
            performance: Recent::of(&volume.recent),
            reduction: volume.reduction.and_then(|it| it.ratio()),
            connections: volume.connections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_have_the_digits_of_their_pattern() {
        let names = |pattern: &str, first, count| {
            NumberedNames { pattern: pattern.into(), first, count }.expand().ok()
        };
        assert_eq!(names("db##-a", None, 2), Some(vec!["db01-a".into(), "db02-a".into()]));
        assert_eq!(names("#", Some(8), 2), Some(vec!["8".into(), "9".into()]));
        assert_eq!(names("db", None, 2), None, "no number");
        assert_eq!(names("a#b#", None, 2), None, "two numbers");
        assert_eq!(names("#", Some(8), 3), None, "10 has two digits");
        assert_eq!(names("####", None, 1001), None, "too many");
        assert_eq!(names("##########", Some(u32::MAX), 2).map(|names| names.len()), Some(2));
    }
}
