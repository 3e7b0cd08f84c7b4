//! The SCSI target through its public interface, as hosts use it. One program, so that it is linked once.

mod any_input;
mod host;
mod inventory;
mod media;
mod operator;
mod provisioning;
mod read_only;
mod reservations;
mod reserved_bits;
mod side_by_side;
mod tasks;
mod third_party_copy;
mod tokens;
