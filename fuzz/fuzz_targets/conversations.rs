//! Invariant: a conversation of the public generators comes to its end, gives the same whole and in pieces, and each request in it gets an answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::conversations::run(data));
