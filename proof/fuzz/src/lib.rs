//! Fuzz targets: functions that take any bytes and must neither panic nor run forever.
//!
//! The tests run each of them over its corpus and over seeded variations of it. `libfuzzer/` runs the same functions
//! guided by coverage and under the address sanitizer.

pub mod array;
pub mod initiator;
pub mod targets;

/// A target by name.
pub struct Target {
    /// Its name, which is also the name of its corpus.
    pub name: &'static str,
    /// Takes one input.
    pub run: fn(&[u8]),
    /// Inputs that the tests give it: fewer where one input opens, uses and repairs a whole array.
    pub test_inputs: u32,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "cdb", run: targets::cdb::run, test_inputs: 3000 },
    Target { name: "contradiction", run: targets::contradiction::run, test_inputs: 150 },
    Target { name: "forward", run: targets::forward::run, test_inputs: 3000 },
    Target { name: "media", run: targets::media::run, test_inputs: 10_000 },
    Target { name: "nvme", run: targets::nvme::run, test_inputs: 3000 },
    Target { name: "nvme_queues", run: targets::nvme_queues::run, test_inputs: 1500 },
    Target { name: "parameter_list", run: targets::parameter_list::run, test_inputs: 3000 },
    Target { name: "pdu", run: targets::pdu::run, test_inputs: 3000 },
    Target { name: "peer", run: targets::peer::run, test_inputs: 10_000 },
    Target { name: "replication", run: targets::replication::run, test_inputs: 10_000 },
    Target { name: "shelf_media", run: targets::shelf_media::run, test_inputs: 10_000 },
    Target { name: "tcmu", run: targets::tcmu::run, test_inputs: 3000 },
    Target { name: "token", run: targets::token::run, test_inputs: 3000 },
];
