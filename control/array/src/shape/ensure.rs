//! Ensure-semantics of creation: what exists already with equal content is the answer, and nothing changes.
//!
//! A driver repeats a request of which it does not know whether it was carried out. Compared are the fields that the request
//! gives; the first one that differs is named in the refusal.

use crate::{Error, Result};
use records::{Labels, LabelsChange};

/// The answer to a request to create something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ensured<T> {
    /// What is there now.
    pub object: T,
    /// It is new; otherwise it was there with equal content.
    pub created: bool,
}

impl<T> Ensured<T> {
    pub(crate) fn new(object: T) -> Self {
        Self { object, created: true }
    }

    pub(crate) fn existing(object: T) -> Self {
        Self { object, created: false }
    }
}

/// An object that exists under the name of one that is to be created.
pub(crate) struct Existing<'a> {
    pub noun: &'static str,
    pub name: &'a str,
}

impl Existing<'_> {
    /// Refuses a request unless this field is equal.
    pub fn same(&self, field: &'static str, equal: bool) -> Result<()> {
        if equal {
            return Ok(());
        }
        let Self { noun, name } = self;
        Err(Error::differs(
            field,
            format!("{noun} {name:?} exists already, with another {field}: change that one, or name another"),
        ))
    }

    /// Refuses a request unless the labels that it gives are there.
    pub fn same_labels(&self, labels: &Labels, wanted: &LabelsChange) -> Result<()> {
        self.same("labels", labels.agree_with(wanted))
    }
}
