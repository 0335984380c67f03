//! Invariant: a stream gives the same frames whole and in pieces, and less than `max_input_bytes` has to be kept between pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antiphon_fuzz::frames::run(data));
