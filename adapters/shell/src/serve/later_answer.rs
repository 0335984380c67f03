//! The answer to a request whose handler has returned without one. Interceptors observe it: each
//! observer is called once, as soon as both the answer and the observer are there.

use std::mem;
use std::time::Duration;

use antiphon::ErrorObject;
use antiphon::service::CallEnd;

use crate::debug_fields;
use crate::lock::Lock;

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

/// An observer, which does not panic: a responder that is dropped in a panic may call it.
type OnGiven = Box<dyn FnOnce(Given) + Send>;

/// An answer that comes later.
#[derive(Default)]
pub(crate) struct LaterAnswer(Lock<AnswerState>);

#[derive(Default)]
struct AnswerState {
    /// The answer, once there is one.
    given: Option<Given>,
    /// The observers that wait for the answer: one for each router that the request has passed.
    observers: Vec<OnGiven>,
}

impl LaterAnswer {
    /// Sets the answer. Only the first one counts.
    pub(crate) fn give(&self, given: Given) {
        let mut state = self.0.lock();
        let given = *state.given.get_or_insert(given);
        let observers = mem::take(&mut state.observers);
        drop(state);
        observers.into_iter().for_each(|told| told(given));
    }

    /// Calls `told` with the answer, now or when it comes.
    pub(crate) fn tell(&self, told: impl FnOnce(Given) + Send + 'static) {
        let mut state = self.0.lock();
        let Some(given) = state.given else {
            return state.observers.push(Box::new(told));
        };
        drop(state);
        told(given);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Given, LaterAnswer};

    #[test]
    fn every_observer_is_called_once_with_the_first_answer() {
        let (answer, bytes) = (LaterAnswer::default(), Arc::new(AtomicUsize::new(0)));
        let observe = || {
            let bytes = Arc::clone(&bytes);
            answer.tell(move |given| {
                let Given::Result(n) = given else {
                    panic!("a result")
                };
                bytes.fetch_add(n, Ordering::Relaxed);
            });
        };
        observe();
        observe();
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
        answer.give(Given::Result(3));
        assert_eq!(bytes.load(Ordering::Relaxed), 6);
        answer.give(Given::Instead("panicked"));
        observe();
        assert_eq!(bytes.load(Ordering::Relaxed), 9);
    }
}
