//! Real clients over sockets, and the targets that they are pointed at: the array and its peers side by side.

pub mod array;
pub mod bench;
pub mod cdb;
pub mod command;
pub mod compare;
pub mod content;
pub mod crash;
pub mod figures;
pub mod foreign;
pub mod front;
pub mod host;
pub mod ideal;
pub mod initiator;
pub mod libiscsi;
pub mod load;
pub mod management;
mod perf;
pub mod real;
pub mod report;
pub mod run;
pub mod scratch;
pub mod seed;
pub mod stats;
pub mod target;
pub mod tgt;
pub mod values;
pub mod workload;
