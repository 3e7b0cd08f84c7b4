//! Results as tables. Fields, their order and their units come from the description of the API; the columns of lists are
//! data (`columns.rs`), and a list without an entry there shows all of its simple fields, so that a new schema needs no code.
//!
//! A column is the name of a field, or `Label={field} text`. In such a text braces hold a field, or a path into fields with
//! dots; `{field|default}` has a text for a missing value, and brackets hold a part that is left out if all of its fields are
//! missing. The unit of a field is in the description (`x-unit`: bytes, ratio or fraction) or in its name (`_seconds`, `_us`).

use crate::columns::{COLUMNS, TEXTS};
use bytesize::ByteSize;
use client::table::{Schema, named};
use comfy_table::{Table, presets};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

/// A result, and how it becomes a table.
#[derive(Clone)]
pub struct Shown {
    /// As the API has it.
    pub value: Value,
    view: View,
    /// Of a list: the number of items that there are, those that were not asked for included.
    total: Option<u64>,
}

#[derive(Clone)]
enum View {
    /// By a schema of the description; of a list, that of the list.
    Schema(&'static str),
    Text(fn(&Value) -> String),
    /// Of several results.
    Texts(String),
}

impl Shown {
    /// By a schema. A list is shown without the object around its items.
    pub fn of(mut value: Value, schema: &'static str) -> Self {
        let total = value["total"].as_u64();
        let list = named(schema).is_some_and(|schema| schema.property("items").is_some());
        if let Some(items) = value.get_mut("items").filter(|_| list) {
            value = items.take();
        }
        Self { value, view: View::Schema(schema), total }
    }

    /// Several results, one below the other.
    pub fn several(all: Vec<Self>) -> Self {
        let texts = all.iter().map(Self::table).collect();
        let values = all.into_iter().map(|it| it.value).collect();
        Self { value: Value::Array(values), view: View::Texts(texts), total: None }
    }

    /// By a function.
    pub fn text(value: Value, text: fn(&Value) -> String) -> Self {
        Self { value, view: View::Text(text), total: None }
    }

    /// How many items a list has; `None` if it says no total.
    pub fn count(&self) -> Option<String> {
        let (shown, total) = (self.value.as_array()?.len() as u64, self.total?);
        Some(if shown < total { format!("{shown} of {total}") } else { format!("{total} in total") })
    }

    /// The table with every field.
    pub fn wide(&self) -> String {
        match &self.view {
            View::Schema(name) if self.value.is_array() => match named(name).and_then(item_of) {
                Some(item) => {
                    let all = item.properties.iter().map(|(name, _)| (label(name), format!("{{{name}}}")));
                    lines_of(item, &all.collect::<Vec<_>>(), &self.value)
                }
                None => self.table(),
            },
            _ => self.table(),
        }
    }

    /// The table.
    pub fn table(&self) -> String {
        match &self.view {
            View::Texts(texts) => texts.clone(),
            View::Text(text) => text(&self.value),
            View::Schema(name) => match named(name) {
                Some(schema) if self.value.is_array() => list(name, schema, &self.value),
                Some(schema) => details(schema, &self.value),
                None => format!("{:#}\n", self.value),
            },
        }
    }
}

/// The schema that a reference, or the one alternative besides null, refers to.
fn resolved(schema: &'static Schema) -> &'static Schema {
    match (schema.reference.and_then(named), schema.one_of) {
        (Some(schema), _) => schema,
        (None, [one]) => resolved(one),
        (None, [first, second]) if second.reference.is_some() && first.reference.is_none() => {
            resolved(second)
        }
        _ => schema,
    }
}

/// The schema of a field, which alternatives may have as well; a plain one if it is not known.
fn field(schema: &'static Schema, name: &str) -> &'static Schema {
    known_field(schema, name).unwrap_or(&Schema::PLAIN)
}

fn known_field(schema: &'static Schema, name: &str) -> Option<&'static Schema> {
    let schema = resolved(schema);
    let mut alternatives = schema.one_of.iter().map(resolved);
    schema.property(name).or_else(|| alternatives.find_map(|it| it.property(name)))
}

/// Whether the value is an object with any keys, such as labels.
fn is_map(schema: &'static Schema) -> bool {
    resolved(schema).is_map
}

/// Whether the value is a list or an object.
fn is_compound(schema: &'static Schema) -> bool {
    let resolved = resolved(schema);
    resolved.is_map
        || resolved.items.is_some()
        || !resolved.properties.is_empty()
        || !resolved.one_of.is_empty() && !resolved.is_choice
}

/// A line for each item.
fn list(name: &str, schema: &'static Schema, items: &Value) -> String {
    let Some(item) = item_of(schema) else { return String::new() };
    let columns: Vec<(String, String)> = match COLUMNS.iter().find(|(list, _)| *list == name) {
        Some((_, columns)) => columns.iter().map(|column| parse(column)).collect(),
        None => {
            let simple = item.properties.iter().filter(|(_, schema)| !is_compound(schema));
            simple.map(|(name, _)| (label(name), format!("{{{name}|-}}"))).collect()
        }
    };
    lines_of(item, &columns, items)
}

/// The schema of the items of a list.
fn item_of(schema: &'static Schema) -> Option<&'static Schema> {
    schema.property("items")?.items.map(resolved)
}

/// A line for each item with these columns: labels and texts.
fn lines_of(item: &'static Schema, columns: &[(String, String)], items: &Value) -> String {
    let headers: Vec<_> = columns.iter().map(|(label, _)| label.to_uppercase()).collect();
    let headers: Vec<_> = headers.iter().map(String::as_str).collect();
    rows(&headers, items, |it| columns.iter().map(|(_, text)| dash(fill(text, item, it))).collect())
}

/// A column: its label and its text.
fn parse(column: &str) -> (String, String) {
    match column.split_once('=') {
        Some((label, text)) => (label.into(), text.into()),
        None => (label(column), format!("{{{column}}}")),
    }
}

/// A line for each field; fields of objects have their own.
fn details(schema: &'static Schema, value: &Value) -> String {
    let mut lines = Vec::new();
    add_details("", schema, value, &mut lines);
    let lines: Vec<_> = lines.iter().map(|(label, text)| (label.as_str(), text.clone())).collect();
    facts(&lines)
}

fn add_details(prefix: &str, schema: &'static Schema, value: &Value, lines: &mut Vec<(String, String)>) {
    let Value::Object(fields) = value else { return };
    let resolved = resolved(schema);
    let declared = resolved.properties.iter().filter_map(|(name, _)| fields.get_key_value(*name));
    let others = fields.iter().filter(|(name, _)| resolved.property(name).is_none());
    for (name, value) in declared.chain(others) {
        let own = if prefix.is_empty() { label(name) } else { format!("{prefix} {}", small(&label(name))) };
        let field = field(schema, name);
        match value {
            Value::Object(_) if !is_map(field) => add_details(&own, field, value, lines),
            Value::Null if !prefix.is_empty() => {}
            value => lines.push((own, dash(cell(name, field, value)))),
        }
    }
}

/// A label in the middle of a line: acronyms stay as they are.
fn small(label: &str) -> String {
    let acronym = label.chars().nth(1).is_some_and(|second| !second.is_ascii_lowercase() && second != ' ');
    if acronym { label.to_owned() } else { label[..1].to_lowercase() + &label[1..] }
}

/// `block_size` as people read it, without its unit.
fn label(name: &str) -> String {
    const ACRONYMS: [(&str, &str); 16] = [
        ("api", "API"),
        ("chap", "CHAP"),
        ("id", "ID"),
        ("iops", "IOPS"),
        ("iqn", "IQN"),
        ("kmip", "KMIP"),
        ("lun", "LUN"),
        ("naa", "NAA"),
        ("nqn", "NQN"),
        ("nsid", "NSID"),
        ("nvme", "NVMe"),
        ("scsi2", "SCSI-2"),
        ("unmap", "UNMAP"),
        ("url", "URL"),
        ("ca", "CA"),
        ("dn", "DN"),
    ];
    let name = name.rsplit('.').next().unwrap_or(name);
    let name = UNITS.iter().find_map(|(suffix, _)| name.strip_suffix(suffix)).unwrap_or(name);
    let words: Vec<&str> = name.split('_').collect();
    let words = words.iter().enumerate().map(|(index, word)| {
        match ACRONYMS.iter().find(|(known, _)| known == word) {
            Some((_, acronym)) => (*acronym).to_owned(),
            None if index == 0 => word[..1].to_uppercase() + &word[1..],
            None => (*word).to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Units that names of fields end with.
const UNITS: [(&str, &str); 7] = [
    ("_ms", "ms"),
    ("_seconds", "seconds"),
    ("_us", "microseconds"),
    ("_bytes", "bytes"),
    ("_percent", "%"),
    ("_celsius", "°C"),
    ("_hours", "h"),
];

/// The text of a template.
fn fill(template: &str, schema: &'static Schema, value: &Value) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '[']) {
        text += &rest[..at];
        let (end, open) = if rest[at..].starts_with('{') { ('}', false) } else { (']', true) };
        let Some(length) = rest[at..].find(end) else { break };
        let inner = &rest[at + 1..at + length];
        rest = &rest[at + length + 1..];
        match open {
            // Without its fields a part says nothing.
            true if fill(&fields_of(inner), schema, value).is_empty() => {}
            true => text += &fill(inner, schema, value),
            false => text += &placeholder(inner, schema, value),
        }
    }
    text + rest
}

/// The placeholders of a template, without the text between them.
fn fields_of(template: &str) -> String {
    let fields =
        template.split('{').skip(1).filter_map(|part| Some(format!("{{{}}}", part.split_once('}')?.0)));
    fields.collect()
}

fn placeholder(text: &str, schema: &'static Schema, value: &Value) -> String {
    let (path, default) = text.split_once('|').unwrap_or((text, ""));
    let (mut schema, mut value) = (schema, value);
    for name in path.split('.') {
        schema = field(schema, name);
        value = &value[name];
    }
    if value.is_null() { default.into() } else { cell(path, schema, value) }
}

/// The text of a value; nothing if it is null or empty.
fn cell(path: &str, schema: &'static Schema, value: &Value) -> String {
    let resolved = resolved(schema);
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Number(_) => number(path, schema.unit, value),
        Value::String(text) if resolved.is_time => time(text),
        Value::String(text) if !resolved.is_choice && resolved.one_of.is_empty() => {
            // Certificates, for example.
            text.split_once('\n').map_or_else(|| text.clone(), |(first, _)| format!("{first} …"))
        }
        Value::String(text) => text.replace('_', " "),
        Value::Array(items) => {
            let item = resolved.items.unwrap_or(&Schema::PLAIN);
            let template = TEXTS.iter().find(|(schema, _)| Some(*schema) == item.reference);
            let one = |it: &Value| match template {
                Some((_, template)) => fill(template, item, it),
                None => cell(path, item, it),
            };
            items.iter().map(one).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ")
        }
        Value::Object(fields) if resolved.is_map => {
            let one =
                |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
            fields.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Value::Object(fields) => {
            let one = |(name, value): (&String, &Value)| {
                let text = cell(name, field(schema, name), value);
                (!text.is_empty()).then(|| format!("{} {text}", small(&label(name))))
            };
            fields.iter().filter_map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

fn number(path: &str, unit: Option<&str>, value: &Value) -> String {
    let named = || {
        let suffix =
            |name: &str| UNITS.iter().find(|(suffix, _)| name.ends_with(suffix)).map(|(_, unit)| *unit);
        path.rsplit('.').find_map(suffix)
    };
    let float = value.as_f64().unwrap_or(0.0);
    match unit.or_else(named) {
        Some("bytes") => ByteSize(value.as_u64().unwrap_or(float as u64)).display().iec().to_string(),
        Some("bytes/s") => format!("{}/s", ByteSize(float as u64).display().iec()),
        Some("1/s") => format!("{float:.0}"),
        Some("seconds") => duration(float as u64),
        Some("microseconds") => micros(value),
        Some("ratio") => format!("{float:.1} : 1"),
        Some("fraction") => format!("{:.0} %", float * 100.0),
        Some(unit) => format!("{value} {unit}"),
        None => value.to_string(),
    }
}

/// A time as this machine's clock shows it; the text itself if it is none.
pub fn time(text: &str) -> String {
    let Ok(time) = text.parse::<Timestamp>() else { return text.to_owned() };
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// A number of bytes.
pub fn bytes(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// A stretch of time.
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Microseconds.
pub fn micros(value: &Value) -> String {
    match value.as_f64() {
        None => "-".into(),
        Some(micros) if micros < 1000.0 => format!("{micros:.0} µs"),
        Some(micros) if micros < 1e6 => format!("{:.1} ms", micros / 1e3),
        Some(micros) => format!("{:.1} s", micros / 1e6),
    }
}

/// A deleted object.
pub fn deleted(name: String) -> Shown {
    Shown::text(json!({ "deleted": name }), |it| format!("{} is deleted\n", text(it, "deleted")))
}

/// An object that has left the array, and was not deleted by that.
pub fn removed(name: String) -> Shown {
    Shown::text(json!({ "removed": name }), |it| format!("{} is removed\n", text(it, "removed")))
}

/// A deleted volume or snapshot, which may be in the recycle bin.
pub fn deleted_to(name: String, recycle_bin: bool) -> Shown {
    if !recycle_bin {
        return deleted(name);
    }
    Shown::text(json!({ "deleted": name, "recycle_bin": true }), |it| {
        let name = text(it, "deleted");
        format!("{name} is in the recycle bin; `ashlar recycle-bin eradicate {name}` frees its space\n")
    })
}

/// A field as it is; a dash if it is missing.
pub fn text(value: &Value, field: &str) -> String {
    match &value[field] {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Names and values, a line each.
pub fn facts(facts: &[(&str, String)]) -> String {
    let mut table = plain();
    for (name, value) in facts {
        table.add_row([*name, value]);
    }
    finish(&table)
}

/// A line for each item, below headers.
pub fn rows(headers: &[&str], items: &Value, row: impl Fn(&Value) -> Vec<String>) -> String {
    let mut table = plain();
    table.set_header(headers);
    for item in items.as_array().into_iter().flatten() {
        table.add_row(row(item));
    }
    finish(&table)
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn finish(table: &Table) -> String {
    table.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

fn dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

#[cfg(test)]
#[path = "show_test.rs"]
mod tests;
