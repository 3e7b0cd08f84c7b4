//! Declarations of verbs: name, effect and role, and what a request of the verb is about.

use records::Role;

/// What a verb does to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads.
    Read,
    /// It changes nothing here and sends something elsewhere: it is audited.
    Probe,
    /// It changes something: it is audited, and waits for the change before it.
    Change,
}

/// The declaration of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    /// Its name for programs: `CreateVolume`.
    pub name: &'static str,
    /// What is done: `create`.
    pub verb: &'static str,
    /// To what kind of object: `volume`.
    pub noun: &'static str,
    /// What it does to the array.
    pub effect: Effect,
    /// The lowest role that may use it.
    pub role: Role,
}

/// What a request is about, and the fields of the request that say so.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub(crate) name: Option<String>,
    pub(crate) fields: &'static [&'static str],
}

impl Object {
    /// An object by its name, which is in these fields.
    pub(crate) fn of(fields: &'static [&'static str], name: &str) -> Self {
        Self { name: Some(name.to_owned()), fields }
    }
}
