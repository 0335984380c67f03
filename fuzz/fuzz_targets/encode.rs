//! Invariant: any value is written byte for byte as serde_json writes it, and a message that was written reads back as what was given to be written.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::encode::run(data));
