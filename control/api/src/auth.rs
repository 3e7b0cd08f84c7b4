//! Who may ask: whoever holds the array's token.

use crate::Context;
use crate::problem::Problem;
use array::Caller;
use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

/// The secret that lets a program in. Only its hash is kept, so that comparing takes the same time for all.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// Lets in whoever presents `secret`.
    ///
    /// # Panics
    /// When it is empty.
    pub fn new(secret: &str) -> Self {
        assert!(!secret.is_empty(), "an empty token would let everybody in");
        Self(blake3::hash(secret.as_bytes()))
    }
}

/// Proof that the request comes from somebody who may act. Every handler takes one.
pub struct Operator {
    /// Who it is.
    pub caller: Caller,
}

impl FromRequestParts<Context> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, context: &Context) -> Result<Self, Problem> {
        let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret = given
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match secret {
            // `Hash` compares in constant time.
            Some((_, secret)) if blake3::hash(secret.trim().as_bytes()) == context.token.0 => {
                let (user, origin) = ("admin".into(), "local".into());
                Ok(Self { caller: Caller { user, origin } })
            }
            Some(_) => Err(Problem::unauthorized("the token is not the one of this array")),
            None => Err(Problem::unauthorized("send the array's token: Authorization: Bearer TOKEN")),
        }
    }
}
