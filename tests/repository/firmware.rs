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
