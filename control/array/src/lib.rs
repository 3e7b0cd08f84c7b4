//! What an operator can do to the array: volumes, hosts, mappings. HTTP, command line, tests and simulation are
//! views of the one enum [`Action`].
//!
//! The configuration lives in the engine's records, so that an array comes up from its drives alone. This crate is
//! never on the path of an I/O: it tells `scsi` which units exist and who sees them, `iscsi` who may log in, and
//! steps aside. It does not know HTTP; its types carry no wire format.

mod action;
mod check;
mod config;
mod error;
mod record;
mod recover;
mod view;

pub use action::{Action, Array, Outcome, Parts, World};
pub use config::{Chap, Identity, Secret};
pub use error::{Error, Kind, Result};
pub use view::{ArrayStatus, Connection, Host, Reduction, Space, State, Volume};
