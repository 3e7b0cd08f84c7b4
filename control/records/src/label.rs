//! Labels: short texts by key that operators and drivers attach to objects, to find them again and to store names of
//! their own systems.

use crate::{Error, Result};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Maximum number of labels of one object.
pub const MAX_LABELS: usize = 64;
/// Longest key, in characters.
pub const MAX_LABEL_KEY_CHARS: usize = 63;
/// Longest value, in bytes of UTF-8.
pub const MAX_LABEL_VALUE_BYTES: usize = 255;

/// The labels of an object, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(#[serde(deserialize_with = "distinct")] BTreeMap<String, String>);

/// Changes of labels: a value for each key, `None` to remove it. Other keys stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabelsChange(#[serde(deserialize_with = "distinct")] pub BTreeMap<String, Option<String>>);

impl Labels {
    /// True if there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Keys and values, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The labels after a change.
    ///
    /// # Errors
    /// If a key or a value is invalid, or if there are too many labels.
    pub fn with(&self, change: &LabelsChange) -> Result<Self> {
        let mut new = self.0.clone();
        for (key, value) in &change.0 {
            match value {
                Some(value) => {
                    check(key, value)?;
                    new.insert(key.clone(), value.clone());
                }
                None => drop(new.remove(key)),
            }
        }
        if new.len() > MAX_LABELS {
            return Err(Error::invalid(format!(
                "these are {} labels, and an object has at most {MAX_LABELS}: remove some",
                new.len()
            )));
        }
        Ok(Self(new))
    }

    /// Whether the labels already have all values of a change.
    pub fn agree_with(&self, change: &LabelsChange) -> bool {
        change.0.iter().all(|(key, value)| self.get(key) == value.as_deref())
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

impl From<Labels> for LabelsChange {
    fn from(labels: Labels) -> Self {
        Self::setting(labels.0)
    }
}

impl LabelsChange {
    /// True when it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads labels that are all to be set.
    ///
    /// # Errors
    /// When the values are not all texts.
    pub fn set<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        distinct(deserializer).map(Self::setting)
    }

    /// Removes the labels that this change sets.
    #[must_use]
    pub fn gone(&self) -> Self {
        Self(self.0.keys().map(|key| (key.clone(), None)).collect())
    }

    /// Sets all of these.
    pub fn setting(labels: BTreeMap<String, String>) -> Self {
        Self(labels.into_iter().map(|(key, value)| (key, Some(value))).collect())
    }

    /// This change, followed by another one.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// Reads values by key. A key that occurs twice is refused: of two values, it is not known which one is meant.
fn distinct<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, V>, D::Error> {
    struct Distinct<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Distinct<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("labels by key")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some((key, value)) = map.next_entry::<String, V>()? {
                if values.contains_key(&key) {
                    let shown: String = key.chars().take(MAX_LABEL_KEY_CHARS).collect();
                    return Err(A::Error::custom(format!("the label {shown:?} is given twice")));
                }
                values.insert(key, value);
            }
            Ok(values)
        }
    }
    deserializer.deserialize_map(Distinct(PhantomData))
}

fn check(key: &str, value: &str) -> Result<()> {
    let first = key.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if !first || !rest || key.len() > MAX_LABEL_KEY_CHARS {
        let shown: String = key.chars().take(MAX_LABEL_KEY_CHARS + 1).collect();
        return Err(Error::invalid(format!(
            "{shown:?} can't be the key of a label: use 1 to {MAX_LABEL_KEY_CHARS} letters (a-z, A-Z), digits, '-', '_', '.' \
             or '/', beginning with a letter or digit"
        )));
    }
    if value.len() > MAX_LABEL_VALUE_BYTES || !value.chars().all(text::is_visible) {
        return Err(Error::invalid(format!(
            "the value of label {key:?} can't be used: it has at most {MAX_LABEL_VALUE_BYTES} bytes, all of visible characters"
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "label_test.rs"]
mod tests;
