//! OpenID Connect: the authorization code flow (OpenID Connect Core 1.0, section 3.1) with PKCE (RFC 7636).
//!
//! The provider's metadata is fetched for each code, so its keys may change at any time; a redirect uses recent
//! metadata.

use crate::{
    AuthorizationRequest, Credentials, Directory, DirectoryUser, Error, MAX_NAME_BYTES, Result, TIMEOUT,
    directory_user, is_loopback,
};
use openidconnect::core::*;
use openidconnect::{
    AccessToken, AccessTokenHash, AdditionalClaims, AuthenticationFlow, AuthorizationCode, Client, ClientId,
    ClientSecret, CsrfToken, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet,
    HttpRequest, HttpResponse, IdTokenFields, IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, StandardErrorResponse, StandardTokenResponse,
    SubjectIdentifier, TokenResponse, UserInfoClaims,
};
use parking_lot::Mutex;
use records::{Oidc, mark};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::{Duration, Instant};

/// Page of the array for the redirect URI.
pub const SIGN_IN: &str = "/sign-in";

/// Maximum age of metadata for a redirect.
const METADATA_MAX_AGE: Duration = Duration::from_secs(300);
/// Maximum size of a response; the largest is a key set.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;
/// An invalid code: the provider's error response shows whether the client is registered.
const INVALID_CODE: &str = "this-is-a-test-of-the-settings";
/// Maximum number of displayed characters of a provider's message.
const MAX_SHOWN_CHARS: usize = 200;

/// Accepted signature algorithms of ID tokens. HMAC with the client secret is excluded: holders of the secret could
/// forge tokens.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Claims that are not standardized.
#[derive(Debug, Serialize, Deserialize)]
struct Others(Map<String, Value>);
impl AdditionalClaims for Others {}

type IdFields = IdTokenFields<
    Others,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type Tokens = StandardTokenResponse<IdFields, CoreTokenType>;
type ConfiguredClient = Client<
    Others,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// A failed HTTP request.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RequestFailed(String);

/// An OpenID provider.
pub struct Provider {
    settings: Oidc,
    secret: Option<ClientSecret>,
    /// Metadata and time of the last fetch.
    metadata: Mutex<Option<(Instant, CoreProviderMetadata)>>,
}

/// Refuses settings that can't work.
pub(crate) fn check(settings: &Oidc) -> Result<()> {
    let issuer = address(&settings.issuer, "the issuer")?;
    if issuer.query().is_some() {
        return Err(Error::failed(
            "an issuer has no query (OpenID Connect Core 1.0, section 2): leave it out",
        ));
    }
    let own = address(&settings.address, "the address of the array")?;
    if !matches!(own.path(), "" | "/") || own.query().is_some() {
        return Err(Error::failed(
            "the address of the array must have no path: write https://array.example.com",
        ));
    }
    let short = |it: &String| (1..=MAX_NAME_BYTES).contains(&it.len()) && !it.contains(char::is_whitespace);
    if ![&settings.client_id, &settings.user_claim, &settings.groups_claim].into_iter().all(short) {
        return Err(Error::failed(format!(
            "client ID and claim names have 1 to {MAX_NAME_BYTES} bytes without spaces"
        )));
    }
    if settings.scopes.len() > 16 || !settings.scopes.iter().all(short) {
        return Err(Error::failed("at most 16 scopes are allowed, each one word"));
    }
    Ok(trust::check(settings.ca.as_deref())?)
}

fn redirect(settings: &Oidc) -> String {
    format!("{}{SIGN_IN}", settings.address.trim_end_matches('/'))
}

/// Checks an address that receives secrets: it must use TLS, or a loopback address.
fn address(text: &str, what: &str) -> Result<ureq::http::Uri> {
    // Without what may be a password: the audit log keeps errors.
    let wrong = |why: &str| Error::failed(format!("{what}, {:?}, {why}", mark::shown_address(text)));
    let uri: ureq::http::Uri =
        text.parse().map_err(|_| wrong("is not an address such as https://example.com"))?;
    let host = uri.host().unwrap_or_default();
    if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
        return Err(wrong("must have neither user nor password"));
    }
    if host.is_empty() || text.contains('#') {
        return Err(wrong("is not an address such as https://example.com"));
    }
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if is_loopback(host) => Ok(uri),
        Some("http") => Err(wrong("must use TLS: it begins with https://")),
        _ => Err(wrong("must begin with https://")),
    }
}

impl Provider {
    pub fn new(settings: Oidc, secret: Option<&str>) -> Self {
        let secret = secret.map(|secret| ClientSecret::new(secret.to_owned()));
        Self { settings, secret, metadata: Mutex::default() }
    }

    fn send(&self, request: HttpRequest) -> std::result::Result<HttpResponse, RequestFailed> {
        let uri = request.uri().to_string();
        // The same rules apply to addresses in the metadata.
        let to =
            address(&uri, "an address of the provider").map_err(|error| RequestFailed(error.to_string()))?;
        let agent = trust::agent(to.scheme_str() == Some("https"), self.settings.ca.as_deref(), TIMEOUT);
        let agent = agent.map_err(|error| RequestFailed(error.to_string()))?;
        let host = to.host().unwrap_or_default();
        let failed = |error: ureq::Error| RequestFailed(format!("{host} can't be reached: {error}"));
        let (mut parts, body) = agent.run(request).map_err(failed)?.into_parts();
        let bytes = body.into_with_config().limit(MAX_RESPONSE_BYTES).read_to_vec().map_err(failed)?;
        parts.extensions.clear();
        Ok(HttpResponse::from_parts(parts, bytes))
    }

    /// Fetches the provider's metadata and keys.
    fn discover(&self) -> Result<CoreProviderMetadata> {
        let failed = |error: String| {
            Error::failed(format!("the provider {} can't be used: {error}", self.settings.issuer))
        };
        let issuer =
            IssuerUrl::new(self.settings.issuer.clone()).map_err(|error| failed(error.to_string()))?;
        let send = |request| self.send(request);
        let found = CoreProviderMetadata::discover(&issuer, &send).map_err(|error| failed(chain(&error)))?;
        *self.metadata.lock() = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    fn recent(&self) -> Result<CoreProviderMetadata> {
        let known = self.metadata.lock().clone();
        match known.filter(|(at, _)| at.elapsed() < METADATA_MAX_AGE) {
            Some((_, found)) => Ok(found),
            None => self.discover(),
        }
    }

    fn client(&self, published: CoreProviderMetadata) -> Result<ConfiguredClient> {
        let redirect = RedirectUrl::new(redirect(&self.settings)).map_err(Error::failed)?;
        let id = ClientId::new(self.settings.client_id.clone());
        Ok(Client::from_provider_metadata(published, id, self.secret.clone()).set_redirect_uri(redirect))
    }

    /// Exchanges a code for tokens and returns the verified claims.
    fn claims(&self, request: &AuthorizationRequest, code: &str) -> Result<Value> {
        let client = self.client(self.discover()?)?;
        let send = |request| self.send(request);
        let exchange = client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let exchange = exchange.map_err(|error| Error::failed(chain(&error)))?;
        let verifier = PkceCodeVerifier::new(request.verifier.clone());
        let tokens = exchange.set_pkce_verifier(verifier).request(&send).map_err(token_error)?;
        let refused = |why: String| Error::refused(format!("the provider's ID token is not valid: {why}"));
        let token = tokens.id_token().ok_or_else(|| refused("there is none".into()))?;
        let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
        let nonce = Nonce::new(request.nonce.clone());
        let claims = token.claims(&verifier, &nonce).map_err(|error| refused(chain(&error)))?;
        if let Some(expected) = claims.access_token_hash() {
            let algorithm = token.signing_alg().map_err(|error| refused(chain(&error)))?;
            let key = token.signing_key(&verifier).map_err(|error| refused(chain(&error)))?;
            let actual = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if actual.map_err(|error| refused(chain(&error)))? != *expected {
                return Err(refused("it belongs to another access token".into()));
            }
        }
        let mut known = serde_json::to_value(claims).map_err(Error::failed)?;
        let required = [&self.settings.user_claim, &self.settings.groups_claim];
        if required.into_iter().any(|claim| find(&known, claim).is_none()) {
            let more = self.user_info(&client, tokens.access_token(), claims.subject())?;
            if let (Value::Object(known), Value::Object(more)) = (&mut known, more) {
                // Signed claims take precedence.
                for (name, value) in more {
                    known.entry(name).or_insert(value);
                }
            }
        }
        Ok(known)
    }

    /// Claims from the UserInfo endpoint; null if the provider has none.
    fn user_info(
        &self,
        client: &ConfiguredClient,
        token: &AccessToken,
        subject: &SubjectIdentifier,
    ) -> Result<Value> {
        let Ok(request) = client.user_info(token.clone(), Some(subject.clone())) else {
            return Ok(Value::Null);
        };
        let send = |request| self.send(request);
        let claims: UserInfoClaims<Others, CoreGenderClaim> = request
            .request(&send)
            .map_err(|error| Error::failed(format!("the provider returned no claims: {}", chain(&error))))?;
        serde_json::to_value(claims).map_err(Error::failed)
    }
}

impl Directory for Provider {
    fn test(&self) -> Result<String> {
        let published = self.discover()?;
        let methods = published.id_token_signing_alg_values_supported();
        if !methods.iter().any(|it| ALGORITHMS.contains(it)) {
            return Err(Error::failed(
                "the provider signs ID tokens with no algorithm that is accepted here: configure RS256",
            ));
        }
        let (issuer, client) = (self.settings.issuer.as_str(), self.client(published)?);
        let exchange = client.exchange_code(AuthorizationCode::new(INVALID_CODE.into()));
        let exchange = exchange.map_err(|error| Error::failed(chain(&error)))?;
        let (_, verifier) = PkceCodeChallenge::new_random_sha256();
        match exchange.set_pkce_verifier(verifier).request(&|request| self.send(request)) {
            // The provider rejected the code, not the client.
            Err(RequestTokenError::ServerResponse(response))
                if *response.error() == CoreErrorResponseType::InvalidGrant =>
            {
                Ok(format!("{issuer} responds and knows the client {:?}", self.settings.client_id))
            }
            Err(error) => Err(token_error(error)),
            Ok(_) => Err(Error::failed(format!("{issuer} accepted an invalid code: it can't be trusted"))),
        }
    }

    fn begin_authorization(&self) -> Result<Option<AuthorizationRequest>> {
        let client = self.client(self.recent()?)?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let mut request = client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        for scope in &self.settings.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        let (url, state, nonce) = request.set_pkce_challenge(challenge).url();
        // Browsers are redirected to this page, so it must not be a script and must use TLS.
        address(url.as_str(), "the provider's page")?;
        Ok(Some(AuthorizationRequest {
            url: url.into(),
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
        }))
    }

    fn authenticate(&self, credentials: &Credentials) -> Result<DirectoryUser> {
        let Credentials::Code { request, code, issuer } = credentials else {
            return Err(Error::refused("users of this directory sign in at the page of its provider"));
        };
        if issuer.is_some_and(|it| it != self.settings.issuer) {
            return Err(Error::refused(
                "the response is not from the provider to which the request was sent",
            ));
        }
        let claims = self.claims(request, code)?;
        let Oidc { user_claim, groups_claim, .. } = &self.settings;
        let name = find(&claims, user_claim).and_then(Value::as_str).ok_or_else(|| {
            Error::failed(format!(
                "the provider returned no claim {user_claim:?} for the user name: choose another claim, or add the \
                 scope that it needs"
            ))
        })?;
        directory_user(name.to_owned(), groups_of(find(&claims, groups_claim)))
    }
}

/// A claim by name, or by a path of names separated by dots.
fn find<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| name.split('.').try_fold(claims, |inside, part| inside.get(part)))
}

/// Groups in a claim: a list of names, or one name.
fn groups_of(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    }
}

/// Reason why the provider issued no tokens.
fn token_error(
    error: RequestTokenError<RequestFailed, StandardErrorResponse<CoreErrorResponseType>>,
) -> Error {
    let RequestTokenError::ServerResponse(response) = error else {
        return Error::failed(format!("the provider issued no tokens: {}", chain(&error)));
    };
    let why: String =
        response.error_description().map_or("", |it| it.as_str()).chars().take(MAX_SHOWN_CHARS).collect();
    match response.error() {
        CoreErrorResponseType::InvalidGrant => {
            Error::refused(format!("the provider no longer accepts the code ({why}): sign in again"))
        }
        kind @ (CoreErrorResponseType::InvalidClient | CoreErrorResponseType::UnauthorizedClient) => {
            let kind = kind.as_ref();
            Error::failed(format!(
                "the provider does not know the array ({kind} {why}): check client ID and secret"
            ))
        }
        kind => Error::failed(format!("the provider issued no tokens: {} {why}", kind.as_ref())),
    }
}

/// An error with its causes as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text_of_cause = cause.to_string();
        if !text.ends_with(&text_of_cause) {
            text = format!("{text}: {text_of_cause}");
        }
        next = cause.source();
    }
    text::shown(&text, 2 * MAX_SHOWN_CHARS, "")
}

#[cfg(test)]
#[path = "oidc_test.rs"]
mod tests;
