//! Operator requests: each verb is a type, declared once with its name, effect and role.
//!
//! A request is a value of the verb's type, such as [`crate::CreateVolume`]; [`crate::Array::perform`] carries it out and
//! returns the verb's answer. Authorization, the audit log and the order of changes follow from the declaration. A verb
//! without an effect or a role does not compile.

use crate::array::Array;
use crate::audit::{Entry, Pending};
use crate::caller::Caller;
use crate::transaction::Transaction;
use crate::verb::{Effect, Object, Verb};
use crate::{Error, Result};
use records::{Config, Role};
use serde::Serialize;
use std::fmt;

/// A request of an operator: the verb is its type.
pub trait Request: Clone + fmt::Debug + Serialize + Send + Sync + 'static {
    /// The declaration.
    const VERB: Verb;
    /// The result.
    type Answer: fmt::Debug + Send + 'static;

    /// The object of the request, for the audit log.
    fn object(&self, config: &Config, caller: &Caller) -> Object;

    /// Checks that go beyond the role.
    ///
    /// # Errors
    /// When the caller is not allowed to make this request.
    fn authorize(&self, _: &Array, _: &Caller) -> Result<()> {
        Ok(())
    }

    /// Carries it out. A verb that only reads commits nothing.
    fn run(self, tx: &mut Transaction<'_>) -> impl Future<Output = Result<Self::Answer>> + Send;
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
            $(<$name as $crate::request::Request>::VERB,)*
            $($(<$own as $crate::request::Request>::VERB,)+)?
        ];

        $(impl $crate::request::Request for $name {
            const VERB: $crate::verb::Verb = $crate::request::declare!($name, $effect $verb $noun, $role);
            type Answer = $answer;

            fn object(&self, config: &records::Config, _: &$crate::caller::Caller) -> $crate::verb::Object {
                $crate::request::object!(self, config $(, about $field)? $(, of |$request, $config| $object)?)
            }

            async fn run(self, $tx: &mut $crate::transaction::Transaction<'_>) -> $crate::Result<$answer> {
                let $it = self;
                $run
            }
        })*
    };
}
pub(crate) use verbs;

/// The object of a request.
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
    /// Carries out a request. A change must be polled to its end: when the caller may go away (an HTTP request), run it
    /// in a separate task. A change dropped half-way is completed or rolled back by the next start.
    ///
    /// # Errors
    /// When the caller is not allowed to make it, or it fails.
    pub async fn perform<R: Request>(&self, caller: &Caller, request: R) -> Result<R::Answer> {
        self.authorize(caller, &request)?;
        let mut tx = Transaction::new(self, caller);
        match R::VERB.effect {
            Effect::Read => request.run(&mut tx).await,
            Effect::Probe => {
                let entry = self.begin_entry(caller, &request);
                let outcome = request.run(&mut tx).await;
                self.audit.end(entry, &outcome, &tx.changes);
                outcome
            }
            Effect::Change => {
                let _one_at_a_time = self.configuration.change().await;
                let entry = self.begin_entry(caller, &request);
                // Checked again, because an earlier change may have revoked the caller's role.
                let outcome = match self.authorize(caller, &request).and_then(|()| self.check_running()) {
                    Ok(()) => request.run(&mut tx).await,
                    Err(refused) => Err(refused),
                };
                self.audit.end(entry, &outcome, &tx.changes);
                outcome
            }
        }
    }

    /// Refuses changes once the engine has stopped.
    fn check_running(&self) -> Result<()> {
        match self.parts.engine.stopped() {
            Some(why) => Err(Error::failed("the array stopped to protect data and needs a new start", why)),
            None => Ok(()),
        }
    }

    fn begin_entry<R: Request>(&self, caller: &Caller, request: &R) -> Pending {
        let entry = {
            let config = self.config();
            Entry::of(&config, &R::VERB, request.object(&config, caller), request)
        };
        self.audit.begin(&caller.user, &caller.origin, R::VERB.name, &entry)
    }

    /// Refuses what the caller's role does not allow.
    pub(crate) fn authorize<R: Request>(&self, caller: &Caller, request: &R) -> Result<()> {
        self.require(caller, R::VERB.role)?;
        request.authorize(self, caller)
    }

    /// Refuses a caller whose role is lower than this one.
    pub(crate) fn require(&self, caller: &Caller, needed: Role) -> Result<()> {
        let over = || Error::forbidden(format!("{} is no longer signed in: sign in again", caller.user));
        let role = self.accounts.role_now(caller).ok_or_else(over)?;
        if role < needed {
            return Err(Error::forbidden(format!(
                "that needs the role {}, and {} has the role {}: ask an administrator",
                needed.name(),
                caller.user,
                role.name()
            )));
        }
        Ok(())
    }
}
