//! CRC32C digests of PDUs, the same for iSCSI (RFC 7143 12.1) and NVMe/TCP (TCP Transport 1.0 clause 3.6).

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// CRC32C as on the wire: least significant byte first.
pub fn digest(bytes: &[u8]) -> [u8; 4] {
    digest_of_parts([bytes])
}

/// CRC32C of several parts in order.
pub fn digest_of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 4] {
    let mut crc = crc_fast::Digest::new(Crc32Iscsi);
    parts.into_iter().for_each(|part| crc.update(part));
    (crc.finalize() as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143 Appendix A.4 (CRC examples).
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        let counting: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&counting), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(digest_of_parts([&[0; 5][..], &[0; 27]]), digest(&[0; 32]));
    }
}
