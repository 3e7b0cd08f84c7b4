//! What a table of a result needs to know of a schema of the API: its fields in order, and what a value means.

/// A schema.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// The name of the schema that it refers to.
    pub reference: Option<&'static str>,
    /// The fields of an object, in order.
    pub properties: &'static [(&'static str, Schema)],
    /// The items of a list.
    pub items: Option<&'static Schema>,
    /// The alternatives of which it is one.
    pub one_of: &'static [Schema],
    /// It is one of some words.
    pub is_choice: bool,
    /// It is a time (RFC 3339).
    pub is_time: bool,
    /// It is an object with any keys, such as labels.
    pub is_map: bool,
    /// The unit of a number: `bytes`, `bytes/s`, `1/s`, `ratio` or `fraction`.
    pub unit: Option<&'static str>,
}

impl Schema {
    /// A value of which nothing is known: a text, a number, true or false.
    pub const PLAIN: Self = Self {
        reference: None,
        properties: &[],
        items: None,
        one_of: &[],
        is_choice: false,
        is_time: false,
        is_map: false,
        unit: None,
    };
    /// A time.
    pub(crate) const TIME: Self = Self { is_time: true, ..Self::PLAIN };
    /// One of some words.
    pub(crate) const CHOICE: Self = Self { is_choice: true, ..Self::PLAIN };
    /// An object with any keys.
    pub(crate) const MAP: Self = Self { is_map: true, ..Self::PLAIN };

    pub(crate) const fn of(reference: &'static str) -> Self {
        Self { reference: Some(reference), ..Self::PLAIN }
    }

    pub(crate) const fn object(properties: &'static [(&'static str, Self)]) -> Self {
        Self { properties, ..Self::PLAIN }
    }

    pub(crate) const fn list(items: &'static Self) -> Self {
        Self { items: Some(items), ..Self::PLAIN }
    }

    pub(crate) const fn one_of(one_of: &'static [Self]) -> Self {
        Self { one_of, ..Self::PLAIN }
    }

    pub(crate) const fn unit(unit: &'static str) -> Self {
        Self { unit: Some(unit), ..Self::PLAIN }
    }

    /// A field of an object.
    pub fn property(&self, name: &str) -> Option<&'static Self> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, schema)| schema)
    }
}
