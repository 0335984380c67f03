//! The heap: first fit, and neighbours that are free become one block. Blocks have no headers, because an allocation is given back
//! with its size. It counts what its use costs, so that the heap can be made as large as is needed and no larger.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;

/// A heap of `BYTES` bytes.
pub struct Heap<const BYTES: usize> {
    state: UnsafeCell<State>,
    memory: UnsafeCell<Memory<BYTES>>,
}

#[repr(align(8))]
struct Memory<const BYTES: usize>([u8; BYTES]);

struct State {
    /// The first free block; the others follow by their addresses.
    free: *mut Free,
    /// Nothing was ever handed out from here on.
    top: usize,
    asked: usize,
    most_asked: usize,
}

struct Free {
    next: *mut Free,
    bytes: usize,
}

/// All blocks begin and end at multiples of it.
const UNIT: usize = 8;
const _: () = assert!(size_of::<Free>() <= UNIT);

/// Bytes of the heap.
#[derive(Clone, Copy)]
pub struct Used {
    /// What the program has now.
    pub asked: usize,
    /// The most that it had at once.
    pub most_asked: usize,
    /// How far it ever reached: with what rounding and gaps between blocks cost.
    pub reached: usize,
}

// SAFETY: there is one core, one thread, and no interrupt handler that allocates.
unsafe impl<const BYTES: usize> Sync for Heap<BYTES> {}

impl<const BYTES: usize> Heap<BYTES> {
    pub const fn new() -> Self {
        Self {
            state: UnsafeCell::new(State {
                free: ptr::null_mut(),
                top: 0,
                asked: 0,
                most_asked: 0,
            }),
            memory: UnsafeCell::new(Memory([0; BYTES])),
        }
    }

    pub fn used(&self) -> Used {
        // SAFETY: nobody else holds a reference; see `Sync`.
        let state = unsafe { &*self.state.get() };
        Used {
            asked: state.asked,
            most_asked: state.most_asked,
            reached: state.top,
        }
    }
}

impl State {
    /// Returns a free block of the list, or `None` if none is large enough.
    ///
    /// # Safety
    /// The list is whole.
    unsafe fn take(&mut self, bytes: usize) -> Option<*mut u8> {
        let mut link = &raw mut self.free;
        // SAFETY: each link is the list's head or in a free block, and free blocks are nobody's.
        unsafe {
            while let Some(block) = (*link).as_mut() {
                if block.bytes < bytes {
                    link = &raw mut block.next;
                    continue;
                }
                let found: *mut Free = block;
                *link = match block.bytes - bytes {
                    0 => block.next,
                    left => {
                        let rest = found.byte_add(bytes);
                        rest.write(Free {
                            next: block.next,
                            bytes: left,
                        });
                        rest
                    }
                };
                return Some(found.cast());
            }
        }
        None
    }

    /// # Safety
    /// The list is whole, and the block was taken with this size.
    unsafe fn give_back(&mut self, block: *mut Free, bytes: usize) {
        let (mut link, mut before) = (&raw mut self.free, ptr::null_mut::<Free>());
        let (mut block, mut bytes) = (block, bytes);
        // SAFETY: as in `take`.
        unsafe {
            while !(*link).is_null() && *link < block {
                before = *link;
                link = &raw mut (*before).next;
            }
            let mut next = *link;
            if !next.is_null() && block.byte_add(bytes) == next {
                bytes += (*next).bytes;
                next = (*next).next;
            }
            if !before.is_null() && before.byte_add((*before).bytes) == block {
                bytes += (*before).bytes;
                block = before;
            } else {
                *link = block;
            }
            block.write(Free { next, bytes });
        }
    }
}

// SAFETY: a block is taken once until it is given back, has at least the size that was asked for, and begins at a multiple of 8 bytes;
// greater alignments are refused.
unsafe impl<const BYTES: usize> GlobalAlloc for Heap<BYTES> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > UNIT {
            return ptr::null_mut();
        }
        // SAFETY: nobody else holds a reference; see `Sync`. Nothing else changes the list.
        unsafe {
            let state = &mut *self.state.get();
            let bytes = layout.size().next_multiple_of(UNIT);
            let block = match state.take(bytes) {
                Some(block) => block,
                None if bytes > BYTES - state.top => return ptr::null_mut(),
                None => {
                    state.top += bytes;
                    self.memory.get().byte_add(state.top - bytes).cast()
                }
            };
            state.asked += layout.size();
            state.most_asked = state.most_asked.max(state.asked);
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; the caller gives back what it was given.
        unsafe {
            let state = &mut *self.state.get();
            state.asked -= layout.size();
            state.give_back(block.cast(), layout.size().next_multiple_of(UNIT));
        }
    }
}
