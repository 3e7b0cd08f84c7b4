//! What every store writes to media in the same form: fields under a checksum, pages that verify themselves, and keys.
//!
//! [`codec`] encodes records, [`sector`] the pages of segments, and [`encryption`] seals both. The stores on drives
//! (`raid`) and on RADOS (`rados`) use it.

mod cipher;

pub mod codec;
pub mod encryption;
pub mod sector;
