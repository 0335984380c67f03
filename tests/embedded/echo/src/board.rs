//! The board that the echo peers run on: start, memory, one serial port, one clock. ARM's AN386, of
//! which QEMU has a model (`mps2-an386`).
//!
//! With the feature `measured` the end of transmission (byte 4) makes it print how much heap and
//! stack was ever in use, and switch itself off.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr;

const HEAP_BYTES: usize = 24 * 1024;
const BLOCK_SIZES: [usize; 9] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Memory in blocks of a few sizes: each size has a list of the blocks that were given back. In
/// steady state all allocations are served from these lists.
struct Blocks {
    state: UnsafeCell<State>,
}

struct State {
    /// How many bytes of the heap have been made into blocks.
    used: usize,
    #[cfg(feature = "measured")]
    asked: measured::Asked,
    /// The first free block of each size.
    free: [*mut u8; BLOCK_SIZES.len()],
    heap: [u64; HEAP_BYTES / 8],
}

// SAFETY: there is one core, one thread, and no interrupt handler that allocates.
unsafe impl Sync for Blocks {}

/// The index of the smallest block size that is large enough.
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
        #[cfg(feature = "measured")]
        state.asked.more(layout.size());
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
            #[cfg(feature = "measured")]
            state.asked.less(layout.size());
            block.cast::<*mut u8>().write(state.free[class]);
            state.free[class] = block;
        }
    }
}

#[global_allocator]
static HEAP: Blocks = Blocks {
    state: UnsafeCell::new(State {
        used: 0,
        #[cfg(feature = "measured")]
        asked: measured::Asked { now: 0, most: 0 },
        free: [ptr::null_mut(); BLOCK_SIZES.len()],
        heap: [0; HEAP_BYTES / 8],
    }),
};

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    #[cfg(feature = "measured")]
    measured::end(b"panicked\n");
    #[cfg(not(feature = "measured"))]
    loop {}
}

unsafe extern "C" {
    static stack_top: u32;
    #[cfg(feature = "measured")]
    static mut bss_end: u64;
}

/// The initial stack pointer and the first instruction, where the processor looks for them.
#[repr(C)]
pub struct Vectors {
    stack: &'static u32,
    reset: unsafe extern "C" fn() -> !,
}

#[unsafe(link_section = ".vectors")]
#[unsafe(no_mangle)]
pub static VECTORS: Vectors = Vectors {
    // SAFETY: only the address is used; the linker's script sets it.
    stack: unsafe { &stack_top },
    reset,
};

// Registers: of the processor, of the serial port and of a timer of the board.
const COPROCESSORS: *mut u32 = 0xe000_ed88 as *mut u32;
const SERIAL_DATA: *mut u32 = 0x4000_4000 as *mut u32;
const SERIAL_STATE: *const u32 = 0x4000_4004 as *const u32;
const SERIAL_CONTROL: *mut u32 = 0x4000_4008 as *mut u32;
const SERIAL_DIVISOR: *mut u32 = 0x4000_4010 as *mut u32;
const TIMER_CONTROL: *mut u32 = 0x4000_0000 as *mut u32;
const TIMER_VALUE: *mut u32 = 0x4000_0004 as *mut u32;
const TIMER_RELOAD: *mut u32 = 0x4000_0008 as *mut u32;

/// # Safety
/// Called once, by the processor, with nothing set up but the stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reset() -> ! {
    // SAFETY: registers of this board; the floating point unit is switched on before anything uses
    // it; statics are zero after reset on this board, and all of them begin as zeros.
    unsafe {
        COPROCESSORS.write_volatile(0xf << 20);
        asm!("dsb", "isb");
        #[cfg(feature = "measured")]
        measured::paint_stack();
        // The smallest divisor that the port takes, and both directions on.
        SERIAL_DIVISOR.write_volatile(16);
        SERIAL_CONTROL.write_volatile(0b11);
        TIMER_RELOAD.write_volatile(u32::MAX);
        TIMER_VALUE.write_volatile(u32::MAX);
        TIMER_CONTROL.write_volatile(1);
    }
    crate::run()
}

/// The next received byte, if there is one.
pub fn receive() -> Option<u8> {
    // SAFETY: registers of this board.
    let byte = unsafe {
        if SERIAL_STATE.read_volatile() & 0b10 == 0 {
            return None;
        }
        SERIAL_DATA.read_volatile() as u8
    };
    #[cfg(feature = "measured")]
    if byte == measured::END_OF_TRANSMISSION {
        measured::report();
    }
    Some(byte)
}

/// Sends a byte once there is room for it.
pub fn send(byte: u8) {
    // SAFETY: registers of this board.
    unsafe {
        while SERIAL_STATE.read_volatile() & 0b01 != 0 {}
        SERIAL_DATA.write_volatile(u32::from(byte));
    }
}

/// The ticks of the timer since the start, 25 000 in a millisecond. After 171.8 s they begin again at 0.
#[allow(dead_code, reason = "one of the peers knows no time")]
pub fn ticks() -> u32 {
    // SAFETY: a register of this board; it counts down.
    unsafe { u32::MAX - TIMER_VALUE.read_volatile() }
}

#[cfg(feature = "measured")]
mod measured {
    use super::{HEAP, bss_end, send, stack_top};
    use core::arch::asm;
    use core::ptr;

    pub(super) const END_OF_TRANSMISSION: u8 = 4;
    /// Marks the words of the stack that were never used.
    const PAINT: u32 = 0xdead_10cc;

    /// Bytes that were asked for and not given back.
    pub(super) struct Asked {
        pub(super) now: usize,
        pub(super) most: usize,
    }

    impl Asked {
        pub(super) fn more(&mut self, bytes: usize) {
            self.now += bytes;
            self.most = self.most.max(self.now);
        }

        pub(super) fn less(&mut self, bytes: usize) {
            self.now -= bytes;
        }
    }

    /// Fills the free part of the stack with a pattern.
    ///
    /// # Safety
    /// Called before anything lies below the stack pointer.
    #[inline(always)]
    pub(super) unsafe fn paint_stack() {
        // SAFETY: the words between the statics and the stack pointer are nobody's.
        unsafe {
            let stack_pointer: usize;
            asm!("mov {}, sp", out(reg) stack_pointer);
            let mut at = (&raw mut bss_end).cast::<u32>();
            while (at as usize) < stack_pointer {
                at.write_volatile(PAINT);
                at = at.add(1);
            }
        }
    }

    fn stack_used() -> usize {
        // SAFETY: words of RAM.
        unsafe {
            let mut at = (&raw const bss_end).cast::<u32>();
            while at.read_volatile() == PAINT {
                at = at.add(1);
            }
            (&raw const stack_top) as usize - at as usize
        }
    }

    /// Sends over the serial port how much memory was in use at most, and ends.
    pub(super) fn report() -> ! {
        let stack = stack_used();
        // SAFETY: nobody else holds a reference; see `Sync`.
        let (asked, taken) = unsafe {
            let state = HEAP.state.get();
            ((*state).asked.most, (*state).used)
        };
        text(b"heap ");
        number(asked);
        text(b" taken ");
        number(taken);
        text(b" stack ");
        number(stack);
        end(b"\n")
    }

    /// Sends `word` and switches the emulated board off.
    pub(super) fn end(word: &[u8]) -> ! {
        // ARM's semihosting: the operation SYS_EXIT with the reason ADP_Stopped_ApplicationExit.
        const EXIT: u32 = 0x18;
        const ORDERLY: u32 = 0x2_0026;
        text(word);
        // SAFETY: a call to the emulator, which does not come back.
        unsafe { asm!("bkpt 0xab", in("r0") EXIT, in("r1") ORDERLY) };
        loop {
            // SAFETY: the address of a static.
            let _ = unsafe { ptr::read_volatile(&raw const stack_top) };
        }
    }

    fn text(text: &[u8]) {
        text.iter().copied().for_each(send);
    }

    fn number(number: usize) {
        if number > 9 {
            self::number(number / 10);
        }
        send(b'0' + (number % 10) as u8);
    }
}
