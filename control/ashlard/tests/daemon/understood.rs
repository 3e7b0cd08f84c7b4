//! Input that is not understood never means "all": every operation that reads is asked with what it can't understand, by the
//! description of the API, and either says what is wrong or returns nothing.

use crate::http::Api;
use serde_json::{Value, json};

/// Values of a parameter of a query that mean nothing, by the parameter. Those of others are the last ones.
const NONSENSE: &[(&str, &[&str])] = &[
    (
        "filter",
        &[
            "",
            ",",
            "name",
            "=x",
            "name~x",
            "name=",
            "name=a,",
            "nonsense=1",
            "nonsense>=1GiB",
            "created>=soon",
        ],
    ),
    ("sort", &["", ",", "-", "nonsense", "name,name"]),
    ("fields", &["", ",", "nonsense", "name,name"]),
    ("search", &["", "%20"]),
    ("label", &["", "=", "=x", ",", "a,,b"]),
    ("limit", &["", "-1", "1.5", "all"]),
    ("offset", &["", "-1", "all"]),
    ("points", &["", "-1", "all"]),
    ("", &["", "no%20such%20thing", "nonsense!"]),
];

/// A condition that a declared field of a kind can't have.
fn wrong_condition(name: &str, field: &Value) -> Option<String> {
    let is = |kind: &str| {
        field["type"] == kind || field["type"].as_array().is_some_and(|it| it.contains(&json!(kind)))
    };
    if field["format"] == "date-time" {
        return Some(format!("{name}>=soon"));
    }
    let of_kind = [("integer", ">=10QiB"), ("boolean", "=perhaps")];
    of_kind.iter().find(|(kind, _)| is(kind)).map(|(_, rest)| format!("{name}{rest}"))
}

/// The fields of the items of a list.
fn item_fields<'a>(description: &'a Value, operation: &Value) -> Option<&'a serde_json::Map<String, Value>> {
    let resolved = |schema: &Value| {
        let name = schema["$ref"].as_str()?.rsplit('/').next()?;
        Some(&description["components"]["schemas"][name])
    };
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    let list = resolved(schema).unwrap_or(&Value::Null);
    let items = [&schema["properties"]["items"]["items"], &list["properties"]["items"]["items"]];
    items.into_iter().find_map(resolved)?["properties"].as_object()
}

/// It is refused, or it is about something that does not exist, or selects nothing.
fn selects_nothing(api: &Api, path: &str) {
    let answer = api.ask("GET", &path.replace('>', "%3E"), Value::Null);
    match answer.status {
        400 | 404 => assert!(
            answer.body["detail"].as_str().is_some_and(|it| !it.is_empty()),
            "{path}: {}",
            answer.body
        ),
        200 => assert_eq!(answer.body["items"], json!([]), "{path}"),
        status => panic!("{path}: {status}: {}", answer.body),
    }
}

/// An array with something in every list that a test can fill, so that "all" is more than nothing.
fn filled() -> Api {
    let api = Api::start();
    for (path, body) in [
        ("groups", json!({ "name": "prod", "labels": { "tier": "gold" } })),
        ("volumes", json!({ "name": "db1", "size": 1 << 30, "group": "prod", "labels": { "tier": "gold" } })),
        ("volumes", json!({ "name": "db2", "size": 1 << 30 })),
        ("hosts", json!({ "name": "web1", "initiators": ["iqn.1993-08.org.debian:01:web1"] })),
        ("host-groups", json!({ "name": "cluster", "hosts": [] })),
        ("connections", json!({ "volume": "db1", "host": "web1" })),
        ("snapshots", json!({ "volume": "db1", "suffix": "s" })),
        ("schedules", json!({ "name": "gold", "volume": "db1", "rules": [{ "when": "hourly", "keep": 2 }] })),
        ("tokens", json!({ "name": "t", "role": "viewer" })),
    ] {
        let made = api.ask("POST", &format!("/api/v1/{path}"), body);
        assert!(made.status == 201, "{path}: {}", made.body);
    }
    assert!(matches!(api.ask("DELETE", "/api/v1/volumes/db2", Value::Null).status, 200 | 204));
    api
}

#[test]
fn a_query_that_is_not_understood_never_selects_everything() {
    let api = filled();
    let description = api.send("GET", "/api/v1/openapi.json", None, "").body;
    let (mut operations, mut asked) = (0, 0);
    for (path, item) in description["paths"].as_object().unwrap() {
        let operation = &item["get"];
        // The description itself and the bundle have no query, and are long.
        if operation.is_null() || ["openapi.json", "support-bundle"].iter().any(|it| path.ends_with(it)) {
            continue;
        }
        let real = path.replace("{name}", "db1").replace("{number}", "1").replace("{id}", "1");
        let real =
            real.replace("{volume}", "db1").replace("{host}", "web1").replace("{host_group}", "cluster");
        operations += 1;
        selects_nothing(&api, &format!("{real}?nonsense=1"));
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] != "query" {
                continue;
            }
            let name = parameter["name"].as_str().unwrap();
            let (_, values) = NONSENSE.iter().find(|(of, _)| [name, ""].contains(of)).unwrap();
            let fields = item_fields(&description, operation).filter(|_| name == "filter");
            let conditions =
                fields.into_iter().flatten().filter_map(|(name, field)| wrong_condition(name, field));
            for value in values.iter().map(|it| (*it).to_owned()).chain(conditions) {
                asked += 1;
                selects_nothing(&api, &format!("{real}?{name}={value}"));
            }
            selects_nothing(&api, &format!("{real}?{name}=1&{name}=2"));
        }
    }
    assert!(operations > 40 && asked > 500, "{operations} operations, {asked} questions");
}

#[test]
fn a_change_that_is_not_understood_changes_nothing() {
    let api = filled();
    // All but when and where it was exported.
    let configuration = || {
        let mut exported = api.ask("GET", "/api/v1/configuration", Value::Null).body;
        exported["origin"].take();
        exported
    };
    let before = configuration();
    let rule = json!({ "when": "hourly", "keep": 2 });
    for (method, path, body) in [
        ("POST", "snapshots", json!({ "sources": [] })),
        ("POST", "snapshots", json!({})),
        ("POST", "snapshots", json!({ "volume": "" })),
        ("POST", "hosts", json!({ "name": "h2", "initiators": [] })),
        ("PATCH", "hosts/web1", json!({ "initiators": [] })),
        ("PATCH", "schedules/gold", json!({ "rules": [] })),
        ("POST", "schedules", json!({ "name": "s2", "volume": "db1", "rules": [] })),
        ("POST", "schedules", json!({ "name": "s2", "rules": [rule] })),
        ("POST", "configuration/import", json!({})),
        ("POST", "configuration/import", json!({ "document": {} })),
        ("POST", "configuration/import", json!({ "document": null })),
        ("POST", "configuration/import", json!([])),
        ("POST", "configuration/compare", json!({})),
        ("POST", "connections", json!({ "volume": "db1" })),
        ("POST", "connections", json!({ "volume": "db1", "host": "web1", "host_group": "cluster" })),
        ("DELETE", "volumes", Value::Null),
        ("DELETE", "volumes/", Value::Null),
        ("DELETE", "volumes/*", Value::Null),
        ("DELETE", "volumes/%20", Value::Null),
        ("DELETE", "volumes/db1?eradicate=perhaps", Value::Null),
        ("DELETE", "volumes/db1?nonsense=1", Value::Null),
        ("DELETE", "snapshots/db1.*", Value::Null),
        ("DELETE", "recycle-bin", Value::Null),
        ("DELETE", "recycle-bin/*", Value::Null),
        ("DELETE", "recycle-bin/db2?nonsense=1", Value::Null),
        ("DELETE", "tokens/*", Value::Null),
        ("DELETE", "session?nonsense=1", Value::Null),
    ] {
        let answer = api.ask(method, &format!("/api/v1/{path}"), body.clone());
        assert!(
            (400..500).contains(&answer.status),
            "{method} {path} {body}: {} {}",
            answer.status,
            answer.body
        );
        assert!(answer.body["detail"].as_str().is_some_and(|it| !it.is_empty()), "{}", answer.body);
    }
    // A body of what has none says something that would be ignored.
    let description = api.send("GET", "/api/v1/openapi.json", None, "").body;
    let mut without = 0;
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if !operation["requestBody"].is_null() || path.contains("/sign-in") {
                continue;
            }
            let real = path.replace("{name}", "db1").replace("{number}", "1").replace("{id}", "db2");
            let real =
                real.replace("{volume}", "db1").replace("{host}", "web1").replace("{host_group}", "cluster");
            let answer = api.ask(&method.to_uppercase(), &real, json!({ "eradicate": false }));
            assert_eq!(answer.status, 400, "{method} {real}: {}", answer.body);
            without += 1;
        }
    }
    assert!(without > 80, "{without}");
    assert_eq!(configuration(), before);
    assert_eq!(api.ask("DELETE", "/api/v1/tokens/t", json!({})).status, 204, "an empty one says nothing");
    assert_eq!(api.ask("GET", "/api/v1/recycle-bin", Value::Null).body["total"], 1);
}
