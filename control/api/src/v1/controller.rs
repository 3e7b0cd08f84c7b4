//! Controllers.

use super::handler::{Answer, Created, NoContent, no_content, operations, perform, utc};
use super::performance::Recent;
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Named};
use crate::list::{List, PartialList, list};
use crate::problem::{Problem, Problems};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(list_controllers: ListControllers))
        .routes(operations!(show_controller: ShowController, remove_controller: RemoveController))
        .routes(operations!(drain_controller: DrainController))
        .routes(operations!(resume_controller: ResumeController))
        .routes(operations!(create_join_token: CreateJoinToken))
}

/// A controller: a process that serves the array, or takes over when the one that does fails.
#[derive(Debug, Serialize, ToSchema)]
pub struct Controller {
    /// Number, from 1.
    number: u16,
    /// Name of its machine.
    name: String,
    /// Software version.
    version: String,
    /// State.
    state: ControllerState,
    /// Whether it is drained: it becomes the home only if no other controller can.
    drained: bool,
    /// Time since which it has that state; `null` if it is not known.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// URL of its API; `null` if it is not known.
    #[schema(example = "https://192.0.2.11:8443")]
    api: Option<String>,
    /// iSCSI portals: addresses with ports. A controller that is not the home listens on them if it has a link to the home.
    portals: Vec<String>,
    /// NVMe/TCP portals: addresses with ports. Only the home listens on them.
    nvme_portals: Vec<String>,
    /// iSCSI sessions that hosts have at its portals now.
    sessions: usize,
    /// What hosts did by its portals in the last five seconds.
    performance: Recent,
    /// The takeover by which it became the home; `null` if it is not the home, or has not taken over from another
    /// controller.
    takeover: Option<Takeover>,
}

/// State of a controller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ControllerState {
    /// It serves hosts.
    Home,
    /// It takes over when the home fails.
    Standby,
    /// It was stopped.
    Stopped,
    /// The others found it silent.
    Lost,
}

/// A takeover and the durations of its phases.
#[derive(Debug, Serialize, ToSchema)]
pub struct Takeover {
    /// Time at which hosts were served again.
    #[schema(format = DateTime)]
    time: String,
    /// Number of the controller that was the home before.
    from: u16,
    /// Cause.
    cause: TakeoverCause,
    /// Sum of the phases in milliseconds.
    total_ms: u64,
    /// Silence of the home before, until it counted as lost, in milliseconds.
    silence_ms: u64,
    /// Agreement of the controllers on the new home, in milliseconds.
    agreement_ms: u64,
    /// Opening of the store, which refuses the home before from then on, in milliseconds.
    store_ms: u64,
    /// Recovery: replay of the journal, in milliseconds.
    recovery_ms: u64,
    /// Start of portals and API, in milliseconds.
    start_ms: u64,
}

/// Cause of a takeover.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TakeoverCause {
    /// The home before was stopped.
    Stopped,
    /// The home before was lost.
    Lost,
    /// The home before gave the array to this controller.
    Moved,
}

/// Controllers.
#[derive(Debug, Serialize, ToSchema)]
pub struct Controllers {
    /// Sorted by number unless `sort` is given.
    pub items: Vec<Controller>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A join token. It can be used once.
#[derive(Debug, Serialize, ToSchema)]
pub struct JoinToken {
    /// The token, for `ashlard --join` on the machine of the new controller.
    #[schema(format = Password)]
    token: String,
    /// Number that the new controller gets.
    controller: u16,
    /// Time until which it can be used.
    #[schema(format = DateTime)]
    expires: String,
}

/// List controllers
#[utoipa::path(get, path = "/api/v1/controllers", tag = "array", params(List), responses(
    (status = 200, description = "The controllers; one if the array is not shared", content(
        (Controllers = "application/json"), (PartialList = "application/vnd.ashlar.partial+json"))),
    Problems,
))]
async fn list_controllers(
    operator: Operator,
    State(context): State<Context>,
    Asked(part): Asked<List>,
) -> Result<Response, Problem> {
    let controllers = perform(operator, &context, array::ListControllers).await?;
    list(controllers.into_iter().map(Controller::from).collect(), part)
}

/// Get a controller
#[utoipa::path(get, path = "/api/v1/controllers/{number}", tag = "array",
    params(("number" = String, Path, description = "Number, or name of the machine",)), responses(
    (status = 200, description = "The controller", body = Controller),
    Problems,
))]
async fn show_controller(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> Answer<Controller> {
    let it = perform(operator, &context, array::ShowController { which }).await?;
    Ok(Json(it.into()))
}

/// Remove a controller that is lost or was stopped
///
/// The alert about its loss ends. A controller that runs is refused, the home as well. If it is started later, it takes part
/// again.
#[utoipa::path(delete, path = "/api/v1/controllers/{number}", tag = "array",
    params(("number" = String, Path, description = "Number, or name of the machine",)), responses(
    (status = 204, description = "Removed"),
    Problems,
))]
async fn remove_controller(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> NoContent {
    no_content(perform(operator, &context, array::RemoveController { which }).await?)
}

/// Create a join token
///
/// By it a new controller gets what it needs to take part, within an hour, once. The controllers must have links, and the token
/// is valid only while this controller is the home.
#[utoipa::path(post, path = "/api/v1/join-tokens", tag = "array", responses(
    (status = 201, description = "The token, which is not shown again", body = JoinToken),
    Problems,
))]
async fn create_join_token(operator: Operator, State(context): State<Context>) -> Created<JoinToken> {
    let it = perform(operator, &context, array::CreateJoinToken).await?;
    let token = JoinToken {
        token: it.token.expose().to_owned(),
        controller: it.controller,
        expires: utc(it.expires),
    };
    Ok((StatusCode::CREATED, Json(token)))
}

/// Drain a controller
///
/// From then on it becomes the home only if no other controller can. A home hands the array over in order: it asks hosts to log
/// out, closes the array, and another controller opens it. That is refused if no other controller runs and is not drained. It
/// stays drained when it is started again, such as with other software, until it is resumed.
#[utoipa::path(post, path = "/api/v1/controllers/{number}/drain", tag = "array",
    params(("number" = String, Path, description = "Number, or name of the machine",)), responses(
    (status = 200, description = "The controller; a home begins to hand over", body = Controller),
    Problems,
))]
async fn drain_controller(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> Answer<Controller> {
    let it = perform(operator, &context, array::DrainController { which }).await?;
    Ok(Json(it.into()))
}

/// Resume a controller that is drained
///
/// The array stays where it is.
#[utoipa::path(post, path = "/api/v1/controllers/{number}/resume", tag = "array",
    params(("number" = String, Path, description = "Number, or name of the machine",)), responses(
    (status = 200, description = "The controller", body = Controller),
    Problems,
))]
async fn resume_controller(
    operator: Operator,
    State(context): State<Context>,
    Named(which): Named<String>,
) -> Answer<Controller> {
    let it = perform(operator, &context, array::ResumeController { which }).await?;
    Ok(Json(it.into()))
}

impl From<array::Controller> for Controller {
    fn from(it: array::Controller) -> Self {
        use array::ControllerState::*;
        let array::Controller {
            number,
            name,
            version,
            state,
            drained,
            since,
            api,
            portals,
            nvme_portals,
            sessions,
            recent,
            takeover,
            reads: _,
        } = it;
        let state = match state {
            Home => ControllerState::Home,
            Standby => ControllerState::Standby,
            Stopped => ControllerState::Stopped,
            Lost => ControllerState::Lost,
        };
        let (since, takeover) = (since.map(utc), takeover.map(Takeover::from));
        let performance = Recent::of(&recent);
        Self {
            number,
            name,
            version,
            state,
            drained,
            since,
            api,
            portals,
            nvme_portals,
            sessions,
            performance,
            takeover,
        }
    }
}

impl From<array::Takeover> for Takeover {
    fn from(it: array::Takeover) -> Self {
        use array::TakeoverCause::*;
        let array::Phases { silence, agreement, store, recovery, start } = it.phases;
        Self {
            time: utc(it.time),
            from: it.from,
            cause: match it.cause {
                Stopped => TakeoverCause::Stopped,
                Lost => TakeoverCause::Lost,
                Moved => TakeoverCause::Moved,
            },
            total_ms: it.phases.total(),
            silence_ms: silence,
            agreement_ms: agreement,
            store_ms: store,
            recovery_ms: recovery,
            start_ms: start,
        }
    }
}
