//! Request semantics of every path: requests repeated with the same `Idempotency-Key` are carried out once, also across a
//! restart, and requests with `If-Match` only if the object has not changed.

use crate::auth::Operator;
use crate::problem::Problem;
use crate::{BODY_LIMIT, Context, DOCUMENT_LIMIT, LOG_IN_BODY_LIMIT};
use array::{Caller, ExpiringKind, Role};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, ETAG, IF_MATCH, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Maximum number of responses kept for replay; the oldest are dropped first.
const MAX_SAVED_RESPONSES: usize = 1000;
/// How long a response can be replayed, in seconds.
const REPLAY_SECONDS: u64 = 24 * 3600;
/// Maximum length of an idempotency key.
pub const MAX_KEY_CHARS: usize = 255;
/// Time-out of a request body, and of one whose sender has not authenticated.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);
const LOG_IN_BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// Time-out of a configuration document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of bytes that are shown of a coding that is not understood.
const MAX_SHOWN_BYTES: usize = 32;

/// Where configuration documents are sent, which may be long.
const DOCUMENT_PATHS: &[&str] = &["/api/v1/configuration/compare", "/api/v1/configuration/import"];

/// Fields that change without a request, and are left out of the ETag.
const VOLATILE_FIELDS: &[&str] = &[
    "mapped",
    "provisioned",
    "space",
    "reduction",
    "sessions",
    "nvme_controllers",
    "uptime_seconds",
    "next",
    "link",
    "progress",
    "last",
    "snapshots",
    "performance",
    "reduction",
    "soft_quota_crossed",
    "hard_quota_reached",
];

/// State kept between requests.
#[derive(Clone)]
pub struct Contract {
    context: Context,
    responses: Arc<Mutex<SavedResponses>>,
    /// Held for writing from the comparison of an ETag until the change, and for reading by other changes.
    changes: Arc<tokio::sync::RwLock<()>>,
    /// Operations that wait for other machines: they never hold that. One that changes an object as well compares by itself, after it
    /// has waited.
    probes: Arc<[Probe]>,
    /// Held as long as a configuration document is in memory: there is one at a time.
    document: Arc<Semaphore>,
}

/// What is read of the body of a request.
struct Reading {
    limit: usize,
    timeout: Duration,
    _document: Option<OwnedSemaphorePermit>,
}

/// The method and the path of an operation, in segments; variable ones begin with a brace.
struct Probe {
    method: Method,
    path: Vec<String>,
    /// It waits only if this parameter of its query is true.
    parameter: Option<&'static str>,
}

/// The parameter by which a deletion waits for the witness of a synchronous replication.
const ERADICATE: &str = "eradicate";

impl Probe {
    /// Those of an API's description, by what its operations declare.
    fn all(description: &Value) -> Arc<[Self]> {
        let paths = description["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            let probe = |(method, operation): (&String, &Value)| {
                let is_probe =
                    ["probe", "exchange"].iter().any(|effect| operation["x-verb"]["effect"] == *effect);
                let mut parameters = operation["parameters"].as_array().into_iter().flatten();
                let eradicates = parameters.any(|it| it["in"] == "query" && it["name"] == ERADICATE);
                let parameter = eradicates.then_some(ERADICATE);
                if !is_probe && parameter.is_none() {
                    return None;
                }
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).ok()?;
                let parameter = parameter.filter(|_| !is_probe);
                Some(Self { method, path: path.split('/').map(str::to_owned).collect(), parameter })
            };
            item.as_object().into_iter().flatten().filter_map(probe).collect::<Vec<_>>()
        });
        operations.collect()
    }

    fn is(&self, method: &Method, uri: &Uri) -> bool {
        let segments: Vec<_> = uri.path().split('/').collect();
        let fits = |(own, given): (&String, &&str)| own.starts_with('{') || own == given;
        self.method == *method
            && self.path.len() == segments.len()
            && self.path.iter().zip(&segments).all(fits)
            && self.parameter.is_none_or(|name| {
                let query = Query::<HashMap<String, String>>::try_from_uri(uri);
                query.is_ok_and(|query| query.get(name).is_some_and(|value| value == "true"))
            })
    }
}

/// A saved response. While it is `None`, the holder of the lock carries out the request.
type Slot = Arc<tokio::sync::Mutex<Option<Saved>>>;

#[derive(Default)]
struct SavedResponses {
    slots: HashMap<blake3::Hash, Slot>,
    order: VecDeque<blake3::Hash>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    /// Hash of the request's body, in hex digits.
    body: String,
    status: u16,
    headers: Vec<(String, String)>,
    answer: String,
    /// Time until which it can be replayed, in seconds since 1970.
    until: u64,
}

impl SavedResponses {
    fn slot(&mut self, key: blake3::Hash) -> Slot {
        if !self.slots.contains_key(&key) {
            if self.order.len() == MAX_SAVED_RESPONSES {
                self.order.pop_front().and_then(|oldest| self.slots.remove(&oldest));
            }
            self.order.push_back(key);
        }
        self.slots.entry(key).or_default().clone()
    }
}

/// The middleware around all paths.
pub async fn keep(State(contract): State<Contract>, request: Request, next: Next) -> Response {
    match *request.method() {
        Method::GET => tagged(next.run(request).await).await,
        Method::POST | Method::PATCH | Method::PUT | Method::DELETE => {
            // A body is only read after authentication.
            let (mut parts, body) = request.into_parts();
            let reading = match contract.reading(&mut parts).await {
                Ok(reading) => reading,
                Err(problem) => return problem.into_response(),
            };
            let request = Request::from_parts(parts, body);
            let keyed = request.headers().contains_key(KEY) || request.headers().contains_key(IF_MATCH);
            // A log-in is no change of an object: neither header has a meaning.
            if !keyed || logs_in(request.uri().path()) {
                let answer = contract.plain(request, &reading, next).await;
                return answer.unwrap_or_else(IntoResponse::into_response);
            }
            // In a separate task, so that a client that disconnects and retries finds the response.
            match tokio::spawn(contract.once(request, reading, next)).await {
                Ok(answer) => answer.unwrap_or_else(IntoResponse::into_response),
                Err(error) => Problem::internal(format!("the request broke off: {error}")).into_response(),
            }
        }
        _ => next.run(request).await,
    }
}

/// Refuses a body in a coding: no coding is decoded, and as it is, it could be read as something else (RFC 9110 8.4, 15.5.16).
fn refuse_codings(headers: &HeaderMap) -> Result<(), Problem> {
    for (name, known, status) in [
        (CONTENT_ENCODING, "identity", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (TRANSFER_ENCODING, "chunked", StatusCode::NOT_IMPLEMENTED),
    ] {
        let fields = headers.get_all(&name).iter();
        let codings =
            fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        if let Some(other) =
            codings.into_iter().find(|it| !it.is_empty() && !it.eq_ignore_ascii_case(known.as_bytes()))
        {
            let shown = other.get(..MAX_SHOWN_BYTES).unwrap_or(other).escape_ascii();
            let detail =
                format!("a body in the coding \"{shown}\" is not understood: send it without {name}");
            return Err(Problem::rejected(status, detail));
        }
    }
    Ok(())
}

/// The request with its complete body, within the time-out.
async fn read_body(
    request: Request,
    reading: &Reading,
) -> Result<(axum::http::request::Parts, Bytes), Problem> {
    let (parts, body) = request.into_parts();
    refuse_codings(&parts.headers)?;
    let Ok(body) = tokio::time::timeout(reading.timeout, to_bytes(body, reading.limit)).await else {
        let detail = "the body did not come in time: send the request again";
        return Err(Problem::rejected(StatusCode::REQUEST_TIMEOUT, detail.into()));
    };
    let body = body.map_err(|error| Problem::rejected(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?;
    Ok((parts, body))
}

impl Contract {
    pub fn new(context: Context) -> Self {
        let description = serde_json::from_str(&crate::openapi()).expect("a description is JSON");
        let (probes, document) = (Probe::all(&description), Arc::new(Semaphore::new(1)));
        Self { context, responses: Arc::default(), changes: Arc::default(), probes, document }
    }

    /// Whether a request may change an object without waiting for another machine. Others hold no lock: a machine that does not
    /// respond would delay every change.
    fn may_change(&self, request: &Request) -> bool {
        let (method, uri) = (request.method(), request.uri());
        !logs_in(uri.path()) && !self.probes.iter().any(|probe| probe.is(method, uri))
    }

    /// How much is read of the body of a request, once its sender is known.
    async fn reading(&self, parts: &mut axum::http::request::Parts) -> Result<Reading, Problem> {
        if logs_in(parts.uri.path()) {
            return Ok(Reading { limit: LOG_IN_BODY_LIMIT, timeout: LOG_IN_BODY_TIMEOUT, _document: None });
        }
        let operator = Operator::from_request_parts(parts, &self.context).await?;
        let is_document = DOCUMENT_PATHS.contains(&parts.uri.path()) && operator.caller.role >= Role::Admin;
        if !is_document {
            return Ok(Reading { limit: BODY_LIMIT, timeout: BODY_TIMEOUT, _document: None });
        }
        let one = self.document.clone().acquire_owned().await;
        let one = one.map_err(|error| Problem::internal(error.to_string()))?;
        Ok(Reading { limit: DOCUMENT_LIMIT, timeout: DOCUMENT_TIMEOUT, _document: Some(one) })
    }

    /// A request without either header; it does not run between the comparison and the change of another one.
    async fn plain(self, request: Request, reading: &Reading, next: Next) -> Result<Response, Problem> {
        let (parts, body) = read_body(request, reading).await?;
        let request = Request::from_parts(parts, body.into());
        let _change = if self.may_change(&request) { Some(self.changes.read().await) } else { None };
        Ok(next.run(request).await)
    }

    async fn once(self, request: Request, reading: Reading, next: Next) -> Result<Response, Problem> {
        let (mut parts, body) = read_body(request, &reading).await?;
        let if_match = Expected::of(&parts.headers)?;
        let Some(given) = given_key(&parts)? else {
            return self.matching(Request::from_parts(parts, body.into()), if_match, next).await;
        };
        // Responses may hold secrets: replaying one requires the same authorization.
        let operator = Operator::from_request_parts(&mut parts, &self.context).await?;
        let key = scope(&operator.caller, &parts, &given);
        let hash = blake3::hash(&body).to_string();
        let slot = self.responses.lock().unwrap_or_else(PoisonError::into_inner).slot(key);
        let mut slot = slot.lock().await;
        if let Some(saved) = slot.take().or_else(|| self.load(&key)).filter(|it| it.until > self.now()) {
            let again = if saved.body == hash { Ok(saved.again()) } else { Err(Problem::reused_key()) };
            *slot = Some(saved);
            return again;
        }
        let answer = self.matching(Request::from_parts(parts, body.into()), if_match, next).await?;
        if !answer.status().is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let answer = to_bytes(body, usize::MAX).await;
        let answer = answer.map_err(|error| Problem::internal(format!("an answer broke off: {error}")))?;
        *slot = Saved::of(hash, &parts, &answer, self.now() + REPLAY_SECONDS);
        slot.iter().for_each(|saved| self.save(&key, saved));
        Ok(Response::from_parts(parts, Body::from(answer)))
    }

    fn now(&self) -> u64 {
        self.context.array.now()
    }

    /// Saves a response for a replay after a restart. After a crash in between, a repeated request is new.
    fn save(&self, key: &blake3::Hash, saved: &Saved) {
        let text = serde_json::to_string(saved).expect("an answer is JSON");
        self.context.array.sealed_store().store(ExpiringKind::Reply, key.as_bytes(), saved.until, &text);
    }

    /// The response saved before a restart.
    fn load(&self, key: &blake3::Hash) -> Option<Saved> {
        serde_json::from_str(&self.context.array.sealed_store().load(ExpiringKind::Reply, key.as_bytes())?)
            .ok()
    }

    /// Carries out the request if the ETag of the object matches, or none is required.
    async fn matching(
        &self,
        request: Request,
        if_match: Option<Expected>,
        next: Next,
    ) -> Result<Response, Problem> {
        let may_change = self.may_change(&request);
        let Some(if_match) = if_match else {
            let _change = if may_change { Some(self.changes.read().await) } else { None };
            return Ok(next.run(request).await);
        };
        let _exclusive = if may_change { Some(self.changes.write().await) } else { None };
        let mut get = Request::new(Body::empty());
        *get.uri_mut() = request.uri().path().parse().unwrap_or_default();
        for name in [AUTHORIZATION, COOKIE] {
            get.headers_mut().extend(request.headers().get(&name).map(|value| (name, value.clone())));
        }
        get.extensions_mut().extend(request.extensions().clone());
        let found = tagged(next.clone().run(get).await).await;
        if !found.status().is_success() {
            return Ok(found);
        }
        let tag = found.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
        if if_match.includes(tag) { Ok(next.run(request).await) } else { Err(Problem::stale()) }
    }
}

/// The states of an object for which a change is wanted: `If-Match` (RFC 9110 13.1.1).
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// Any state.
    Any,
    /// The states with these entity tags.
    Tags(Vec<String>),
}

impl Expected {
    /// The condition of a request, if it has one.
    ///
    /// # Errors
    /// If it is not one: understood as another condition, it could permit any change.
    fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let fields: Option<Vec<_>> =
            headers.get_all(IF_MATCH).iter().map(|field| field.to_str().ok()).collect();
        let text = fields.ok_or_else(wrong_tags)?.join(",");
        let members: Vec<_> = text.split(',').map(str::trim).filter(|member| !member.is_empty()).collect();
        let is_tag = |member: &&str| {
            let opaque = member.strip_prefix("W/").unwrap_or(member);
            let inner = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            inner.is_some_and(|inner| !inner.contains('"'))
        };
        match members[..] {
            [] if !headers.contains_key(IF_MATCH) => Ok(None),
            ["*"] => Ok(Some(Self::Any)),
            [_, ..] if members.iter().all(is_tag) => {
                Ok(Some(Self::Tags(members.into_iter().map(str::to_owned).collect())))
            }
            _ => Err(wrong_tags()),
        }
    }

    fn includes(&self, tag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => !tag.is_empty() && tags.iter().any(|expected| expected == tag),
        }
    }
}

fn wrong_tags() -> Problem {
    Problem::rejected(
        StatusCode::BAD_REQUEST,
        "If-Match is neither * nor a list of entity tags in quotes, as in ETag of a response".into(),
    )
}

impl Saved {
    /// `None` if it is not text, which responses to changes always are.
    fn of(body: String, parts: &axum::http::response::Parts, answer: &[u8], until: u64) -> Option<Self> {
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.to_string(), value.to_str().ok()?.to_owned()))
        };
        let (status, headers) = (parts.status.as_u16(), parts.headers.iter().filter_map(text).collect());
        Some(Self { body, status, headers, answer: std::str::from_utf8(answer).ok()?.to_owned(), until })
    }

    fn again(&self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let mut response = (status, self.answer.clone()).into_response();
        let pair = |(name, value): &(String, String)| Some((name.parse().ok()?, value.parse().ok()?));
        *response.headers_mut() = self.headers.iter().filter_map(pair).collect();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// Whether the path logs in. Each log-in begins a new session, so an idempotency key has no meaning.
pub fn logs_in(path: &str) -> bool {
    let path = path.strip_prefix("/api/v1/").unwrap_or_default();
    path == "session" || path == "sign-in" || path.starts_with("sign-in/")
}

/// The idempotency key of a request.
fn given_key(parts: &axum::http::request::Parts) -> Result<Option<HeaderValue>, Problem> {
    let Some(key) = parts.headers.get(KEY) else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY_CHARS {
        let detail = format!("an Idempotency-Key has 1 to {MAX_KEY_CHARS} characters");
        return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail));
    }
    Ok(Some(key.clone()))
}

/// Scope of an idempotency key: caller, role, method and path. Not the headers with the credentials: a proxy may rewrite
/// them, a browser sends more cookies, and a new session is still the same user. The
/// responses of a session are not replayed to a token of the same user, nor the reverse.
fn scope(caller: &Caller, parts: &axum::http::request::Parts, key: &HeaderValue) -> blake3::Hash {
    let caller_id = caller.credential_key();
    let uri = parts.uri.to_string();
    let parts = [
        caller_id.as_bytes(),
        caller.role.name().as_bytes(),
        parts.method.as_str().as_bytes(),
        uri.as_bytes(),
    ];
    let mut hasher = blake3::Hasher::new();
    for part in parts.into_iter().chain([key.as_bytes()]) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.finalize()
}

/// Adds an ETag to the response for a single object.
async fn tagged(response: Response) -> Response {
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|it| it == "application/json");
    if response.status() != StatusCode::OK || !json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Problem::internal("an answer broke off".into()).into_response();
    };
    if let Some(tag) = tag(&body).and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        parts.headers.insert(ETAG, tag);
    }
    Response::from_parts(parts, Body::from(body))
}

/// The ETag of a named object; lists have none.
fn tag(body: &[u8]) -> Option<String> {
    let Value::Object(mut object) = serde_json::from_slice(body).ok()? else { return None };
    if !object.contains_key("name") {
        return None;
    }
    VOLATILE_FIELDS.iter().for_each(|field| drop(object.remove(*field)));
    let hash = blake3::hash(Value::Object(object).to_string().as_bytes());
    Some(format!("\"{}\"", &hash.to_hex()[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_wait_for_other_machines_hold_up_no_change() {
        let description = serde_json::from_str(&crate::openapi()).unwrap();
        let probes = Probe::all(&description);
        let is = |method: Method, uri: &str| {
            let uri = uri.parse().unwrap();
            probes.iter().any(|probe| probe.is(&method, &uri))
        };
        let waits = |path: &str| is(Method::POST, path);
        for path in
            ["remote-arrays", "replications/prod/reverse", "key/rotate", "notification-targets/x/test"]
        {
            assert!(waits(&format!("/api/v1/{path}")), "{path}");
        }
        assert!(!waits("/api/v1/volumes"));
        for (query, waits) in [
            ("", false),
            ("?eradicate=false", false),
            ("?eradicate=true", true),
            ("?eradicate=%74rue", true),
            ("?eradicated=true", false),
        ] {
            assert_eq!(is(Method::DELETE, &format!("/api/v1/volumes/db1{query}")), waits, "{query}");
        }
    }

    #[test]
    fn a_body_in_a_coding_is_refused_and_not_read_as_it_is() {
        let refused = |name: &HeaderName, values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(name, HeaderValue::from_static(value));
            }
            refuse_codings(&headers).err().map(|problem| problem.into_response().status().as_u16())
        };
        for values in [&["gzip"][..], &["identity, br"], &["Identity", "deflate"], &["?"], &["identity gzip"]]
        {
            assert_eq!(refused(&CONTENT_ENCODING, values), Some(415), "{values:?}");
        }
        assert_eq!(refused(&TRANSFER_ENCODING, &["gzip, chunked"]), Some(501));
        for (name, value) in [
            (&CONTENT_ENCODING, "identity"),
            (&CONTENT_ENCODING, " , Identity"),
            (&TRANSFER_ENCODING, "Chunked"),
        ] {
            assert_eq!(refused(name, &[value]), None, "{value}");
        }
        assert_eq!(refused(&CONTENT_ENCODING, &[]), None);
    }

    #[test]
    fn a_tag_covers_settings_and_no_volatile_fields() {
        let tags = [r#"{"name":"a","mapped":1}"#, r#"{"mapped":2,"name":"a"}"#, r#"{"name":"b","mapped":1}"#]
            .map(|body| tag(body.as_bytes()));
        assert_eq!(tags[0], tags[1]);
        assert!(tags[0].is_some() && tags[0] != tags[2]);
        assert_eq!(tag(br#"{"items":[],"total":0}"#), None);
    }

    #[test]
    fn an_idempotency_key_is_scoped_to_the_caller_and_not_to_headers() {
        let parts = |headers: &[(&str, &str)]| {
            let mut request = axum::http::Request::builder().method("POST").uri("/api/v1/tokens");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.body(()).unwrap().into_parts().0
        };
        let key = HeaderValue::from_static("one");
        use array::Credential;
        let caller = |credential, role| Caller { role, credential, ..Caller::array() };
        let admin = array::Role::Admin;
        let session = |set| caller(Credential::Session(array::UserId(7), set), admin);
        let scope = |caller: &Caller, headers: &[(&str, &str)]| scope(caller, &parts(headers), &key);
        let original = scope(&session(1), &[("cookie", "ashlar-session=a")]);
        assert_eq!(
            original,
            scope(&session(1), &[("cookie", "theme=dark; ashlar-session=a")]),
            "another cookie"
        );
        assert_eq!(
            original,
            scope(&session(1), &[("cookie", "ashlar-session=b")]),
            "another session of the user"
        );
        for other in [
            caller(Credential::Session(array::UserId(8), 1), admin),
            caller(Credential::Session(array::UserId(7), 1), array::Role::Viewer),
            caller(Credential::Token(array::TokenId(7)), admin),
            caller(Credential::Guest(array::DirectoryId(7), 1), admin),
            caller(Credential::Machine, admin),
        ] {
            assert_ne!(original, scope(&other, &[("cookie", "ashlar-session=a")]), "{other:?}");
        }
    }

    #[test]
    fn a_condition_that_is_not_understood_permits_nothing() {
        let of = |fields: &[&str]| {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(IF_MATCH, field.parse().unwrap());
            }
            Expected::of(&headers)
        };
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[" * "]).unwrap(), Some(Expected::Any));
        let tags = of(&["\"a\" , W/\"b\"", "\"c\""]).unwrap().unwrap();
        assert!(
            tags.includes("\"a\"") && tags.includes("\"c\"") && !tags.includes("\"b\"") && !tags.includes("")
        );
        for wrong in ["", " ", ",", "a", "\"a", "a\"", "\"a\", *", "*, *", "\"a\" \"b\"", "w/\"a\""] {
            assert!(of(&[wrong]).is_err(), "{wrong}");
        }
        assert!(of(&["\"a\"", "*"]).is_err());
    }

    #[test]
    fn operations_that_wait_for_other_servers_and_change_nothing_are_known() {
        let probes = Probe::all(&serde_json::from_str(&crate::openapi()).unwrap());
        let is_probe = |method: Method, uri: &str| {
            let uri = uri.parse().unwrap();
            probes.iter().any(|probe| probe.is(&method, &uri))
        };
        assert!(is_probe(Method::POST, "/api/v1/directories/corp/test"));
        assert!(is_probe(Method::POST, "/api/v1/notification-targets/a%2Fb/test"));
        assert!(!is_probe(Method::GET, "/api/v1/directories/corp/test"));
        assert!(!is_probe(Method::PATCH, "/api/v1/directories/corp"));
        assert!(!is_probe(Method::POST, "/api/v1/directories/corp/test/more"));
        assert!(!is_probe(Method::DELETE, "/api/v1/volumes/test"));
    }

    #[test]
    fn the_oldest_responses_are_dropped_first() {
        let mut responses = SavedResponses::default();
        let key = |number: usize| blake3::hash(&number.to_le_bytes());
        (0..=MAX_SAVED_RESPONSES).for_each(|number| drop(responses.slot(key(number))));
        assert_eq!(
            (responses.slots.len(), responses.order.len()),
            (MAX_SAVED_RESPONSES, MAX_SAVED_RESPONSES)
        );
        assert!(
            !responses.slots.contains_key(&key(0)) && responses.slots.contains_key(&key(MAX_SAVED_RESPONSES))
        );
    }
}
