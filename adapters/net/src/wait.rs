//! What a command waits for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::runtime::threads::block_on;
use crate::session::Session;

/// A future that is on the heap, because it is seldom needed or has no other name.
pub(crate) type Later<'p, T> = Pin<Box<dyn Future<Output = T> + Send + 'p>>;

/// What a command waits for: awaited by tasks, or [`wait`](Self::wait)ed for on a thread.
#[must_use = "await it, or call `wait`"]
pub struct Wait<'p, T> {
    /// The connection, where the thread that waits may read and write for itself.
    session: Option<&'p Session>,
    end: End<'p, T>,
}

enum End<'p, T> {
    Known(Option<T>),
    Later(Later<'p, T>),
}

impl<'p, T> Wait<'p, T> {
    /// Waits for a future.
    pub(crate) fn on(
        session: Option<&'p Session>,
        future: impl Future<Output = T> + Send + 'p,
    ) -> Self {
        let end = End::Later(Box::pin(future));
        Self { session, end }
    }

    /// Waits for nothing more.
    pub(crate) fn known(session: Option<&'p Session>, value: T) -> Self {
        let end = End::Known(Some(value));
        Self { session, end }
    }

    /// Makes something of the value as soon as it is there.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> U + Send + 'p) -> Wait<'p, U>
    where
        T: 'p,
    {
        let end = match self.end {
            End::Known(value) => End::Known(value.map(make)),
            End::Later(future) => End::Later(Box::pin(async move { make(future.await) })),
        };
        let session = self.session;
        Wait { session, end }
    }

    /// Lets this thread wait until it is done. Tasks of an async runtime await it instead: a task
    /// that waits so holds up the others of its thread.
    pub fn wait(self) -> T {
        match self.session {
            Some(session) => session.wait_for(self),
            None => block_on(self),
        }
    }
}

/// Nothing in it is pinned in place.
impl<T> Unpin for Wait<'_, T> {}

impl<T> Future for Wait<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.end {
            End::Known(value) => value.take().map_or(Poll::Pending, Poll::Ready),
            End::Later(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for Wait<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}
