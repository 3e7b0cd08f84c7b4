//! Bytes as hex digits.

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hex digits; `None` if they are none.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

/// Whether a text is a SHA-256 in hex digits, as that of a certificate.
pub fn is_fingerprint(text: &str) -> bool {
    from_hex(text).is_some_and(|bytes| bytes.len() == aws_lc_rs::digest::SHA256_OUTPUT_LEN)
}
