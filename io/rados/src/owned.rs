//! Objects bear the epoch of their owner, and every change of one compares it.

use crate::objects::{Name, ObjectError, Objects, Operation, Step};
use shelf::{Error, Result};

/// The attribute with the epoch of the owner of an object.
pub const OWNER: &str = "owner";

/// The attribute with the generation of the segment that an object is a part of.
pub const GENERATION: &str = "generation";

/// An epoch or another number as text of fixed width, so that the order of texts is that of numbers.
pub fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// Makes an object of an older owner refuse it.
pub fn claim(epoch: u64) -> Operation {
    let steps = vec![Step::greater(OWNER, hex(epoch)), Step::set(OWNER, hex(epoch))];
    Operation { steps, force: true }
}

/// Why an object can't be read or claimed by the owner of `epoch`.
pub fn failure(name: &Name, error: &ObjectError, epoch: u64) -> Error {
    let what = format!("{}: {error}", name.name);
    match error {
        ObjectError::Guard | ObjectError::Blocklisted => Error::Fenced { epoch: epoch + 1 },
        ObjectError::Full => Error::NoSpace { what },
        ObjectError::Absent => Error::Corrupt { what },
        ObjectError::Exists | ObjectError::Failed(_) => Error::Drive { what },
    }
}

/// Why an object can't be written by its owner. One that is missing, or there where it is created, is in the hands of a
/// newer owner.
pub fn write_failure(name: &Name, error: &ObjectError, epoch: u64) -> Error {
    match error {
        ObjectError::Absent | ObjectError::Exists => Error::Fenced { epoch: epoch + 1 },
        error => failure(name, error, epoch),
    }
}

/// Removes an object of this owner or of an older one, unless it is another object by then.
///
/// # Errors
/// [`Error::Fenced`] when it is of a newer owner; it stays.
pub async fn remove(objects: &dyn Objects, name: &Name, epoch: u64) -> Result {
    let attributes = match objects.attributes(name).await {
        Ok(attributes) => attributes,
        Err(ObjectError::Absent) => return Ok(()),
        Err(error) => return Err(write_failure(name, &error, epoch)),
    };
    let value = |attribute| attributes.get(attribute).cloned().unwrap_or_default();
    if value(OWNER) > hex(epoch) {
        return Err(Error::Fenced { epoch: epoch + 1 });
    }
    let steps =
        vec![Step::equal(OWNER, value(OWNER)), Step::equal(GENERATION, value(GENERATION)), Step::Remove];
    match objects.operate(name, Operation { steps, force: true }).await {
        Ok(()) | Err(ObjectError::Absent | ObjectError::Guard) => Ok(()),
        Err(error) => Err(write_failure(name, &error, epoch)),
    }
}
