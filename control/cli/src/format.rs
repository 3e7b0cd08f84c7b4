//! Output formats.

use crate::show::Shown;
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::Value;
use std::collections::BTreeMap;

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Table
    Table,
    /// Table with every field
    Wide,
    /// Names alone, a line each
    Name,
    /// JSON as returned by the API
    Json,
    /// The same as YAML
    Yaml,
    /// CSV: a line for each item, a column for each field
    Csv,
}

impl Format {
    /// Whether it is for a terminal.
    pub fn is_for_terminal(self) -> bool {
        matches!(self, Format::Table | Format::Wide)
    }

    /// The text of a result.
    pub fn show(self, shown: &Shown) -> Result<String> {
        let answer = &shown.value;
        Ok(match self {
            Format::Table => shown.table(),
            Format::Json => format!("{answer:#}\n"),
            Format::Yaml => serde_norway::to_string(answer)?,
            Format::Wide => shown.wide(),
            Format::Name => names(answer)?,
            Format::Csv => {
                let (columns, rows) = flat(answer);
                let mut writer = csv::Writer::from_writer(Vec::new());
                writer.write_record(&columns)?;
                rows.iter().try_for_each(|row| writer.write_record(row))?;
                String::from_utf8(writer.into_inner()?)?
            }
        })
    }
}

/// What each item is called, a line each.
fn names(answer: &Value) -> Result<String> {
    let items = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
    let name = |item: &Value| {
        let called =
            NAMES.iter().map(|field| &item[*field]).find(|value| value.is_string() || value.is_number());
        let called = called.context("these have no names: use another format, such as -o json")?;
        Ok(called.as_str().map_or_else(|| called.to_string(), str::to_owned) + "\n")
    };
    items.iter().map(name).collect()
}

/// Fields that say what an item is called, the best first.
const NAMES: [&str; 7] = ["name", "id", "slot", "number", "object", "deleted", "volume"];

/// The columns of a list, or of one thing, and a row for each item. Fields of fields have a dot in their names; lists
/// have semicolons between their items.
fn flat(answer: &Value) -> (Vec<String>, Vec<Vec<String>>) {
    let items = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
    let rows: Vec<Vec<(String, String)>> = items
        .iter()
        .map(|item| {
            let mut fields = Vec::new();
            flatten("", item, &mut fields);
            fields
        })
        .collect();
    let mut columns: Vec<String> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    // The name comes first.
    columns.sort_by_key(|column| column != "name");
    let row = |fields: Vec<(String, String)>| {
        let mut fields: BTreeMap<_, _> = fields.into_iter().collect();
        columns.iter().map(|column| fields.remove(column).unwrap_or_default()).collect()
    };
    let rows = rows.into_iter().map(row).collect();
    (columns, rows)
}

fn flatten(name: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) => {
            for (field, value) in object {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                flatten(&name, value, fields);
            }
        }
        value => fields.push((name.into(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(";"),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}={}", plain(value));
            fields.iter().map(field).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_format_has_every_field() {
        let answer = json!([
            { "name": "a", "size": 1, "limits": { "iops": 5, "bandwidth": null }, "portals": ["x", "y"] },
            { "name": "b,c", "size": 2, "connections": [{ "host": "h", "lun": 0 }] },
        ]);
        let shown = Shown::text(answer.clone(), |_| String::new());
        let show = |format: Format| format.show(&shown).expect("a text");
        assert_eq!(
            show(Format::Csv),
            "name,limits.bandwidth,limits.iops,portals,size,connections\na,,5,x;y,1,\n\"b,c\",,,,2,host=h lun=0\n"
        );
        assert_eq!(show(Format::Name), "a\nb,c\n");
        let without = Shown::text(json!([{ "time": 1 }]), |_| String::new());
        assert!(Format::Name.show(&without).is_err());
        let yaml: Value = serde_norway::from_str(&show(Format::Yaml)).expect("YAML");
        assert_eq!(yaml, answer);
    }
}
