//! User code under the lock: a batch being filled, and params and results being written.
//!
//! Such code may not use its own connection, for it would wait for a lock that its thread has. The
//! rule guarded: it is told so by a panic, and never hangs; and what it only drops is seen to once
//! the lock is free.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread;

use super::{Session, State};

thread_local! {
    /// Its address names the thread.
    static HERE: u8 = const { 0 };
}

fn here() -> usize {
    HERE.with(|here| ptr::from_ref(here) as usize)
}

/// The lock is lent to user code, until this is dropped.
struct Lent<'s> {
    to: &'s AtomicUsize,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.to.store(0, Ordering::Relaxed);
    }
}

impl Session {
    /// Runs what may run user code, under the lock.
    #[inline]
    pub(crate) fn lend<R>(&self, run: impl FnOnce() -> R) -> R {
        // Only this thread looks for its own name, so no order among threads is needed.
        self.lent_to.store(here(), Ordering::Relaxed);
        let _lent = Lent { to: &self.lent_to };
        run()
    }

    /// Whether user code runs under the lock, on this thread: the lock will not be free before it is
    /// through.
    #[inline]
    pub(crate) fn is_lent_here(&self) -> bool {
        self.lent_to.load(Ordering::Relaxed) == here()
    }

    /// Takes the lock itself.
    #[inline]
    pub(super) fn take_lock(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            // Foreign code under the lock is the filling of a batch and a `Serialize` at most, and the
            // connection takes back what they had written by then.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait_for_lock(),
        }
    }

    #[cold]
    fn wait_for_lock(&self) -> MutexGuard<'_, State> {
        assert!(
            !self.is_lent_here(),
            "a connection was used inside `batch`, or by params or a result while they were written \
             into it: it can be used again once that is done"
        );
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a drop has to do: at once, or as soon as the lock is free if user code under it
    /// drops something.
    #[inline]
    pub(crate) fn when_free(self: &Arc<Self>, act: impl FnOnce(&Self) + Send + 'static) {
        if !self.is_lent_here() {
            return act(self);
        }
        let session = Arc::clone(self);
        let builder = thread::Builder::new().name("antiphon-dropped".into());
        // Without a thread it stays undone until the connection ends.
        let _ = builder.spawn(move || act(&session));
    }
}
