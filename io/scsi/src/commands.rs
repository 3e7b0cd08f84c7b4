//! The commands: each handler gets a request whose generic checks are done.

pub(crate) mod compare_and_write;
pub(crate) mod copy;
pub(crate) mod inquiry;
pub(crate) mod log_pages;
pub(crate) mod mode_pages;
pub(crate) mod persistent_reserve;
pub(crate) mod provisioning;
pub(crate) mod read_write;
pub(crate) mod report;
pub(crate) mod reserve;
pub(crate) mod rod;
pub(crate) mod unmap;
pub(crate) mod verify;
pub(crate) mod write_same;
