//! Values as the audit log shows them: JSON without secrets.
//!
//! A secret type serializes itself as a newtype struct with one of the names in [`crate::mark`], which hides it.
//! Storage ignores these names. Identities are newtype structs, too, and are shown as names.

use crate::mark;
use serde::ser::{self, Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use std::fmt;

pub use crate::mark::HIDDEN;

/// Text for an optional field that is explicitly set to none.
const NOTHING: &str = "none";

/// Resolves the name of a record from the type of its identity and the hex digits.
pub type Names<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// Serializer for display.
#[derive(Clone, Copy)]
pub struct Redactor<'a> {
    /// Resolver of names.
    pub names: Names<'a>,
    /// Whether secrets are hidden; a comparison needs them.
    pub hide: bool,
}

/// A value that can't be shown, which is a defect of its type.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl ser::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl Redactor<'_> {
    /// The value as JSON; null if its type can't be shown.
    pub fn value<T: Serialize>(self, value: &T) -> Value {
        value.serialize(self).unwrap_or_else(|error| {
            tracing::error!(%error, "a value can't be shown in the audit log");
            Value::Null
        })
    }

    fn newtype(self, name: &str, inner: Value) -> Value {
        let Value::String(text) = &inner else { return inner };
        match name {
            _ if !self.hide => inner,
            mark::SECRET => HIDDEN.into(),
            mark::PEM => certificate(text).into(),
            mark::URL => mark::shown_url(text).into(),
            mark::ADDRESS => mark::shown_address(text).into(),
            _ => (self.names)(name, text).map_or(inner, Value::String),
        }
    }
}

/// Summary of a certificate.
fn certificate(pem: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, pem.as_bytes());
    let digest: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let subject = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok().and_then(|(_, pem)| {
        let subject = pem.parse_x509().ok()?.subject().to_string();
        Some(subject).filter(|subject| !subject.is_empty())
    });
    match subject {
        Some(subject) => format!("PEM of {subject} (SHA-256 of the text {digest}…)"),
        None => format!("PEM (SHA-256 of the text {digest}…)"),
    }
}

/// Serializer of an object.
pub struct Fields<'a> {
    show: Redactor<'a>,
    /// Name of the enum variant.
    variant: Option<&'static str>,
    key: Option<String>,
    map: Map<String, Value>,
}

impl Fields<'_> {
    fn end(self) -> Value {
        match self.variant {
            Some(variant) => tagged(variant, Value::Object(self.map)),
            None => Value::Object(self.map),
        }
    }

    fn put<T: Serialize + ?Sized>(&mut self, key: String, value: &T) -> Result<(), Error> {
        // Omit fields that are not set.
        let value = value.serialize(self.show)?;
        if !value.is_null() && value.as_object().is_none_or(|it| !it.is_empty()) {
            self.map.insert(key, value);
        }
        Ok(())
    }
}

/// Serializer of a list.
pub struct Items<'a> {
    show: Redactor<'a>,
    variant: Option<&'static str>,
    items: Vec<Value>,
}

impl Items<'_> {
    fn end(self) -> Value {
        match self.variant {
            Some(variant) => tagged(variant, Value::Array(self.items)),
            None => Value::Array(self.items),
        }
    }
}

fn tagged(variant: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(variant.to_owned(), value)]))
}

macro_rules! plain {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method(self, value: $kind) -> Result<Value, Error> {
            Ok(Value::from(value))
        }
    )*};
}

impl<'a> Serializer for Redactor<'a> {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Fields<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Fields<'a>;

    plain! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_str(&str);
        serialize_bytes(&[u8]);
    }

    fn serialize_char(self, value: char) -> Result<Value, Error> {
        Ok(value.to_string().into())
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        let value = value.serialize(self)?;
        Ok(if value.is_null() { NOTHING.into() } else { value })
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(self.newtype(name, value.serialize(self)?))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(tagged(variant, value.serialize(self)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(Items { show: self, variant: None, items: Vec::new() })
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, Error> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Error> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, Error> {
        Ok(Items { show: self, variant: Some(variant), items: Vec::new() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields<'a>, Error> {
        Ok(Fields { show: self, variant: None, key: None, map: Map::new() })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Error> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields<'a>, Error> {
        Ok(Fields { show: self, variant: Some(variant), key: None, map: Map::new() })
    }
}

macro_rules! lists {
    ($($kind:ident $method:ident;)*) => {$(
        impl ser::$kind for Items<'_> {
            type Ok = Value;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.items.push(value.serialize(self.show)?);
                Ok(())
            }

            fn end(self) -> Result<Value, Error> {
                Ok(Items::end(self))
            }
        }
    )*};
}

lists! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

impl SerializeMap for Fields<'_> {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(match key.serialize(self.show)? {
            Value::String(text) => text,
            other => other.to_string(),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take().unwrap_or_default();
        self.put(key, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Fields::end(self))
    }
}

macro_rules! structs {
    ($($kind:ident;)*) => {$(
        impl ser::$kind for Fields<'_> {
            type Ok = Value;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.put(key.to_owned(), value)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(Fields::end(self))
            }
        }
    )*};
}

structs! {
    SerializeStruct;
    SerializeStructVariant;
}

#[cfg(test)]
#[path = "redact_test.rs"]
mod tests;
