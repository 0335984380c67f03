//! Invariant: whatever two sessions are told, and in whatever order, each call settles once, no state of their lives comes back, no deadline that was judged is still due, and once the wire is whole both come to their end.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::sessions::run(data));
