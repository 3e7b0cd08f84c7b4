//! Shapes: what a verb returns, as every view of the array shows it. A shape declares its fields once, with their meaning for
//! OpenAPI; how they are sent is a matter of the view.

pub(crate) mod directory_settings;
pub(crate) mod ensure;
pub(crate) mod policy;
pub(crate) mod status;
pub(crate) mod view;
pub(crate) mod window;
pub(crate) mod work;

use crate::shape::ensure::Ensured;
use records::{Identity, Labels};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

/// An object that a verb returns.
pub trait Shape: Serialize + ToSchema + fmt::Debug + Send + Sized + 'static {
    /// How lists of such objects are described; none if no verb lists them.
    const LISTING: Option<Listing> = None;

    /// Its labels; none if such objects have none.
    fn labels(&self) -> Option<&Labels> {
        None
    }
}

/// The description of lists of a shape.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// Name of the list's schema.
    pub name: &'static str,
    /// What it has.
    pub about: &'static str,
    /// The order of its items.
    pub order: &'static str,
    /// Its objects have labels, by which a list can be narrowed.
    pub labelled: bool,
    /// A part of the list can be asked for; otherwise it is short, and read as a whole.
    pub in_parts: bool,
}

/// Declares shapes, and those whose lists can be asked for, such as `Group: "Groups" "Volume groups." "Sorted by name", labels`;
/// with `whole`, a list of which no part can be asked for.
macro_rules! shapes {
    ($($shape:ty $(: $name:literal $about:literal $order:literal $(, $form:ident)?)?;)*) => {$(
        impl $crate::shape::Shape for $shape {
            $(
                const LISTING: Option<$crate::shape::Listing> = Some($crate::shape::Listing {
                    name: $name,
                    about: $about,
                    order: $crate::shape::order!($order $($form)?),
                    labelled: $crate::shape::is_form!(labels $($form)?),
                    in_parts: !$crate::shape::is_form!(whole $($form)?),
                });
                $crate::shape::labels!($($form)?);
            )?
        }
    )*};
}
pub(crate) use shapes;

macro_rules! order {
    ($order:literal whole) => {
        concat!($order, ".")
    };
    ($order:literal $($labels:ident)?) => {
        concat!($order, " unless `sort` is given.")
    };
}
pub(crate) use order;

macro_rules! is_form {
    (labels labels) => {
        true
    };
    (whole whole) => {
        true
    };
    ($asked:ident $($form:ident)?) => {
        false
    };
}
pub(crate) use is_form;

macro_rules! labels {
    () => {};
    (whole) => {};
    (labels) => {
        fn labels(&self) -> Option<&records::Labels> {
            Some(&self.labels)
        }
    };
}
pub(crate) use labels;

/// The answer of a verb as a view sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing but that it was done.
    Nothing,
    /// One object.
    One,
    /// One object, which is new or was there with equal content.
    Ensured,
    /// A list.
    List,
}

/// What a verb returned: objects of one shape.
#[derive(Debug)]
pub struct Objects<T> {
    /// The objects.
    pub items: Vec<T>,
    /// Whether the request created them, where that is not certain.
    pub created: bool,
}

/// An answer that consists of objects of one shape.
pub trait Outcome {
    /// Their shape.
    type Object: Shape;
    /// How many there are.
    const FORM: Form;

    /// The objects.
    fn objects(self) -> Objects<Self::Object>;
}

/// No object, no parameter and no body.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Nothing {}

impl Shape for Nothing {}

impl IntoParams for Nothing {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        Vec::new()
    }
}

impl Outcome for () {
    type Object = Nothing;
    const FORM: Form = Form::Nothing;

    fn objects(self) -> Objects<Nothing> {
        Objects { items: Vec::new(), created: false }
    }
}

impl<T: Shape> Outcome for T {
    type Object = T;
    const FORM: Form = Form::One;

    fn objects(self) -> Objects<T> {
        Objects { items: vec![self], created: true }
    }
}

impl<T: Shape> Outcome for Ensured<T> {
    type Object = T;
    const FORM: Form = Form::Ensured;

    fn objects(self) -> Objects<T> {
        Objects { items: vec![self.object], created: self.created }
    }
}

impl<T: Shape> Outcome for Vec<T> {
    type Object = T;
    const FORM: Form = Form::List;

    fn objects(self) -> Objects<T> {
        Objects { items: self, created: true }
    }
}

/// A time in seconds since 1970 as RFC 3339 has it.
pub fn time<S: Serializer>(seconds: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&history::utc(*seconds))
}

/// A time that there may be.
pub fn some_time<S: Serializer>(seconds: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    seconds.map(history::utc).serialize(serializer)
}

/// The identity of a volume or snapshot as hex digits.
pub fn digits<S: Serializer>(id: &block::DiskId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&id.digits())
}

/// The identity of a volume or snapshot that there may be.
pub fn some_digits<S: Serializer>(id: &Option<block::DiskId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(|id| id.digits()).serialize(serializer)
}

/// A number as sixteen hex digits.
pub fn sixteen_digits<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{number:016x}"))
}

/// A time that RFC 3339 has, as seconds since 1970.
pub fn rfc3339<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let wrong = |text: &str| {
        let detail = "is no time from 1970 to 9999: write it as in RFC 3339, such as 2030-12-31T23:59:59Z";
        D::Error::custom(format_args!("{text:?} {detail}"))
    };
    text.map(|text| history::seconds(&text).ok_or_else(|| wrong(&text))).transpose()
}

/// A secret that is shown once, to the operator who asked for it.
pub fn exposed<S: Serializer>(secret: &records::Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// A secret that is shown once, if there is one to show.
pub fn some_exposed<S: Serializer>(
    secret: &Option<records::Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(records::Secret::expose).serialize(serializer)
}
