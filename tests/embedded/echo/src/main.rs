//! An echo peer on a bare microcontroller: every request is answered with its params, through a
//! `Connection`, from a fixed input buffer. It links completely; it is not meant to be flashed as
//! it is, for its serial port is a pair of made-up registers.
#![no_std]
#![no_main]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr;

use antiphon::{Config, Connection, Event, Input, Instant};

/// The largest message, and the whole of the input buffer.
const MESSAGE_BYTES_MAX: usize = 1024;
const HEAP_BYTES: usize = 24 * 1024;
const BLOCK_SIZES: [usize; 9] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Memory in blocks of a few sizes: each size has a list of the blocks that were given back. In
/// steady state the core takes none.
struct Blocks {
    state: UnsafeCell<State>,
}

struct State {
    used: usize,
    free: [*mut u8; BLOCK_SIZES.len()],
    heap: [u64; HEAP_BYTES / 8],
}

// SAFETY: there is one core, one thread, and no interrupt handler that allocates.
unsafe impl Sync for Blocks {}

fn size_class(layout: Layout) -> Option<usize> {
    let wanted = layout.size().max(layout.align());
    BLOCK_SIZES.iter().position(|&size| size >= wanted)
}

// SAFETY: a block is handed out once until it is given back, is as large as its class, and all
// blocks start at multiples of 32 from an 8-byte boundary; greater alignments are refused.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (Some(class), true) = (size_class(layout), layout.align() <= 8) else {
            return ptr::null_mut();
        };
        // SAFETY: nobody else holds a reference; see `Sync`.
        let state = unsafe { &mut *self.state.get() };
        let head = state.free[class];
        if !head.is_null() {
            // SAFETY: a free block begins with the address of the next one.
            state.free[class] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        let at = state.used;
        if at + BLOCK_SIZES[class] > HEAP_BYTES {
            return ptr::null_mut();
        }
        state.used = at + BLOCK_SIZES[class];
        // SAFETY: the block lies within the heap.
        unsafe { state.heap.as_mut_ptr().cast::<u8>().add(at) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = size_class(layout) else {
            return;
        };
        // SAFETY: as above; the block is large enough for an address and nobody's any more.
        unsafe {
            let state = &mut *self.state.get();
            block.cast::<*mut u8>().write(state.free[class]);
            state.free[class] = block;
        }
    }
}

#[global_allocator]
static HEAP: Blocks = Blocks {
    state: UnsafeCell::new(State {
        used: 0,
        free: [ptr::null_mut(); BLOCK_SIZES.len()],
        heap: [0; HEAP_BYTES / 8],
    }),
};

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// The initial stack pointer and the first instruction, where the processor looks for them.
#[repr(C)]
pub struct Vectors {
    stack: usize,
    reset: unsafe extern "C" fn() -> !,
}

#[unsafe(link_section = ".vectors")]
#[unsafe(no_mangle)]
pub static VECTORS: Vectors = Vectors {
    stack: 0x2001_0000,
    reset,
};

const SERIAL_IN: *const u32 = 0x4000_0000 as *const u32;
const SERIAL_OUT: *mut u32 = 0x4000_0004 as *mut u32;
const MILLISECONDS: *const u32 = 0x4000_0008 as *const u32;

/// The next received byte, if there is one.
fn receive() -> Option<u8> {
    // SAFETY: the register of the port that this example supposes; a byte, or a number above 255.
    let word = unsafe { SERIAL_IN.read_volatile() };
    u8::try_from(word).ok()
}

fn send(byte: u8) {
    // SAFETY: as above.
    unsafe { SERIAL_OUT.write_volatile(u32::from(byte)) };
}

fn config() -> Config {
    let mut config = Config::new();
    config.message_bytes_max = MESSAGE_BYTES_MAX;
    config.batch_items_max = 4;
    config.batch_reply_bytes_max = 1024;
    config.requests_max = 4;
    config.calls_max = 4;
    config.id_bytes_max = 64;
    config.outbox_bytes_soft = 1024;
    config.outbox_bytes_max = 4096;
    config
}

/// # Safety
/// Called once, by the processor, with nothing set up but the stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reset() -> ! {
    let mut conn: Connection = Connection::new(config());
    let mut buffer = [0; MESSAGE_BYTES_MAX + 64];
    let mut filled = 0;
    loop {
        // A buffer of `input_bytes_max` is never full without progress.
        while let (Some(slot), Some(byte)) = (buffer.get_mut(filled), receive()) {
            *slot = byte;
            filled += 1;
        }
        // SAFETY: the clock that this example supposes.
        let now = unsafe { MILLISECONDS.read_volatile() };
        conn.handle_timeout(Instant::from_millis(u64::from(now)));
        let mut input = Input::stream(&buffer[..filled]);
        while let Some(event) = conn.poll_event(&mut input) {
            if let Event::Request(request) = event {
                // A result too large for the output is answered by nobody: the peer's own limit.
                if let Err(refused) = conn.respond(request.token, request.params) {
                    let _ =
                        conn.respond_err(refused.value, &antiphon::ErrorObject::internal_error());
                }
            }
        }
        let consumed = input.consumed();
        buffer.copy_within(consumed..filled, 0);
        filled -= consumed;
        while let Some(&byte) = conn.poll_transmit().and_then(<[u8]>::first) {
            send(byte);
            conn.consume_transmit(1);
        }
    }
}
