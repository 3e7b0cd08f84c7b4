//! Bytes from media: no decoder of the engine panics, whatever they are.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| engine::media::decode_all(bytes));
