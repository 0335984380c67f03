//! Our calls whose progress is watched, and the progress that the peer has reported.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::event::NotificationRef;
use crate::id::CallId;
use crate::json::{Json, OwnedJson};
use crate::progress::ProgressStyle;
use crate::time::Instant;

/// How each progress of a call moves the call's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend {
    /// The time from the progress to the new deadline of the call.
    pub timeout: Duration,
    /// The latest possible deadline.
    pub until: Instant,
}

impl Extend {
    pub(super) fn deadline(self, now: Instant) -> Instant {
        (now + self.timeout).min(self.until)
    }
}

/// The watched calls, and the progress of them that waits to be taken.
#[derive(Default)]
pub(super) struct Progress {
    watched: Vec<Watched>,
    /// Progress that was reported and has not been taken, and how many bytes its values have.
    told: VecDeque<(CallId, OwnedJson)>,
    bytes: usize,
}

/// A call whose progress is watched.
pub(super) struct Watched {
    pub(super) call: CallId,
    pub(super) token: String,
    pub(super) extend: Option<Extend>,
}

impl Progress {
    pub(super) fn watch(&mut self, watched: Watched) {
        self.watched.push(watched);
    }

    /// Takes the progress of a watched call from a notification, and returns the call and how it
    /// moves the deadline. `None` for any other notification. If more than `max_told` values or
    /// `max_bytes` bytes wait then, drops the oldest, but never the new one.
    pub(super) fn take(
        &mut self,
        style: ProgressStyle,
        notification: &NotificationRef<'_>,
        (max_told, max_bytes): (usize, usize),
    ) -> Option<(CallId, Option<Extend>)> {
        let method = style.method()?;
        let params = notification
            .params
            .filter(|_| notification.method == *method)?;
        let (token, value) = style.read(params)?;
        let mut watched = self.watched.iter();
        let &Watched { call, extend, .. } =
            watched.find(|watched| is_text(token, &watched.token))?;
        self.bytes += value.len();
        self.told.push_back((call, value.to_owned_json()));
        let is_over = |told: usize, bytes: usize| told > max_told || bytes > max_bytes;
        while self.told.len() > 1 && is_over(self.told.len(), self.bytes) {
            self.pop();
        }
        Some((call, extend))
    }

    pub(super) fn pop(&mut self) -> Option<(CallId, OwnedJson)> {
        let told = self.told.pop_front()?;
        self.bytes -= told.1.as_str().len();
        Some(told)
    }

    /// Stops watching a call that has ended. Progress that was reported before can still be taken.
    pub(super) fn end(&mut self, call: CallId) {
        self.watched.retain(|watched| watched.call != call);
    }
}

fn is_text(token: Json<'_>, text: &str) -> bool {
    token.as_string().is_some_and(|token| token.eq_str(text))
}
