//! A short form of the fuzz target `c_functions`: 10^5 steps from seeds.

use super::steps::run;

// USE-48 ARC-07
#[test]
fn functions_in_any_order_return_codes_and_change_nothing_if_they_refuse() {
    // A step takes some five bytes.
    const CASES: u64 = 2000;
    const BYTES: usize = 300;
    let mut steps = 0;
    for seed in 1..=CASES {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let case: Vec<u8> = (0..BYTES).map(|_| next()).collect();
        let outcome = std::panic::catch_unwind(|| run(&case, false));
        steps += outcome.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(steps >= 100_000, "{steps}");
}
