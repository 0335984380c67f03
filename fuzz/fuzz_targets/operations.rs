//! Invariant: whatever a driver, its program and its peer do, in any order, a connection says and writes what the reference model says.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::operations::run(data));
