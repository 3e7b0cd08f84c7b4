//! The on-media format that all stores share: records with checksums, self-verifying pages, and wrapped keys.
//!
//! [`codec`] encodes records, [`sector`] the pages of segments, and [`encryption`] encrypts both. The stores on drives
//! (`raid`) and on RADOS (`rados`) use it.

mod cipher;

pub mod codec;
pub mod encryption;
pub mod sector;
