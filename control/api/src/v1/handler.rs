//! What handlers share: how a request is carried out, the forms of answers, and the declaration of operations.

use crate::Context;
use crate::auth::Operator;
use crate::problem::Problem;
pub(crate) use array::utc;
use array::{Effect, Ensured, Request, Verb};
use axum::Json;
use axum::http::StatusCode;
use serde_json::json;
use utoipa::openapi::Paths;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::Operation;

/// The routes of a path: each handler with the verb that it carries out, such as `list_volumes: ListVolumes`. The
/// operation's identity, role and effect follow from the verb's declaration; where several operations are views of one
/// verb, they have identities of their own: `show_latency: ShowPerformance as "show_latency"`.
macro_rules! operations {
    ($($handler:ident: $verb:ident $(as $id:literal)?),+ $(,)?) => {{
        let (schemas, mut paths, router) = utoipa_axum::routes!($($handler),+);
        $($crate::v1::handler::declare(
            &mut paths,
            stringify!($handler),
            &<::array::$verb as ::array::Request>::VERB,
            [$($id)?].first().copied(),
        );)+
        (schemas, paths, router)
    }};
}
pub(crate) use operations;

/// Names the operation of a handler by its verb, and says who may ask for it.
pub(crate) fn declare(paths: &mut Paths, handler: &str, verb: &Verb, id: Option<&str>) {
    let of_handler = |it: &&mut Operation| it.operation_id.as_deref() == Some(handler);
    let mut operations = paths.paths.values_mut().flat_map(|item| {
        let methods = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        methods.into_iter().filter_map(Option::as_mut)
    });
    let operation = operations.find(of_handler).expect("the macro has made an operation of the handler");
    operation.operation_id = Some(id.map_or_else(|| snake(verb.name), str::to_owned));
    let effect = match verb.effect {
        Effect::Read => "read",
        Effect::Probe => "probe",
        Effect::Change => "change",
        Effect::Exchange => "exchange",
    };
    // One extension, as several would have no order.
    let declaration = json!({ "name": verb.name, "role": verb.role.name(), "effect": effect });
    let extensions = ExtensionsBuilder::new().add("x-verb", declaration).build();
    operation.extensions.get_or_insert_default().merge(extensions);
}

/// `CreateVolume`: `create_volume`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        text.extend((letter.is_ascii_uppercase() && at > 0).then_some('_'));
        text.push(letter.to_ascii_lowercase());
    }
    text
}

pub(crate) type Answer<T> = Result<Json<T>, Problem>;
/// The answer to a request to create something: 201, or 200 for what exists already with equal content.
pub(crate) type Created<T> = Result<(StatusCode, Json<T>), Problem>;
pub(crate) type NoContent = Result<StatusCode, Problem>;

/// Carries out a request in a task of its own: a client that hangs up must not stop a change half-way.
pub(crate) async fn perform<R: Request>(
    operator: Operator,
    context: &Context,
    request: R,
) -> Result<R::Answer, Problem> {
    let array = context.array.clone();
    match tokio::spawn(async move { array.perform(&operator.caller, request).await }).await {
        Ok(answer) => Ok(answer?),
        Err(error) => Err(Problem::internal(format!("the request broke off: {error}"))),
    }
}

/// Runs a query that may take a moment on a thread for such.
pub(crate) async fn ask<R: Request>(
    operator: Operator,
    context: &Context,
    query: R,
) -> Result<R::Answer, Problem> {
    let array = context.array.clone();
    let runtime = tokio::runtime::Handle::current();
    let asked = move || runtime.block_on(array.perform(&operator.caller, query));
    Ok(context.heavy.run(asked).await??)
}

/// The answer to a request to create something.
pub(crate) fn created<A, T: From<A>>(done: Ensured<A>) -> Created<T> {
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(done.object.into())))
}

/// The answer to a request without a body: 204.
pub(crate) fn no_content((): ()) -> NoContent {
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
#[path = "handler_test.rs"]
mod tests;
