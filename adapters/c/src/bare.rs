//! What a program without an operating system needs beside the library: memory from C's heap, and an end for what must not happen.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::panic::PanicInfo;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn abort() -> !;
}

/// What every block of C's heap is aligned to, at least.
const ALIGNED: usize = 2 * size_of::<usize>();

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

// SAFETY: the blocks are those of C's heap, which keeps to these rules for alignments up to `ALIGNED`; larger ones are refused.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > ALIGNED {
            return core::ptr::null_mut();
        }
        // SAFETY: any size may be asked for.
        unsafe { malloc(layout.size()) }.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the block came from `malloc` or `realloc`.
        unsafe { free(block.cast()) }
    }

    unsafe fn realloc(&self, block: *mut u8, _: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from `malloc` or `realloc`, and its alignment is one that C's heap keeps.
        unsafe { realloc(block.cast(), size) }.cast()
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: it takes nothing and does not return.
    unsafe { abort() }
}
