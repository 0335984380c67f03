//! Invariant: whatever answers come, each call settles exactly once, the end comes last and once, and input gives the same whole and in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::client::run(data));
