//! Invariant: over a transport that splits, stalls, fails and is cut, a driven connection delivers the events and writes the bytes that the core alone does; no wake-up is lost, every call settles, and nothing is leaked.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::drivers::run(data));
