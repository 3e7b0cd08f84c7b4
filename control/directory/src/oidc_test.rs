use super::*;
use serde_json::json;

fn settings(issuer: &str, address: &str) -> Oidc {
    Oidc {
        issuer: issuer.into(),
        client_id: "array".into(),
        address: address.into(),
        scopes: vec!["profile".into()],
        user_claim: "preferred_username".into(),
        groups_claim: "groups".into(),
        ca: None,
    }
}

#[test]
fn secrets_are_sent_only_over_tls_or_to_loopback_addresses() {
    let valid = [
        ("https://id.example.com/realms/one", "https://array.example.com:8443"),
        ("http://127.0.0.1:9000", "http://[::1]:8080/"),
    ];
    for (issuer, array) in valid {
        assert!(check(&settings(issuer, array)).is_ok(), "{issuer} {array}");
    }
    let id = "https://id.example.com";
    let invalid = [
        ("http://id.example.com", "https://array.example.com"),
        ("id.example.com", "https://array.example.com"),
        ("javascript:alert(1)", "https://array.example.com"),
        ("https://me:word@id.example.com", "https://array.example.com"),
        (id, "http://array.example.com"),
        (id, "https://array.example.com/elsewhere"),
        (id, "https://array.example.com?next=evil"),
        (id, "https://array.example.com#there"),
        (id, ""),
    ];
    for (issuer, array) in invalid {
        assert!(check(&settings(issuer, array)).is_err(), "{issuer} {array}");
    }
    assert_eq!(redirect(&settings(id, "https://a.example.com/")), "https://a.example.com/sign-in");
}

#[test]
fn claims_are_found_where_providers_put_them() {
    let claims = json!({
        "groups": ["staff", 7, "ops"],
        "role": "admin",
        "realm_access": { "roles": ["storage"] },
        "https://example.com/groups": ["dotted"],
    });
    let groups = |name: &str| groups_of(find(&claims, name));
    assert_eq!(groups("groups"), ["staff", "ops"]);
    assert_eq!(groups("role"), ["admin"]);
    assert_eq!(groups("realm_access.roles"), ["storage"]);
    assert_eq!(groups("https://example.com/groups"), ["dotted"]);
    assert!(groups("none").is_empty() && groups("realm_access").is_empty() && groups("a.b.c").is_empty());
}

#[test]
fn unreadable_names_are_refused() {
    for name in ["", " ", "a\nb", &"x".repeat(257)] {
        assert!(directory_user(name.into(), []).is_err(), "{name:?}");
    }
    let ada =
        directory_user("ada@example.com".into(), ["ops".into(), "\u{1b}[2J".into(), String::new()]).unwrap();
    assert_eq!(ada, DirectoryUser { name: "ada@example.com".into(), groups: vec!["ops".into()] });
}
