//! What is in a namespace, before anything is written to it.

use crate::objects::{ObjectError, Objects, Pool};
use crate::record::StoredSuperblock;
use crate::takeover::superblock_name;
use crate::{envelope, journal, segments};
use shelf::{Error, Result};

/// What a namespace holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing, or the remains of a format that did not complete.
    Blank,
    /// An array.
    Array {
        /// Its identity.
        array: u128,
        /// It is encrypted.
        sealed: bool,
    },
    /// Something else.
    Foreign {
        /// The name of an object.
        object: String,
    },
}

/// Examines a namespace; nothing is written.
///
/// # Errors
/// [`Error::Corrupt`] when parts of an array are there but neither superblock names it; [`Error::Drive`] when RADOS fails.
pub async fn contents(objects: &dyn Objects) -> Result<Contents> {
    let failed = |error: ObjectError| Error::Drive { what: error.to_string() };
    let (mut array, mut superblocks) = (None, 0);
    for slot in 0..2 {
        match objects.read(&superblock_name(0, slot), 0, 64).await {
            Ok(header) => {
                superblocks += 1;
                array = array.or(StoredSuperblock::array(&header));
            }
            Err(ObjectError::Absent) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if let (Some(array), 2) = (array, superblocks) {
        let sealed = objects.attributes(&envelope::name()).await;
        return match sealed {
            Ok(_) => Ok(Contents::Array { array, sealed: true }),
            Err(ObjectError::Absent) => Ok(Contents::Array { array, sealed: false }),
            Err(error) => Err(failed(error)),
        };
    }
    for pool in [Pool::Meta, Pool::Data] {
        for object in objects.list(pool).await.map_err(failed)? {
            // The first superblock and the key are what a format writes first.
            if object == envelope::name().name || object == superblock_name(0, 0).name && superblocks == 1 {
                continue;
            }
            if journal::parse_name(&object, 0).is_some() || segments::parse_name(&object, 0).is_some() {
                let what =
                    format!("{object} is a part of an array, and its superblocks are missing or damaged");
                return Err(Error::Corrupt { what });
            }
            return Ok(Contents::Foreign { object });
        }
    }
    Ok(Contents::Blank)
}
