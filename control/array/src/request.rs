//! Operator requests: each verb is a type, declared once with its name, effect and role.
//!
//! A request is a value of the verb's type, such as [`crate::CreateVolume`]; [`crate::Array::perform`] carries it out and
//! returns the verb's answer. Authorization, the audit log and the order of changes follow from the declaration. A verb
//! without an effect or a role does not compile.

pub(crate) mod verb;

use crate::array::Array;
use crate::array::page::{ListPage, Listed};
use crate::array::transaction::Transaction;
use crate::events::audit::{Entry, Object, Pending};
use crate::request::verb::{Effect, Route, Verb};
use crate::service::caller::Caller;
use crate::shape::Outcome;
use crate::{Error, Result};
use records::{Config, Role};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use utoipa::{IntoParams, ToSchema};

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

/// What a verb returns, or lists.
pub type Shown<R> = <<R as Request>::Answer as Outcome>::Object;

/// Reads a part of a list.
pub type ReadPart<R> = fn(&Array, &ListPage) -> Listed<Shown<R>>;

/// A verb that the API offers.
pub trait Routed: Request<Answer: Outcome> + Sized {
    /// Where.
    const ROUTE: Route;
    /// The variable parts of the path.
    type Path: DeserializeOwned + Send;
    /// The query, without that of a list.
    type Query: DeserializeOwned + IntoParams + Send;
    /// The body.
    type Body: DeserializeOwned + ToSchema + Send;

    /// How a part of a long list is read without the rest; none if the list is read as a whole.
    const PAGE: Option<ReadPart<Self>> = None;

    /// The body of a request that has none; `None` if it must have one.
    fn default_body() -> Option<Self::Body>;

    /// The request of its parts.
    fn assemble(path: Self::Path, query: Self::Query, body: Self::Body) -> Self;
}

/// What is done with each verb that the API offers.
pub trait Visitor {
    /// Does it with this one.
    fn visit<R: Routed>(&mut self);
}

/// Declares the verbs of a noun: `Name -> Answer, Effect "verb" "noun", Role, about field => |transaction, request| result;`
/// with `of |request, config| object` where no field says what a request is about. Verbs in brackets are declared by
/// hand.
///
/// With `at METHOD "/path"` the API offers it, in the group of operations that `#![tag = "…"]` names; `201`, `in "tag"` and
/// `says "response"` are what differs from the usual, and `part function` names the function of [`Array`] that reads a part of a
/// long list. `Name { part, other: u16; query options: Type; body change: Type }`
/// declares the request as well: the variable parts of the path, which are texts unless they have a type, a query, and a
/// body. A request that is declared elsewhere is the query (GET) or the body as a whole. The doc comment is the summary and
/// the description of the operation.
macro_rules! verbs {
    ($(#![tag = $tag:literal])? $([$($own:ident),+])?
    $($(#[doc = $doc:literal])* $name:ident $({ $($fields:tt)* })? -> $answer:ty,
        $effect:ident $verb:literal $noun:literal, $role:ident
        $(, about $field:ident)? $(, of |$request:pat_param, $config:pat_param| $object:expr)?
        $(, at $method:ident $path:literal $($status:literal)? $(in $section:literal)? $(says $response:literal)? $(part $page:ident)?)?
        => |$tx:ident, $it:pat_param| $run:expr;)*) => {
        /// The verbs of this noun.
        pub(crate) const VERBS: &[$crate::request::verb::Verb] = &[
            $(<$name as $crate::request::Request>::VERB,)*
            $($(<$own as $crate::request::Request>::VERB,)+)?
        ];

        $(
            /// The group of operations of this noun.
            const TAG: &str = $tag;
        )?

        /// Visits the verbs of this noun that the API offers.
        pub(crate) fn routes(visitor: &mut impl $crate::request::Visitor) {
            let _ = &visitor;
            $($($crate::request::visit!(visitor $name $method);)?)*
        }

        $(
            $crate::request::declare_request!([$($doc)*] $name [$({ $($fields)* })?]);

            $crate::request::route!(
                [$($doc)*] $name [$({ $($fields)* })?]
                [$($method $path $($status)? $(in $section)? $(says $response)? $(part $page)?)?]
            );

            impl $crate::request::Request for $name {
                const VERB: $crate::request::verb::Verb = $crate::request::declare!($name, $effect $verb $noun, $role);
                type Answer = $answer;

                fn object(&self, config: &records::Config, _: &$crate::service::caller::Caller) -> $crate::events::audit::Object {
                    $crate::request::object!(self, config $(, about $field)? $(, of |$request, $config| $object)?)
                }

                async fn run(self, $tx: &mut $crate::array::transaction::Transaction<'_>) -> $crate::Result<$answer> {
                    let $it = self;
                    $run
                }
            }
        )*
    };
}
pub(crate) use verbs;

/// Visits one verb.
macro_rules! visit {
    ($visitor:ident $name:ident $method:ident) => {
        $visitor.visit::<$name>()
    };
}
pub(crate) use visit;

/// The type of a variable part of a path.
macro_rules! part {
    () => {
        String
    };
    ($kind:ty) => {
        $kind
    };
}
pub(crate) use part;

/// The type of the variable parts of a path.
macro_rules! path_type {
    (@ []) => {
        String
    };
    (@ [$kind:ty]) => {
        $kind
    };
    ($one:tt) => {
        $crate::request::path_type!(@ $one)
    };
    ($($part:tt)*) => {
        ($($crate::request::path_type!(@ $part)),*)
    };
}
pub(crate) use path_type;

/// The type of a request that a row declares.
macro_rules! declare_request {
    ($docs:tt $name:ident []) => {};
    ([$($doc:literal)*] $name:ident [{}]) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
        pub struct $name;
    };
    ([$($doc:literal)*] $name:ident [{
        $($(#[doc = $about:literal])* $part:ident $(: $kind:ty)?),*
        $(; query $query:ident: $asked:ty)? $(; body $body:ident: $sent:ty)? $(; optional $maybe:ident: $given:ty)?
    }]) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $name {
            $(
                /// Of the path.
                pub $part: $crate::request::part!($($kind)?),
            )*
            $(
                /// The query.
                #[serde(flatten)]
                pub $query: $asked,
            )?
            $(
                /// The body.
                pub $body: $sent,
            )?
            $(
                /// The body.
                pub $maybe: $given,
            )?
        }
    };
}
pub(crate) use declare_request;

/// Where the API offers a verb.
macro_rules! route {
    ($docs:tt $name:ident $fields:tt []) => {};
    ([$($doc:literal)*] $name:ident $fields:tt
    [$method:ident $path:literal $($status:literal)? $(in $section:literal)? $(says $response:literal)?
        $(part $page:ident)?]) => {
        impl $crate::request::Routed for $name {
            const ROUTE: $crate::request::verb::Route = $crate::request::verb::Route {
                method: $crate::request::verb::Method::$method,
                path: $path,
                parameters: $crate::request::parameters!($fields),
                body: $crate::request::body_form!($method $fields),
                status: $crate::request::maybe!($($status)?),
                tag: $crate::request::tag!($($section)?),
                docs: &[$($doc),*],
                response: $crate::request::maybe!($($response)?),
            };
            $(
                const PAGE: Option<$crate::request::ReadPart<Self>> = Some($crate::Array::$page);
            )?
            $crate::request::parts!($method $fields);
        }
    };
}
pub(crate) use route;

macro_rules! tag {
    () => {
        TAG
    };
    ($tag:literal) => {
        $tag
    };
}
pub(crate) use tag;

macro_rules! maybe {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}
pub(crate) use maybe;

/// The variable parts of the path of a request.
macro_rules! parameters {
    ([{ $($(#[doc = $about:literal])* $part:ident $(: $kind:ty)?),+ $(; $($rest:tt)*)? }]) => {
        &[$($crate::request::verb::PathParameter {
            name: stringify!($part),
            schema: <$crate::request::part!($($kind)?) as utoipa::PartialSchema>::schema,
            docs: &[$($about),*],
        }),+]
    };
    ($other:tt) => {
        &[]
    };
}
pub(crate) use parameters;

/// What the body of a request is.
macro_rules! body_form {
    (GET $any:tt) => {
        $crate::request::verb::BodyForm::None
    };
    ($method:ident []) => {
        $crate::request::verb::BodyForm::Required
    };
    ($method:ident [{ $($part:tt)* }]) => {
        $crate::request::body_form!(@ $($part)*)
    };
    (@ body $($rest:tt)*) => {
        $crate::request::verb::BodyForm::Required
    };
    (@ optional $($rest:tt)*) => {
        $crate::request::verb::BodyForm::Optional
    };
    (@ $any:tt $($rest:tt)*) => {
        $crate::request::body_form!(@ $($rest)*)
    };
    (@) => {
        $crate::request::verb::BodyForm::None
    };
}
pub(crate) use body_form;

/// The parts of a request, and how it is made of them.
macro_rules! parts {
    (GET []) => {
        type Path = ();
        type Query = Self;
        type Body = $crate::shape::Nothing;

        fn default_body() -> Option<Self::Body> {
            Some(Self::Body::default())
        }

        fn assemble((): (), query: Self, _: $crate::shape::Nothing) -> Self {
            query
        }
    };
    ($method:ident []) => {
        type Path = ();
        type Query = $crate::shape::Nothing;
        type Body = Self;

        fn default_body() -> Option<Self> {
            None
        }

        fn assemble((): (), _: $crate::shape::Nothing, body: Self) -> Self {
            body
        }
    };
    ($method:ident [{}]) => {
        type Path = ();
        type Query = $crate::shape::Nothing;
        type Body = $crate::shape::Nothing;

        fn default_body() -> Option<Self::Body> {
            Some(Self::Body::default())
        }

        fn assemble((): (), _: $crate::shape::Nothing, _: $crate::shape::Nothing) -> Self {
            Self
        }
    };
    ($method:ident [{
        $($(#[doc = $about:literal])* $part:ident $(: $kind:ty)?),*
        $(; query $query:ident: $asked:ty)? $(; body $body:ident: $sent:ty)? $(; optional $maybe:ident: $given:ty)?
    }]) => {
        type Path = $crate::request::path_type!($([$($kind)?])*);
        type Query = $crate::request::one_of!($($asked)?);
        type Body = $crate::request::one_of!($($sent)? $($given)?);

        fn default_body() -> Option<Self::Body> {
            $crate::request::default_body!($(required $sent)?)
        }

        #[allow(unused_parens, unused_variables, reason = "a path has one part, or several; a request any of the others")]
        fn assemble(($($part),*): Self::Path, asked: Self::Query, sent: Self::Body) -> Self {
            Self { $($part,)* $($query: asked,)? $($body: sent,)? $($maybe: sent,)? }
        }
    };
}
pub(crate) use parts;

macro_rules! default_body {
    () => {
        Some(Self::Body::default())
    };
    (required $kind:ty) => {
        None
    };
}
pub(crate) use default_body;

macro_rules! one_of {
    () => {
        $crate::shape::Nothing
    };
    ($kind:ty) => {
        $kind
    };
}
pub(crate) use one_of;

/// The object of a request.
macro_rules! object {
    ($this:tt, $config:ident) => {{
        let _ = $config;
        $crate::events::audit::Object::default()
    }};
    ($this:tt, $config:ident, about $field:ident) => {{
        let _ = $config;
        $crate::events::audit::Object::of(&[stringify!($field)], &$this.$field.to_string())
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
        $crate::request::verb::Verb {
            name: stringify!($name),
            verb: $verb,
            noun: $noun,
            effect: $crate::request::verb::Effect::$effect,
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
            Effect::Change | Effect::Exchange => {
                let entered = tx.enter(R::VERB.role).await;
                let entry = self.begin_entry(caller, &request);
                let outcome = match entered.and_then(|()| request.authorize(self, caller)) {
                    Ok(()) => request.run(&mut tx).await,
                    Err(refused) => Err(refused),
                };
                tx.leave().await;
                self.audit.end(entry, &outcome, &tx.changes);
                outcome
            }
        }
    }

    /// A part of the list of a verb whose list is read in parts.
    ///
    /// # Errors
    /// When the caller is not allowed to make the request.
    pub fn page<R: Routed>(&self, caller: &Caller, request: &R, page: &ListPage) -> Result<Listed<Shown<R>>> {
        self.authorize(caller, request)?;
        let read = R::PAGE.ok_or_else(|| Error::invalid("this list is read as a whole"))?;
        Ok(read(self, page))
    }

    /// Refuses changes once the engine has stopped.
    pub(crate) fn check_running(&self) -> Result<()> {
        match self.parts.engine.stopped() {
            Some(why) => Err(Error::failed("the array stopped to protect data and needs a new start", why)),
            None => Ok(()),
        }
    }

    fn begin_entry<R: Request>(&self, caller: &Caller, request: &R) -> Pending {
        let entry = {
            let config = self.config();
            Entry::of(&config, [R::VERB.verb, R::VERB.noun], request.object(&config, caller), request)
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
