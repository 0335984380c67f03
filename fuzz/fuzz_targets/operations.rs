//! Invariant: whatever a driver, its program and its peer do, in any order, a connection delivers the events and writes the bytes that the reference model does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::operations::run(data));
