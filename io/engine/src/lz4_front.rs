//! Decoding of the front of LZ4 data, up to the last byte that is wanted: a host that reads one block of a frame does
//! not wait for the blocks after it. The output is not cleared first.
//!
//! The crate `lz4` has neither, so that the functions of the C library that it links are called here.

use std::ffi::{c_char, c_int};

unsafe extern "C" {
    /// `lz4.h`: decodes at most `target` bytes into `out`, which has room for `capacity`. Returns how many, or a
    /// negative number if the source is malformed.
    fn LZ4_decompress_safe_partial(
        source: *const c_char,
        out: *mut c_char,
        source_len: c_int,
        target: c_int,
        capacity: c_int,
    ) -> c_int;

    /// `lz4.h`: decodes all of the source into `out`, which has room for `capacity`.
    fn LZ4_decompress_safe(
        source: *const c_char,
        out: *mut c_char,
        source_len: c_int,
        capacity: c_int,
    ) -> c_int;
}

/// The first `len` of the `whole` bytes that were compressed; `None` if these are not `whole` bytes compressed, as far
/// as decoding these shows.
pub fn decode(packed: &[u8], len: usize, whole: usize) -> Option<Vec<u8>> {
    assert!(len <= whole, "no more than there is");
    let mut out: Vec<u8> = Vec::with_capacity(len);
    let (source_len, target) = (c_int::try_from(packed.len()).ok()?, c_int::try_from(len).ok()?);
    let (source, to) = (packed.as_ptr().cast(), out.as_mut_ptr().cast());
    // SAFETY: the function reads `source_len` bytes of the source and writes at most `target` bytes, which is the
    // capacity; it checks every length and offset of its input.
    let decoded = unsafe {
        if len < whole {
            LZ4_decompress_safe_partial(source, to, source_len, target, target)
        } else {
            LZ4_decompress_safe(source, to, source_len, target)
        }
    };
    if usize::try_from(decoded) != Ok(len) {
        return None;
    }
    // SAFETY: the function has written this many bytes.
    unsafe { out.set_len(len) };
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text, noise and repetition by turns, so that fronts end within literals and within matches.
    fn mixed(len: usize) -> Vec<u8> {
        let mut state = 7u32;
        let mut byte = |at: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match at / 300 % 3 {
                0 => b"the quick brown fox "[at % 20],
                1 => (state >> 24) as u8,
                _ => 0,
            }
        };
        (0..len).map(&mut byte).collect()
    }

    #[test]
    fn every_front_is_what_was_compressed() {
        let data = mixed(8192);
        let mode = Some(lz4::block::CompressionMode::FAST(1));
        let packed = lz4::block::compress(&data, mode, false).unwrap();
        assert!(packed.len() < data.len());
        for len in (0..data.len()).step_by(61).chain([1, 2, 4096, 8191, 8192]) {
            assert_eq!(decode(&packed, len, data.len()).as_deref(), Some(&data[..len]), "{len}");
        }
    }

    #[test]
    fn what_is_malformed_or_too_short_is_refused() {
        let data = mixed(4096);
        let packed = lz4::block::compress(&data, None, false).unwrap();
        assert!(decode(&packed, 4097, 8192).is_none());
        assert!(decode(&packed, 4095, 4095).is_none() && decode(&packed, 4097, 4097).is_none());
        assert!(decode(&packed[..packed.len() / 2], 4096, 4096).is_none());
        assert!(decode(&packed[..packed.len() / 2], 4095, 4096).is_none());
        // A match before the first byte of the output.
        assert!(decode(&[0x14, b'a', 9, 0, 0x10, b'b'], 6, 8).is_none());
    }
}
