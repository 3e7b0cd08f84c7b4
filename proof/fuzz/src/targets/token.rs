//! Commands of copies by tokens with changed parameter lists, from the host of a token and from another. A changed token,
//! and that of another host, never writes.

use crate::initiator::{Initiator, array};

/// Where the list of WRITE USING TOKEN has the token.
const TOKEN: std::ops::Range<usize> = 16..528;
const ZEROS: [u8; 4] = [0xFF, 0xFF, 0, 1];

/// A list of POPULATE TOKEN or WRITE USING TOKEN, with the token if it takes one, and one range of eight blocks.
fn list(token: &[u8]) -> Vec<u8> {
    let mut out = vec![0; if token.is_empty() { 14 } else { 16 }];
    if !token.is_empty() {
        out.extend_from_slice(token);
        out.extend_from_slice(&[0; 6]);
    }
    out.extend_from_slice(&[0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0]);
    let length = out.len() as u16 - 2;
    out[..2].copy_from_slice(&length.to_be_bytes());
    out
}

fn command_out(host: &Initiator, lun: u16, action: u8, list: &[u8]) -> (bool, bytes::Bytes) {
    let mut cdb = [0x83, action, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    host.send(lun, &cdb, list)
}

fn command_in(host: &Initiator, lun: u16, action: u8) -> (bool, bytes::Bytes) {
    host.send(lun, &[0x84, action, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0], &[])
}

/// One input: commands as sender, unit and kind, a number of changes, and these as position and bits.
pub fn run(input: &[u8]) {
    let (_target, hosts) = array();
    let owner = &hosts[0];
    command_out(owner, 0, 0x10, &list(&[]));
    let (_, information) = command_in(owner, 0, 0x07);
    let token = information.slice(38..);
    let mut rest = input;
    while let [choice, changes, more @ ..] = rest {
        let (edits, more) = more.split_at(more.len().min(usize::from(*changes & 15) * 3));
        rest = more;
        let (sender, lun) = (usize::from(choice & 1), u16::from(choice >> 1 & 1));
        let host = &hosts[sender];
        let writes = choice >> 2 & 3 < 2;
        let mut list = list(if writes { &token } else { &[] });
        for edit in edits.chunks_exact(3) {
            let at = usize::from(u16::from_be_bytes([edit[0], edit[1]])) % list.len();
            list[at] ^= edit[2];
        }
        if writes {
            let (good, _) = command_out(host, lun, 0x11, &list);
            let sent = &list[TOKEN];
            assert!(!good || sent.starts_with(&ZEROS) || (sender == 0 && *sent == token));
        } else if choice >> 2 & 3 == 2 {
            command_out(host, lun, 0x10, &list);
        } else {
            command_in(host, lun, [0x05, 0x07, 0x08, 0x00][usize::from(choice >> 4 & 3)]);
        }
    }
}
