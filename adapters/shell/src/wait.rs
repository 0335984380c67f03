//! The return type of functions that may have to wait: a task awaits it, and a thread blocks on it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::debug_fields;
use crate::runtime::threads::block_on;

/// A future on the heap, because it is seldom needed or its type has no name.
pub(crate) type BoxFuture<'p, T> = Pin<Box<dyn Future<Output = T> + Send + 'p>>;

/// A result that may have to be waited for: await it in a task, or [`wait`](Self::wait) for it on a
/// thread.
#[must_use = "await it, or call `wait`"]
pub struct Wait<'p, T> {
    end: Waited<'p, T>,
}

enum Waited<'p, T> {
    Known(Option<T>),
    Later(BoxFuture<'p, T>),
}

impl<'p, T> Wait<'p, T> {
    /// Makes it of a future.
    pub(crate) fn on(future: impl Future<Output = T> + Send + 'p) -> Self {
        let end = Waited::Later(Box::pin(future));
        Self { end }
    }

    /// Makes it of a value that is known.
    pub(crate) fn known(value: T) -> Self {
        let end = Waited::Known(Some(value));
        Self { end }
    }

    /// Converts the value as soon as it is there.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> U + Send + 'p) -> Wait<'p, U>
    where
        T: 'p,
    {
        let end = match self.end {
            Waited::Known(value) => Waited::Known(value.map(make)),
            Waited::Later(future) => Waited::Later(Box::pin(async move { make(future.await) })),
        };
        Wait { end }
    }

    /// Blocks this thread until the result is there. In a task of an async runtime await it
    /// instead: a task that blocks stops the others of its thread.
    pub fn wait(mut self) -> T {
        if let Waited::Known(value) = &mut self.end {
            if let Some(value) = value.take() {
                return value;
            }
        }
        block_on(self)
    }
}

/// None of its fields has to be pinned.
impl<T> Unpin for Wait<'_, T> {}

impl<T> Future for Wait<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.end {
            Waited::Known(value) => value.take().map_or(Poll::Pending, Poll::Ready),
            Waited::Later(future) => future.as_mut().poll(cx),
        }
    }
}

debug_fields!(impl[T] Wait<'_, T> as "Wait" {});
