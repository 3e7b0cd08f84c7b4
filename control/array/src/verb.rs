//! Operator requests: each verb is a type, declared once with its name, effect and role.
//!
//! A request is a value of the verb's type, such as [`crate::CreateVolume`]; [`crate::Array::perform`] carries it out and
//! returns the verb's answer. Authorization, the audit log and the order of changes follow from the declaration. A verb
//! without an effect or a role does not compile.

use crate::array::{Array, Transaction};
use crate::caller::Caller;
use crate::{Error, Result};
use records::{Config, Role};
use serde::Serialize;
use std::fmt;

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

/// Every verb, by noun.
pub const VERBS: &[&[Verb]] = &[
    crate::settings::VERBS,
    crate::clock::VERBS,
    crate::drive::VERBS,
    crate::scrub::VERBS,
    crate::key::VERBS,
    crate::job::VERBS,
    crate::usage::VERBS,
    crate::volume::VERBS,
    crate::recycle_bin::VERBS,
    crate::snapshot::VERBS,
    crate::schedule::VERBS,
    crate::group::VERBS,
    crate::host::VERBS,
    crate::connection::VERBS,
    crate::login::VERBS,
    crate::bundle::VERBS,
    crate::alert::VERBS,
    crate::notification::VERBS,
    crate::directory::VERBS,
    crate::certificate::VERBS,
    crate::access::VERBS,
    crate::performance::VERBS,
    crate::event::VERBS,
];

/// A request of an operator: the verb is its type.
pub trait Request: Clone + fmt::Debug + Serialize + Send + Sync + 'static {
    /// The declaration.
    const VERB: Verb;
    /// The result.
    type Answer: fmt::Debug + Send + 'static;

    /// What it is about, for the audit log.
    fn object(&self, config: &Config, caller: &Caller) -> Object;

    /// Refuses what a role alone does not decide.
    ///
    /// # Errors
    /// When this caller may not do it.
    fn authorize(&self, _: &Array, _: &Caller) -> Result<()> {
        Ok(())
    }

    /// Carries it out. A verb that only reads commits nothing.
    fn run(self, tx: &mut Transaction<'_>) -> impl Future<Output = Result<Self::Answer>> + Send;
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

/// Declares the verbs of a noun: `Name -> Answer, Effect "verb" "noun", Role, about field => |transaction, request| result;`
/// with `of |request, config| object` where no field says what a request is about. Verbs in brackets are declared by
/// hand.
macro_rules! verbs {
    ($([$($own:ident),+])? $($name:ident -> $answer:ty, $effect:ident $verb:literal $noun:literal, $role:ident
        $(, about $field:ident)? $(, of |$request:pat_param, $config:pat_param| $object:expr)?
        => |$tx:ident, $it:pat_param| $run:expr;)*) => {
        /// The verbs of this noun.
        pub(crate) const VERBS: &[$crate::verb::Verb] = &[
            $(<$name as $crate::verb::Request>::VERB,)*
            $($(<$own as $crate::verb::Request>::VERB,)+)?
        ];

        $(impl $crate::verb::Request for $name {
            const VERB: $crate::verb::Verb = $crate::verb::declare!($name, $effect $verb $noun, $role);
            type Answer = $answer;

            fn object(&self, config: &records::Config, _: &$crate::caller::Caller) -> $crate::verb::Object {
                $crate::verb::object!(self, config $(, about $field)? $(, of |$request, $config| $object)?)
            }

            async fn run(self, $tx: &mut $crate::array::Transaction<'_>) -> $crate::Result<$answer> {
                let $it = self;
                $run
            }
        })*
    };
}
pub(crate) use verbs;

/// What a request is about.
macro_rules! object {
    ($this:tt, $config:ident) => {{
        let _ = $config;
        $crate::verb::Object::default()
    }};
    ($this:tt, $config:ident, about $field:ident) => {{
        let _ = $config;
        $crate::verb::Object::of(&[stringify!($field)], &$this.$field.to_string())
    }};
    ($this:tt, $given:ident, of |$request:pat_param, $config:pat_param| $object:expr) => {{
        let ($request, $config) = ($this, $given);
        $object
    }};
}
pub(crate) use object;

/// The declaration of one verb.
macro_rules! declare {
    ($name:ident, $effect:ident $verb:literal $noun:literal, $role:ident) => {
        $crate::verb::Verb {
            name: stringify!($name),
            verb: $verb,
            noun: $noun,
            effect: $crate::verb::Effect::$effect,
            role: records::Role::$role,
        }
    };
}
pub(crate) use declare;

impl Array {
    /// Refuses what the caller's role does not allow.
    pub(crate) fn authorize<R: Request>(&self, caller: &Caller, request: &R) -> Result<()> {
        let over = || Error::forbidden(format!("{} is no longer signed in: sign in again", caller.user));
        let (role, needed) = (self.role_now(caller).ok_or_else(over)?, R::VERB.role);
        if role < needed {
            return Err(Error::forbidden(format!(
                "that needs the role {}, and {} has the role {}: ask an administrator",
                needed.name(),
                caller.user,
                role.name()
            )));
        }
        request.authorize(self, caller)
    }
}
