//! Invariant: two peers that keep to the rules never misunderstand each other, whatever the wire does to their timing: every call settles exactly once and with its own answer, and all of them settle once the wire loses nothing any more.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::peers::run(data));
