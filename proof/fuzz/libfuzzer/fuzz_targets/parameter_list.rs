//! `fuzz::targets::parameter_list` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::parameter_list::run(input));
