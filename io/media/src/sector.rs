//! Self-verifying sectors: every page has a checksum over its contents and its position.
//!
//! A page of 4096 bytes on a drive holds 4080 bytes of payload and a check field of 16 bytes, which covers the payload
//! and the position in the shelf that it was written for: the generation of its segment, which is never used twice, and the
//! number of the page in it. Torn, lost, misdirected and corrupted writes fail the check, and parity over whole pages
//! restores a page with its check. With encryption the check is the authentication tag, and the position is the nonce
//! (see [`encryption`](crate::encryption)).

use crate::cipher::Cipher;
use shelf::ALIGN;
use std::sync::Arc;

/// Bytes of payload in a page.
pub const PAYLOAD_BYTES: usize = ALIGN - CHECK_BYTES;

const CHECK_BYTES: usize = 16;

/// The position that a page was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The generation of the segment.
    pub generation: u64,
    /// The number of the page in the segment's payload.
    pub page: u32,
}

/// Encodes and verifies the sectors of one owner.
pub enum Sectors {
    /// In clear, with a checksum that covers the array: pages of an older array on the drive fail it.
    Clear {
        /// The array.
        array: u128,
        /// Distinguishes owners of the same epoch: an array may have been started with some of its drives and then
        /// with the others.
        salt: u64,
    },
    /// Encrypted.
    Sealed(Arc<Cipher>),
}

impl Sectors {
    /// Encodes the page of `payload`, at most [`PAYLOAD_BYTES`] bytes; a shorter one is padded with zeros.
    pub fn write(&self, position: Position, payload: &[u8], page: &mut [u8]) {
        let (body, check) = page.split_at_mut(PAYLOAD_BYTES);
        let (front, rest) = body.split_at_mut(payload.len());
        front.copy_from_slice(payload);
        rest.fill(0);
        match self {
            Self::Clear { array, salt } => check.copy_from_slice(&sum((*array, *salt), position, body)),
            Self::Sealed(cipher) => check.copy_from_slice(&cipher.seal(&position.nonce(), &[], body)),
        }
    }

    /// Decodes the payload of a page into `out`, [`PAYLOAD_BYTES`] bytes; false if it is not what was written there.
    pub fn read(&self, position: Position, page: &[u8], out: &mut [u8]) -> bool {
        let Some((body, check)) = page.split_at_checked(PAYLOAD_BYTES) else { return false };
        match self {
            Self::Clear { array, salt } => {
                let is_valid = check == sum((*array, *salt), position, body);
                if is_valid {
                    out.copy_from_slice(body);
                }
                is_valid
            }
            Self::Sealed(cipher) => cipher.open(&position.nonce(), &[], body, check, out),
        }
    }

    /// True if a page is what was written there.
    pub fn verify(&self, position: Position, page: &[u8]) -> bool {
        let Some((body, check)) = page.split_at_checked(PAYLOAD_BYTES) else { return false };
        match self {
            Self::Clear { array, salt } => check == sum((*array, *salt), position, body),
            Self::Sealed(cipher) => cipher.open(&position.nonce(), &[], body, check, &mut [0; PAYLOAD_BYTES]),
        }
    }

    /// True if the payload of a verified page is in clear.
    pub fn is_clear(&self) -> bool {
        matches!(self, Self::Clear { .. })
    }
}

impl Position {
    fn nonce(self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.generation.to_le_bytes());
        nonce[8..].copy_from_slice(&self.page.to_le_bytes());
        nonce
    }
}

/// The generation, readable in a dump, and a scattered checksum of payload, array, owner and position.
fn sum((array, salt): (u128, u64), position: Position, payload: &[u8]) -> [u8; CHECK_BYTES] {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    digest.update(payload);
    let mut context = [0; 36];
    context[..16].copy_from_slice(&array.to_le_bytes());
    context[16..24].copy_from_slice(&salt.to_le_bytes());
    context[24..].copy_from_slice(&position.nonce());
    digest.update(&context);
    let mut check = [0; CHECK_BYTES];
    check[..8].copy_from_slice(&position.generation.to_le_bytes());
    check[8..].copy_from_slice(&scatter(digest.finalize()).to_le_bytes());
    check
}

/// The checksum and P are both sums over GF(2): an old P plus current data would give wrong pages with a valid
/// checksum. This step (the finalizer of SplitMix64) is not linear, so only what was written as a page has its check;
/// it is bijective, so the checksum detects as much as before.
fn scatter(sum: u64) -> u64 {
    let sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ (sum >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With two data columns a stale P and one current page give the right generation for the other page; it must fail.
    #[test]
    fn stale_parity_does_not_produce_a_valid_sector() {
        let sectors = Sectors::Clear { array: 7, salt: 3 };
        let page = |generation, number: u32, byte| {
            let mut page = [0; ALIGN];
            sectors.write(Position { generation, page: number }, &[byte; PAYLOAD_BYTES], &mut page);
            page
        };
        for (before, now) in [(5, 6), (5, 5)] {
            let pages = [page(before, 0, 1), page(before, 1, 2), page(now, 1, 4)];
            let forged: Vec<u8> =
                (0..ALIGN).map(|at| pages.iter().fold(0, |sum, page| sum ^ page[at])).collect();
            assert_eq!(
                forged[PAYLOAD_BYTES..][..8],
                page(now, 0, 7)[PAYLOAD_BYTES..][..8],
                "the generation is right"
            );
            assert!(!sectors.verify(Position { generation: now, page: 0 }, &forged));
        }
    }

    #[test]
    fn a_sector_is_valid_only_at_its_position() {
        let position = Position { generation: 0x0000_0003_0000_0007, page: 9 };
        let payload: Vec<u8> = (0..PAYLOAD_BYTES).map(|at| (at % 251) as u8).collect();
        for sectors in
            [Sectors::Clear { array: 7, salt: 3 }, Sectors::Sealed(Arc::new(Cipher::new(&[5; 32])))]
        {
            let mut page = [0; ALIGN];
            sectors.write(position, &payload, &mut page);
            assert_eq!(sectors.is_clear(), page.starts_with(&payload[..100]));
            let mut out = [0; PAYLOAD_BYTES];
            assert!(sectors.read(position, &page, &mut out) && out[..] == payload[..]);
            assert!(sectors.verify(position, &page));
            for other in [
                Position { page: 8, ..position },
                Position { generation: position.generation + 1, ..position },
            ] {
                assert!(!sectors.verify(other, &page) && !sectors.read(other, &page, &mut out));
            }
            for at in [0, 2000, 4079, 4080, 4095] {
                page[at] ^= 4;
                assert!(!sectors.verify(position, &page), "byte {at}");
                page[at] ^= 4;
            }
            assert!(!sectors.verify(position, &[0; ALIGN]));
        }
        let mut page = [0; ALIGN];
        Sectors::Clear { array: 7, salt: 3 }.write(position, &payload, &mut page);
        assert!(!Sectors::Clear { array: 8, salt: 3 }.verify(position, &page));
        assert!(!Sectors::Clear { array: 7, salt: 4 }.verify(position, &page));
    }
}
