//! Declared fields of the items of lists: what a condition can be about, and what its value can be, by the OpenAPI description.
//!
//! The description and not the items says it, so that a condition means the same for every list, and an empty one refuses what
//! it can't understand like a full one.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The deepest nesting of fields that is looked at.
const MAX_DEPTH: usize = 6;

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number without a unit.
    Number,
    /// A number of bytes.
    Bytes,
    /// A number of bytes a second.
    ByteRate,
    /// A number of seconds.
    Seconds,
    /// A time (RFC 3339).
    Time,
    /// True or false.
    Boolean,
    /// One of some words.
    Choice(Vec<String>),
    /// Text.
    Text,
    /// A list of such.
    List(Box<Field>),
    /// An object with these fields.
    Object(BTreeMap<String, Field>),
    /// An object with any keys, such as labels.
    Map(Box<Field>),
    /// What has no form that a condition could be about.
    Other,
}

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub kind: Kind,
    /// It can be `null`.
    pub nullable: bool,
}

/// The fields of an item, by name.
pub type Fields = BTreeMap<String, Field>;

/// Those of the API.
static DECLARED: LazyLock<BTreeMap<String, Fields>> =
    LazyLock::new(|| read(&serde_json::to_value(crate::description()).unwrap_or_default()));

/// The fields of every schema of a description that is an object, by name.
pub fn read(description: &Value) -> BTreeMap<String, Fields> {
    let schemas = &description["components"]["schemas"];
    let objects = schemas.as_object().into_iter().flatten();
    objects
        .filter_map(|(name, schema)| match (Reading { schemas }).field(name, schema, 0).kind {
            Kind::Object(fields) => Some((name.clone(), fields)),
            _ => None,
        })
        .collect()
}

/// The fields of a schema. A list's items have a schema with fields; a test holds it for every list.
pub fn fields_of(schema: &str) -> &'static Fields {
    static NONE: Fields = Fields::new();
    DECLARED.get(schema).unwrap_or(&NONE)
}

struct Reading<'a> {
    schemas: &'a Value,
}

impl Reading<'_> {
    fn field(&self, name: &str, schema: &Value, depth: usize) -> Field {
        let other = Field { kind: Kind::Other, nullable: false };
        if depth > MAX_DEPTH {
            return other;
        }
        if let Some(to) = schema["$ref"].as_str() {
            let target = to.rsplit('/').next().unwrap_or_default();
            return self.field(name, &self.schemas[target], depth + 1);
        }
        for several in ["oneOf", "anyOf", "allOf"] {
            if let Some(parts) = schema[several].as_array() {
                let parts = parts.iter().map(|part| self.field(name, part, depth + 1));
                return parts.reduce(merged).unwrap_or(other);
            }
        }
        let (kinds, nullable) = types(schema);
        let kind = match kinds.as_slice() {
            ["string"] => text(schema),
            ["integer" | "number"] => number(name, schema),
            ["boolean"] => Kind::Boolean,
            ["array"] => Kind::List(Box::new(self.field(name, &schema["items"], depth + 1))),
            ["object"] => self.object(schema, depth),
            _ => Kind::Other,
        };
        Field { kind, nullable: nullable || kinds.is_empty() }
    }

    fn object(&self, schema: &Value, depth: usize) -> Kind {
        if let Some(properties) = schema["properties"].as_object() {
            let field =
                |(name, schema): (&String, &Value)| (name.clone(), self.field(name, schema, depth + 1));
            return Kind::Object(properties.iter().map(field).collect());
        }
        match &schema["additionalProperties"] {
            any if any.is_object() => Kind::Map(Box::new(self.field("", any, depth + 1))),
            _ => Kind::Other,
        }
    }
}

/// The types of a schema without `null`, and whether that is one of them.
fn types(schema: &Value) -> (Vec<&str>, bool) {
    let all: Vec<&str> = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let kinds: Vec<&str> = all.iter().copied().filter(|kind| *kind != "null").collect();
    let nullable = kinds.len() < all.len();
    (kinds, nullable)
}

fn text(schema: &Value) -> Kind {
    match (schema["format"].as_str(), schema["enum"].as_array()) {
        (Some("date-time"), _) => Kind::Time,
        (_, Some(words)) => Kind::Choice(words.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        _ => Kind::Text,
    }
}

fn number(name: &str, schema: &Value) -> Kind {
    match schema["x-unit"].as_str() {
        Some("bytes") => Kind::Bytes,
        Some("bytes/s") => Kind::ByteRate,
        _ if name.ends_with("_seconds") => Kind::Seconds,
        _ => Kind::Number,
    }
}

/// A field that is one of two.
fn merged(a: Field, b: Field) -> Field {
    let nullable = a.nullable || b.nullable;
    let kind = match (a.kind, b.kind) {
        // The schema of `null` has no kind.
        (Kind::Other, kind) | (kind, Kind::Other) => kind,
        (Kind::Choice(mut words), Kind::Choice(more)) => {
            words.extend(more);
            Kind::Choice(words)
        }
        (Kind::Object(a), Kind::Object(b)) => Kind::Object(united(a, b)),
        (a, b) if a == b => a,
        _ => Kind::Other,
    };
    Field { kind, nullable }
}

/// The fields of an object that is one of two: those that one lacks may be `null`.
fn united(a: Fields, b: Fields) -> Fields {
    let mut all = Fields::new();
    for (name, field) in a.iter().chain(&b) {
        let field = match (a.get(name), b.get(name)) {
            (Some(a), Some(b)) => merged(a.clone(), b.clone()),
            _ => Field { nullable: true, ..field.clone() },
        };
        all.insert(name.clone(), field);
    }
    all
}
