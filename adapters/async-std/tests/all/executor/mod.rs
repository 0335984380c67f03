//! Tests on async-std's executor. In a build of the whole workspace smol is compiled in too, and
//! would be the default.

use std::future::Future;
use std::sync::Once;

use antiphon_async_std::{Executor, set_executor};

/// Runs a test on async-std.
pub(crate) fn block_on<F: Future>(test: F) -> F::Output {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| assert!(set_executor(Executor::AsyncStd), "smol was used before"));
    async_std::task::block_on(test)
}

/// Checks that a handler runs in a task of async-std. If it does not, the request fails.
pub(crate) fn assert_here() {
    let task = async_std::task::try_current();
    assert!(task.is_some(), "this handler does not run on async-std");
}
