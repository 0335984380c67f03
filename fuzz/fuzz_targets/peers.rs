//! Invariant: two peers that keep to the rules never misunderstand each other, whatever the wire does to their timing: every call settles exactly once and with its own answer, and once the wire heals all of them do.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::peers::run(data));
