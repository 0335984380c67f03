//! What of programs for a microcontroller can be tried on any machine.

#[path = "../../examples/firmware/src/clock.rs"]
mod clock;

use clock::Clock;

#[test]
fn the_clock_of_the_board_goes_on_when_its_timer_begins_again() {
    const TICKS_PER_SECOND: u64 = 25_000_000;
    let mut clock = Clock::default();
    // Ten minutes, in steps of a second and one tick: the timer begins again three times.
    for second in 1..=600_u64 {
        let ticks = second * (TICKS_PER_SECOND + 1);
        // The timer has 32 bits.
        let millis = clock.millis(ticks as u32);
        assert_eq!(millis, ticks / 25_000);
        assert_eq!(clock.millis(ticks as u32), millis);
    }
}

// USE-49: tests/embedded/flash.py fails if a program is larger than what is written there
#[test]
fn typed_params_and_what_is_left_out_cost_little_flash() {
    let written = include_str!("../embedded/flash.txt");
    let bytes = |peer: &str| {
        let mut rows = written.lines().filter_map(|line| line.split_once(' '));
        let (_, bytes) = rows.find(|(name, _)| *name == peer).expect(peer);
        bytes.parse::<u32>().expect(peer)
    };
    assert!(bytes("typed") - bytes("untyped") <= 12_000);
    assert!(bytes("typed") <= 34_000 && bytes("routed") <= 44_000);
    // Batches, cancels, 1.0 and the other framings.
    assert!(bytes("antiphon") - bytes("least") >= 15_000);
}
