//! Work of a handler on a thread of the pool.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;

use crate::lock::Lock;
use crate::pool::Pool;

/// The result of the work, and the task that awaits it.
struct Done<T> {
    result: Option<thread::Result<T>>,
    waker: Option<Waker>,
}

/// Begins `work` on a thread of `pool`, and returns a future of its result, which panics if the work
/// does. If the future is dropped before a thread has begun the work, the work is dropped too. Returns
/// `None` if too much work waits for a thread.
pub(crate) fn on_pool<T, W>(
    pool: &Pool,
    work: W,
) -> Option<impl Future<Output = T> + Send + use<T, W>>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let done = Arc::new(Lock::new(Done {
        result: None,
        waker: None,
    }));
    let awaited = Arc::downgrade(&done);
    let job = move || {
        if awaited.strong_count() == 0 {
            return;
        }
        let result = catch_unwind(AssertUnwindSafe(work));
        // If nobody awaits it any more, the result is dropped.
        let waker = awaited.upgrade().and_then(|done| {
            let mut done = done.lock();
            done.result = Some(result);
            done.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    };
    pool.run(Box::new(job)).ok()?;
    Some(poll_fn(move |cx| {
        let waker = cx.waker().clone();
        let mut done = done.lock();
        let result = done.result.take();
        let before = done.waker.replace(waker);
        // Neither is dropped under the lock.
        drop(done);
        drop(before);
        match result {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => resume_unwind(panic),
            None => Poll::Pending,
        }
    }))
}
