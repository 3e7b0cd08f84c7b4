//! Parameter lists of commands, with valid CDBs.

use crate::initiator::array;

/// CDBs up to the field of the parameter list length, and that field's length.
const COMMANDS: [(&[u8], usize); 16] = [
    (&[0x15, 0x10, 0, 0], 1),
    (&[0x15, 0x11, 0, 0], 1),
    (&[0x55, 0x10, 0, 0, 0, 0, 0], 2),
    (&[0x42, 0, 0, 0, 0, 0, 0], 2),
    (&[0x5F, 0x00, 0, 0, 0], 4),
    (&[0x5F, 0x01, 0x05, 0, 0], 4),
    (&[0x5F, 0x02, 0x05, 0, 0], 4),
    (&[0x5F, 0x03, 0, 0, 0], 4),
    (&[0x5F, 0x04, 0x03, 0, 0], 4),
    (&[0x5F, 0x05, 0x08, 0, 0], 4),
    (&[0x5F, 0x06, 0, 0, 0], 4),
    (&[0x5F, 0x07, 0, 0, 0], 4),
    (&[0x83, 0x00, 0, 0, 0, 0, 0, 0, 0, 0], 4),
    (&[0x83, 0x01, 0, 0, 0, 0, 0, 0, 0, 0], 4),
    (&[0x83, 0x10, 0, 0, 0, 0, 0, 0, 0, 1], 4),
    (&[0x83, 0x11, 0, 0, 0, 0, 0, 0, 0, 1], 4),
];

/// One input.
pub fn run(input: &[u8]) {
    let (_target, initiators) = array();
    let mut rest = input;
    while let [command, length, more @ ..] = rest {
        let (head, field) = COMMANDS[usize::from(*command) % COMMANDS.len()];
        let (list, more) = more.split_at(more.len().min(usize::from(*length)));
        let mut cdb = head.to_vec();
        cdb.extend_from_slice(&(list.len() as u32).to_be_bytes()[4 - field..]);
        initiators[usize::from(*command >> 7)].send(0, &cdb, list);
        rest = more;
    }
}
