//! Some fields of a value: serializes these and skips the others, so that a filter costs what it looks at.

use serde::ser::{Error as _, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};
use serde_json::{Error, Map, Value};

/// The fields of an object with these names.
///
/// # Errors
/// When the value is no object, or a field can't be serialized.
pub fn picked<T: Serialize>(item: &T, names: &[&str]) -> Result<Map<String, Value>, Error> {
    item.serialize(Picker { names })
}

struct Picker<'a> {
    names: &'a [&'a str],
}

/// The object that is being picked from.
struct Fields<'a> {
    names: &'a [&'a str],
    key: Option<String>,
    map: Map<String, Value>,
}

fn no_object<T>() -> Result<T, Error> {
    Err(Error::custom("an item of a list is an object"))
}

/// Refuses values that are no objects.
macro_rules! refused {
    ($($method:ident($($kind:ty),*);)*) => {$(
        fn $method(self, $(_: $kind),*) -> Result<Self::Ok, Error> {
            no_object()
        }
    )*};
}

type No = Impossible<Map<String, Value>, Error>;

impl<'a> Serializer for Picker<'a> {
    type Ok = Map<String, Value>;
    type Error = Error;
    type SerializeSeq = No;
    type SerializeTuple = No;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = Fields<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = No;

    refused! {
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
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, Error> {
        no_object()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<No, Error> {
        no_object()
    }

    fn serialize_tuple(self, _: usize) -> Result<No, Error> {
        no_object()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<No, Error> {
        no_object()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No, Error> {
        no_object()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields<'a>, Error> {
        Ok(Fields { names: self.names, key: None, map: Map::new() })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Error> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No, Error> {
        no_object()
    }
}

impl Fields<'_> {
    fn take<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), Error> {
        if self.names.contains(&key) {
            self.map.insert(key.to_owned(), serde_json::to_value(value)?);
        }
        Ok(())
    }
}

impl SerializeStruct for Fields<'_> {
    type Ok = Map<String, Value>;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.take(key, value)
    }

    fn end(self) -> Result<Self::Ok, Error> {
        Ok(self.map)
    }
}

impl SerializeMap for Fields<'_> {
    type Ok = Map<String, Value>;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = serde_json::to_value(key)?.as_str().map(str::to_owned);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take().unwrap_or_default();
        self.take(&key, value)
    }

    fn end(self) -> Result<Self::Ok, Error> {
        Ok(self.map)
    }
}
