//! Volume groups.

use super::handler::{
    Answer, Created, NoContent, created, digits, no_content, operations, perform, present, utc,
};
use super::label::{selector, setting};
use super::policy::{Limits, LimitsChange, Policy, PolicyChange};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{LabelledList, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_groups: ListGroups, create_group: CreateGroup))
        .routes(operations!(show_group: ShowGroup, change_group: ChangeGroup, delete_group: DeleteGroup))
}

/// A volume group.
#[derive(Debug, Serialize, ToSchema)]
pub struct Group {
    /// Name.
    name: String,
    /// Permanent identifier: 16 hex digits.
    id: String,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Mapped bytes above which operators and hosts are warned; `null`: no quota.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    soft_quota: Option<u64>,
    /// Mapped bytes above which writes that need new space fail, checked once a second; `null`: no quota.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    hard_quota: Option<u64>,
    /// Volumes.
    volumes: Vec<String>,
    /// Provisioned bytes: sum of the volume sizes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    provisioned: u64,
    /// Mapped (written and not unmapped) bytes.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    mapped: u64,
    /// Whether the soft quota is exceeded.
    soft_quota_crossed: bool,
    /// Whether the hard quota is reached, so that writes that need new space fail.
    hard_quota_reached: bool,
    /// Data reduction settings of its volumes, unless a volume overrides them.
    policy: Policy,
    /// QoS limits shared by its volumes.
    limits: Limits,
    /// Labels.
    labels: BTreeMap<String, String>,
}

/// Volume groups.
#[derive(Debug, Serialize, ToSchema)]
pub struct Groups {
    /// Sorted by name unless `sort` is given.
    pub items: Vec<Group>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A new volume group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Mapped bytes above which operators and hosts are warned.
    soft_quota: Option<u64>,
    /// Mapped bytes above which writes that need new space fail, checked once a second.
    hard_quota: Option<u64>,
    /// Data reduction settings of its volumes, unless a volume overrides them.
    #[serde(default)]
    policy: PolicyChange,
    /// QoS limits shared by its volumes.
    #[serde(default)]
    limits: LimitsChange,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Changes to a volume group. Omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupChange {
    /// New name.
    name: Option<String>,
    /// Mapped bytes above which operators and hosts are warned; `null`: no quota.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    soft_quota: Option<Option<u64>>,
    /// Mapped bytes above which writes that need new space fail, checked once a second; `null`: no quota.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    hard_quota: Option<Option<u64>>,
    /// Data reduction settings of its volumes, unless a volume overrides them.
    #[serde(default)]
    policy: PolicyChange,
    /// QoS limits shared by its volumes.
    #[serde(default)]
    limits: LimitsChange,
    /// Labels to set, and to remove with `null`; others are kept.
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
}

/// List volume groups
#[utoipa::path(get, path = "/api/v1/groups", tag = "groups", params(LabelledList), responses(
    (status = 200, description = "The volume groups", content(
        (Groups = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_groups(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<LabelledList>,
) -> Result<Response, Problem> {
    let wanted = selector(part.label.as_deref())?;
    let mut groups = perform(operator, &context, array::ListGroups).await?;
    groups.retain(|group| wanted.selects(&group.labels));
    list(groups.into_iter().map(Group::from).collect(), part)
}

/// Create a volume group
#[utoipa::path(post, path = "/api/v1/groups", tag = "groups", request_body = NewGroup, responses(
    (status = 201, description = "The volume group", body = Group),
    (status = 200, description = "The volume group, which existed with equal content", body = Group),
    Problems,
))]
async fn create_group(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewGroup>,
) -> Created<Group> {
    let NewGroup { name, soft_quota, hard_quota, policy, limits, labels } = new;
    let change = array::GroupChange {
        name: None,
        soft_quota: soft_quota.map(Some),
        hard_quota: hard_quota.map(Some),
        policy: policy.into(),
        limits: limits.into(),
        labels: setting(labels),
    };
    created(perform(operator, &context, array::CreateGroup { name, change }).await?)
}

/// Get a volume group
#[utoipa::path(get, path = "/api/v1/groups/{name}", tag = "groups", params(("name" = String, Path,)), responses(
    (status = 200, description = "The volume group", body = Group),
    Problems,
))]
async fn show_group(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Group> {
    let it = perform(operator, &context, array::ShowGroup { name }).await?;
    Ok(Json(it.into()))
}

/// Change a volume group
#[utoipa::path(patch, path = "/api/v1/groups/{name}", tag = "groups", params(("name" = String, Path,)),
    request_body = GroupChange, responses(
    (status = 200, description = "The volume group", body = Group),
    Problems,
))]
async fn change_group(
    operator: Operator,
    State(context): State<Context>,
    Named(group): Named<String>,
    Body(change): Body<GroupChange>,
) -> Answer<Group> {
    let GroupChange { name, soft_quota, hard_quota, policy, limits, labels } = change;
    let (policy, limits, labels) = (policy.into(), limits.into(), array::LabelsChange(labels));
    let change = array::GroupChange { name, soft_quota, hard_quota, policy, limits, labels };
    let done = perform(operator, &context, array::ChangeGroup { name: group, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a volume group
///
/// Its volumes are kept.
#[utoipa::path(delete, path = "/api/v1/groups/{name}", tag = "groups", params(("name" = String, Path,)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_group(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteGroup { name }).await?)
}

impl From<array::Group> for Group {
    fn from(it: array::Group) -> Self {
        Self {
            name: it.name,
            id: digits(it.id),
            created: utc(it.created),
            soft_quota: it.soft_quota,
            hard_quota: it.hard_quota,
            volumes: it.volumes,
            provisioned: it.provisioned,
            mapped: it.mapped,
            soft_quota_crossed: it.soft_quota_crossed,
            hard_quota_reached: it.hard_quota_reached,
            policy: it.policy.into(),
            limits: it.limits.into(),
            labels: it.labels.into(),
        }
    }
}
