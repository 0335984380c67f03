//! Shared ownership on every target: chips such as the RP2040 and the ESP32-C3 have no compare-and-swap, and there `Arc` is that of
//! portable-atomic. It is `Send` and `Sync` on all of them.

use alloc::boxed::Box;

#[cfg(target_has_atomic = "ptr")]
pub use alloc::sync::Arc;
#[cfg(not(target_has_atomic = "ptr"))]
pub use portable_atomic_util::Arc;

/// An `Arc` of a trait object. A stable compiler converts an `Arc` of portable-atomic to one only by way of a box.
pub(crate) fn erased<T: ?Sized>(value: Box<T>) -> Arc<T> {
    Arc::from(value)
}
