#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;

fn items() -> Vec<Value> {
    vec![
        json!({ "name": "web1", "size": 10, "group": "sql", "tags": ["a"] }),
        json!({ "name": "web2", "size": 9, "group": null, "tags": ["b"] }),
        json!({ "name": "db", "size": 100, "group": "sql", "tags": [] }),
    ]
}

async fn names(part: Part) -> Result<(Vec<String>, u64), Problem> {
    let response = list(items(), part)?;
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let names =
        body["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned());
    Ok((names.collect(), body["total"].as_u64().unwrap()))
}

fn part(filter: &str, sort: &str) -> Part {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Part { filter: given(filter), sort: given(sort), ..Part::default() }
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_cut() {
    for (filter, sort, expected) in [
        ("", "", &["web1", "web2", "db"][..]),
        ("", "name", &["db", "web1", "web2"]),
        ("", "-size", &["db", "web1", "web2"]),
        ("", "group,-name", &["web2", "web1", "db"]),
        ("name=web*", "", &["web1", "web2"]),
        ("name!=web*", "", &["db"]),
        ("name=*b1", "", &["web1"]),
        ("name=w*b*", "", &["web1", "web2"]),
        ("size>=10,group=sql", "", &["web1", "db"]),
        ("size<10", "", &["web2"]),
        ("group=null", "", &["web2"]),
        ("tags=b", "", &["web2"]),
    ] {
        assert_eq!(names(part(filter, sort)).await.unwrap().0, expected, "{filter} {sort}");
    }
    let cut = Part { limit: Some(1), offset: Some(1), ..Part::default() };
    assert_eq!(names(cut).await.unwrap(), (vec!["web2".to_owned()], 3));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    for (filter, sort) in [("name", ""), ("=1", ""), ("colour=red", ""), ("", "colour"), ("name!x", "")] {
        assert_eq!(names(part(filter, sort)).await.unwrap_err().status, 400, "{filter} {sort}");
    }
}

#[tokio::test]
async fn chosen_fields_come_alone_and_say_so() {
    let part = Part { fields: Some("name,size".into()), ..Part::default() };
    let response = list(items(), part).unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], PARTIAL);
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["items"][0], json!({ "name": "web1", "size": 10 }));
}
