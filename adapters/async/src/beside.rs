//! A connection and what uses it, on one task.

use std::future::Future;
use std::pin::pin;

use crate::driver::Driver;

/// Polls both until `work` is done.
pub(crate) async fn run_until<F: Future>(driver: &mut Driver, work: F) -> F::Output {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        // First, since the work usually waits for what comes in.
        driver.poll_beside(cx);
        let done = work.as_mut().poll(cx);
        if done.is_pending() {
            // What the work has just asked for leaves at once.
            driver.poll_beside(cx);
        }
        done
    })
    .await
}
