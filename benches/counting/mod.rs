//! The allocator of the programs that measure: the system's, and a count of how often it was asked.
//!
//! Including it is all that is to be done, so that every table counts in one way. It is the one that tests count with.

#[path = "../../tests/support/src/heap.rs"]
#[allow(
    dead_code,
    reason = "not every program that measures asks for all of it"
)]
mod heap;

#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting::of_process();

/// How often anything has been taken from the heap so far.
#[allow(dead_code, reason = "not every program that measures asks for it")]
pub fn allocations() -> u64 {
    heap::allocations_of_process()
}

/// How many bytes of the heap are held now.
#[allow(dead_code, reason = "not every program that measures asks for it")]
pub fn held() -> i64 {
    heap::held_by_process()
}
