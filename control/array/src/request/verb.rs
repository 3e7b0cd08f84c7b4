//! Declarations of verbs: name, effect, role and route.

use records::Role;
use utoipa::openapi::{RefOr, Schema};

/// What a verb does to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads.
    Read,
    /// It changes nothing here and sends something elsewhere: it is audited.
    Probe,
    /// It changes something: it is audited, and waits for the change before it.
    Change,
    /// As a change, and waits for another machine as well, without holding up other changes for that time.
    Exchange,
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

/// The method of an operation. The constants are its names in routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates, or carries something out.
    Post,
    /// Replaces.
    Put,
    /// Changes what is given.
    Patch,
    /// Deletes.
    Delete,
}

impl Method {
    #![allow(missing_docs, reason = "each is the variant of its name")]
    pub const GET: Self = Self::Get;
    pub const POST: Self = Self::Post;
    pub const PUT: Self = Self::Put;
    pub const PATCH: Self = Self::Patch;
    pub const DELETE: Self = Self::Delete;
}

/// Where the API offers a verb, and how it describes the operation.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path below the version, with variable parts in braces.
    pub path: &'static str,
    /// The variable parts of the path, in order.
    pub parameters: &'static [PathParameter],
    /// The body of the request.
    pub body: BodyForm,
    /// Status of success; by default that of the answer's form.
    pub status: Option<u16>,
    /// The group of operations.
    pub tag: &'static str,
    /// Lines of text: a summary and, after an empty line, a description.
    pub docs: &'static [&'static str],
    /// Description of the response; by default the noun.
    pub response: Option<&'static str>,
}

/// A variable part of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathParameter {
    /// Its name.
    pub name: &'static str,
    /// Its schema.
    pub schema: fn() -> RefOr<Schema>,
    /// Lines of text.
    pub docs: &'static [&'static str],
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// It has none.
    None,
    /// It may be left out.
    Optional,
    /// It has one.
    Required,
}
