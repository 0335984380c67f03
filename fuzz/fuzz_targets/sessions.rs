//! Invariant: whatever two sessions are told, and in whatever order, each call settles once, a session's phase never goes back, no deadline stays due once the time was given, and once the wire is whole both come to their end.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::sessions::run(data));
