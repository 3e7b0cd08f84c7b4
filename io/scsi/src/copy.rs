//! Third-party copy.
use crate::unit::Path;
pub(crate) fn third_party_copy_page(_: &Path) -> Vec<u8> {
    Vec::new()
}
pub(crate) fn extended_copy(_: crate::command::Request<'_>) -> Result<crate::command::Flow, crate::sense::Fault> { Err(crate::sense::Code::INVALID_OPCODE.into()) }
pub(crate) fn receive_copy_results(_: crate::command::Request<'_>) -> Result<crate::command::Flow, crate::sense::Fault> { Err(crate::sense::Code::INVALID_OPCODE.into()) }
