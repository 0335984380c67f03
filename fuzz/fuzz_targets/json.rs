//! Invariant: the scanner accepts what an independent reader and serde_json accept, and finds the same spans, names and ids as they do.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::json::run(data));
