//! Invariant: frames are the same whole and split, and no more has to be held than was announced.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::frames::run(data));
