//! The wrapped data key of an encrypted array: one object, replaced by comparing its sequence number.

use crate::objects::{Name, ObjectError, Objects, Operation, Pool, Step};
use crate::owned::hex;
use media::codec::ENVELOPES;
use media::encryption::{Envelope, Keyring};
use shelf::pool::KeySource;
use shelf::{ALIGN, Error, Result};

/// The attribute with the sequence number of the envelope.
const SEQUENCE: &str = "sequence";

/// Its name.
pub fn name() -> Name {
    Name { pool: Pool::Meta, name: "key".into() }
}

fn failed(error: &ObjectError) -> Error {
    Error::Drive { what: format!("the wrapped key: {error}") }
}

/// The envelope of an array; `None` if it is not encrypted.
///
/// # Errors
/// [`Error::Corrupt`] when it is damaged, [`Error::Unusable`] when it is of another release, [`Error::Drive`] when RADOS
/// fails.
pub async fn read(objects: &dyn Objects, array: u128) -> Result<Option<Envelope>> {
    let page = match objects.read(&name(), 0, ALIGN as u64).await {
        Ok(page) => page,
        Err(ObjectError::Absent) => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    if let Some(version) = Envelope::unknown_version(&page, array) {
        return Err(ENVELOPES.refusal("the wrapped key in RADOS", version));
    }
    let what = || format!("the wrapped key of array {array:032x} (object {}) is damaged", name().name);
    Envelope::decode(&page, array).map(Some).ok_or_else(|| Error::Corrupt { what: what() })
}

/// Stores the envelope of a new array.
///
/// # Errors
/// [`Error::Unusable`] when there is one already.
pub async fn create(objects: &dyn Objects, envelope: &Envelope) -> Result {
    let steps = vec![
        Step::CreateExclusive,
        Step::set(SEQUENCE, hex(envelope.sequence)),
        Step::WriteFull(envelope.encode()),
    ];
    match objects.operate(&name(), Operation { steps, force: false }).await {
        Ok(()) => Ok(()),
        Err(ObjectError::Exists) => Err(Error::Unusable(
            "there is a wrapped key in this pool and namespace already, and no array: use another namespace"
                .into(),
        )),
        Err(error) => Err(failed(&error)),
    }
}

/// Replaces the envelope by its successor.
///
/// # Errors
/// [`Error::Unusable`] when it has been replaced since, or there is none.
pub async fn replace(objects: &dyn Objects, envelope: &Envelope) -> Result {
    let steps = vec![
        Step::equal(SEQUENCE, hex(envelope.sequence - 1)),
        Step::set(SEQUENCE, hex(envelope.sequence)),
        Step::WriteFull(envelope.encode()),
    ];
    match objects.operate(&name(), Operation { steps, force: true }).await {
        Ok(()) => Ok(()),
        Err(ObjectError::Guard) => Err(Error::Unusable(
            "the key was changed by another controller at the same time: try again".into(),
        )),
        Err(ObjectError::Absent) => Err(Error::Unusable("the array is not encrypted".into())),
        Err(error) => Err(failed(&error)),
    }
}

/// Refuses a key that is not the array's, one that is missing, and one for an array in clear. Writes nothing.
pub async fn check(objects: &dyn Objects, keyring: &Keyring) -> Result {
    let refuse = |what: &str| Err(Error::Unusable(what.into()));
    match read(objects, keyring.array()).await? {
        None if keyring.is_sealed() => refuse("the array is not encrypted: leave the key out"),
        Some(envelope) if envelope.source == KeySource::Erased => refuse(
            "the key of this array has been destroyed (crypto-erase): nothing of it can be read any more",
        ),
        Some(_) if !keyring.is_sealed() => refuse("the array is encrypted, and no key was given"),
        Some(envelope) if !keyring.fits(&envelope) => refuse("the data key is not the one of this array"),
        _ => Ok(()),
    }
}
