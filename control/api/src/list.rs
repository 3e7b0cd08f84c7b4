//! Lists: which part of them, in which order, and which fields.
//!
//! A page costs a page: items are made and serialized for the part that is asked for. What a query names is checked against the
//! declared fields before anything is read; a query that is not understood is refused.

mod condition;
mod declared;
mod picked;

use crate::Context;
use crate::auth::Operator;
use crate::problem::Problem;
use array::{LabelSelector, ListPage, Listed, Listing, Outcome, Routed, Shape};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use condition::{Condition, Path};
use declared::{Fields, fields_of};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cmp::Ordering;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// Name of the schema of responses with chosen fields, whose items are not whole.
pub const PARTIAL: &str = "application/vnd.ashlar.partial+json";

/// Query of a list. What else its path asks for stands beside it in the query, and is read apart.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct List {
    /// Maximum number of items; default: all.
    #[param(minimum = 0)]
    limit: Option<usize>,
    /// Number of items to skip.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Comma-separated fields to sort by, descending with a leading '-', such as `-mapped,name`.
    sort: Option<String>,
    /// Comma-separated conditions that must all hold: a field, one of = != < <= > >=, and a value, such as
    /// `name=web*,size>=10GiB`. Sizes take units, times are RFC 3339, and in text '*' matches anything; after a
    /// backslash ',', '*' and the backslash stand for themselves. A dot leads to a field of a field. A condition that
    /// is not understood is refused.
    filter: Option<String>,
    /// Words that must all occur in the item, each in one of its texts, in upper or lower case.
    search: Option<String>,
    /// Comma-separated fields to return. The response then has the media type
    /// `application/vnd.ashlar.partial+json`.
    fields: Option<String>,
}

/// Query of a list of objects that have labels, beside that of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Labelled {
    /// Comma-separated conditions on labels that must all hold: `key` or `key=value`. In a value `\,` is a comma and
    /// `\\` a backslash.
    pub label: Option<String>,
}

/// A list whose items have only the requested fields.
#[derive(Serialize, ToSchema)]
pub struct PartialList {
    /// The items.
    pub items: Vec<Map<String, Value>>,
    /// Total count, regardless of `limit` and `offset`.
    pub total: usize,
}

/// A list of whole items.
#[derive(Serialize)]
pub struct Items<T> {
    items: Vec<T>,
    /// `None` of a list of which no part can be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
}

impl<T: Shape> From<Vec<T>> for Items<T> {
    fn from(items: Vec<T>) -> Self {
        let in_parts = T::LISTING.is_none_or(|it| it.in_parts);
        Self { total: in_parts.then_some(items.len()), items }
    }
}

impl<T: Shape> PartialSchema for Items<T> {
    fn schema() -> RefOr<Schema> {
        let Some(Listing { about, order, in_parts, .. }) = T::LISTING else {
            return ObjectBuilder::new().into();
        };
        let items = ArrayBuilder::new().items(Ref::from_schema_name(T::name())).description(Some(order));
        let list = ObjectBuilder::new().description(Some(about)).property("items", items).required("items");
        if !in_parts {
            return list.into();
        }
        let total = "Total count, regardless of `limit` and `offset`.";
        let total = ObjectBuilder::new().schema_type(Type::Integer).description(Some(total)).minimum(Some(0));
        list.property("total", total).required("total").into()
    }
}

impl<T: Shape> ToSchema for Items<T> {
    fn name() -> Cow<'static, str> {
        T::LISTING.map_or("", |it| it.name).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

/// A part of a list that is understood: every field that it names is declared.
struct Query {
    conditions: Vec<Condition>,
    /// Words that occur in the item, in lower case.
    words: Vec<String>,
    /// Fields to sort by, and whether descending.
    order: Vec<(Path, bool)>,
    fields: Option<Vec<String>>,
    skip: usize,
    take: Option<usize>,
}

/// The most items of a part that are answered without leaving the thread of all requests.
const MAX_SMALL_PART: usize = 200;

/// The part of `items` that is asked for: `{"items": […], "total": n}`.
pub fn list<T: Serialize + ToSchema>(items: Vec<T>, part: List) -> Result<Response, Problem> {
    Query::read(&part, fields_of(&T::name()))?.answer(items)
}

/// The part of a list that may be long: only the items of the part are looked at, unless others are sorted or filtered by what
/// they are. Such a list is made on a thread of its own, as other requests would wait for it.
pub async fn paged<R: Routed>(
    operator: Operator,
    context: &Context,
    request: R,
    (part, selector): (List, LabelSelector),
) -> Result<Response, Problem> {
    let query = Query::read(&part, fields_of(&<R::Answer as Outcome>::Object::name()))?;
    let by_name = query.by_name();
    let page = match by_name {
        Some(reverse) => ListPage { selector, reverse, skip: query.skip, take: query.take },
        None => ListPage { selector, ..ListPage::default() },
    };
    let is_small = by_name.is_some() && page.take.is_some_and(|take| take <= MAX_SMALL_PART);
    let array = context.array.clone();
    let work = move || {
        let Listed { items, total } = array.page(&operator.caller, &request, &page)?;
        if by_name.is_some() { query.response(items, total) } else { query.answer(items) }
    };
    if is_small { work() } else { context.heavy.run(work).await? }
}

fn wrong(detail: String) -> Problem {
    Problem::rejected(StatusCode::BAD_REQUEST, detail)
}

impl Query {
    fn read(part: &List, declared: &Fields) -> Result<Self, Problem> {
        let conditions = part.filter.as_deref().map(|filter| condition::read_all(filter, declared));
        let order = part.sort.as_deref().map(|sort| read_order(sort, declared));
        let fields = part.fields.as_deref().map(|fields| read_fields(fields, declared));
        let words = part.search.as_deref().map(read_words);
        Ok(Self {
            words: words.transpose().map_err(wrong)?.unwrap_or_default(),
            conditions: conditions.transpose().map_err(wrong)?.unwrap_or_default(),
            order: order.transpose().map_err(wrong)?.unwrap_or_default(),
            fields: fields.transpose().map_err(wrong)?,
            skip: part.offset.unwrap_or(0),
            take: part.limit,
        })
    }

    /// Whether the part is one of the list in order of names, or in the reverse of it.
    fn by_name(&self) -> Option<bool> {
        match self.order.as_slice() {
            _ if !self.conditions.is_empty() || !self.words.is_empty() => None,
            [] => Some(false),
            [(path, reverse)] if path.is_field("name") => Some(*reverse),
            _ => None,
        }
    }

    /// The part of all items. Of each only the fields are looked at that a condition or the order names.
    fn answer<T: Serialize>(&self, items: Vec<T>) -> Result<Response, Problem> {
        let conditions = self.conditions.iter().map(Condition::top);
        let mut names: Vec<&str> = conditions.chain(self.order.iter().map(|(path, _)| path.top())).collect();
        names.sort_unstable();
        names.dedup();
        let mut found: Vec<(Map<String, Value>, T)> = Vec::new();
        for item in items {
            let known = if names.is_empty() { Map::new() } else { pick(&item, &names)? };
            if self.conditions.iter().all(|condition| condition.holds(&known)) && self.occur_in(&item)? {
                found.push((known, item));
            }
        }
        if !self.order.is_empty() {
            found.sort_by(|(a, _), (b, _)| self.compare(a, b));
        }
        let total = found.len();
        let part = found.into_iter().skip(self.skip).take(self.take.unwrap_or(usize::MAX));
        self.response(part.map(|(_, item)| item).collect(), total)
    }

    /// Whether each word occurs in a text of an item.
    fn occur_in<T: Serialize>(&self, item: &T) -> Result<bool, Problem> {
        if self.words.is_empty() {
            return Ok(true);
        }
        let whole = serde_json::to_value(item)
            .map_err(|error| Problem::internal(format!("an item can't be written: {error}")))?;
        let mut texts = Vec::new();
        texts_of(&whole, &mut texts);
        Ok(self.words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str()))))
    }

    fn compare(&self, a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
        let by_key = |(path, reverse): &(Path, bool)| {
            let order = condition::compare(path.value(a), path.value(b));
            if *reverse { order.reverse() } else { order }
        };
        self.order.iter().map(by_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// The response with the items of the part.
    fn response<T: Serialize>(&self, items: Vec<T>, total: usize) -> Result<Response, Problem> {
        let (kind, body) = match &self.fields {
            None => ("application/json", serde_json::to_vec(&Items { items, total: Some(total) })),
            Some(fields) => {
                let wanted: Vec<&str> = fields.iter().map(String::as_str).collect();
                let items = items.iter().map(|item| pick(item, &wanted)).collect::<Result<_, _>>()?;
                (PARTIAL, serde_json::to_vec(&PartialList { items, total }))
            }
        };
        let body = body.map_err(|error| Problem::internal(format!("a list can't be written: {error}")))?;
        Ok(([(CONTENT_TYPE, kind)], body).into_response())
    }
}

fn pick<T: Serialize>(item: &T, names: &[&str]) -> Result<Map<String, Value>, Problem> {
    picked::picked(item, names)
        .map_err(|error| Problem::internal(format!("an item can't be written: {error}")))
}

/// The texts in a value, in lower case.
fn texts_of(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.to_lowercase()),
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| texts_of(field, into)),
        _ => {}
    }
}

/// The words of a search.
fn read_words(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err("a search has no word: write one, or leave it out".into());
    }
    Ok(words)
}

/// The fields of a list of names, each once.
fn read_order(text: &str, declared: &Fields) -> Result<Vec<(Path, bool)>, String> {
    let mut order: Vec<(Path, bool)> = Vec::new();
    for key in text.split(',') {
        let (name, reverse) = key.strip_prefix('-').map_or((key, false), |name| (name, true));
        let (path, field) = Path::read(name, declared)?;
        if !path.has_order(field) {
            return Err(format!("nothing is sorted by {name:?}: name a field that has one value"));
        }
        if order.iter().any(|(known, _)| *known == path) {
            return Err(format!("the list is sorted by {name:?} twice: name each field once"));
        }
        order.push((path, reverse));
    }
    Ok(order)
}

fn read_fields(text: &str, declared: &Fields) -> Result<Vec<String>, String> {
    let mut fields: Vec<String> = Vec::new();
    for name in text.split(',') {
        if !declared.contains_key(name) {
            return Err(match name.split_once('.').filter(|(top, _)| declared.contains_key(*top)) {
                Some((top, _)) => format!("{name:?} is part of a field: ask for {top:?}, which comes whole"),
                None => condition::unknown(name, declared),
            });
        }
        if fields.iter().any(|known| known == name) {
            return Err(format!("the field {name:?} is asked for twice: name each field once"));
        }
        fields.push(name.to_owned());
    }
    Ok(fields)
}

#[cfg(test)]
#[path = "list_test.rs"]
mod tests;
