use super::{InvalidStrategy, Reconnect, ReconnectStrategy};
use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

/// Returns the delay in milliseconds after each of this many losses, all at time zero.
fn delays(strategy: ReconnectStrategy, losses: u32) -> Vec<Option<u64>> {
    let mut reconnect = Reconnect::new(strategy).unwrap();
    let lost = |_| {
        reconnect
            .handle_lost(Instant::ZERO, 0)
            .map(|at| at.as_nanos() / 1_000_000)
    };
    (0..losses).map(lost).collect()
}

// CON-04
#[test]
fn each_strategy_has_its_delays_and_its_end() {
    assert_eq!(delays(ReconnectStrategy::None, 2), [None, None]);
    let fixed = ReconnectStrategy::Fixed {
        delay: Duration::from_millis(7),
        max_attempts: 2,
    };
    assert_eq!(delays(fixed, 3), [Some(7), Some(7), None]);
    let backoff =
        ReconnectStrategy::backoff(Duration::from_millis(100), Duration::from_millis(350), 4);
    assert_eq!(
        delays(backoff, 5),
        [Some(100), Some(200), Some(350), Some(350), None]
    );
}

// CON-05 USE-24
#[test]
fn the_count_begins_anew_after_a_first_message() {
    let backoff = ReconnectStrategy::backoff(Duration::from_secs(1), Duration::from_secs(9), 2);
    let mut reconnect = Reconnect::new(backoff).unwrap();
    reconnect.handle_lost(Instant::ZERO, 0);
    reconnect.handle_lost(Instant::ZERO, 0);
    assert_eq!(reconnect.handle_lost(Instant::ZERO, 0), None);
    reconnect.handle_open(Instant::ZERO);
    reconnect.handle_message();
    assert_eq!(
        reconnect.handle_lost(Instant::ZERO, 0),
        Some(Instant::from_millis(1000))
    );
    assert_eq!(reconnect.attempts(), 1);
}

// CON-05 USE-24
#[test]
fn a_connection_counts_once_it_was_open_for_longer_than_the_last_delay() {
    let ms = Duration::from_millis;
    // The strategy, how many milliseconds each connection is open, and how many attempts follow
    // the first connection, 999 at most.
    let backoff = ReconnectStrategy::backoff(ms(100), ms(400), 5);
    let fixed = |delay| ReconnectStrategy::Fixed {
        delay: ms(delay),
        max_attempts: 5,
    };
    for (strategy, open, attempts) in [
        (backoff, 0, 5),
        // Longer than 50 ms, but not longer than the first delay of 100 ms.
        (backoff, 100, 5),
        (backoff, 101, 999),
        (fixed(200), 200, 5),
        (fixed(200), 201, 999),
        (fixed(0), 0, 5),
        (fixed(0), 50, 5),
        (fixed(0), 51, 999),
        (ReconnectStrategy::None, 1000, 0),
    ] {
        let mut reconnect = Reconnect::new(strategy).unwrap();
        let mut now = Instant::ZERO;
        let again = (0..999).take_while(|_| {
            reconnect.handle_open(now);
            now += ms(open);
            let next = reconnect.handle_lost(now, 0);
            now = next.unwrap_or(now);
            next.is_some()
        });
        assert_eq!(again.count(), attempts, "{strategy:?} open for {open} ms");
    }
    // Jitter makes a delay shorter, but not the time that a connection must be open.
    let jitter = ReconnectStrategy::ExponentialBackoff {
        initial_delay: ms(100),
        max_delay: ms(100),
        max_attempts: 1,
        multiplier: 1.0,
        jitter: 1.0,
    };
    let mut reconnect = Reconnect::new(jitter).unwrap();
    assert_eq!(
        reconnect.handle_lost(Instant::ZERO, u64::MAX),
        Some(Instant::ZERO)
    );
    reconnect.handle_open(Instant::ZERO);
    assert_eq!(reconnect.handle_lost(Instant::from_millis(100), 0), None);
}

// CON-05
#[test]
fn numbers_that_make_no_sense_are_refused() {
    let with = |multiplier, jitter| {
        Reconnect::new(ReconnectStrategy::ExponentialBackoff {
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(2),
            max_attempts: 1,
            multiplier,
            jitter,
        })
        .map(drop)
    };
    for multiplier in [0.99, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            with(multiplier, 0.0),
            Err(InvalidStrategy::Multiplier),
            "{multiplier}"
        );
    }
    for jitter in [-0.1, 1.1, f64::NAN] {
        assert_eq!(with(2.0, jitter), Err(InvalidStrategy::Jitter), "{jitter}");
    }
    assert_eq!(with(1.0, 1.0), Ok(()));
}

// CON-05
#[test]
fn nothing_overflows_and_jitter_only_shortens() {
    let endless = ReconnectStrategy::ExponentialBackoff {
        initial_delay: Duration::MAX,
        max_delay: Duration::MAX,
        max_attempts: u32::MAX,
        multiplier: f64::MAX,
        jitter: 0.5,
    };
    let mut reconnect = Reconnect::new(endless).unwrap();
    for entropy in [0, 1, u64::MAX] {
        assert_eq!(
            reconnect.handle_lost(Instant::ZERO, entropy),
            Some(Instant::FAR_FUTURE)
        );
    }
    let half = ReconnectStrategy::ExponentialBackoff {
        initial_delay: Duration::from_secs(8),
        max_delay: Duration::from_secs(8),
        max_attempts: 9,
        multiplier: 1.0,
        jitter: 0.5,
    };
    let mut reconnect = Reconnect::new(half).unwrap();
    assert_eq!(
        reconnect.handle_lost(Instant::ZERO, 0),
        Some(Instant::from_millis(8000))
    );
    assert_eq!(
        reconnect.handle_lost(Instant::ZERO, u64::MAX),
        Some(Instant::from_millis(4000))
    );
}

// CON-05 TST-10
#[test]
fn the_end_of_all_attempts_is_final() {
    for strategy in [
        ReconnectStrategy::None,
        ReconnectStrategy::Fixed {
            delay: Duration::ZERO,
            max_attempts: 0,
        },
        ReconnectStrategy::backoff(Duration::ZERO, Duration::ZERO, 0),
    ] {
        assert_eq!(delays(strategy, 1000), [None; 1000], "{strategy:?}");
    }
    let fixed = ReconnectStrategy::Fixed {
        delay: Duration::from_secs(1),
        max_attempts: 3,
    };
    let told = delays(fixed, 1000);
    assert_eq!(told[..3], [Some(1000); 3]);
    assert!(told[3..].iter().all(Option::is_none));
}
