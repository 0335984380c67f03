//! Invariant: a request is answered exactly once under its id as it was written, a notification never, and an event tells of every other answer, but for the two kinds that `account` names.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::server::run(data));
