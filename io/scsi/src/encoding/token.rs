//! ROD tokens (SPC-5 6.4.6): 512 bytes that stand for data, which only this process can make and only it can check.
//!
//! A token names its creator and is sealed with an HMAC whose key no other process has, so a host can't guess one. What it
//! stands for, and whose it is, is not in it but in the table of [`crate::encoding::rods`].

use crate::encoding::block_limits::BlockLimits;
use crate::encoding::identity::naa_bytes;
use crate::encoding::sense::{Code, Fault};
use aws_lc_rs::hmac;
use block::DiskId;
use bytes::Bytes;

/// Bytes of a token.
pub(crate) const TOKEN_BYTES: usize = 512;

/// Bytes of a token that REPORT ALL ROD TOKENS returns.
pub(crate) const MANAGEMENT_BYTES: usize = 96;

/// The ROD TOKEN LENGTH field of a token.
const LENGTH_FIELD: u16 = (TOKEN_BYTES - 8) as u16;

/// Offsets of the target device's name in a token, and of its seal of 32 bytes.
const TARGET: usize = 128;
const SEAL: usize = TOKEN_BYTES - 32;

/// ROD types (SPC-5 table 126).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum RodType {
    /// Point in time copy – default.
    PointInTime = 0x0080_0000,
    /// Point in time copy – any: what hosts may ask for that need no certain one.
    AnyPointInTime = 0x0080_FFFF,
    /// Block device zero.
    BlockZero = 0xFFFF_0001,
}

/// Makes and checks tokens.
pub(crate) struct Sealer {
    key: hmac::Key,
    /// The designator of the target device.
    target: Vec<u8>,
}

/// What a token says that a host sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Zeros, as many as are asked for.
    BlockZero,
    /// The token with this number, which this process made.
    Rod(u64),
}

impl Sealer {
    /// `key` is random, and another one in each process.
    pub(crate) fn new(key: [u8; 32], target: &str) -> Sealer {
        let mut name = target.as_bytes().to_vec();
        name.truncate(248);
        name.resize((name.len() / 4 + 1) * 4, 0);
        // UTF-8, associated with the target device, a SCSI name string.
        let target = [&[0x53, 0xA8, 0, name.len() as u8], &name[..]].concat();
        Sealer { key: hmac::Key::new(hmac::HMAC_SHA256, &key), target }
    }

    /// The token with this number for blocks of a disk of this size in bytes.
    pub(crate) fn make(&self, number: u64, (disk, block_bytes): (DiskId, u32), blocks: u64) -> Bytes {
        let mut out = vec![0; TOKEN_BYTES];
        let block = block_bytes.to_be_bytes();
        out[..4].copy_from_slice(&(RodType::PointInTime as u32).to_be_bytes());
        out[6..8].copy_from_slice(&LENGTH_FIELD.to_be_bytes());
        out[8..16].copy_from_slice(&number.to_be_bytes());
        // The creator's CSCD descriptor: identification by its NAA name.
        out[16] = 0xE4;
        out[20..24].copy_from_slice(&[0x01, 0x03, 0, 16]);
        out[24..40].copy_from_slice(&naa_bytes(disk));
        out[45..48].copy_from_slice(&block[1..]);
        out[48..64].copy_from_slice(&(u128::from(blocks) * u128::from(block_bytes)).to_be_bytes());
        // Block device specific data, in the form of READ CAPACITY (16).
        out[96..100].copy_from_slice(&block);
        out[101] = BlockLimits::of(block_bytes).granularity.trailing_zeros() as u8;
        out[102] = 0xC0;
        out[TARGET..TARGET + self.target.len()].copy_from_slice(&self.target);
        let seal = hmac::sign(&self.key, &out[..SEAL]);
        out[SEAL..].copy_from_slice(seal.as_ref());
        out.into()
    }

    /// Checks a token that a host sent.
    pub(crate) fn check(&self, token: &[u8]) -> Result<Claim, Fault> {
        let token: &[u8; TOKEN_BYTES] = token.try_into().map_err(|_| Code::INVALID_TOKEN_LENGTH)?;
        let kind = u32::from_be_bytes([token[0], token[1], token[2], token[3]]);
        if u16::from_be_bytes([token[6], token[7]]) != LENGTH_FIELD {
            return Err(Code::INVALID_TOKEN_LENGTH.into());
        }
        if kind == RodType::BlockZero as u32 {
            return Ok(Claim::BlockZero);
        }
        if kind != RodType::PointInTime as u32 {
            return Err(Code::UNSUPPORTED_TOKEN_TYPE.into());
        }
        if !token[TARGET..].starts_with(&self.target) {
            return Err(Code::REMOTE_TOKEN.into());
        }
        if hmac::verify(&self.key, &token[..SEAL], &token[SEAL..]).is_err() {
            return Err(Code::TOKEN_UNKNOWN.into());
        }
        let mut number = [0; 8];
        number.copy_from_slice(&token[8..16]);
        Ok(Claim::Rod(u64::from_be_bytes(number)))
    }
}
