//! Lists: which part of them, in which order, and which fields.

use crate::problem::Problem;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use utoipa::{IntoParams, ToSchema};

/// Name of the schema of responses with chosen fields, whose items are not whole.
pub const PARTIAL: &str = "application/vnd.ashlar.partial+json";

/// Declares the query of a kind of list: which part of it, and what else its paths ask for.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub struct $name {
            /// Maximum number of items; default: all.
            #[param(minimum = 0)]
            limit: Option<usize>,
            /// Number of items to skip.
            #[param(minimum = 0)]
            offset: Option<usize>,
            /// Comma-separated fields to sort by, descending with a leading '-', such as `-mapped,name`.
            sort: Option<String>,
            /// Comma-separated conditions that must all hold: a field, one of = != < <= > >=, and a value, in which '*'
            /// matches anything, such as `name=web*,size>=1073741824`.
            filter: Option<String>,
            /// Comma-separated fields to return. The response then has the media type
            /// `application/vnd.ashlar.partial+json`.
            fields: Option<String>,
            $($(#[$field_doc])* pub $field: Option<String>,)*
        }

        impl From<$name> for Part {
            fn from(it: $name) -> Self {
                Self { limit: it.limit, offset: it.offset, sort: it.sort, filter: it.filter, fields: it.fields }
            }
        }
    )*};
}

/// Which part of a list.
#[derive(Debug, Default)]
pub struct Part {
    limit: Option<usize>,
    offset: Option<usize>,
    sort: Option<String>,
    filter: Option<String>,
    fields: Option<String>,
}

parts! {
    /// Query of a list.
    List {}
    /// Query of a list of objects that have labels.
    LabelledList {
        /// Comma-separated conditions on labels that must all hold: `key` or `key=value`. In a value `\,` is a comma and
        /// `\\` a backslash.
        label,
    }
    /// Query of a list of hosts.
    HostList {
        /// Comma-separated conditions on labels that must all hold: `key` or `key=value`. In a value `\,` is a comma and
        /// `\\` a backslash.
        label,
        /// Only the host that has this iSCSI initiator name.
        initiator,
    }
}

/// A list whose items have only the requested fields.
#[derive(Serialize, ToSchema)]
pub struct PartialList {
    /// The items.
    pub items: Vec<Map<String, Value>>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

struct Condition<'a> {
    field: &'a str,
    operator: &'a str,
    value: &'a str,
}

/// Longer ones first, as `<` begins `<=`.
const OPERATORS: &[&str] = &["!=", "<=", ">=", "=", "<", ">"];

/// The part of `items` that is asked for: `{"items": […], "total": n}`.
pub fn list<T: Serialize>(items: Vec<T>, part: impl Into<Part>) -> Result<Response, Problem> {
    let part = part.into();
    let mut items: Vec<Value> =
        items.iter().map(|item| serde_json::to_value(item).unwrap_or(Value::Null)).collect();
    if let Some(filter) = &part.filter {
        let conditions = filter.split(',').map(condition).collect::<Result<Vec<_>, _>>()?;
        check_fields(&items, conditions.iter().map(|condition| condition.field))?;
        items.retain(|item| conditions.iter().all(|condition| condition.holds(item)));
    }
    if let Some(sort) = &part.sort {
        let keys: Vec<(&str, bool)> = sort
            .split(',')
            .map(|key| key.strip_prefix('-').map_or((key, false), |key| (key, true)))
            .collect();
        check_fields(&items, keys.iter().map(|(field, _)| *field))?;
        items.sort_by(|a, b| order(&keys, a, b));
    }
    let total = items.len();
    let items: Vec<Value> =
        items.into_iter().skip(part.offset.unwrap_or(0)).take(part.limit.unwrap_or(usize::MAX)).collect();
    let Some(fields) = &part.fields else {
        return Ok(axum::Json(json!({ "items": items, "total": total })).into_response());
    };
    let wanted: Vec<&str> = fields.split(',').collect();
    check_fields(&items, wanted.iter().copied())?;
    let items = items.into_iter().map(|item| chosen(item, &wanted)).collect();
    let list = PartialList { items, total };
    Ok(([(CONTENT_TYPE, PARTIAL)], serde_json::to_string(&list).unwrap_or_default()).into_response())
}

fn wrong(detail: String) -> Problem {
    Problem::rejected(StatusCode::BAD_REQUEST, detail)
}

fn condition(text: &str) -> Result<Condition<'_>, Problem> {
    let at = text.find(['=', '!', '<', '>']);
    let operator = at.and_then(|at| OPERATORS.iter().find(|operator| text[at..].starts_with(**operator)));
    match (at, operator) {
        (Some(at), Some(operator)) if at > 0 => {
            Ok(Condition { field: text[..at].trim(), operator, value: &text[at + operator.len()..] })
        }
        _ => Err(wrong(format!(
            "{text:?} is not a condition: write a field, one of = != < <= > >=, and a value"
        ))),
    }
}

/// An empty list knows no fields: then any name is accepted.
fn check_fields<'a>(items: &[Value], fields: impl Iterator<Item = &'a str>) -> Result<(), Problem> {
    let Some(Value::Object(first)) = items.first() else { return Ok(()) };
    for field in fields {
        let top = field.split('.').next().unwrap_or(field);
        if !first.contains_key(top) {
            let known: Vec<_> = first.keys().map(String::as_str).collect();
            return Err(wrong(format!("there is no field {field:?}: these have {}", known.join(", "))));
        }
    }
    Ok(())
}

fn chosen(item: Value, wanted: &[&str]) -> Map<String, Value> {
    let Value::Object(mut fields) = item else { return Map::new() };
    fields.retain(|name, _| wanted.contains(&name.as_str()));
    fields
}

fn field<'a>(item: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(item, |value, name| &value[name])
}

fn order(keys: &[(&str, bool)], a: &Value, b: &Value) -> Ordering {
    let by_key = |(name, reverse): &(&str, bool)| {
        let order = compare(field(a, name), field(b, name));
        if *reverse { order.reverse() } else { order }
    };
    keys.iter().map(by_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Nothing comes before everything else.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Number(a), Value::Number(b)) => match (a.as_u64(), b.as_u64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (a, b) => a.to_string().cmp(&b.to_string()),
    }
}

impl Condition<'_> {
    fn holds(&self, item: &Value) -> bool {
        let found = field(item, self.field);
        match self.operator {
            "=" => self.equals(found),
            "!=" => !self.equals(found),
            operator => {
                let wanted = match (found, self.value.parse::<serde_json::Number>()) {
                    (Value::Number(_), Ok(number)) => Value::Number(number),
                    _ => Value::String(self.value.into()),
                };
                let order = compare(found, &wanted);
                !found.is_null()
                    && match operator {
                        "<" => order.is_lt(),
                        "<=" => order.is_le(),
                        ">" => order.is_gt(),
                        _ => order.is_ge(),
                    }
            }
        }
    }

    fn equals(&self, found: &Value) -> bool {
        match found {
            Value::String(text) => matches(self.value, text),
            Value::Array(items) => items.iter().any(|item| self.equals(item)),
            other => {
                let shown = other.to_string();
                shown == self.value
            }
        }
    }
}

/// Whether a text is what a pattern says, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
#[path = "list_test.rs"]
mod tests;
