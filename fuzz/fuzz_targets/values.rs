//! Invariant: the small public values (ids, errors, codes, names, times, the read buffer) behave as simple code for the same inputs does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::values::run(data));
