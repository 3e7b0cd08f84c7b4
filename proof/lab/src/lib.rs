//! Real clients over sockets, and the targets that they are pointed at: the array and its peers side by side.

pub mod array;
pub mod scratch;
pub mod target;
pub mod tgt;
