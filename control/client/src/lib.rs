//! Rust client of the management API, generated from `openapi/array.json`: a type for each schema and a function for each
//! operation. The project's programs use it, so that names, fields and types of the API are defined once.
//!
//! A [`Request`] has the parameters and the type of the response; the caller sends it. The program in `generate` makes the
//! modules when the crate is built.

mod described;
pub mod table;

mod generated {
    #![allow(missing_docs, clippy::all, clippy::pedantic, clippy::allow_attributes, reason = "generated")]

    pub mod operations {
        include!(concat!(env!("OUT_DIR"), "/operations.rs"));
    }
    pub mod schemas {
        include!(concat!(env!("OUT_DIR"), "/schemas.rs"));
    }
    pub mod table {
        include!(concat!(env!("OUT_DIR"), "/table.rs"));
    }
}

pub use generated::operations as api;
pub use generated::schemas;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use std::marker::PhantomData;

/// Characters that need no quoting in a path segment or a query (RFC 3986 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A request whose response is an `A`.
#[derive(Clone, Debug)]
pub struct Request<A> {
    /// HTTP method.
    pub method: &'static str,
    /// Path, from `/api/v1`.
    pub path: String,
    /// Query with its question mark; empty if there is none.
    pub query: String,
    /// JSON body.
    pub body: Option<Value>,
    /// Name of the schema of the response; empty if it has no JSON body.
    pub schema: &'static str,
    /// Names of the parameters that its query can have, separated by spaces.
    parameters: &'static str,
    response: PhantomData<fn() -> A>,
}

impl<A> Request<A> {
    fn new(method: &'static str, path: String, schema: &'static str) -> Self {
        Self { method, path, query: String::new(), body: None, schema, parameters: "", response: PhantomData }
    }

    /// With the given fields of a query that can have these parameters.
    fn query(mut self, fields: &impl Serialize, parameters: &'static str) -> Self {
        self.parameters = parameters;
        let Ok(Value::Object(fields)) = serde_json::to_value(fields) else { return self };
        let field = |(name, value): (&String, &Value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{name}={}", quoted(&value))
        };
        let fields: Vec<_> = fields.iter().map(field).collect();
        if !fields.is_empty() {
            self.query = format!("?{}", fields.join("&"));
        }
        self
    }

    /// Whether the operation has a parameter of this name in its query.
    pub fn takes(&self, name: &str) -> bool {
        self.parameters.split(' ').any(|known| known == name)
    }

    /// With one more parameter in its query; conditions that it has already must hold as well.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let (start, value) = (format!("{name}="), quoted(value));
        let query = self.query.trim_start_matches('?').to_owned();
        let mut fields: Vec<String> =
            query.split('&').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        match fields.iter_mut().find(|it| it.starts_with(&start)) {
            Some(field) => field.push_str(&format!("%2C{value}")),
            None => fields.push(start + &value),
        }
        self.query = format!("?{}", fields.join("&"));
        self
    }

    fn body(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_value(body).ok();
        self
    }
}

/// An enumeration of strings.
pub trait Choice: std::str::FromStr {
    /// The strings, in the order of the description.
    const CHOICES: &'static [&'static str];
}

fn quoted(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_has_quoted_names_and_only_the_given_fields() {
        let request = api::delete_volume("a/b c", &api::DeleteVolume { eradicate: Some(true) });
        assert_eq!((request.method, request.path.as_str()), ("DELETE", "/api/v1/volumes/a%2Fb%20c"));
        assert_eq!((request.query.as_str(), request.schema), ("?eradicate=true", ""));
        let request = api::list_jobs(&api::ListJobs {
            filter: Some("state=running".into()),
            ..api::ListJobs::default()
        });
        assert_eq!((request.query.as_str(), request.schema), ("?filter=state%3Drunning", "Jobs"));
    }

    #[test]
    fn conditions_are_added_to_those_of_a_request() {
        let query = api::ListVolumes { filter: Some("group=sql".into()), ..api::ListVolumes::default() };
        let request = api::list_volumes(&query).with("filter", "size>=5").with("sort", "-mapped");
        assert_eq!(request.query, "?filter=group%3Dsql%2Csize%3E%3D5&sort=-mapped");
        assert!(request.takes("filter") && !request.takes("eradicate"));
        assert!(!api::show_volume("a").takes("filter"));
        assert!(api::delete_volume("a", &api::DeleteVolume::default()).takes("eradicate"));
    }

    #[test]
    fn a_change_distinguishes_omitted_and_cleared_fields() {
        let change = |group| schemas::VolumeChange { group, ..schemas::VolumeChange::default() };
        let body = |group| api::change_volume("a", &change(group)).body;
        assert_eq!(body(None), Some(json!({})));
        assert_eq!(body(Some(None)), Some(json!({ "group": null })));
        assert_eq!(body(Some(Some("sql".into()))), Some(json!({ "group": "sql" })));
    }
}
