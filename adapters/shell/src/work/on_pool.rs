//! Work of a handler on a thread of the pool.

use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use async_channel::bounded;

use crate::work::pool::Pool;

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
    let (done, result) = bounded(1);
    let job = move || {
        if !done.is_closed() {
            // If nobody awaits it any more, the result is dropped.
            let _ = done.try_send(catch_unwind(AssertUnwindSafe(work)));
        }
    };
    pool.run(Box::new(job)).ok()?;
    Some(async move {
        match result.recv().await {
            Ok(Ok(value)) => value,
            Ok(Err(panic)) => resume_unwind(panic),
            // The pool has ended.
            Err(_) => pending().await,
        }
    })
}
