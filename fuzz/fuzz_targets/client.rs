//! Invariant: whatever answers come, each call settles exactly once, the end comes last and once, and whole and split are the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::client::run(data));
