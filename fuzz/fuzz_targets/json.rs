//! Invariant: the scanner accepts what an independent reader and serde_json accept, and every span, name and id in it is theirs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::json::run(data));
