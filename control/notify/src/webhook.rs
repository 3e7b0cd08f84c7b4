//! Notifications as JSON by HTTP POST. With a secret, the header `X-Ashlar-Signature` authenticates sender and time:
//! `t=<seconds since 1970>,v1=<hex digits>`, the HMAC-SHA256 of the time as in the header, a dot, and the body.

use crate::{Error, Notification, Result, TIMEOUT, severity_name};
use aws_lc_rs::hmac;
use history::utc;
use records::mark;
use serde_json::{Value, json};

/// Checks that the text is an HTTP address.
pub fn check(url: &str) -> Result<()> {
    let address: Option<ureq::http::Uri> = url.parse().ok();
    let is_valid =
        address.is_some_and(|it| matches!(it.scheme_str(), Some("http" | "https")) && it.host().is_some());
    match is_valid && !url.contains(mark::REST) {
        true => Ok(()),
        // Without the address, which may be a secret: the audit log keeps errors.
        false => Err(Error::new("a webhook has a whole address such as https://example.com/hook")),
    }
}

pub fn body(notification: &Notification) -> Value {
    let (alert, condition) = (&notification.alert, &notification.alert.condition);
    json!({
        "event": notification.event(),
        "array": { "name": notification.array, "serial": notification.serial },
        "alert": {
            "id": alert.id,
            "kind": condition.kind,
            "severity": severity_name(condition.severity),
            "message": condition.message,
            "noun": condition.noun,
            "name": condition.name,
            "opened": utc(alert.opened),
            "changed": utc(alert.changed),
            "closed": alert.closed.map(utc),
        },
    })
}

/// Value of the signature header.
pub fn signature(secret: &str, now: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{now}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={now},v1={hex}")
}

pub fn send(
    url: &str,
    ca: Option<&str>,
    secret: Option<&str>,
    notification: &Notification,
    now: u64,
) -> Result<()> {
    let agent = trust::agent(url.starts_with("https:"), ca, TIMEOUT)?;
    let body = body(notification).to_string();
    let mut request = agent
        .post(url)
        .header("content-type", "application/json")
        .header("x-ashlar-event", notification.event());
    if let Some(secret) = secret {
        request = request.header("x-ashlar-signature", signature(secret, now, &body));
    }
    let response = request.send(body.as_bytes());
    let response = response.map_err(|error| {
        let why = error.to_string().replace(url, &mark::shown_url(url));
        Error::new(format!("the webhook can't be reached: {why}"))
    })?;
    if response.status().is_success() {
        return Ok(());
    }
    // Without the response body: a user who sets addresses could otherwise read servers that only the array reaches.
    Err(Error::new(format!("the webhook returned status {}: see the log of its server", response.status())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_equals_that_of_openssl() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        assert_eq!(
            signature("key", 1_700_000_000, "{}"),
            "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"
        );
    }

    #[test]
    fn addresses_are_checked() {
        assert!(check("https://example.com/hook?a=b").is_ok() && check("http://127.0.0.1:8000").is_ok());
        assert!(check("https://example.com/…").is_err(), "an address as it is shown");
        assert!(!check("htps://user:word@example.com/key").unwrap_err().to_string().contains("word"));
        assert!(["", "example.com", "ftp://example.com", "https://"].iter().all(|url| check(url).is_err()));
    }
}
