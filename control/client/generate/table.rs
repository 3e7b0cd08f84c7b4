//! The table of schemas: one line for each, with what `Schema` of the client has of it.

use anyhow::Result;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Description {
    components: Components,
}

#[derive(Deserialize)]
struct Components {
    schemas: BTreeMap<String, Schema>,
}

/// What a table needs to know of a schema.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    /// In the order of the description.
    properties: IndexMap<String, Schema>,
    items: Option<Box<Schema>>,
    #[serde(rename = "oneOf")]
    one_of: Vec<Schema>,
    #[serde(rename = "enum")]
    choices: Vec<Value>,
    #[serde(rename = "x-unit")]
    unit: Option<String>,
    format: Option<String>,
    #[serde(rename = "additionalProperties")]
    others: Value,
}

/// The table of a description.
pub fn code(description: &str) -> Result<String> {
    let Description { components: Components { schemas } } = serde_json::from_str(description)?;
    let mut text = String::from(
        "use crate::described::Schema as S;\n\n/// Every schema, by name.\npub static SCHEMAS: &[(&str, S)] = &[\n",
    );
    text.extend(schemas.iter().map(|(name, schema)| format!("    ({name:?}, {}),\n", schema.expression())));
    Ok(text + "];\n")
}

impl Schema {
    fn expression(&self) -> String {
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        match self {
            Self { reference: Some(path), .. } => {
                format!("S::of({:?})", path.rsplit('/').next().unwrap_or_default())
            }
            Self { one_of, .. } if !one_of.is_empty() => {
                format!("S::one_of(&[{}])", list(&mut one_of.iter().map(Self::expression)))
            }
            Self { choices, .. } if !choices.is_empty() => "S::CHOICE".into(),
            Self { properties, .. } if !properties.is_empty() => {
                let field = |(name, schema): (&String, &Self)| format!("({name:?}, {})", schema.expression());
                format!("S::object(&[{}])", list(&mut properties.iter().map(field)))
            }
            Self { items: Some(items), .. } => format!("S::list(&{})", items.expression()),
            Self { others, .. } if others.is_object() => "S::MAP".into(),
            Self { format: Some(format), .. } if format == "date-time" => "S::TIME".into(),
            Self { unit, .. } => unit.as_ref().map_or("S::PLAIN".into(), |unit| format!("S::unit({unit:?})")),
        }
    }
}
