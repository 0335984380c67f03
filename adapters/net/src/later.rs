//! The answer to a request whose handler returned without one: it is reported once, by whichever
//! comes last: the answer, or the observer.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// The answer, as far as interceptors see it.
#[derive(Clone, Copy)]
pub(crate) enum Given {
    Result,
    Error(i64),
    /// No answer, and one word for the reason.
    Instead(&'static str),
}

impl fmt::Debug for LaterAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaterAnswer")
    }
}

type OnGiven = Box<dyn FnOnce(Given) + Send>;

/// An answer that comes later.
#[derive(Default)]
pub(crate) struct LaterAnswer(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Open,
    Awaited(OnGiven),
    Given(Given),
    Told,
}

impl LaterAnswer {
    /// Sets the answer.
    pub(crate) fn give(&self, given: Given) {
        self.step(|state| match state {
            State::Open => (State::Given(given), None),
            State::Awaited(told) => (State::Told, Some((told, given))),
            state => (state, None),
        });
    }

    /// Calls `told` with the answer, now or when it comes.
    pub(crate) fn tell(&self, told: impl FnOnce(Given) + Send + 'static) {
        self.step(|state| match state {
            State::Given(given) => (State::Told, Some((Box::new(told), given))),
            _ => (State::Awaited(Box::new(told)), None),
        });
    }

    fn step(&self, step: impl FnOnce(State) -> (State, Option<(OnGiven, Given)>)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, due) = step(mem::take(&mut *state));
        *state = next;
        drop(state);
        if let Some((told, given)) = due {
            // The code that answers may be unwinding, and must not fail because of this panic,
            // which was printed.
            let _ = catch_unwind(AssertUnwindSafe(|| told(given)));
        }
    }
}
