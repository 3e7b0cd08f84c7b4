//! Reading of types that requests and records share.
//!
//! A request with an unknown field is refused, as it may be a typing error. A record may have fields of newer software,
//! which are left out when it is read, and kept when it is written again.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::Value;

/// Reads a stored value of a type that refuses unknown fields.
///
/// # Errors
/// When it is no such value.
pub fn stored<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    lenient(Value::deserialize(from)?).map_err(D::Error::custom)
}

/// Reads a list of such values.
///
/// # Errors
/// As [`stored`].
pub fn stored_list<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let values = Vec::<Value>::deserialize(from)?;
    values.into_iter().map(|value| lenient(value).map_err(D::Error::custom)).collect()
}

/// The type alone knows its fields, and names one that it does not know in its error.
fn lenient<T: DeserializeOwned>(mut value: Value) -> serde_json::Result<T> {
    loop {
        let error = match T::deserialize(&value) {
            Ok(read) => return Ok(read),
            Err(error) => error,
        };
        let text = error.to_string();
        let unknown = text.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        let fields = value.as_object_mut();
        if unknown.and_then(|name| fields.and_then(|fields| fields.remove(name))).is_none() {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Rule};

    #[test]
    fn fields_of_newer_software_are_left_out_and_wrong_values_are_refused() {
        let rule = r#"{"zone":"UTC","when":"hourly","keep":24,"more":{}}"#;
        let read: Rule = stored(&mut serde_json::Deserializer::from_str(rule)).unwrap();
        assert_eq!((&*read.when, read.keep), ("hourly", 24));
        assert!(serde_json::from_str::<Rule>(rule).is_err(), "a request is refused");
        let webhook = r#"{"kind":"webhook","url":"https://a/b","newer":1}"#;
        assert!(stored::<_, Destination>(&mut serde_json::Deserializer::from_str(webhook)).is_ok());
        for wrong in [r#"{"when":"hourly"}"#, r#"{"when":7,"keep":24}"#, "7"] {
            assert!(stored::<_, Rule>(&mut serde_json::Deserializer::from_str(wrong)).is_err(), "{wrong}");
        }
    }
}
