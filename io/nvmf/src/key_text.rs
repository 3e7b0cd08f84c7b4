//! Keys in the text forms of NVMe, `PREFIX:HH:BASE64:` with a CRC-32 after the key: secrets of DH-HMAC-CHAP (Base 2.0 clause
//! 8.13.5.8) and PSKs of TLS (TCP Transport 1.0 clause 3.6.1.2).

use crate::authentication::hash::Hash;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use zeroize::Zeroizing;

/// Bytes of the CRC-32 that follows a key.
const CRC_BYTES: usize = 4;

/// Fault of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The text does not have the form of a key.
    Form,
    /// The hash function is unknown.
    Hash,
    /// The length does not match the hash function.
    Length,
    /// The CRC differs.
    Crc,
}

/// Decodes a key: the hash function of its transformation, unless HH is 00, and its bytes. HH 01 is the first of
/// `hashes`, and so on.
pub(crate) fn decode(
    text: &str,
    prefix: &str,
    hashes: &[Hash],
) -> Result<(Option<Hash>, Zeroizing<Vec<u8>>), Malformed> {
    let rest = text.strip_prefix(prefix).ok_or(Malformed::Form)?;
    let (code, rest) = rest.split_once(':').ok_or(Malformed::Form)?;
    let encoded = rest.strip_suffix(':').ok_or(Malformed::Form)?;
    let known = (1..).zip(hashes).map(|(number, hash)| (number, Some(*hash)));
    let mut known = std::iter::once((0, None)).chain(known);
    let (_, transform) = known.find(|(number, _)| format!("{number:02}") == code).ok_or(Malformed::Hash)?;
    let mut key = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| Malformed::Form)?);
    let bytes = key.len().checked_sub(CRC_BYTES).ok_or(Malformed::Length)?;
    let fits = |hash: &Hash| bytes == hash.bytes();
    if !transform.as_ref().map_or_else(|| hashes.iter().any(fits), fits) {
        return Err(Malformed::Length);
    }
    let crc = crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, &key[..bytes]) as u32;
    if key[bytes..] != crc.to_le_bytes() {
        return Err(Malformed::Crc);
    }
    key.truncate(bytes);
    Ok((transform, key))
}
