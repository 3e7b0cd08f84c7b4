//! What the fuzz targets have in common.

pub mod array;
pub mod initiator;
