//! Files that operators name.

use anyhow::{Context, Result};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

/// A document: a JSON object in which no object has a field twice. Otherwise the last one would count, and the others would be
/// left out without a word.
pub fn document(text: &str) -> Result<Map<String, Value>> {
    let mut from = serde_json::Deserializer::from_str(text);
    Distinct.deserialize(&mut from)?;
    from.end()?;
    serde_json::from_str(text).context("it is no JSON object")
}

/// Reads a value, and refuses fields that occur twice.
struct Distinct;

impl<'de> DeserializeSeed<'de> for Distinct {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Distinct {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Distinct)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("the field {name:?} occurs twice")));
            }
            names.insert(name);
            fields.next_value_seed(Distinct)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_occurs_twice_is_refused_wherever_it_is() {
        let good =
            r#"{"format":1,"volumes":[{"name":"a","size":1.5,"labels":{"a":"1","b":null}},{"name":"b"}]}"#;
        assert_eq!(document(good).map(|it| it.len()).ok(), Some(2));
        for twice in [
            r#"{"format":1,"format":2}"#,
            r#"{"format":1,"volumes":[],"hosts":[],"volumes":[{"name":"a"}]}"#,
            r#"{"volumes":[{"name":"a","limits":{"iops":1,"iops":null}}]}"#,
            r#"{"volumes":[{"name":"a","labels":{"a":"1","\u0061":"2"}}]}"#,
        ] {
            let why = document(twice).map_err(|error| format!("{error:#}")).err().unwrap_or_default();
            assert!(why.contains("twice"), "{twice}: {why}");
        }
        for wrong in ["", "[]", "7", "{} {}", "{", "nothing"] {
            assert!(document(wrong).is_err(), "{wrong}");
        }
    }
}
