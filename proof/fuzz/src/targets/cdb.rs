//! Sequences of commands with any CDB and any data from two initiators to a target over disks in memory.

use crate::initiator::{Initiator, array};

/// One input.
pub fn run(input: &[u8]) {
    let (_target, initiators) = array();
    let mut rest = input;
    // Who and how much data, the CDB, the data.
    while let [first, length, more @ ..] = rest {
        let (cdb, more) = more.split_at(more.len().min(16));
        let (data, more) = more.split_at(more.len().min(usize::from(*length) * 8));
        let initiator: &Initiator = &initiators[usize::from(*first & 1)];
        initiator.send(u16::from(*first >> 1 & 1), cdb, data);
        rest = more;
    }
}
