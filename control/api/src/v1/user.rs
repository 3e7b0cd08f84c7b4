//! Access control: sessions, users, API tokens, and the TLS certificate.

use super::handler::{Answer, operations, perform, utc};
use crate::Context;
use crate::auth::{self, Operator};
use crate::body::{Body, Named};
use crate::problem::{Problem, Problems};
use crate::session::COOKIE;
use crate::tls::{Peer, check_certificate};
use array::{Certificate, Role, Secret, User};
use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::header::{HeaderMap, SET_COOKIE};
use axum::http::{Extensions, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(log_in, show_session, log_out))
        .routes(operations!(show_user: ShowUser, change_user: ChangeUser))
        .routes(operations!(replace_certificate: ReplaceCertificate))
}

/// Log-in credentials.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LogIn {
    /// User name.
    user: String,
    /// Password.
    #[schema(format = Password)]
    password: String,
}

/// The current session.
#[derive(Debug, Serialize, ToSchema)]
pub struct Session {
    /// User name; for directory users, the name of the directory, a slash and the user's name there.
    pub user: String,
    /// Role.
    pub role: Role,
    /// Expiry time if the session is idle; `null` for a token.
    #[schema(format = DateTime)]
    pub expires: Option<String>,
}

/// The cookie has no age: how long a session lasts, and that using it makes it last, is judged here, not by browsers.
pub fn cookie(secret: &str, extensions: &Extensions) -> String {
    let encrypted = extensions.get::<ConnectInfo<Peer>>().is_some_and(|ConnectInfo(peer)| peer.encrypted);
    let (secure, ends) =
        (if encrypted { "; Secure" } else { "" }, if secret.is_empty() { "; Max-Age=0" } else { "" });
    format!("{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}")
}

/// Log in
///
/// The response sets the session cookie.
#[utoipa::path(post, path = "/api/v1/session", tag = "access", security(()), request_body = LogIn, responses(
    (status = 200, description = "The session", body = Session),
    Problems,
))]
async fn log_in(
    State(context): State<Context>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    Body(LogIn { user, password }): Body<LogIn>,
) -> Result<Response, Problem> {
    if auth::is_from_elsewhere(&headers) {
        return Err(Problem::forbidden("the request comes from a page of another site"));
    }
    // Directories take upper and lower case for the same name: guesses at one count as such.
    let (origin, name) = (peer.address.ip().to_string(), format!("user {}", user.trim().to_lowercase()));
    let client = [origin.as_str(), name.as_str()];
    let password = Secret::new(password);
    let found = match check_password(&context, &client, &user, password.clone()).await? {
        Some(member) => {
            Ok((member.name.clone(), member.role, context.sessions.begin(member, &context.array)))
        }
        None => elsewhere(&context, &client, &user, password).await.map(|guest| {
            (guest.user.clone(), guest.role, context.sessions.begin_guest(guest, &context.array))
        }),
    };
    let shown = found.as_ref().map_or(&user, |(user, ..)| user);
    context.array.accounts().log_login(shown, &origin, found.is_ok());
    let (user, role, (secret, until)) = found?;
    let mut extensions = Extensions::new();
    extensions.insert(ConnectInfo(peer));
    let cookie = cookie(&secret, &extensions);
    let session = Session { user, role, expires: Some(utc(until)) };
    Ok(([(SET_COOKIE, cookie)], Json(session)).into_response())
}

/// Authenticates a local user by password. One at a time: guessing must not take more than one processor,
/// nor slip past the count of failures.
async fn check_password(
    context: &Context,
    client: &[&str],
    user: &str,
    password: Secret,
) -> Result<Option<array::Member>, Problem> {
    let _one_at_a_time = context.logging_in.lock().await;
    let array = context.array.clone();
    if let Some(seconds) = context.sessions.wait(client, array.uptime()) {
        return Err(Problem::too_many_failures(seconds));
    }
    let asked = user.to_owned();
    let found = tokio::task::spawn_blocking(move || array.accounts().log_in(&asked, &password)).await;
    let found = found.map_err(|error| Problem::internal(format!("the log-in broke off: {error}")))?;
    if found.is_none() && !context.array.directories().has_password_check(user) {
        context.sessions.failed(client, context.array.uptime());
    }
    Ok(found)
}

/// The current password of the user whose session it is. Guessing it is counted like guessing at the door.
async fn check_own_password(
    context: &Context,
    operator: &Operator,
    name: &str,
    current: Secret,
) -> Result<array::Member, Problem> {
    let (origin, counted) = (operator.caller.origin.as_str(), format!("user {}", name.to_lowercase()));
    let found = check_password(context, &[origin, counted.as_str()], name, current).await?;
    found.ok_or_else(|| Problem::forbidden("the current password is wrong"))
}

/// Authenticates a directory user by password. Local users do not wait for that.
async fn elsewhere(
    context: &Context,
    client: &[&str],
    user: &str,
    password: Secret,
) -> Result<array::Guest, Problem> {
    let refused = || Problem::unauthorized("there is no such user, or the password is wrong");
    if !context.array.directories().has_password_check(user) {
        return Err(refused());
    }
    let _turn = context.pending_sign_ins.asking.acquire().await;
    if let Some(seconds) = context.sessions.wait(client, context.array.uptime()) {
        return Err(Problem::too_many_failures(seconds));
    }
    let (array, name) = (context.array.clone(), user.to_owned());
    let origin = client.first().copied().unwrap_or_default().to_owned();
    let asked = move || array.directories().log_in(&name, &password, &origin);
    let found = tokio::task::spawn_blocking(asked).await;
    match found.map_err(|error| Problem::internal(format!("the log-in broke off: {error}")))?? {
        Some(guest) => Ok(guest),
        None => {
            context.sessions.failed(client, context.array.uptime());
            Err(refused())
        }
    }
}

/// Get the current session
#[utoipa::path(get, path = "/api/v1/session", tag = "access", responses(
    (status = 200, description = "The session", body = Session),
    Problems,
))]
async fn show_session(operator: Operator) -> Json<Session> {
    let Operator { caller, until, .. } = operator;
    Json(Session { user: caller.user, role: caller.role, expires: until.map(utc) })
}

/// Log out
#[utoipa::path(delete, path = "/api/v1/session", tag = "access", responses(
    (status = 204, description = "Logged out"),
    Problems,
))]
async fn log_out(_operator: Operator, State(context): State<Context>, headers: HeaderMap) -> Response {
    if let Some(secret) = auth::cookie(&headers) {
        context.sessions.end(secret, &context.array);
    }
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie("", &Extensions::new()))]).into_response()
}

/// Changes to a user. Omitted fields keep their values.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct UserChange {
    /// Role.
    role: Option<Role>,
    /// New password, 8 to 256 characters. Existing sessions of the user end.
    #[schema(format = Password)]
    password: Option<String>,
    /// Current password. Required if, and only if, users change their own password.
    #[schema(format = Password)]
    current_password: Option<String>,
}

/// Get a user
#[utoipa::path(get, path = "/api/v1/users/{name}", tag = "access", params(("name" = String, Path)), responses(
    (status = 200, description = "The user", body = User),
    Problems,
))]
async fn show_user(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
) -> Answer<User> {
    let own = context.array.accounts().is_own(&operator.caller, &name);
    let it = match own {
        true => perform(operator, &context, array::ShowOwnUser).await?,
        false => perform(operator, &context, array::ShowUser { name }).await?,
    };
    Ok(Json(it))
}

/// Change a user
///
/// Users change their own password in a password session, with `current_password`. Tokens cannot.
#[utoipa::path(patch, path = "/api/v1/users/{name}", tag = "access", params(("name" = String, Path)),
    request_body = UserChange, responses(
    (status = 200, description = "The user", body = User),
    Problems,
))]
async fn change_user(
    operator: Operator,
    State(context): State<Context>,
    Named(name): Named<String>,
    Body(UserChange { role, password, current_password }): Body<UserChange>,
) -> Answer<User> {
    let password = password.map(Secret::new);
    let it = match (password, current_password) {
        (Some(password), Some(current)) if context.array.accounts().is_own(&operator.caller, &name) => {
            if role.is_some() {
                let detail = "set your own password and a role one after the other".into();
                return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail));
            }
            let verified = check_own_password(&context, &operator, &name, Secret::new(current)).await?;
            perform(operator, &context, array::ChangeOwnPassword { verified, password }).await?
        }
        (password, _) => {
            let change = array::ChangeUser { name, role, password };
            perform(operator, &context, change).await?
        }
    };
    Ok(Json(it))
}

/// A new certificate with its private key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewCertificate {
    /// Certificate chain in PEM, the array's own certificate first.
    chain: String,
    /// Private key in PEM.
    #[schema(format = Password)]
    key: String,
}

/// Replace the TLS certificate
///
/// New connections use the new certificate.
#[utoipa::path(put, path = "/api/v1/certificate", tag = "access", request_body = NewCertificate, responses(
    (status = 200, description = "The certificate", body = Certificate),
    Problems,
))]
async fn replace_certificate(
    operator: Operator,
    State(context): State<Context>,
    Body(NewCertificate { chain, key }): Body<NewCertificate>,
) -> Answer<Certificate> {
    check_certificate(&chain, &key).map_err(|wrong| Problem::rejected(StatusCode::BAD_REQUEST, wrong))?;
    let action = array::ReplaceCertificate { chain, key: Secret::new(key) };
    let it = perform(operator, &context, action).await?;
    Ok(Json(it))
}
