//! Invariant: a stream of events reads the same whole and in pieces, as a simple reader of the whole stream reads it, and as the writer writes it; an event over the limit is refused, and none below it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::sse_reader::run(data));
