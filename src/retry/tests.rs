use alloc::vec;
use core::time::Duration;

use super::{Retries, Retry};
use crate::{ErrorProfile, OwnedError, OwnedOutcome};

fn failed(code: i64) -> OwnedOutcome {
    OwnedOutcome::Err(OwnedError::new(code, "x"))
}

// CON-06 TST-10
#[test]
fn only_what_was_not_sent_or_does_no_harm_twice_is_sent_again() {
    use super::Resend;
    use crate::event::InvalidReason;
    use crate::owned::OwnedOutcome;
    let answered = OwnedOutcome::Err(crate::OwnedError::new(1, "no"));
    let invalid = OwnedOutcome::Invalid(InvalidReason::NotAnObject.into());
    for (outcome, plain, idempotent) in [
        (OwnedOutcome::Unsent, Resend::Again, Resend::Again),
        (OwnedOutcome::Aborted, Resend::Never, Resend::Again),
        (OwnedOutcome::TimedOut, Resend::Never, Resend::Never),
        (OwnedOutcome::Missing, Resend::Never, Resend::Never),
        (answered, Resend::Never, Resend::Never),
        (invalid, Resend::Never, Resend::Never),
    ] {
        assert_eq!(Resend::judge(&outcome, false), plain, "{outcome:?}");
        assert_eq!(Resend::judge(&outcome, true), idempotent, "{outcome:?}");
    }
}
// CON-06 TST-10
#[test]
fn a_call_that_is_aborted_every_time_comes_to_an_end() {
    use super::{DEFAULT_MAX_RESENDS, Resend, Resends};
    use crate::owned::OwnedOutcome::{Aborted, Missing, TimedOut, Unsent};
    for max_resends in [0, 1, DEFAULT_MAX_RESENDS, 100] {
        let mut resends = Resends::new(max_resends);
        for _ in 0..1000 {
            // None of these outcomes is counted.
            assert_eq!(resends.judge(&Unsent, false), Resend::Again);
            assert_eq!(resends.judge(&Aborted, false), Resend::Never);
            assert_eq!(resends.judge(&TimedOut, true), Resend::Never);
            assert_eq!(resends.judge(&Missing, true), Resend::Never);
        }
        let again = (0..1000).filter(|_| resends.judge(&Aborted, true) == Resend::Again);
        assert_eq!(again.count() as u32, max_resends);
        assert_eq!(resends.judge(&Unsent, true), Resend::Again);
    }
    assert_eq!(Resends::default(), Resends::new(3));
}

// CLI-27
#[test]
fn a_call_is_sent_again_by_the_code_of_its_error_and_not_for_ever() {
    let mut retry = Retry::new();
    retry.max_resends = 4;
    retry.max_delay = Duration::from_millis(350);
    let mut retries = Retries::new(&retry);
    assert_eq!(
        retries.judge(&failed(-32002), true, 0),
        None,
        "no code is set"
    );
    retry.codes = vec![7, -32002];
    retries = Retries::new(&retry);
    for (outcome, is_idempotent, after) in [
        (failed(-32002), false, Some(100)),
        (failed(-32603), true, None),
        (OwnedOutcome::Unsent, false, Some(0)),
        (OwnedOutcome::Aborted, false, None),
        (OwnedOutcome::Aborted, true, Some(0)),
        (failed(7), false, Some(200)),
        (OwnedOutcome::TimedOut, true, None),
        (OwnedOutcome::Missing, true, None),
        (failed(7), false, Some(350)),
        // Four resends were counted before.
        (failed(7), true, None),
        (OwnedOutcome::Aborted, true, None),
        (OwnedOutcome::Unsent, false, Some(0)),
    ] {
        let after = after.map(Duration::from_millis);
        assert_eq!(
            retries.judge(&outcome, is_idempotent, 0),
            after,
            "{outcome:?}"
        );
    }
}

// CLI-27
#[test]
fn delays_grow_to_a_bound_and_jitter_only_shortens_them() {
    let mut retry = Retry::new();
    for (multiplier, jitter, entropy, delays) in [
        (2.0, 0.5, 0, [100, 200, 400]),
        (2.0, 0.5, u64::MAX, [50, 100, 200]),
        (2.0, 1.0, u64::MAX, [0, 0, 0]),
        // Options that are not valid.
        (0.1, -1.0, u64::MAX, [100, 100, 100]),
        (f64::NAN, f64::NAN, u64::MAX, [100, 100, 100]),
        (f64::INFINITY, 9.0, 0, [100, 10_000, 10_000]),
    ] {
        (retry.multiplier, retry.jitter) = (multiplier, jitter);
        let mut retries = Retries::new(&retry);
        let found = [(); 3].map(|()| retries.next_delay(entropy).as_millis());
        assert_eq!(found, delays, "{multiplier} {jitter}");
    }
    retry.initial_delay = Duration::MAX;
    retry.max_delay = Duration::MAX;
    let mut retries = Retries::new(&retry);
    assert_eq!(retries.next_delay(0), Duration::MAX);
    assert_eq!(retries.next_delay(0), Duration::MAX);
}

// CLI-27
#[test]
fn the_codes_of_a_busy_server_are_those_of_its_profile() {
    let draft = Retry::new().when_busy(ErrorProfile::WebSocketDraft);
    assert_eq!(draft.codes, [-32007, -32006, -32009]);
    let twice = Retry::new()
        .when_busy(ErrorProfile::Antiphon)
        .when_busy(ErrorProfile::Antiphon);
    assert_eq!(twice.codes, [-32002]);
    for profile in [ErrorProfile::Lsp, ErrorProfile::Mcp] {
        assert!(Retry::new().when_busy(profile).codes.is_empty());
    }
}
