//! The event stream: server-sent events.

use super::performance::Point;
use crate::Context;
use crate::auth::Operator;
use crate::problem::{Problem, Problems};
use array::{Alert, Event, Update};
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(subscribe))
}

/// Kind of object that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The address of the API.
    ApiAddress,
    /// The certificate of the API.
    Certificate,
    /// Connections of volumes with hosts.
    Connections,
    /// Controllers of the array.
    Controllers,
    /// Identity providers and LDAP directories.
    Directories,
    /// Drives, their protection, and scrubs.
    Drives,
    /// Volume groups.
    Groups,
    /// Host groups.
    HostGroups,
    /// Hosts.
    Hosts,
    /// The key of the drives.
    Key,
    /// Alert notification targets.
    NotificationTargets,
    /// Portals.
    Portals,
    /// The contents of the recycle bin.
    RecycleBin,
    /// Refused iSCSI log-ins.
    RefusedLogins,
    /// Remote arrays.
    RemoteArrays,
    /// Replications.
    Replications,
    /// Snapshot schedules.
    Schedules,
    /// Settings of the array.
    Settings,
    /// Snapshots.
    Snapshots,
    /// API tokens.
    Tokens,
    /// Formats of the array.
    Upgrade,
    /// Users.
    Users,
    /// Volumes.
    Volumes,
}

/// The data of a `change`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Change {
    /// Kind of object, as in the paths of the API.
    noun: Topic,
}

impl From<array::Topic> for Topic {
    fn from(topic: array::Topic) -> Self {
        use array::Topic::*;
        match topic {
            ApiAddress => Topic::ApiAddress,
            Certificate => Topic::Certificate,
            Connections => Topic::Connections,
            Controllers => Topic::Controllers,
            Directories => Topic::Directories,
            Drives => Topic::Drives,
            Groups => Topic::Groups,
            HostGroups => Topic::HostGroups,
            Hosts => Topic::Hosts,
            Key => Topic::Key,
            NotificationTargets => Topic::NotificationTargets,
            Portals => Topic::Portals,
            RecycleBin => Topic::RecycleBin,
            RefusedLogins => Topic::RefusedLogins,
            RemoteArrays => Topic::RemoteArrays,
            Replications => Topic::Replications,
            Schedules => Topic::Schedules,
            Settings => Topic::Settings,
            Snapshots => Topic::Snapshots,
            Tokens => Topic::Tokens,
            Upgrade => Topic::Upgrade,
            Users => Topic::Users,
            Volumes => Topic::Volumes,
        }
    }
}

/// Subscribe to the event stream
///
/// Server-sent events: `performance` once a second with a Point; `event` with an Event; `alert` with a new or changed Alert;
/// `job` with a Job that started, progressed or ended; `change` with a Change when objects of a kind changed; `missed` when
/// the subscriber was too slow and must fetch everything again. A token or user has 16 streams at most. A stream ends when its
/// token or session does, or has another role.
#[utoipa::path(get, path = "/api/v1/stream", tag = "performance", responses(
    (status = 200, description = "Server-sent events", body = String, content_type = "text/event-stream"),
    Problems,
))]
async fn subscribe(
    operator: Operator,
    State(context): State<Context>,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Problem> {
    let place = context.streams.take(&operator.caller)?;
    let updates = BroadcastStream::new(context.array.subscribe());
    // Asked before each update: there is one a second, and one for each change of tokens and users.
    let updates = updates.take_while(move |_| {
        let _is_open = &place;
        operator.is_current(&context)
    });
    let updates = updates.filter_map(|update| to_event(update).map(Ok));
    Ok(Sse::new(updates).keep_alive(KeepAlive::default()))
}

/// `None` for what only administrators may read: any user may subscribe.
fn to_event(update: Result<Update, BroadcastStreamRecvError>) -> Option<sse::Event> {
    Some(match update {
        Ok(Update::Measured(time, sample)) => named("performance", &Point::of(time, &sample)),
        Ok(Update::Job(job)) => named("job", &job),
        Ok(Update::Event(event)) => named("event", &Event::from(event)),
        Ok(Update::Alert(_, alert)) => named("alert", &Alert::from(alert)),
        Ok(Update::Changed(topic)) => named("change", &Change { noun: topic.into() }),
        Ok(Update::Audit(_)) => return None,
        Err(BroadcastStreamRecvError::Lagged(count)) => named("missed", &json!({ "count": count })),
    })
}

fn named<T: Serialize>(name: &str, data: &T) -> sse::Event {
    sse::Event::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_administrators_may_read_is_not_sent() {
        let entry = Box::new(array::AuditMessage {
            id: 1,
            time: 2,
            user: "ada".into(),
            origin: "10.0.0.9".into(),
            action: "CreateUser".into(),
            noun: "user".into(),
            object: None,
            request: "create user".into(),
            refusal: None,
        });
        assert!(to_event(Ok(Update::Audit(entry))).is_none());
        assert!(to_event(Ok(Update::Changed(array::Topic::Users))).is_some());
    }

    #[test]
    fn topics_are_named_as_they_are_declared_and_as_paths_say_them() {
        let paths = crate::openapi();
        for topic in array::Topic::ALL {
            assert_eq!(serde_json::to_value(Topic::from(*topic)).unwrap(), topic.name());
            assert!(paths.contains(&format!("\"/api/v1/{}\"", topic.name())), "{topic:?}");
        }
    }
}
