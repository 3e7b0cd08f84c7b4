//! Authentication of requests: by the array's own token, an API token, or a session cookie.

use crate::Context;
use crate::limiter::Connection;
use crate::problem::Problem;
use crate::session::{COOKIE, Found};
use crate::tls::Peer;
use array::{Bearer, Caller, Credential, FIRST_USER, Role};
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{AUTHORIZATION, COOKIE as COOKIES, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};

/// Names the user that a request is made for.
const ON_BEHALF_OF: HeaderName = HeaderName::from_static("ashlar-on-behalf-of");
/// Longest name of such a user, in bytes.
const MAX_REPRESENTED_BYTES: usize = 256;
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The secret in the array's folder that lets a program on its machine in. Only its hash is kept, so that comparing
/// takes the same time for all.
#[derive(Clone, Copy, Debug)]
pub struct Token(blake3::Hash);

impl Token {
    /// Accepts `secret`.
    ///
    /// # Panics
    /// When it is empty.
    pub fn new(secret: &str) -> Self {
        assert!(!secret.is_empty(), "an empty token would let everybody in");
        Self(blake3::hash(secret.as_bytes()))
    }

    /// The hash by which a secret is recognized, and which is no secret itself, in hex digits.
    pub fn digest(&self) -> String {
        self.0.to_hex().to_string()
    }

    /// The token of a digest; `None` if it is none.
    pub fn of_digest(digest: &str) -> Option<Self> {
        blake3::Hash::from_hex(digest).ok().map(Self)
    }

    fn is(&self, secret: &str) -> bool {
        // `Hash` compares in constant time.
        blake3::hash(secret.as_bytes()) == self.0
    }
}

/// Proof that a request is authenticated. Every handler takes one; authorization depends on the action.
pub struct Operator {
    /// The caller.
    pub caller: Caller,
    /// When its session ends, in seconds since 1970.
    pub until: Option<u64>,
    /// The session, by the hash of its secret.
    session: Option<blake3::Hash>,
}

impl Operator {
    /// Whether what authenticated the request is still valid, and has the same role: what is sent for longer than a moment
    /// ends when it is not.
    pub fn is_current(&self, context: &Context) -> bool {
        let is_valid = |session: &blake3::Hash| context.sessions.is_valid(session, context.array.now());
        self.session.as_ref().is_none_or(is_valid)
            && context.array.accounts().role_now(&self.caller) == Some(self.caller.role)
    }
}

impl FromRequestParts<Context> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, context: &Context) -> Result<Self, Problem> {
        let operator = Self::of_request(parts, context)?;
        if let Some(connection) = parts.extensions.get::<Connection>() {
            connection.authenticated(&operator.caller);
        }
        Ok(operator)
    }
}

impl Operator {
    /// Authenticates a request.
    fn of_request(parts: &Parts, context: &Context) -> Result<Self, Problem> {
        let caller =
            |user: String, role, credential| Caller { user, origin: origin(parts), role, credential };
        if let Some(given) = text(&parts.headers, &AUTHORIZATION) {
            let secret = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let (_, secret) =
                secret.ok_or_else(|| Problem::unauthorized("send: Authorization: Bearer TOKEN"))?;
            let secret = secret.trim();
            if context.token.is(secret) || token_of_relay(parts).is_some_and(|token| token.is(secret)) {
                if represented(&parts.headers)?.is_some() {
                    return Err(not_on_behalf());
                }
                let caller = caller(FIRST_USER.into(), Role::Admin, Credential::Machine);
                return Ok(Self { caller, until: None, session: None });
            }
            let found = context.array.accounts().token(secret).ok_or_else(|| {
                Problem::unauthorized("the token is not of this array, or has expired: log in again")
            })?;
            let Bearer { id, user, role, on_behalf } = found;
            let user = match represented(&parts.headers)? {
                None => user,
                Some(_) if !on_behalf => return Err(not_on_behalf()),
                Some(other) => format!("{user} for {other}"),
            };
            let caller = caller(user, role, Credential::Token(id));
            return Ok(Self { caller, until: None, session: None });
        }
        let cookie = cookie(&parts.headers)
            .ok_or_else(|| Problem::unauthorized("log in, or send a token: Authorization: Bearer TOKEN"))?;
        if parts.method != Method::GET && parts.method != Method::HEAD && is_from_elsewhere(&parts.headers) {
            return Err(Problem::forbidden("the request comes from a page of another site"));
        }
        let found = context
            .sessions
            .find(cookie, &context.array)
            .ok_or_else(|| Problem::unauthorized("the session is over: log in again"))?;
        if represented(&parts.headers)?.is_some() {
            return Err(not_on_behalf());
        }
        let Found { user, role, credential, until } = found;
        let session = Some(blake3::hash(cookie.as_bytes()));
        Ok(Self { caller: caller(user, role, credential), until: Some(until), session })
    }
}

/// The user that a request says it is made for.
///
/// # Errors
/// If the name is empty, longer than [`MAX_REPRESENTED_BYTES`], not UTF-8, has characters that can't be shown, or is given twice.
fn represented(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(ON_BEHALF_OF).iter();
    let Some(value) = given.next() else { return Ok(None) };
    // Only what HTTP itself calls white space: U+0085 is both white space and a control character of Unicode.
    let name = std::str::from_utf8(value.as_bytes()).ok().map(|name| name.trim_matches([' ', '\t']));
    let name = name.filter(|name| !name.is_empty() && name.len() <= MAX_REPRESENTED_BYTES);
    match name.filter(|name| given.next().is_none() && name.chars().all(array::is_visible)) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(Problem::rejected(
            StatusCode::BAD_REQUEST,
            format!(
                "Ashlar-On-Behalf-Of is one name of 1 to {MAX_REPRESENTED_BYTES} bytes in UTF-8, all of them visible"
            ),
        )),
    }
}

/// An ignored header would leave an audit log that does not say what the client believes.
fn not_on_behalf() -> Problem {
    Problem::forbidden(
        "these credentials may not act for others: create a token with `ashlar token create NAME --on-behalf`, \
         or leave out the header Ashlar-On-Behalf-Of",
    )
}

pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The session's secret in the cookies.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    cookie_named(headers, COOKIE)
}

/// What a cookie holds.
pub fn cookie_named<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIES).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Browsers say from which site a page sends a request; the cookie is not even sent from others (SameSite), but this
/// costs nothing. What is no browser says nothing.
pub fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    if let Some(site) = text(headers, &FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    let host = text(headers, &HOST).unwrap_or_default();
    text(headers, &ORIGIN).is_some_and(|origin| origin.split_once("://").map(|(_, site)| site) != Some(host))
}

/// The token of the data folder of the controller that passes a request on.
fn token_of_relay(parts: &Parts) -> Option<Token> {
    parts.extensions.get::<ConnectInfo<Peer>>().and_then(|ConnectInfo(peer)| peer.token)
}

/// The address that a request comes from.
pub fn origin(parts: &Parts) -> String {
    let peer = parts.extensions.get::<ConnectInfo<Peer>>();
    peer.map_or_else(|| "local".into(), |ConnectInfo(peer)| peer.address.ip().to_string())
}

#[cfg(test)]
#[path = "auth_test.rs"]
mod tests;
