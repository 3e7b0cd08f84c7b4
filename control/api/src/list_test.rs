#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::condition::OPERATORS;
use super::declared::{self, Field, Kind};
use super::*;
use axum::body::to_bytes;
use serde_json::json;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

thread_local! {
    /// Values of items that were serialized: what a list costs.
    static WRITTEN: Cell<usize> = const { Cell::new(0) };
}

/// A value that counts how often it is serialized.
#[derive(Clone)]
struct Counted(Value);

impl Serialize for Counted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WRITTEN.set(WRITTEN.get() + 1);
        self.0.serialize(serializer)
    }
}

#[derive(Clone, Serialize)]
struct Item {
    name: Counted,
    size: Counted,
    group: Counted,
    tags: Counted,
    read_only: Counted,
    labels: Counted,
    created: Counted,
    seen_by: Counted,
}

fn fields() -> Fields {
    let declared = json!({ "components": { "schemas": { "Seen": { "type": "object", "properties": {
        "host": { "type": "string" }, "lun": { "type": "integer" },
    } }, "Item": { "type": "object", "properties": {
        "name": { "type": "string" },
        "size": { "type": "integer", "x-unit": "bytes" },
        "group": { "type": ["string", "null"] },
        "tags": { "type": "array", "items": { "type": "string" } },
        "read_only": { "type": "boolean" },
        "labels": { "type": "object", "additionalProperties": { "type": "string" } },
        "created": { "type": "string", "format": "date-time" },
        "seen_by": { "type": "array", "items": { "$ref": "#/components/schemas/Seen" } },
    } } } } });
    declared::read(&declared).remove("Item").unwrap()
}

fn item(name: &str, size: u64, group: Option<&str>, tags: &[&str]) -> Item {
    let hosts: Vec<_> =
        tags.iter().map(|tag| json!({ "host": format!("h-{tag}"), "lun": tag.len() })).collect();
    Item {
        name: Counted(name.into()),
        size: Counted(size.into()),
        group: Counted(group.map_or(Value::Null, Into::into)),
        tags: Counted(tags.into()),
        read_only: Counted((size > 50).into()),
        labels: Counted(json!({ "app.kubernetes.io/name": name, "note": "a,b*" })),
        created: Counted(format!("2026-01-{:02}T10:00:00Z", size.min(28)).into()),
        seen_by: Counted(hosts.into()),
    }
}

fn items() -> Vec<Item> {
    vec![
        item("web1", 10, Some("sql"), &["a"]),
        item("web2", 9, None, &["b", "cc"]),
        item("db", 100, Some("sql"), &[]),
    ]
}

async fn body_of(response: Response) -> Value {
    serde_json::from_slice(&to_bytes(response.into_body(), 1 << 24).await.unwrap()).unwrap()
}

async fn names(items: Vec<Item>, part: List) -> Result<(Vec<String>, u64), Problem> {
    let body = body_of(Query::read(&part, &fields())?.answer(items)?).await;
    let names =
        body["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned());
    Ok((names.collect(), body["total"].as_u64().unwrap()))
}

fn part(filter: &str, sort: &str) -> List {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    List { filter: given(filter), sort: given(sort), ..List::default() }
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_cut() {
    for (filter, sort, expected) in [
        ("", "", &["web1", "web2", "db"][..]),
        ("", "name", &["db", "web1", "web2"]),
        ("", "-size", &["db", "web1", "web2"]),
        ("", "group,-name", &["web2", "web1", "db"]),
        ("", "labels.app.kubernetes.io/name", &["db", "web1", "web2"]),
        ("name=web*", "", &["web1", "web2"]),
        ("name!=web*", "", &["db"]),
        ("name=*b1", "", &["web1"]),
        ("name=w*b*", "", &["web1", "web2"]),
        (r"name=web\*", "", &[]),
        ("size>=10,group=sql", "", &["web1", "db"]),
        ("size<10", "", &["web2"]),
        ("size>=0.05KB,size<1KiB", "", &["db"]),
        ("size>=10TiB", "", &[]),
        ("size<10TiB", "", &["web1", "web2", "db"]),
        ("group=null", "", &["web2"]),
        ("group!=null", "", &["web1", "db"]),
        ("tags=b", "", &["web2"]),
        ("tags!=b", "", &["web1", "db"]),
        ("read_only=true", "", &["db"]),
        ("read_only!=true", "", &["web1", "web2"]),
        ("labels.app.kubernetes.io/name=web*", "", &["web1", "web2"]),
        (r"labels.note=a\,b\*", "", &["web1", "web2", "db"]),
        ("labels.none=null", "", &["web1", "web2", "db"]),
        ("created>=2026-01-10,created<2026-01-11", "", &["web1"]),
        ("created<2026-01-10T12:00:00+02:00", "", &["web2"]),
        ("created=2026-01-1*", "", &["web1"]),
        ("seen_by.host=h-cc", "", &["web2"]),
        ("seen_by.lun>=2", "", &["web2"]),
        ("seen_by.host!=h-a", "", &["web2", "db"]),
    ] {
        assert_eq!(names(items(), part(filter, sort)).await.unwrap().0, expected, "{filter} {sort}");
    }
    for (search, expected) in [("WEB", &["web1", "web2"][..]), ("h-cc  web", &["web2"]), ("web nothing", &[])]
    {
        let part = List { search: Some(search.into()), ..List::default() };
        assert_eq!(names(items(), part).await.unwrap().0, expected, "{search}");
    }
    let cut = List { limit: Some(1), offset: Some(1), ..List::default() };
    assert_eq!(names(items(), cut).await.unwrap(), (vec!["web2".to_owned()], 3));
}

/// The rule of docs/operating/first-steps.md: what is not understood is refused, of an empty list as well.
#[tokio::test]
async fn what_is_not_understood_is_refused() {
    let filters = [
        "",
        ",",
        "name",
        "name=",
        "=1",
        "colour=red",
        "name!x",
        "name=a,",
        ",name=a",
        "name=a,,size>1",
        "size>=abc",
        "size>=",
        "size>=10XiB",
        "size>=-1GiB",
        "size=1*",
        "size=null",
        "size>=1ee",
        "name>=web*",
        "group<null",
        "read_only=yes",
        "read_only>true",
        "read_only=*",
        "created>=yesterday",
        "created<7d",
        "created=2026-01-10",
        "created>=2026-01-*",
        "created>=2026-13-01",
        "labels=a",
        "labels.=a",
        "tags.x=1",
        "seen_by=h",
        "seen_by.x=1",
        "name.x=1",
        "size>=1 GiB extra",
        r"name=a\",
    ];
    let sorts = [
        "",
        ",",
        "-",
        "colour",
        "name,",
        "name,name",
        "name,-name",
        "seen_by",
        "seen_by.host",
        "labels",
        "tags",
        "--size",
    ];
    let fields = ["", ",", "colour", "name,", "name,name", "labels.note", "seen_by.host", "Name"];
    let filters = filters.map(|it| List { filter: Some(it.into()), ..List::default() });
    let sorts = sorts.map(|it| List { sort: Some(it.into()), ..List::default() });
    let fields = fields.map(|it| List { fields: Some(it.into()), ..List::default() });
    let searches = ["", " "].map(|it| List { search: Some(it.into()), ..List::default() });
    for part in filters.into_iter().chain(sorts).chain(fields).chain(searches) {
        let shown = format!("{part:?}");
        let refused =
            Query::read(&part, &self::fields()).err().unwrap_or_else(|| panic!("{shown} is accepted"));
        assert_eq!(refused.status, 400, "{shown}");
    }
}

#[tokio::test]
async fn chosen_fields_come_alone_and_say_so() {
    let part = List { fields: Some("name,size".into()), ..List::default() };
    let response = Query::read(&part, &fields()).unwrap().answer(items()).unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], PARTIAL);
    assert_eq!(body_of(response).await["items"][0], json!({ "name": "web1", "size": 10 }));
}

#[tokio::test]
async fn a_page_costs_a_page_and_a_filter_what_it_looks_at() {
    let many =
        |count: usize| (0..count).map(|number| item(&format!("v{number}"), 5, None, &[])).collect::<Vec<_>>();
    let cost = |items: Vec<Item>, part: List| {
        let before = WRITTEN.get();
        let response = Query::read(&part, &fields()).unwrap().answer(items).unwrap();
        drop(response);
        WRITTEN.get() - before
    };
    let page = || List { limit: Some(50), ..List::default() };
    for count in [100, 10_000] {
        assert_eq!(cost(many(count), page()), 50 * 8, "each field of the page, and no other");
        assert_eq!(cost(many(count), List { fields: Some("name".into()), ..page() }), 50);
        assert_eq!(cost(many(count), List { filter: Some("size>5".into()), ..page() }), count);
        assert_eq!(cost(many(count), List { sort: Some("-size".into()), ..page() }), count + 50 * 8);
    }
}

/// The name of the schema of the items of each list that takes conditions, by its path.
fn lists(description: &Value) -> BTreeMap<String, String> {
    let paths = description["paths"].as_object().unwrap();
    let name = |reference: &Value| reference["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let takes = |it: &&Value| {
        it["parameters"].as_array().is_some_and(|all| all.iter().any(|it| it["name"] == "filter"))
    };
    paths
        .iter()
        .filter_map(|(path, item)| Some((path, Some(&item["get"]).filter(takes)?)))
        .map(|(path, get)| {
            let list = name(&get["responses"]["200"]["content"]["application/json"]["schema"]);
            let items = &description["components"]["schemas"][list]["properties"]["items"]["items"];
            (path.clone(), name(items))
        })
        .collect()
}

/// The scalar fields of an item, by the text that names them in a condition.
fn scalars(prefix: &str, fields: &Fields, into: &mut Vec<(String, Field)>) {
    for (name, field) in fields {
        let name = format!("{prefix}{name}");
        match &field.kind {
            Kind::Object(inner) => scalars(&format!("{name}."), inner, into),
            Kind::Map(inner) => {
                into.push((format!("{name}.key"), Field { nullable: true, ..(**inner).clone() }))
            }
            Kind::List(_) | Kind::Other => {}
            _ => into.push((name, field.clone())),
        }
    }
}

/// An item with one value.
fn with_value(path: &str, value: Value) -> Map<String, Value> {
    let nested = path.split('.').rev().fold(value, |inner, name| json!({ name: inner }));
    nested.as_object().unwrap().clone()
}

/// Values in their order, each with the ways to write it.
fn samples(kind: &Kind) -> Vec<(Value, Vec<String>)> {
    let written = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    match kind {
        Kind::Number => vec![
            (json!(3), written(&["3"])),
            (json!(10), written(&["10"])),
            (json!(10.5), written(&["10.5"])),
        ],
        Kind::Bytes => vec![
            (json!(9 << 20), written(&["9437184", "9MiB", "9M"])),
            (json!(10_000_000), written(&["10MB", "10000000"])),
            (json!(2u64 << 40), written(&["2TiB", "2048GiB", "2T"])),
        ],
        Kind::ByteRate => vec![
            (json!(9 << 20), written(&["9437184", "9MiB", "9MiB/s"])),
            (json!(10_000_000), written(&["10MB/s", "10000000"])),
        ],
        Kind::Seconds => {
            vec![(json!(90), written(&["90", "90s"])), (json!(604_800), written(&["7d", "1w", "604800"]))]
        }
        Kind::Time => vec![
            (json!("2026-01-09T23:00:00Z"), written(&["2026-01-09T23:00:00Z", "2026-01-10T01:00:00+02:00"])),
            (json!("2026-01-10T00:30:00Z"), written(&["2026-01-10T00:30:00Z"])),
        ],
        Kind::Text => vec![(json!("alpha"), written(&["alpha"])), (json!("beta"), written(&["beta"]))],
        Kind::Choice(words) => words.iter().map(|word| (json!(word), vec![word.clone()])).collect(),
        Kind::Boolean => vec![(json!(false), written(&["false"])), (json!(true), written(&["true"]))],
        _ => Vec::new(),
    }
}

/// Texts that no value of a kind is written as.
fn nonsense(kind: &Kind) -> &'static [&'static str] {
    match kind {
        Kind::Number => &["abc", "", "1GiB", "*", "NaN", "1,5"],
        Kind::Bytes => {
            &["abc", "", "10XiB", "-1GiB", "*", "10 apples", "10GiB/s", "99999999PiB", "0.0001KiB"]
        }
        Kind::ByteRate => {
            &["abc", "", "10XiB/s", "-1GiB/s", "*", "10GiB/h", "/s", "10GiB/s/s", "99999999PiB/s"]
        }
        Kind::Seconds => &["abc", "", "1y", "-1h", "*"],
        Kind::Time => &["abc", "", "today", "7d", "2026-02-30", "10:00"],
        Kind::Boolean => &["abc", "", "yes", "1", "*"],
        Kind::Choice(_) => &["abc", "", "zz*"],
        _ => &[""],
    }
}

/// Every field × every operator of every list: the condition holds exactly when the comparison of the values does, however the
/// value is written, and what can't be written is refused.
#[test]
fn conditions_on_every_field_of_every_list_mean_what_they_say() {
    let description = serde_json::to_value(crate::description()).unwrap();
    let lists = lists(&description);
    assert!(lists.len() >= 19, "{lists:?}");
    let (mut kinds, mut held) = (BTreeSet::new(), [0; 2]);
    for (path, schema) in &lists {
        let fields = fields_of(schema);
        assert!(!fields.is_empty(), "{path} has items whose fields are not declared");
        let mut all = Vec::new();
        scalars("", fields, &mut all);
        for (name, field) in all {
            kinds.insert(format!("{:?}", field.kind).split('(').next().unwrap().to_owned());
            let samples = samples(&field.kind);
            let is_ordered = !matches!(field.kind, Kind::Boolean | Kind::Choice(_));
            for (sign, _) in OPERATORS {
                for wrong in nonsense(&field.kind) {
                    // A label can be empty; that it is not, or is more than that, would select everything.
                    let is_empty_label = name.ends_with(".key") && wrong.is_empty() && sign == "=";
                    let filter = format!("{name}{sign}{wrong}");
                    assert!(
                        is_empty_label || condition::read_all(&filter, fields).is_err(),
                        "{path}: {filter} is accepted"
                    );
                }
                if !is_ordered && !["=", "!="].contains(&sign) {
                    let filter = format!("{name}{sign}{}", samples[0].1[0]);
                    assert!(condition::read_all(&filter, fields).is_err(), "{path}: {filter} is accepted");
                    continue;
                }
                for (at, (found, _)) in samples.iter().enumerate() {
                    for (other, (_, texts)) in samples.iter().enumerate() {
                        let expected = match sign {
                            "=" => at == other,
                            "!=" => at != other,
                            "<" => at < other,
                            "<=" => at <= other,
                            ">" => at > other,
                            _ => at >= other,
                        };
                        for text in texts {
                            let filter = format!("{name}{sign}{text}");
                            let conditions = condition::read_all(&filter, fields)
                                .unwrap_or_else(|why| panic!("{path}: {why}"));
                            let holds = conditions[0].holds(&with_value(&name, found.clone()));
                            assert_eq!(holds, expected, "{path}: {filter} for {found}");
                            held[usize::from(holds)] += 1;
                        }
                    }
                }
            }
        }
    }
    let expected =
        ["Boolean", "ByteRate", "Bytes", "Choice", "Number", "Seconds", "Text", "Time"].map(str::to_owned);
    assert_eq!(kinds, BTreeSet::from(expected));
    assert!(held.iter().all(|count| *count > 100), "{held:?}");
}

/// Every list refuses a field that it does not have, which needs no item: in conditions, in the order and among the fields.
#[test]
fn every_list_knows_its_fields_while_it_is_empty() {
    let description = serde_json::to_value(crate::description()).unwrap();
    for (path, schema) in lists(&description) {
        let unknown = |text: &str| Some(text.to_owned());
        for part in [
            List { filter: unknown("colour=red"), ..List::default() },
            List { sort: unknown("-colour"), ..List::default() },
            List { fields: unknown("colour"), ..List::default() },
        ] {
            assert!(Query::read(&part, fields_of(&schema)).is_err(), "{path}: {part:?}");
        }
    }
}
