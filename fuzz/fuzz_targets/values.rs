//! Invariant: the small public values (ids, errors, codes, names, times, the read buffer) are and say what plain code makes of the same choices.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::values::run(data));
