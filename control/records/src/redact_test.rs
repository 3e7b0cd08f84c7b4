use super::{HIDDEN, Redactor, mark};
use crate::{HostId, Sealed, Secret};
use serde::Serialize;
use serde_json::json;

#[derive(Serialize)]
struct AllTypes {
    secret: Secret,
    sealed: Sealed,
    #[serde(serialize_with = "mark::url")]
    url: String,
    #[serde(serialize_with = "mark::pem")]
    chain: String,
    host: HostId,
    unset: Option<u64>,
    removed: Option<Option<u64>>,
    nested: Nested,
    list: Vec<Nested>,
}

#[derive(Default, Serialize)]
struct Nested {
    yes: Option<bool>,
}

fn all_types() -> AllTypes {
    AllTypes {
        secret: Secret::new("open sesame"),
        sealed: Sealed::of_text("c2VhbGVk".into()),
        url: "https://user:word@hooks.example.com:8443/T0KEN/path?key=more".into(),
        chain: "-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n".into(),
        host: HostId(7),
        unset: None,
        removed: Some(None),
        nested: Nested::default(),
        list: vec![Nested { yes: Some(true) }],
    }
}

#[test]
fn secrets_are_hidden_by_their_types_and_identities_become_names() {
    let names =
        |kind: &str, id: &str| (kind == "HostId" && id == "0000000000000007").then(|| "web1".to_owned());
    let shown = Redactor { names: &names, hide: true }.value(&all_types());
    let chain = shown["chain"].as_str().unwrap_or_default().to_owned();
    assert!(chain.starts_with("PEM") && !chain.contains("Zm9v"), "{chain}");
    let expected = json!({
        "secret": HIDDEN,
        "sealed": HIDDEN,
        "url": "https://hooks.example.com:8443/…",
        "chain": chain,
        "host": "web1",
        "removed": "none",
        "list": [{ "yes": true }],
    });
    assert_eq!(shown, expected);
    let stored = serde_json::to_value(all_types()).expect("JSON");
    assert_eq!((&stored["sealed"], &stored["host"]), (&json!("c2VhbGVk"), &json!("0000000000000007")));
    assert!(!stored.to_string().contains("sesame"), "a secret in clear is not stored");
}

#[test]
fn addresses_are_shown_up_to_the_host() {
    for (url, shown) in [
        ("https://example.com", "https://example.com"),
        ("http://example.com/a", "http://example.com/…"),
        ("http://key@example.com?a=b", "http://example.com/…"),
        ("https://user:word@example.com:8443/secret?more", "https://example.com:8443/…"),
        ("https://user:word@example.com", "https://example.com/…"),
        ("no address", HIDDEN),
    ] {
        assert_eq!(mark::shown_url(url), shown);
    }
}

#[test]
fn addresses_of_servers_are_shown_without_user_password_and_query() {
    for (address, shown) in [
        ("https://id.example.com/realms/one", "https://id.example.com/realms/one"),
        ("ldaps://ldap.example.com:636", "ldaps://ldap.example.com:636"),
        ("https://me:word@id.example.com/a", "https://…@id.example.com/a"),
        ("ldaps://me:wo/rd@ldap", "ldaps://…@ldap"),
        ("https://id/a?key=word#more", "https://id/a…"),
        ("me:word@ldap", "…@ldap"),
        ("@", "…@"),
        ("no address", "no address"),
    ] {
        assert_eq!(mark::shown_address(address), shown);
    }
}
