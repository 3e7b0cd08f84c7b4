//! `fuzz::targets::nvme_queues` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::nvme_queues::run(input));
