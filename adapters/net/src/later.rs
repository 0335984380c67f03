//! The answer to a request whose handler has returned without one. Interceptors observe it: the
//! observer is called once, as soon as both the answer and the observer are there.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use antiphon::ErrorObject;
use antiphon::service::CallEnd;

use crate::debug::debug_fields;

/// The answer, as far as interceptors see it.
#[derive(Clone, Copy)]
pub(crate) enum Given {
    /// A result, of so many bytes.
    Result(usize),
    /// An error: its code, and how many bytes it has.
    Error(i64, usize),
    /// No answer: one word for what there was instead.
    Instead(&'static str),
}

impl Given {
    pub(crate) fn error(error: &ErrorObject<'_>) -> Self {
        Self::Error(error.code(), error.encoded_len())
    }

    /// Returns how a call has ended that took `duration`.
    pub(crate) fn end(self, duration: Duration) -> CallEnd {
        let (code, instead, bytes) = match self {
            Self::Result(bytes) => (None, None, bytes),
            Self::Error(code, bytes) => (Some(code), None, bytes),
            Self::Instead(why) => (None, Some(why), 0),
        };
        let mut end = CallEnd::new(duration, code, instead);
        end.answer_bytes = bytes;
        end
    }
}

debug_fields!(impl[] LaterAnswer as "LaterAnswer" {});

type OnGiven = Box<dyn FnOnce(Given) + Send>;

/// An answer that comes later.
#[derive(Default)]
pub(crate) struct LaterAnswer(Mutex<State>);

#[derive(Default)]
enum State {
    /// There is neither an answer nor an observer.
    #[default]
    Open,
    /// The observer waits for the answer.
    Awaited(OnGiven),
    /// The answer waits for the observer.
    Given(Given),
    /// The observer was called.
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
            // The thread may be unwinding already, and a second panic would abort the process. A
            // panic of `told` was printed.
            let _ = catch_unwind(AssertUnwindSafe(|| told(given)));
        }
    }
}
