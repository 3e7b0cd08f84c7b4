//! Operations of verbs that declare their route: one handler for all of them, and their description.
//!
//! The handler takes the request of its parts, carries it out, and returns the objects of the verb: 200 with one or with a
//! list, 201 with what is new, 204 with nothing, unless the route says otherwise.

use super::handler::{declare, perform};
use super::label::selector;
use crate::Context;
use crate::auth::Operator;
use crate::body::{Asked, Body, Named, Optional};
use crate::list::{Items, Labelled, List, PARTIAL, PartialList, list, paged};
use crate::problem::{Problem, Problems};
use array::{BodyForm, Form, Listing, Method, Outcome, Route, Routed, Shape, Visitor};
use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::{ResponseBuilder, Responses};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Content, HttpMethod, PathItem, Ref, RefOr, Required};
use utoipa::{IntoParams, IntoResponses, ToSchema};
use utoipa_axum::router::OpenApiRouter;

type Schemas = Vec<(String, RefOr<Schema>)>;

/// The routes of all verbs that declare one.
pub fn routes() -> OpenApiRouter<Context> {
    let mut routes = Routes(OpenApiRouter::new());
    array::routes(&mut routes);
    routes.0
}

struct Routes(OpenApiRouter<Context>);

impl Visitor for Routes {
    fn visit<R: Routed>(&mut self) {
        let (method, filter) = match R::ROUTE.method {
            Method::Get => (HttpMethod::Get, MethodFilter::GET),
            Method::Post => (HttpMethod::Post, MethodFilter::POST),
            Method::Put => (HttpMethod::Put, MethodFilter::PUT),
            Method::Patch => (HttpMethod::Patch, MethodFilter::PATCH),
            Method::Delete => (HttpMethod::Delete, MethodFilter::DELETE),
        };
        let mut paths = Paths::new();
        let operation = operation::<R>().operation_id(Some(R::VERB.name));
        let path = format!("/api/v1{}", R::ROUTE.path);
        paths.paths.insert(path, PathItem::new(method, operation));
        declare(&mut paths, R::VERB.name, &R::VERB, None);
        let router = std::mem::take(&mut self.0);
        self.0 = router.routes((schemas::<R>(), paths, on(filter, handle::<R>)));
    }
}

/// Carries out a request.
async fn handle<R: Routed>(State(context): State<Context>, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let operator = Operator::from_request_parts(&mut parts, &context).await?;
    let Named(path) = Named::from_request_parts(&mut parts, &context).await?;
    let Asked(query) = Asked::from_request_parts(&mut parts, &context).await?;
    let part = match listing::<R>() {
        Some(listing) => {
            let Asked(part) = Asked::<List>::from_request_parts(&mut parts, &context).await?;
            let label = match listing.labelled {
                true => Asked::<Labelled>::from_request_parts(&mut parts, &context).await?.0.label,
                false => None,
            };
            Some((part, selector(label.as_deref())?))
        }
        None => None,
    };
    let body = body_of::<R>(Request::from_parts(parts, body), &context).await?;
    let request = R::assemble(path, query, body);
    let part = match part {
        Some(part) if R::PAGE.is_some() => {
            return paged(operator, &context, request, part).await;
        }
        part => part,
    };
    let done = perform(operator, &context, request).await?.objects();
    if let Some((part, selector)) = part {
        let is_selected = |object: &<R::Answer as Outcome>::Object| {
            object.labels().is_none_or(|labels| selector.selects(labels))
        };
        return list(done.items.into_iter().filter(is_selected).collect(), part);
    }
    let status = status(&R::ROUTE, R::Answer::FORM, done.created);
    let status = StatusCode::from_u16(status).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(match R::Answer::FORM {
        Form::Nothing => status.into_response(),
        Form::One | Form::Ensured => (status, Json(done.items.first())).into_response(),
        Form::List => (status, Json(Items::from(done.items))).into_response(),
    })
}

async fn body_of<R: Routed>(request: Request, context: &Context) -> Result<R::Body, Problem> {
    match (R::ROUTE.body, R::default_body()) {
        (BodyForm::None, Some(none)) => Ok(none),
        (BodyForm::Optional, Some(none)) => {
            Ok(Optional::from_request(request, context).await?.0.unwrap_or(none))
        }
        _ => Ok(Body::from_request(request, context).await?.0),
    }
}

/// Status of success.
fn status(route: &Route, form: Form, created: bool) -> u16 {
    route.status.unwrap_or(match form {
        Form::Nothing => 204,
        Form::Ensured if created => 201,
        Form::One | Form::List | Form::Ensured => 200,
    })
}

/// The description of the list that an operation returns a part of.
fn listing<R: Routed>() -> Option<Listing> {
    let is_list = R::Answer::FORM == Form::List && R::ROUTE.method == Method::Get;
    <R::Answer as Outcome>::Object::LISTING.filter(|it| is_list && it.in_parts)
}

/// The description of an operation.
fn operation<R: Routed>() -> OperationBuilder {
    let route = R::ROUTE;
    let (summary, description) =
        route.docs.split_first().map_or(("", String::new()), |(first, rest)| (*first, text(rest)));
    let mut operation = OperationBuilder::new().tag(route.tag).summary(Some(summary.trim()));
    if !description.is_empty() {
        operation = operation.description(Some(description));
    }
    for parameter in parameters::<R>() {
        operation = operation.parameter(parameter);
    }
    if route.body != BodyForm::None {
        let whole = RefOr::<Schema>::from(reference::<R::Body>());
        let schema = match route.body {
            BodyForm::Optional => {
                let none = ObjectBuilder::new().schema_type(Type::Null);
                OneOfBuilder::new().item(whole).item(none).into()
            }
            _ => whole,
        };
        let content = Content::new(Some(schema));
        let body = RequestBodyBuilder::new().content("application/json", content);
        let required = (route.body == BodyForm::Required).then_some(Required::True);
        operation = operation.request_body(Some(body.required(required).build()));
    }
    operation.responses(responses::<R>())
}

fn text(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n").trim().to_owned()
}

fn parameters<R: Routed>() -> Vec<Parameter> {
    let of_path = R::ROUTE.parameters.iter().map(|it| {
        let about = Some(text(it.docs)).filter(|text| !text.is_empty());
        let parameter = ParameterBuilder::new().name(it.name).parameter_in(ParameterIn::Path);
        parameter.required(Required::True).description(about).schema(Some((it.schema)())).build()
    });
    let mut parameters: Vec<Parameter> = of_path.collect();
    let in_query = || Some(ParameterIn::Query);
    if let Some(listing) = listing::<R>() {
        parameters.extend(List::into_params(in_query));
        if listing.labelled {
            parameters.extend(Labelled::into_params(in_query));
        }
    }
    parameters.extend(R::Query::into_params(in_query));
    parameters
}

fn responses<R: Routed>() -> Responses {
    let (form, noun) = (R::Answer::FORM, R::VERB.noun);
    let response = |about: &str, content: &[(&str, Ref)]| {
        let mut response = ResponseBuilder::new().description(about);
        for (kind, schema) in content {
            response = response.content(*kind, Content::new(Some(schema.clone())));
        }
        response.build()
    };
    let object = reference::<<R::Answer as Outcome>::Object>();
    let list = || reference::<Items<<R::Answer as Outcome>::Object>>();
    let (about, content) = match form {
        Form::Nothing => ("Deleted".into(), vec![]),
        Form::One | Form::Ensured => (format!("The {noun}"), vec![("application/json", object.clone())]),
        Form::List if listing::<R>().is_some() => {
            let partial = (PARTIAL, Ref::from_schema_name(PartialList::name()));
            (format!("The {noun}s"), vec![("application/json", list()), partial])
        }
        Form::List => (format!("The {noun}s"), vec![("application/json", list())]),
    };
    let about = R::ROUTE.response.map_or(about, str::to_owned);
    let mut responses = Responses::new();
    let mut add = |status: String, response: RefOr<_>| drop(responses.responses.insert(status, response));
    add(status(&R::ROUTE, form, true).to_string(), response(&about, &content).into());
    if form == Form::Ensured {
        let existed = format!("{about}, which existed with equal content");
        add("200".into(), response(&existed, &content).into());
    }
    Problems::responses().into_iter().for_each(|(status, response)| add(status, response));
    responses
}

fn reference<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}

/// The schemas that an operation refers to.
fn schemas<R: Routed>() -> Schemas {
    let mut schemas = Schemas::new();
    if R::ROUTE.body != BodyForm::None {
        add::<R::Body>(&mut schemas);
    }
    if R::Answer::FORM != Form::Nothing {
        add::<<R::Answer as Outcome>::Object>(&mut schemas);
    }
    add::<Problem>(&mut schemas);
    if R::Answer::FORM == Form::List {
        add::<PartialList>(&mut schemas);
        add::<Items<<R::Answer as Outcome>::Object>>(&mut schemas);
    }
    schemas
}

fn add<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_parts_of_a_path_are_parts_of_the_request() {
        struct Checked(usize);
        impl Visitor for Checked {
            fn visit<R: Routed>(&mut self) {
                let parts = R::ROUTE.path.split('/');
                let variable = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
                assert!(variable.eq(R::ROUTE.parameters.iter().map(|it| it.name)), "{}", R::VERB.name);
                self.0 += 1;
            }
        }
        let mut checked = Checked(0);
        array::routes(&mut checked);
        assert!(checked.0 > 40, "{} routes", checked.0);
    }
}
