//! `fuzz::targets::shelf_media` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::shelf_media::run(input));
