//! Volume groups.

use super::policy::{Limits, LimitsChange, Policy, PolicyChange};
use super::{Answer, Created, Gone, gone, perform, present, utc};
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{Part, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(list_groups, create_group)).routes(routes!(
        show_group,
        change_group,
        delete_group
    ))
}

/// A volume group.
#[derive(Debug, Serialize, ToSchema)]
pub struct Group {
    /// Its name.
    name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created: String,
    /// Mapped bytes beyond which operators and hosts are warned; `null`: none.
    soft_quota: Option<u64>,
    /// Mapped bytes beyond which its volumes take no new space; looked at once a second; `null`: none.
    hard_quota: Option<u64>,
    /// Names of its volumes.
    volumes: Vec<String>,
    /// Sum of the volumes' sizes, in bytes.
    provisioned: u64,
    /// Bytes mapped by hosts.
    mapped: u64,
    /// Whether it is beyond its soft quota.
    soft_quota_crossed: bool,
    /// Whether it reached its hard quota, so that its volumes take no new space.
    hard_quota_reached: bool,
    /// How the data of its volumes are reduced, unless a volume says otherwise.
    policy: Policy,
    /// What its volumes may do together in a second.
    limits: Limits,
}

/// Volume groups.
#[derive(Debug, Serialize, ToSchema)]
pub struct Groups {
    /// In order of names, or as asked for.
    pub items: Vec<Group>,
    /// How many there are without `limit` and `offset`.
    pub total: usize,
}

/// A volume group to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Mapped bytes beyond which operators and hosts are warned.
    soft_quota: Option<u64>,
    /// Mapped bytes beyond which its volumes take no new space; looked at once a second.
    hard_quota: Option<u64>,
    /// How the data of its volumes are reduced, unless a volume says otherwise.
    #[serde(default)]
    policy: PolicyChange,
    /// What its volumes may do together in a second.
    #[serde(default)]
    limits: LimitsChange,
}

/// What to change in a volume group; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupChange {
    /// Another name.
    name: Option<String>,
    /// Mapped bytes beyond which operators and hosts are warned; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    soft_quota: Option<Option<u64>>,
    /// Mapped bytes beyond which its volumes take no new space; looked at once a second; `null`: none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>)]
    hard_quota: Option<Option<u64>>,
    /// How the data of its volumes are reduced, unless a volume says otherwise.
    #[serde(default)]
    policy: PolicyChange,
    /// What its volumes may do together in a second.
    #[serde(default)]
    limits: LimitsChange,
}

/// All volume groups
#[utoipa::path(get, path = "/api/v1/groups", tag = "groups", params(Part), responses(
    (status = 200, description = "The volume groups", content(
        (Groups = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_groups(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let groups = perform(operator, &context, array::ListGroups).await?;
    list(groups.into_iter().map(Group::from).collect(), &part)
}

/// Make a volume group
#[utoipa::path(post, path = "/api/v1/groups", tag = "groups", request_body = NewGroup, responses(
    (status = 201, description = "The volume group as it is now", body = Group),
    Problems,
))]
async fn create_group(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewGroup>,
) -> Created<Group> {
    let NewGroup { name, soft_quota, hard_quota, policy, limits } = new;
    let change = array::GroupChange {
        name: None,
        soft_quota: Some(soft_quota),
        hard_quota: Some(hard_quota),
        policy: policy.into(),
        limits: limits.into(),
    };
    let made = perform(operator, &context, array::CreateGroup { name, change }).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// One volume group
#[utoipa::path(get, path = "/api/v1/groups/{name}", tag = "groups", params(("name" = String, Path,)), responses(
    (status = 200, description = "The volume group as it is now", body = Group),
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
    (status = 200, description = "The volume group as it is now", body = Group),
    Problems,
))]
async fn change_group(
    operator: Operator,
    State(context): State<Context>,
    Named(group): Named<String>,
    Body(change): Body<GroupChange>,
) -> Answer<Group> {
    let GroupChange { name, soft_quota, hard_quota, policy, limits } = change;
    let (policy, limits) = (policy.into(), limits.into());
    let change = array::GroupChange { name, soft_quota, hard_quota, policy, limits };
    let done = perform(operator, &context, array::ChangeGroup { name: group, change }).await?;
    Ok(Json(done.into()))
}

/// Forget a volume group; its volumes stay
#[utoipa::path(delete, path = "/api/v1/groups/{name}", tag = "groups", params(("name" = String, Path,)), responses(
    (status = 204, description = "It is gone"),
    Problems,
))]
async fn delete_group(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Gone {
    gone(perform(operator, &context, array::DeleteGroup { name }).await?)
}

impl From<array::Group> for Group {
    fn from(it: array::Group) -> Self {
        Self {
            name: it.name,
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
        }
    }
}
