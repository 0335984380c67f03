//! Invariant: the functions of the C interface return codes in any order and with any arguments; one that refuses changes nothing; a request is answered once, and a call ends once.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::c_functions::run(data));
