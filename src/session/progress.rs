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
    /// Progress that was reported and has not been taken.
    told: VecDeque<(CallId, OwnedJson)>,
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

    /// Takes the progress of a watched call from a notification, and returns the call. `None` for
    /// any other notification.
    pub(super) fn take(
        &mut self,
        style: ProgressStyle,
        notification: &NotificationRef<'_>,
    ) -> Option<&Watched> {
        let method = style.method()?;
        let params = notification
            .params
            .filter(|_| notification.method == *method)?;
        let (token, value) = style.read(params)?;
        let mut watched = self.watched.iter();
        let watched = watched.find(|watched| is_text(token, &watched.token))?;
        self.told.push_back((watched.call, value.to_owned_json()));
        Some(watched)
    }

    pub(super) fn pop(&mut self) -> Option<(CallId, OwnedJson)> {
        self.told.pop_front()
    }

    /// Stops watching a call that has ended. Progress that was reported before can still be taken.
    pub(super) fn end(&mut self, call: CallId) {
        self.watched.retain(|watched| watched.call != call);
    }
}

fn is_text(token: Json<'_>, text: &str) -> bool {
    token.as_string().is_some_and(|token| token.eq_str(text))
}
