//! The buffer into which all connections of a thread read.

use std::cell::RefCell;

/// How many bytes one read takes at most.
const SCRATCH_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `read` with a buffer, whose content has no meaning. Within `read` another call gets another buffer.
pub fn with_scratch<R>(read: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut scratch = SCRATCH.try_with(RefCell::take).unwrap_or_default();
    scratch.resize(SCRATCH_BYTES, 0);
    let result = read(&mut scratch);
    // A thread that ends has no buffer any more.
    let _ = SCRATCH.try_with(|kept| kept.replace(scratch));
    result
}
