//! The counting allocator, as in all programs that measure.

#[path = "../../counting/mod.rs"]
mod counting;

/// How many bytes are held at present.
pub(crate) fn held() -> usize {
    counting::held() as usize
}
