//! Invariant: a conversation of the public generators comes to its end, is the same whole and in pieces, and each request in it gets its one answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::conversations::run(data));
