//! Kinds of step, each with its weight: how often it is drawn.

use antiphon_test_support::random::Random;

/// Draws a kind: returns its place in the list.
pub(crate) fn draw<K>(kinds: &[(K, u64)], rng: &mut Random) -> usize {
    let weights: u64 = kinds.iter().map(|(_, weight)| weight).sum();
    let mut drawn = rng.below(weights);
    let mut place = 0;
    while drawn >= kinds[place].1 {
        drawn -= kinds[place].1;
        place += 1;
    }
    place
}

/// Draws which kinds are off in a run, a bit for each place: of 100 runs those with a weight up to `rare.0` are off in
/// `rare.1`, the others in `percent`.
pub(crate) fn draw_off<K>(
    kinds: &[(K, u64)],
    rng: &mut Random,
    rare: (u64, u64),
    percent: u64,
) -> u64 {
    kinds
        .iter()
        .enumerate()
        .fold(0, |off, (place, (_, weight))| {
            let percent = if *weight <= rare.0 { rare.1 } else { percent };
            off | u64::from(rng.chance(percent)) << place
        })
}
