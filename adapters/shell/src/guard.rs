//! Code of the program that may panic: the panic ends neither the task or thread that runs it, nor, in a
//! destructor while the thread panics already, the process.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A connection whose service is told of panics.
pub(crate) trait Reports {
    /// Reports a panic, with the request that it has ended, if there is one.
    fn report_panic(&self);
}

/// Runs code of the program, and keeps its panic here: returns `None` then. The panic was printed.
pub fn caught<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// Runs code of the program, and keeps its panic here. The panic is reported, if there is a connection.
pub(crate) fn contained<R>(
    connection: Option<&(impl Reports + ?Sized)>,
    run: impl FnOnce() -> R,
) -> Option<R> {
    caught(run).or_else(|| {
        connection.inspect(|connection| connection.report_panic());
        None
    })
}

/// A value that drops values of the program, and keeps their panics here when it is dropped.
pub(crate) struct Contained<T, C: Reports> {
    /// `None` only while it is being dropped.
    value: Option<T>,
    connection: Option<Arc<C>>,
}

impl<T, C: Reports> Contained<T, C> {
    /// A panic is reported to the service of the connection, if there is one.
    pub(crate) fn new(value: T, connection: Option<Arc<C>>) -> Self {
        let value = Some(value);
        Self { value, connection }
    }
}

impl<T, C: Reports> Deref for Contained<T, C> {
    type Target = T;

    fn deref(&self) -> &T {
        // Only dropping it takes the value out.
        self.value.as_ref().expect("it has its value")
    }
}

impl<T, C: Reports> DerefMut for Contained<T, C> {
    fn deref_mut(&mut self) -> &mut T {
        // Only dropping it takes the value out.
        self.value.as_mut().expect("it has its value")
    }
}

impl<T: fmt::Debug, C: Reports> fmt::Debug for Contained<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T, C: Reports> Drop for Contained<T, C> {
    fn drop(&mut self) {
        let value = self.value.take();
        contained(self.connection.as_deref(), || drop(value));
    }
}
