//! `fuzz::targets::forward` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::forward::run(input));
