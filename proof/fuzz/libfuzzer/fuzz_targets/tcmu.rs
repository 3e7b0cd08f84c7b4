//! `fuzz::targets::tcmu` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::tcmu::run(input));
