//! What happens, as it happens: server-sent events.

use super::alert::Alert;
use super::event::Event;
use super::job::Job;
use super::performance::Point;
use crate::Context;
use crate::auth::Operator;
use crate::problem::Problems;
use array::Happening;
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(stream))
}

/// What happens, as it happens
///
/// `performance` once a second with a Point; `event` with an Event; `alert` with an Alert that is new or not what it
/// was; `job` with a Job that began, went on or ended; `change` with `{"noun": "volumes"}` when things of a kind are
/// not what they were; `missed` when the listener was too slow, and should ask anew for what it shows.
#[utoipa::path(get, path = "/api/v1/stream", tag = "performance", responses(
    (status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream"),
    Problems,
))]
async fn stream(
    _operator: Operator,
    State(context): State<Context>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let happenings = BroadcastStream::new(context.array.listen()).map(|happening| Ok(tell(happening)));
    Sse::new(happenings).keep_alive(KeepAlive::default())
}

fn tell(happening: Result<Happening, BroadcastStreamRecvError>) -> sse::Event {
    match happening {
        Ok(Happening::Measured(time, sample)) => named("performance", &Point::of(time, &sample)),
        Ok(Happening::Job(job)) => named("job", &Job::from(job)),
        Ok(Happening::Event(event)) => named("event", &Event::from(event)),
        Ok(Happening::Alert(_, alert)) => named("alert", &Alert::from(alert)),
        Ok(Happening::Changed(noun)) => named("change", &json!({ "noun": plural(noun) })),
        Err(BroadcastStreamRecvError::Lagged(count)) => named("missed", &json!({ "count": count })),
    }
}

fn named<T: Serialize>(name: &str, data: &T) -> sse::Event {
    sse::Event::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}

/// As the paths of the API say it.
fn plural(noun: &str) -> String {
    if noun.ends_with('s') { noun.to_owned() } else { format!("{noun}s") }
}
