//! The arbiter of a cluster in RADOS: the map is one object, and three objects have the beats.
//!
//! Each operation is one compound operation on one object, and compares before it writes. What has no answer yet may still
//! take effect, but never against its comparison.

use crate::objects::{Name, ObjectError, Objects, Operation, Pool, Step};
use crate::owned::hex;
use bytes::Bytes;
use shelf::arbiter::{Beat, MemberId, Signs};
use shelf::pool::BoxFuture;
use shelf::{Error, Result};
use std::sync::Arc;

/// Objects with beats.
const WITNESSES: usize = 3;

/// Longest map that is read.
const MAX_MAP_BYTES: u64 = 4 << 20;

/// The attribute with the version of the map.
const VERSION: &str = "version";

/// Arbiter of the cluster in one namespace.
pub struct Arbiter {
    objects: Arc<dyn Objects>,
}

fn map_name() -> Name {
    Name { pool: Pool::Meta, name: "map".into() }
}

fn witness_name(witness: usize) -> Name {
    Name { pool: Pool::Meta, name: format!("beat.{witness}") }
}

/// The attribute with the last beat of a member.
fn beat_attribute(member: MemberId) -> String {
    format!("b.{:04x}", member.0)
}

/// The attribute with the mark of a member.
fn mark_attribute(member: MemberId) -> String {
    format!("x.{:04x}", member.0)
}

/// A beat as text, so that the order of texts is that of beats; nothing for none.
fn beat_text(beat: Beat) -> String {
    match beat.joined {
        0 => String::new(),
        joined => format!("{}{}", hex(joined), hex(beat.count)),
    }
}

fn parse_beat(text: &str) -> Option<Beat> {
    let (joined, count) = (text.get(..16)?, text.get(16..32)?);
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    (text.len() == 32).then_some(Beat { joined: number(joined)?, count: number(count)? })
}

/// Adds an attribute to what is known of a witness. Attributes that are not of a member are none of ours.
fn add_sign(signs: &mut Signs, name: &str, value: &str) -> Result<()> {
    let Some((kind, member)) = name.split_once('.') else { return Ok(()) };
    let Ok(member) = u16::from_str_radix(member, 16) else { return Ok(()) };
    let corrupt = || Error::Corrupt { what: format!("the sign of controller {member} is {value:?}") };
    if !matches!(kind, "b" | "x") {
        return Ok(());
    }
    let sign = signs.entry(MemberId(member)).or_default();
    match kind {
        "b" => sign.beat = parse_beat(value).ok_or_else(corrupt)?,
        _ => sign.mark = u64::from_str_radix(value, 16).map_err(|_| corrupt())?,
    }
    Ok(())
}

fn failure(name: &Name, error: &ObjectError) -> Error {
    let what = format!("{}: {error}", name.name);
    match error {
        ObjectError::Blocklisted => Error::Fenced { epoch: 0 },
        ObjectError::Full => Error::NoSpace { what },
        _ => Error::Drive { what },
    }
}

/// True if several controllers share what is in this namespace. There is no way back.
///
/// # Errors
/// [`Error::Drive`] when RADOS fails.
pub async fn is_shared(objects: &dyn Objects) -> Result<bool> {
    let name = map_name();
    match objects.attributes(&name).await {
        Ok(_) => Ok(true),
        Err(ObjectError::Absent) => Ok(false),
        Err(error) => Err(failure(&name, &error)),
    }
}

impl Arbiter {
    /// The arbiter of this namespace. Its objects are made if they are missing: that changes nothing for others.
    ///
    /// # Errors
    /// [`Error::Drive`] when RADOS fails.
    pub async fn new(objects: Arc<dyn Objects>) -> Result<Arc<Self>> {
        for witness in 0..WITNESSES {
            let (name, steps) = (witness_name(witness), vec![Step::CreateExclusive]);
            match objects.operate(&name, Operation { steps, force: true }).await {
                Ok(()) | Err(ObjectError::Exists) => {}
                Err(error) => return Err(failure(&name, &error)),
            }
        }
        Ok(Arc::new(Self { objects }))
    }

    /// Performs a compound operation; false when a comparison failed.
    fn guarded(&self, name: Name, steps: Vec<Step>) -> BoxFuture<'static, Result<bool>> {
        // A full pool must not cost a controller its lease: these objects do not grow.
        let operated = self.objects.operate(&name, Operation { steps, force: true });
        Box::pin(async move {
            match operated.await {
                Ok(()) => Ok(true),
                Err(ObjectError::Guard | ObjectError::Exists) => Ok(false),
                Err(error) => Err(failure(&name, &error)),
            }
        })
    }
}

impl shelf::arbiter::Arbiter for Arbiter {
    fn witnesses(&self) -> usize {
        WITNESSES
    }

    fn map(&self) -> BoxFuture<'static, Result<Option<Bytes>>> {
        let (name, read) = (map_name(), self.objects.read(&map_name(), 0, MAX_MAP_BYTES));
        Box::pin(async move {
            match read.await {
                Ok(map) => Ok(Some(map)),
                Err(ObjectError::Absent) => Ok(None),
                Err(error) => Err(failure(&name, &error)),
            }
        })
    }

    fn replace(&self, expected: Option<u64>, version: u64, map: Bytes) -> BoxFuture<'static, Result<bool>> {
        assert!(expected.is_none_or(|expected| expected < version), "versions grow");
        let guard = match expected {
            Some(expected) => Step::equal(VERSION, hex(expected)),
            None => Step::CreateExclusive,
        };
        self.guarded(map_name(), vec![guard, Step::set(VERSION, hex(version)), Step::WriteFull(map)])
    }

    fn signs(&self, witness: usize) -> BoxFuture<'static, Result<Signs>> {
        let (name, attributes) = (witness_name(witness), self.objects.attributes(&witness_name(witness)));
        Box::pin(async move {
            let attributes = attributes.await.map_err(|error| failure(&name, &error))?;
            let mut signs = Signs::new();
            attributes.iter().try_for_each(|(name, value)| add_sign(&mut signs, name, value))?;
            Ok(signs)
        })
    }

    fn beat(
        &self,
        witness: usize,
        member: MemberId,
        beat: Beat,
        map_version: u64,
    ) -> BoxFuture<'static, Result<bool>> {
        let (attribute, text) = (beat_attribute(member), beat_text(beat));
        let steps = vec![
            // Not above the version that the member knows.
            Step::greater(mark_attribute(member), hex(map_version + 1)),
            Step::greater(attribute.clone(), text.clone()),
            Step::set(attribute, text),
        ];
        self.guarded(witness_name(witness), steps)
    }

    fn mark(
        &self,
        witness: usize,
        member: MemberId,
        seen: Beat,
        mark: u64,
    ) -> BoxFuture<'static, Result<bool>> {
        let attribute = mark_attribute(member);
        let steps = vec![
            Step::equal(beat_attribute(member), beat_text(seen)),
            Step::greater(attribute.clone(), hex(mark + 1)),
            Step::set(attribute, hex(mark)),
        ];
        self.guarded(witness_name(witness), steps)
    }
}

#[cfg(test)]
#[path = "arbiter_test.rs"]
mod tests;
