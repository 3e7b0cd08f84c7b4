//! Bytes from media: no decoder of the engine panics, whatever they are.

/// One input.
pub fn run(bytes: &[u8]) {
    engine::media::decode_all(bytes);
}
