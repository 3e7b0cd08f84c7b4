//! Replications: volumes and volume groups of which another array gets points.

use super::handler::{Answer, Created, NoContent, digits, no_content, operations, perform, present, utc};
use super::snapshot::subject;
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named};
use crate::list::{List, PARTIAL, PartialList, list};
use crate::problem::{Problem, Problems};
use array::{Rule, SubjectName, WeeklyWindow};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_replications: ListReplications, create_replication: CreateReplication))
        .routes(operations!(show_replication: ShowReplication, change_replication: ChangeReplication, delete_replication: DeleteReplication))
        .routes(operations!(sync_replication: SyncReplication))
        .routes(operations!(pause_replication: PauseReplication))
        .routes(operations!(resume_replication: ResumeReplication))
        .routes(operations!(promote_replication: PromoteReplication))
        .routes(operations!(demote_replication: DemoteReplication))
        .routes(operations!(reverse_replication: ReverseReplication))
        .routes(operations!(list_replication_points: ListReplicationPoints))
}

/// Which end of a replication this array is.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplicationRole {
    /// It has the volumes.
    Source,
    /// It gets their points.
    Target,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplicationMode {
    /// When the source has it: points are transferred later.
    #[default]
    Async,
    /// When both arrays have it.
    Sync,
}

/// Policy for writes of a synchronous replication while the other array is out of reach.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnLinkLoss {
    /// The source acknowledges them alone; they are lost if it is lost before both arrays are the same again.
    Continue,
    /// They wait, and are refused after 20 seconds until both arrays are the same again.
    Stop,
}

/// State of a replication.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationState {
    /// Nothing is to be transferred now.
    Idle,
    /// A point is being transferred, or an operator has asked for one that is to be taken.
    Syncing,
    /// Paused by an operator.
    Paused,
    /// The last attempt failed; it is repeated.
    Failed,
    /// The target has no space; the transfer continues when there is some.
    NoSpace,
    /// The source takes no writes any more; its last point is not complete yet.
    Demoting,
    /// The source takes no writes, and the target has all of them.
    Demoted,
    /// The volumes of the target are being created.
    Promoting,
    /// The target has volumes of its own, and gets no points.
    Promoted,
    /// The volumes of both arrays take writes.
    Split,
    /// Of a synchronous replication: everything that is acknowledged is on both arrays.
    InSync,
    /// Of a synchronous replication: both arrays were the same, and are not now. What is missing is transferred when
    /// the other array can be reached.
    OutOfSync,
    /// Of a synchronous replication: the source refuses writes until both arrays are the same again.
    WritesStopped,
}

/// Progress of the demotion of a source.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DemotionState {
    /// The source takes no writes any more; its last point is not complete yet.
    Incomplete,
    /// The source takes no writes, and the target has all of them.
    Complete,
}

/// Progress of a synchronous replication.
#[derive(Debug, Serialize, ToSchema)]
pub struct SynchronousProgress {
    /// Time since which both arrays are the same, or are not any more, as `state` says; `null` before they were the
    /// same for the first time, and on the target.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// Reason why both arrays are not the same; `null` if they are, and on the target.
    cause: Option<String>,
    /// Changes that are on the source and are not acknowledged, as the target does not have them durably yet.
    changes_under_way: u64,
    /// Time from sending a change until the target has it durably, of the last one; `null` unless both arrays are the
    /// same, and on the target.
    #[schema(extensions(("x-unit" = json!("us"))))]
    round_trip_us: Option<u64>,
    /// Reason why the witness would not decide if an array were lost now, so that no failover would follow; `null` if
    /// it would, and without a witness.
    witness_problem: Option<String>,
}

/// Progress of a replication.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplicationProgress {
    /// State.
    state: ReplicationState,
    /// Progress of the demotion, also while `state` is another one, such as `failed`, `no_space` or `paused`; `null`
    /// if the source was not demoted, and while the target has volumes of its own.
    demotion: Option<DemotionState>,
    /// Reason why the last attempt failed; `null` if it did not.
    problem: Option<String>,
    /// Number of the newest complete point, the same on both arrays; `null` if there is none.
    last_point: Option<u64>,
    /// Time at which the newest complete point was taken, by the clock of the source.
    #[schema(format = DateTime)]
    last_point_taken: Option<String>,
    /// Complete points on this array.
    points: usize,
    /// Time at which the blackout ends in which no point is taken or transferred; `null` if there is none now.
    #[schema(format = DateTime)]
    blackout_until: Option<String>,
    /// Seconds since the newest complete point was taken; `null` where none is to follow it.
    lag_seconds: Option<u64>,
    /// Bytes that hosts have written since the newest complete point was taken, or since the array started; `null` on
    /// the target and where no point is to follow.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    backlog_bytes: Option<u64>,
    /// Bytes over the network per second, over the last half minute.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    network_bytes_per_second: u64,
    /// Whether the transfer under way is slowed down now because hosts are active; `false` on the target.
    throttled: bool,
    /// Changed data of the points that were completed, since the array started; 0 on the target.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    logical_bytes: u64,
    /// Bytes that went over the network in both directions, since the array started.
    #[schema(extensions(("x-unit" = json!("bytes"))))]
    network_bytes: u64,
    /// Progress of a synchronous replication; `null` for an asynchronous one.
    sync: Option<SynchronousProgress>,
}

/// A volume of a replication.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplicatedVolume {
    /// Permanent identifier on the source: 32 hex digits.
    id: String,
    /// Name on the source.
    name: String,
    /// Permanent identifier of the volume that the target was promoted with; `null` if it was not, and on the source.
    promoted_id: Option<String>,
    /// Permanent identifier of the clone to test a failover; `null` if none is tested, and on the source.
    test_id: Option<String>,
}

/// A replication.
#[derive(Debug, Serialize, ToSchema)]
pub struct Replication {
    /// Name on this array.
    name: String,
    /// Permanent identifier, the same on both arrays: 16 hex digits.
    id: String,
    /// Creation time.
    #[schema(format = DateTime)]
    created: String,
    /// Name of the other array.
    remote_array: String,
    /// Which end this array is.
    role: ReplicationRole,
    /// When a write is acknowledged.
    mode: ReplicationMode,
    /// Policy for writes while the other array is out of reach; `null` for an asynchronous replication, and on the target.
    on_link_loss: Option<OnLinkLoss>,
    /// Witness: the remote array that decides which of the two continues alone after a loss; on a target that is not
    /// paired with it the SHA-256 of its certificate. `null`: an operator decides.
    witness: Option<String>,
    /// Volume, by its name on the source; `null` for a group.
    volume: Option<String>,
    /// Volume group, by its name on the source; `null` for a volume.
    group: Option<String>,
    /// Recovery point objective: maximum age of the newest complete point.
    rpo_seconds: u64,
    /// Weekly windows in which no point is taken or transferred unless an operator asks for it. A setting of the source.
    blackouts: Vec<WeeklyWindow>,
    /// Whether snapshots of all of its volumes that users and schedules take are replicated as well; `null` on the target.
    replicate_snapshots: Option<bool>,
    /// Points of such snapshots that the target retains, besides the others; `null` on the source.
    keep_snapshots: Option<u32>,
    /// Complete points that the target retains; `null` on the source.
    keep_points: Option<u32>,
    /// Rules that keep older points on the target: of each period the first point, of the newest periods. Empty on the source.
    keep_rules: Vec<Rule>,
    /// Retention lock of points that arrive from now on: seconds during which they can't be deleted; `null` on the source.
    lock_seconds: Option<u64>,
    /// Progress.
    progress: ReplicationProgress,
    /// Volumes; on the target empty until the first transfer.
    volumes: Vec<ReplicatedVolume>,
    /// Volumes that the target was promoted with.
    promoted_volumes: Vec<String>,
    /// Clones of a point to test a failover.
    test_volumes: Vec<String>,
    /// Hosts and host groups to which these clones are connected.
    test_connections: Vec<TestConnection>,
}

/// A clone that a host sees.
#[derive(Debug, Serialize, ToSchema)]
pub struct TestConnection {
    /// The clone.
    volume: String,
    /// Host; `null` for a host group.
    host: Option<String>,
    /// Host group; `null` for a host.
    host_group: Option<String>,
    /// LUN; over NVMe/TCP the namespace LUN + 1.
    lun: u16,
}

/// Replications.
#[derive(Debug, Serialize, ToSchema)]
pub struct Replications {
    /// Sorted by name unless `sort` is given.
    items: Vec<Replication>,
    /// Total count, regardless of `limit` and `offset`.
    total: usize,
}

/// A new replication of a `volume` or a `group`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewReplication {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Volume. Not allowed with `group`.
    volume: Option<String>,
    /// Volume group. Not allowed with `volume`.
    group: Option<String>,
    /// Remote array.
    remote_array: String,
    /// Recovery point objective in seconds.
    #[schema(minimum = 5, maximum = 604_800)]
    rpo_seconds: u64,
    /// When a write is acknowledged; default `async`. Of a synchronous replication points are transferred only until
    /// both arrays are the same.
    #[serde(default)]
    mode: ReplicationMode,
    /// Policy for writes while the other array is out of reach; default `continue`. Only with the mode `sync`.
    on_link_loss: Option<OnLinkLoss>,
    /// Witness: a third array that decides which of the two continues alone after a loss. Both must be paired with
    /// it. Default: none. Only with the mode `sync` and `on_link_loss` `stop`, which is the default then.
    witness: Option<String>,
    /// Weekly windows in which no point is taken or transferred unless an operator asks for it; default: none. Only with the mode
    /// `async`.
    #[serde(default)]
    blackouts: Vec<WeeklyWindow>,
}

/// Changes to a replication. Omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplicationChange {
    /// New name on this array.
    name: Option<String>,
    /// Recovery point objective in seconds. On the source only.
    rpo_seconds: Option<u64>,
    /// When a write is acknowledged. On the source only.
    mode: Option<ReplicationMode>,
    /// Policy for writes of a synchronous replication while the other array is out of reach. On the source only.
    /// With `continue` a source whose writes are stopped continues alone at once.
    on_link_loss: Option<OnLinkLoss>,
    /// Witness: a third array that decides which of the two continues alone after a loss; `null`: an operator decides. Setting it
    /// sets `on_link_loss` to `stop`. On the source only.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    witness: Option<Option<String>>,
    /// Complete list of the weekly windows in which no point is taken or transferred unless an operator asks for it. On the
    /// source only.
    blackouts: Option<Vec<WeeklyWindow>>,
    /// Whether snapshots of all of its volumes that users and schedules take are replicated as well. On the source only.
    replicate_snapshots: Option<bool>,
    /// Points of such snapshots to retain. On the target only.
    #[schema(minimum = 1, maximum = 1000)]
    keep_snapshots: Option<u32>,
    /// Complete points to retain. On the target only.
    #[schema(minimum = 1, maximum = 1000)]
    keep_points: Option<u32>,
    /// Complete list of the rules that keep older points. On the target only.
    keep_rules: Option<Vec<Rule>>,
    /// Retention lock of points that arrive from now on: seconds during which they can't be deleted. On the target only.
    lock_seconds: Option<u64>,
}

/// How to promote a target.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplicationPromotion {
    /// Promote although the source may still take writes, which the target does not have; default false.
    #[serde(default)]
    force: bool,
    /// Number of the point; default: the newest one.
    point: Option<u64>,
}

/// How to demote a replication.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplicationDemotion {
    /// Demote although the other array lacks data, which this array loses; default false.
    #[serde(default)]
    force: bool,
}

/// A point of a replication.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplicationPoint {
    /// Number, the same on both arrays.
    number: u64,
    /// Time at which it was taken, by the clock of the source.
    #[schema(format = DateTime)]
    taken: String,
    /// Time since which this array has it.
    #[schema(format = DateTime)]
    received: String,
    /// Time until which it can't be deleted; `null`: no retention lock.
    #[schema(format = DateTime)]
    retain_until: Option<String>,
    /// Whether both arrays have it.
    complete: bool,
    /// Snapshots of the source that it was taken from; empty if it was taken of the volumes.
    snapshots: Vec<String>,
}

/// Points of a replication.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplicationPoints {
    /// Sorted by number unless `sort` is given.
    items: Vec<ReplicationPoint>,
    /// Total count, regardless of `limit` and `offset`.
    total: usize,
}

/// List replications
#[utoipa::path(get, path = "/api/v1/replications", tag = "replications", params(List), responses(
    (status = 200, description = "The replications",
        content((Replications = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_replications(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let found = perform(operator, &context, array::ListReplications).await?;
    list(found.into_iter().map(Replication::from).collect::<Vec<_>>(), part)
}

/// Create a replication
///
/// The remote array has it as well after the first transfer has begun.
#[utoipa::path(post, path = "/api/v1/replications", tag = "replications", request_body = NewReplication, responses(
    (status = 201, description = "The replication", body = Replication),
    Problems,
))]
async fn create_replication(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewReplication>,
) -> Created<Replication> {
    let NewReplication {
        name,
        volume,
        group,
        remote_array,
        rpo_seconds,
        mode,
        on_link_loss,
        witness,
        blackouts,
    } = new;
    let subject = subject(volume, group)?;
    let blackouts = blackouts.iter().map(WeeklyWindow::window).collect::<Result<Vec<_>, _>>()?;
    let (mode, on_link_loss) = (mode.into(), on_link_loss.map(Into::into));
    let request = array::CreateReplication {
        name,
        subject,
        remote_array,
        rpo_seconds,
        mode,
        on_link_loss,
        witness,
        blackouts,
    };
    let done = perform(operator, &context, request).await?;
    Ok((StatusCode::CREATED, Json(done.into())))
}

/// Get a replication
#[utoipa::path(get, path = "/api/v1/replications/{name}", tag = "replications", params(("name" = String, Path)), responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn show_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Replication> {
    let it = perform(operator, &context, array::ShowReplication { name }).await?;
    Ok(Json(it.into()))
}

/// Change a replication
#[utoipa::path(patch, path = "/api/v1/replications/{name}", tag = "replications", params(("name" = String, Path)),
    request_body = ReplicationChange, responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn change_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(change): Body<ReplicationChange>,
) -> Answer<Replication> {
    let ReplicationChange {
        name: new,
        rpo_seconds,
        mode,
        on_link_loss,
        witness,
        blackouts,
        replicate_snapshots,
        keep_snapshots,
        keep_points,
        keep_rules,
        lock_seconds,
    } = change;
    let recorded =
        |windows: Vec<WeeklyWindow>| windows.iter().map(WeeklyWindow::window).collect::<Result<Vec<_>, _>>();
    let blackouts = blackouts.map(recorded).transpose()?;
    let change = array::ReplicationChange {
        name: new,
        rpo_seconds,
        mode: mode.map(Into::into),
        on_link_loss: on_link_loss.map(Into::into),
        witness,
        blackouts,
        replicate_snapshots,
        keep_snapshots,
        keep_points,
        keep_rules,
        lock_seconds,
    };
    let done = perform(operator, &context, array::ChangeReplication { name, change }).await?;
    Ok(Json(done.into()))
}

/// Delete a replication
///
/// Its points on this array are deleted; volumes are kept. Delete it on the other array as well.
#[utoipa::path(delete, path = "/api/v1/replications/{name}", tag = "replications", params(("name" = String, Path)), responses(
    (status = 204, description = "Deleted"),
    Problems,
))]
async fn delete_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::DeleteReplication { name }).await?)
}

/// Transfer a point now
///
/// On the source. A point is taken and transferred in the background. A synchronous replication begins again with a
/// new point, so that the target can be tested with what is there now.
#[utoipa::path(post, path = "/api/v1/replications/{name}/sync", tag = "replications", params(("name" = String, Path)), responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn sync_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Replication> {
    let done = perform(operator, &context, array::SyncReplication { name }).await?;
    Ok(Json(done.into()))
}

/// Pause a replication
///
/// On either array. An interrupted transfer is resumed where it was. The source of a synchronous replication that is paused there
/// acknowledges writes alone until it is resumed, also with `stop`; if it is paused on the target, `on_link_loss` decides.
#[utoipa::path(post, path = "/api/v1/replications/{name}/pause", tag = "replications", params(("name" = String, Path)), responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn pause_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Replication> {
    let done = perform(operator, &context, array::PauseReplication { name }).await?;
    Ok(Json(done.into()))
}

/// Resume a replication
#[utoipa::path(post, path = "/api/v1/replications/{name}/resume", tag = "replications", params(("name" = String, Path)), responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn resume_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Replication> {
    let done = perform(operator, &context, array::ResumeReplication { name }).await?;
    Ok(Json(done.into()))
}

/// Promote the target of a replication
///
/// Volumes with the content of the last complete point, or of another one, are created, for hosts to use; those of an
/// earlier promotion, or of the time before a reversal, get that content and take changes again. The source gets
/// through no more.
#[utoipa::path(post, path = "/api/v1/replications/{name}/promote", tag = "replications", params(("name" = String, Path)),
    request_body = ReplicationPromotion, responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn promote_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(ReplicationPromotion { force, point }): Body<ReplicationPromotion>,
) -> Answer<Replication> {
    let done = perform(operator, &context, array::PromoteReplication { name, force, point }).await?;
    Ok(Json(done.into()))
}

/// Demote the volumes of a replication
///
/// On the source, its volumes become read-only, and a last point is transferred: then the target can be promoted without loss.
/// With `force`, on the array that loses its changes after both arrays were written to.
#[utoipa::path(post, path = "/api/v1/replications/{name}/demote", tag = "replications", params(("name" = String, Path)),
    request_body = ReplicationDemotion, responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn demote_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(ReplicationDemotion { force }): Body<ReplicationDemotion>,
) -> Answer<Replication> {
    let done = perform(operator, &context, array::DemoteReplication { name, force }).await?;
    Ok(Json(done.into()))
}

/// Reverse a replication
///
/// On the array that was promoted: it becomes the source, and the other array its target, which has to be demoted. What
/// changes since the last common point is transferred.
#[utoipa::path(post, path = "/api/v1/replications/{name}/reverse", tag = "replications", params(("name" = String, Path)), responses(
    (status = 200, description = "The replication", body = Replication),
    Problems,
))]
async fn reverse_replication(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<Replication> {
    let done = perform(operator, &context, array::ReverseReplication { name }).await?;
    Ok(Json(done.into()))
}

/// List points of a replication
///
/// Those on this array. Any complete one of a target can be tested or promoted.
#[utoipa::path(get, path = "/api/v1/replications/{name}/points", tag = "replications", params(("name" = String, Path), List),
    responses(
    (status = 200, description = "The points",
        content((ReplicationPoints = "application/json"), (PartialList = PARTIAL))),
    Problems,
))]
async fn list_replication_points(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let found = perform(operator, &context, array::ListReplicationPoints { name }).await?;
    list(found.into_iter().map(ReplicationPoint::from).collect::<Vec<_>>(), part)
}

impl From<array::ReplicationState> for ReplicationState {
    fn from(state: array::ReplicationState) -> Self {
        match state {
            array::ReplicationState::Idle => Self::Idle,
            array::ReplicationState::Syncing => Self::Syncing,
            array::ReplicationState::Paused => Self::Paused,
            array::ReplicationState::Failed => Self::Failed,
            array::ReplicationState::NoSpace => Self::NoSpace,
            array::ReplicationState::Demoting => Self::Demoting,
            array::ReplicationState::Demoted => Self::Demoted,
            array::ReplicationState::Promoting => Self::Promoting,
            array::ReplicationState::Promoted => Self::Promoted,
            array::ReplicationState::Split => Self::Split,
            array::ReplicationState::InSync => Self::InSync,
            array::ReplicationState::OutOfSync => Self::OutOfSync,
            array::ReplicationState::WritesStopped => Self::WritesStopped,
        }
    }
}

impl From<array::Demotion> for DemotionState {
    fn from(demotion: array::Demotion) -> Self {
        match demotion {
            array::Demotion::Incomplete => Self::Incomplete,
            array::Demotion::Complete => Self::Complete,
        }
    }
}

impl From<ReplicationMode> for array::ReplicationMode {
    fn from(mode: ReplicationMode) -> Self {
        match mode {
            ReplicationMode::Async => Self::Async,
            ReplicationMode::Sync => Self::Sync,
        }
    }
}

impl From<array::ReplicationMode> for ReplicationMode {
    fn from(mode: array::ReplicationMode) -> Self {
        match mode {
            array::ReplicationMode::Async => Self::Async,
            array::ReplicationMode::Sync => Self::Sync,
        }
    }
}

impl From<OnLinkLoss> for array::OnLinkLoss {
    fn from(policy: OnLinkLoss) -> Self {
        match policy {
            OnLinkLoss::Continue => Self::Continue,
            OnLinkLoss::Stop => Self::Stop,
        }
    }
}

impl From<array::OnLinkLoss> for OnLinkLoss {
    fn from(policy: array::OnLinkLoss) -> Self {
        match policy {
            array::OnLinkLoss::Continue => Self::Continue,
            array::OnLinkLoss::Stop => Self::Stop,
        }
    }
}

impl From<array::SyncStatus> for SynchronousProgress {
    fn from(it: array::SyncStatus) -> Self {
        let array::SyncStatus { since, cause, waiting, round_trip_us, witness_problem } = it;
        Self { since: since.map(utc), cause, changes_under_way: waiting, round_trip_us, witness_problem }
    }
}

impl From<array::Connection> for TestConnection {
    fn from(it: array::Connection) -> Self {
        let array::Connection { volume, host, host_group, lun, .. } = it;
        Self { volume, host, host_group, lun }
    }
}

impl From<array::ReplicatedVolume> for ReplicatedVolume {
    fn from(it: array::ReplicatedVolume) -> Self {
        let array::ReplicatedVolume { id, name, promoted, test } = it;
        Self { id: digits(id), name, promoted_id: promoted.map(digits), test_id: test.map(digits) }
    }
}

impl From<array::ReplicationPoint> for ReplicationPoint {
    fn from(it: array::ReplicationPoint) -> Self {
        Self {
            number: it.number,
            taken: utc(it.taken),
            received: utc(it.received),
            retain_until: it.kept_until.map(utc),
            complete: it.complete,
            snapshots: it.snapshots,
        }
    }
}

impl From<array::Replication> for Replication {
    fn from(it: array::Replication) -> Self {
        let (volume, group) = match it.subject {
            Some(SubjectName::Volume(name)) => (Some(name), None),
            Some(SubjectName::Group(name)) => (None, Some(name)),
            None => (None, None),
        };
        let array::ReplicationStatus {
            state,
            demotion,
            problem,
            point,
            taken,
            points,
            blackout_until,
            lag_seconds,
            backlog_bytes,
            throughput,
            throttled,
            transferred,
            sync,
        } = it.status;
        Self {
            name: it.name,
            id: digits(it.id),
            created: utc(it.created),
            remote_array: it.remote_array,
            role: match it.role {
                array::ReplicationRole::Source => ReplicationRole::Source,
                array::ReplicationRole::Target => ReplicationRole::Target,
            },
            mode: it.mode.into(),
            on_link_loss: it.on_link_loss.map(Into::into),
            witness: it.witness,
            volume,
            group,
            rpo_seconds: it.rpo_seconds,
            blackouts: it.blackouts.into_iter().map(WeeklyWindow::from).collect(),
            replicate_snapshots: it.replicate_snapshots,
            keep_snapshots: it.keep_snapshots,
            keep_points: it.keep_points,
            keep_rules: it.keep_rules,
            lock_seconds: it.lock_seconds,
            progress: ReplicationProgress {
                state: state.into(),
                demotion: demotion.map(Into::into),
                problem,
                last_point: point,
                last_point_taken: taken.map(utc),
                points,
                blackout_until: blackout_until.map(utc),
                lag_seconds,
                backlog_bytes,
                network_bytes_per_second: throughput,
                throttled,
                logical_bytes: transferred.logical_bytes,
                network_bytes: transferred.wire_bytes,
                sync: sync.map(Into::into),
            },
            volumes: it.volumes.into_iter().map(ReplicatedVolume::from).collect(),
            promoted_volumes: it.promoted_volumes,
            test_volumes: it.test_volumes,
            test_connections: it.test_connections.into_iter().map(TestConnection::from).collect(),
        }
    }
}
