//! An allocator that counts: it passes all on to the system's.
//!
//! A test program declares it as its `#[global_allocator]`. It counts for each thread, so that tests that run at the
//! same time do not disturb each other, or for the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The system's allocator with counters.
#[derive(Debug)]
pub struct Counting {
    is_of_process: bool,
}

impl Counting {
    /// Counts for each thread: read by [`measured`] and [`allocations`].
    pub const fn of_thread() -> Self {
        Self {
            is_of_process: false,
        }
    }

    /// Counts for the whole process: read by [`held_by_process`] and [`allocations_of_process`].
    pub const fn of_process() -> Self {
        Self {
            is_of_process: true,
        }
    }

    fn grow(&self, bytes: usize) {
        if self.is_of_process {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            HELD.fetch_add(bytes as i64, Ordering::Relaxed);
            return;
        }
        // A thread that is ending has no counters any more, and nothing of interest to count.
        let _ = OF_THREAD.try_with(|counters| {
            let mut now = counters.get();
            if !now.is_paused {
                now.allocations += 1;
                now.bytes += bytes as u64;
                now.live += bytes as isize;
                now.peak = now.peak.max(now.live);
                counters.set(now);
            }
        });
    }

    fn shrink(&self, bytes: usize) {
        if self.is_of_process {
            HELD.fetch_sub(bytes as i64, Ordering::Relaxed);
            return;
        }
        // As above.
        let _ = OF_THREAD.try_with(|counters| {
            let mut now = counters.get();
            if !now.is_paused {
                now.live -= bytes as isize;
                counters.set(now);
            }
        });
    }
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);

#[derive(Clone, Copy)]
struct Counters {
    allocations: u64,
    bytes: u64,
    live: isize,
    peak: isize,
    is_paused: bool,
}

thread_local! {
    static OF_THREAD: Cell<Counters> = const {
        Cell::new(Counters { allocations: 0, bytes: 0, live: 0, peak: 0, is_paused: false })
    };
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory that it hands out and
// no heap. A reallocation counts as both blocks at once, the worst it may come to.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.shrink(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.grow(size);
        self.shrink(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// What something took from the heap, on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// How often it allocated.
    pub allocations: u64,
    /// How many bytes it asked for, all allocations together.
    pub bytes: u64,
    /// How many bytes it has left allocated; below 0 if it freed more.
    pub left: isize,
    /// The most that it held at any moment beyond what was held before.
    pub most: isize,
}

/// Runs `act`, and returns its result and what it took from the heap. It cannot be nested: an inner one
/// makes the outer one forget what it held at most.
pub fn measured<R>(act: impl FnOnce() -> R) -> (R, Used) {
    let before = OF_THREAD.with(|counters| {
        let mut now = counters.get();
        now.peak = now.live;
        counters.set(now);
        now
    });
    let result = act();
    let after = OF_THREAD.with(Cell::get);
    let used = Used {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
        left: after.live - before.live,
        most: after.peak - before.live,
    };
    (result, used)
}

/// How often this thread has allocated so far.
pub fn allocations() -> u64 {
    OF_THREAD.with(Cell::get).allocations
}

/// Does something that is not counted: neither what it allocates nor what it frees.
pub fn uncounted<R>(act: impl FnOnce() -> R) -> R {
    let pause = |is_paused| {
        OF_THREAD.with(|counters| {
            let mut now = counters.get();
            now.is_paused = is_paused;
            counters.set(now);
        });
    };
    pause(true);
    let done = act();
    pause(false);
    done
}

/// How often the process has allocated so far.
pub fn allocations_of_process() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// How many bytes the process holds now.
pub fn held_by_process() -> i64 {
    HELD.load(Ordering::Relaxed)
}
