//! Conditions of a filter: read against the declared fields, then held against items.
//!
//! A condition that is not understood is refused. Otherwise a mistyped one would select everything or nothing, and scripts
//! delete what a filter selects.

use super::declared::{Field, Fields, Kind};
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;
use std::str::FromStr;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer ones first, as `<` begins `<=`.
pub const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

impl Operator {
    /// Whether it asks for an order.
    fn orders(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }

    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Null,
    Number(Number),
    Time(Timestamp),
    Boolean(bool),
    /// Literal pieces, between which anything may be. `or_null`: `null` is such a value as well.
    Text {
        pieces: Vec<String>,
        or_null: bool,
    },
}

/// A field of an item, or of an object in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    names: Vec<String>,
    /// It leads through a list, so that an item may have several values there.
    is_in_list: bool,
}

/// A condition on a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    path: Path,
    operator: Operator,
    wanted: Wanted,
}

impl Path {
    /// The declared field that a text names, such as `limits.iops` or `labels.app`.
    pub fn read<'a>(text: &str, fields: &'a Fields) -> Result<(Self, &'a Field), String> {
        let (first, mut rest) = match text.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (text, None),
        };
        let mut at = fields.get(first).ok_or_else(|| unknown(text, fields))?;
        let (mut names, mut is_in_list) = (vec![first.to_owned()], false);
        loop {
            match (&at.kind, rest) {
                (Kind::List(inner), _) if rest.is_some() || !is_scalar(inner) => {
                    (at, is_in_list) = (inner, true);
                }
                (Kind::Object(inner), Some(more)) => {
                    let (name, after) =
                        more.split_once('.').map_or((more, None), |(name, rest)| (name, Some(rest)));
                    at = inner.get(name).ok_or_else(|| unknown(text, inner))?;
                    names.push(name.to_owned());
                    rest = after;
                }
                // Keys of labels may have dots.
                (Kind::Map(inner), Some(key)) if !key.is_empty() => {
                    at = inner;
                    names.push(key.to_owned());
                    rest = None;
                }
                (_, Some(_)) => {
                    return Err(format!("the field {:?} has no fields: {text:?}", names.join(".")));
                }
                (_, None) => return Ok((Self { names, is_in_list }, at)),
            }
        }
    }

    /// The field of the item that it begins with.
    pub fn top(&self) -> &str {
        &self.names[0]
    }

    /// Whether it is the field of the item with this name.
    pub fn is_field(&self, name: &str) -> bool {
        self.names.len() == 1 && self.names[0] == name
    }

    /// Whether items can be sorted by it.
    pub fn has_order(&self, field: &Field) -> bool {
        !self.is_in_list && is_scalar(field)
    }

    /// The values that an item has there: several in a list.
    fn values<'a>(&self, item: &'a Map<String, Value>) -> Vec<&'a Value> {
        let mut found: Vec<&Value> = item.get(self.top()).into_iter().collect();
        for name in &self.names[1..] {
            found = found.into_iter().flat_map(elements).map(|value| &value[name.as_str()]).collect();
        }
        found.into_iter().flat_map(elements).collect()
    }

    /// The value that an item has there.
    pub fn value<'a>(&self, item: &'a Map<String, Value>) -> &'a Value {
        let first = item.get(self.top()).unwrap_or(&Value::Null);
        self.names[1..].iter().fold(first, |value, name| &value[name.as_str()])
    }
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    let (list, one) = match value {
        Value::Array(items) => (Some(items), None),
        one => (None, Some(one)),
    };
    list.into_iter().flatten().chain(one)
}

fn is_scalar(field: &Field) -> bool {
    !matches!(field.kind, Kind::List(_) | Kind::Object(_) | Kind::Map(_) | Kind::Other)
}

pub fn unknown(field: &str, fields: &Fields) -> String {
    let known: Vec<_> = fields.keys().map(String::as_str).collect();
    format!("there is no field {field:?}: these have {}", known.join(", "))
}

/// Reads the conditions of a filter.
pub fn read_all(text: &str, fields: &Fields) -> Result<Vec<Condition>, String> {
    split(text)?.iter().map(|it| Condition::read(it, fields)).collect()
}

/// The conditions of a filter; a comma after a backslash is part of a value.
fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut parts, mut quoted) = (vec![String::new()], false);
    for character in text.chars() {
        let last = parts.last_mut().expect("it begins with one");
        match character {
            ',' if !quoted => parts.push(String::new()),
            _ => last.push(character),
        }
        quoted = character == '\\' && !quoted;
    }
    match quoted {
        true => Err(format!("{text:?} ends with a backslash: write \\\\ for one")),
        false => Ok(parts),
    }
}

/// The pieces of a value between `*`, without backslashes that quote.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = pieces.last_mut().expect("it begins with one");
        match character {
            '*' => pieces.push(String::new()),
            '\\' => last.extend(characters.next()),
            other => last.push(other),
        }
    }
    pieces
}

impl Condition {
    fn read(text: &str, fields: &Fields) -> Result<Self, String> {
        let at = text.find(['=', '!', '<', '>']);
        let found = at.and_then(|at| {
            let (sign, operator) = OPERATORS.iter().find(|(sign, _)| text[at..].starts_with(sign))?;
            Some((text[..at].trim(), *operator, &text[at + sign.len()..]))
        });
        let Some((name, operator, value)) = found.filter(|(name, ..)| !name.is_empty()) else {
            return Err(format!(
                "{text:?} is not a condition: write a field, one of = != < <= > >=, and a value"
            ));
        };
        let (path, field) = Path::read(name, fields)?;
        let is_label = fields.get(path.top()).is_some_and(|field| matches!(field.kind, Kind::Map(_)));
        // A variable of a script that is empty must not select everything. The value of a label can be empty.
        if value.is_empty() && !(is_label && operator == Operator::Equal) {
            return Err(format!("{text:?} has no value: write what {name} is compared with"));
        }
        let nullable = field.nullable || is_label;
        let scalar = match &field.kind {
            Kind::List(inner) => inner,
            _ => field,
        };
        let wanted = wanted(scalar, nullable, operator, value).map_err(|why| format!("{text:?}: {why}"))?;
        Ok(Self { path, operator, wanted })
    }

    /// The field of the item that it is about.
    pub fn top(&self) -> &str {
        self.path.top()
    }

    /// Whether an item meets it. Of a list, one element must; for `!=`, none may be equal.
    pub fn holds(&self, item: &Map<String, Value>) -> bool {
        let values = self.path.values(item);
        match self.operator {
            Operator::NotEqual => !values.into_iter().any(|found| self.is_met(found, Operator::Equal)),
            operator => values.into_iter().any(|found| self.is_met(found, operator)),
        }
    }

    fn is_met(&self, found: &Value, operator: Operator) -> bool {
        match (&self.wanted, found) {
            (Wanted::Null, found) => found.is_null(),
            (Wanted::Number(wanted), Value::Number(found)) => operator.accepts(numbers(found, wanted)),
            (Wanted::Boolean(wanted), Value::Bool(found)) => operator.accepts(found.cmp(wanted)),
            (Wanted::Time(wanted), Value::String(found)) => {
                Timestamp::from_str(found).is_ok_and(|found| operator.accepts(found.cmp(wanted)))
            }
            (Wanted::Text { pieces, .. }, Value::String(found)) if operator.orders() => {
                operator.accepts(found.as_str().cmp(pieces.concat().as_str()))
            }
            (Wanted::Text { pieces, .. }, Value::String(found)) => matches(pieces, found),
            (Wanted::Text { or_null, .. }, Value::Null) => *or_null,
            _ => false,
        }
    }
}

/// What a value stands for.
fn wanted(field: &Field, nullable: bool, operator: Operator, value: &str) -> Result<Wanted, String> {
    let orders = operator.orders();
    if value == "null" && nullable && !matches!(field.kind, Kind::Text) {
        return if orders { Err("null has no order: use = or !=".into()) } else { Ok(Wanted::Null) };
    }
    match &field.kind {
        Kind::Number => number(value).map(Wanted::Number),
        Kind::Bytes => bytes(value).map(Wanted::Number),
        Kind::ByteRate => bytes(value.strip_suffix("/s").unwrap_or(value)).map(Wanted::Number),
        Kind::Seconds => {
            number(value).or_else(|_| units::seconds(value).map(Number::from)).map(Wanted::Number)
        }
        Kind::Time => time(operator, value),
        Kind::Boolean if orders => Err("true and false have no order: use = or !=".into()),
        Kind::Boolean => value.parse().map(Wanted::Boolean).map_err(|_| "write true or false".into()),
        Kind::Choice(words) => choice(words, orders, value),
        Kind::Text => {
            let (pieces, or_null) = (pieces(value), nullable && value == "null");
            match (orders, pieces.len() > 1) {
                (true, true) => Err("a pattern has no order: use = or !=, or \\* for a '*'".into()),
                (true, false) if or_null => Err("null has no order: use = or !=".into()),
                _ => Ok(Wanted::Text { pieces, or_null }),
            }
        }
        Kind::Object(fields) => {
            let known: Vec<_> = fields.keys().map(String::as_str).collect();
            Err(format!("name one of its fields, after a dot: {}", known.join(", ")))
        }
        Kind::Map(_) => Err("name a key of it, after a dot".into()),
        Kind::List(_) | Kind::Other => Err("no condition can be on this field".into()),
    }
}

fn number(value: &str) -> Result<Number, String> {
    value.trim().parse().map_err(|_| "write a number".into())
}

/// A number of bytes.
fn bytes(value: &str) -> Result<Number, String> {
    number(value).or_else(|_| units::size(value).map(Number::from))
}

/// A time, a day by its beginning in UTC, or a pattern of digits.
fn time(operator: Operator, value: &str) -> Result<Wanted, String> {
    if value.contains('*') {
        let is_part = |character: char| character.is_ascii_digit() || "-:.TZ*".contains(character);
        return match !operator.orders() && value.chars().all(is_part) {
            true => Ok(Wanted::Text { pieces: pieces(value), or_null: false }),
            false => {
                Err("write a time such as 2026-01-31T18:00:00Z; a pattern such as 2026-01-* is for = and !="
                    .into())
            }
        };
    }
    let text = "write a time such as 2026-01-31T18:00:00Z, or for < <= > >= a day such as 2026-01-31";
    if let Ok(at) = Timestamp::from_str(value) {
        return Ok(Wanted::Time(at));
    }
    let day = Date::from_str(value).ok().filter(|_| operator.orders() && value.len() == "2026-01-31".len());
    let begins = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
    begins.map(|it| Wanted::Time(it.timestamp())).ok_or_else(|| text.into())
}

fn choice(words: &[String], orders: bool, value: &str) -> Result<Wanted, String> {
    let pieces = pieces(value);
    if orders {
        return Err("these have no order: use = or !=".into());
    }
    match words.iter().any(|word| matches(&pieces, word)) {
        true => Ok(Wanted::Text { pieces, or_null: false }),
        false => Err(format!("it is one of {}", words.join(", "))),
    }
}

fn numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_u64(), b.as_u64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
    }
}

/// The order of two values of one field: `null` comes before everything else.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (a, b) => a.to_string().cmp(&b.to_string()),
    }
}

/// Whether a text is the pieces, with anything between them.
fn matches(pieces: &[String], text: &str) -> bool {
    let Some((first, others)) = pieces.split_first() else { return false };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    let Some((last, middle)) = others.split_last() else { return rest.is_empty() };
    for piece in middle {
        match rest.find(piece.as_str()) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}
