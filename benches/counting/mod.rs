//! The allocator of the programs that measure: the system's, and a count of how often it was asked.
//!
//! The rule guarded: including it is all that is to be done, so that every table counts in one way.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// How often anything was taken from the heap.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// How many bytes of the heap are held.
static HELD: AtomicI64 = AtomicI64::new(0);

fn hold(bytes: usize) {
    HELD.fetch_add(bytes as i64, Ordering::Relaxed);
}

fn release(bytes: usize) {
    HELD.fetch_sub(bytes as i64, Ordering::Relaxed);
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        hold(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        release(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        release(layout.size());
        hold(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often anything has been taken from the heap so far.
#[allow(dead_code, reason = "not every program that measures asks for it")]
pub fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// How many bytes of the heap are held now.
#[allow(dead_code, reason = "not every program that measures asks for it")]
pub fn held() -> i64 {
    HELD.load(Ordering::Relaxed)
}
