//! A mutex that is not poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex. Code that can panic seldom runs under it, and leaves the value in order if it does, so the value
/// can be used after a panic.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Makes it, unlocked.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, which nobody else can have locked.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
