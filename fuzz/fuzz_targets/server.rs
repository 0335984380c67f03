//! Invariant: a request is answered exactly once under its id as it was written, a notification never, and every other answer is told of by an event.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::server::run(data));
