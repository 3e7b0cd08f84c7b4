//! The schemas of the API as tables of results need them. They are generated, so that a program that shows results neither
//! holds nor parses the description of the API.

pub use crate::described::Schema;
pub use crate::generated::table::SCHEMAS;

/// The schema of a name; `None` if there is none.
pub fn named(name: &str) -> Option<&'static Schema> {
    let place = SCHEMAS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    SCHEMAS.get(place).map(|(_, schema)| schema)
}
