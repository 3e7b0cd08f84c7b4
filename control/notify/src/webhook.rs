//! A notice as JSON, by POST. With a secret, the header `X-Ashlar-Signature` proves who sent it and when:
//! `t=<seconds since 1970>,v1=<hex digits>`, the HMAC-SHA256 of the time as in the header, a dot, and the body.

use crate::{Error, Notice, PATIENCE, Result, utc, word};
use aws_lc_rs::hmac;
use serde_json::{Value, json};

/// Refuses what is no address of HTTP.
pub fn check(url: &str) -> Result<()> {
    let address: Option<ureq::http::Uri> = url.parse().ok();
    let fine =
        address.is_some_and(|it| matches!(it.scheme_str(), Some("http" | "https")) && it.host().is_some());
    if fine {
        Ok(())
    } else {
        Err(Error::new(format!("{url:?} is no address such as https://example.com/hook")))
    }
}

/// The machine in an address, without what says who may post there.
pub fn site(url: &str) -> String {
    let address: Option<ureq::http::Uri> = url.parse().ok();
    address.and_then(|it| it.host().map(str::to_owned)).unwrap_or_default()
}

pub fn body(notice: &Notice) -> Value {
    let (alert, condition) = (&notice.alert, &notice.alert.condition);
    json!({
        "event": notice.event(),
        "array": { "name": notice.array, "serial": notice.serial },
        "alert": {
            "id": alert.id,
            "kind": condition.kind,
            "severity": word(condition.severity),
            "message": condition.message,
            "noun": condition.noun,
            "name": condition.name,
            "opened": utc(alert.opened),
            "changed": utc(alert.changed),
            "closed": alert.closed.map(utc),
        },
    })
}

/// The value of the header.
pub fn signature(secret: &str, now: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{now}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={now},v1={hex}")
}

pub fn send(url: &str, ca: Option<&str>, secret: Option<&str>, notice: &Notice, now: u64) -> Result<()> {
    let agent = trust::agent(url.starts_with("https:"), ca, PATIENCE)?;
    let body = body(notice).to_string();
    let mut request =
        agent.post(url).header("content-type", "application/json").header("x-ashlar-event", notice.event());
    if let Some(secret) = secret {
        request = request.header("x-ashlar-signature", signature(secret, now, &body));
    }
    let answer = request.send(body.as_bytes());
    let answer = answer.map_err(|error| Error::new(format!("the webhook can't be reached: {error}")))?;
    if answer.status().is_success() {
        return Ok(());
    }
    // Not what it said: whoever sets an address here could otherwise read what only the array reaches.
    Err(Error::new(format!("the webhook answered {}: its own log may say why", answer.status())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_others_compute() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        assert_eq!(
            signature("key", 1_700_000_000, "{}"),
            "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"
        );
    }

    #[test]
    fn addresses_are_looked_at() {
        assert!(check("https://example.com/hook?a=b").is_ok() && check("http://127.0.0.1:8000").is_ok());
        assert_eq!(site("https://user:word@example.com:8443/secret?more"), "example.com");
        assert!(["", "example.com", "ftp://example.com", "https://"].iter().all(|url| check(url).is_err()));
    }
}
