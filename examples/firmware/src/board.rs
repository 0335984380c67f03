//! The board, ARM's AN386, of which QEMU has a model (`mps2-an386`): start, one serial port without interrupts, one timer. A board of
//! your own needs the same four functions.

use core::arch::asm;
use core::panic::PanicInfo;

unsafe extern "C" {
    static stack_top: u32;
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
    unsafe {
        let is_there = SERIAL_STATE.read_volatile() & 0b10 != 0;
        is_there.then(|| SERIAL_DATA.read_volatile() as u8)
    }
}

/// Sends a byte if the port takes one now.
pub fn send(byte: u8) -> bool {
    // SAFETY: registers of this board.
    unsafe {
        let takes = SERIAL_STATE.read_volatile() & 0b01 == 0;
        if takes {
            SERIAL_DATA.write_volatile(u32::from(byte));
        }
        takes
    }
}

/// The ticks of the timer since the start, 25 000 in a millisecond. After 171.8 s they begin again at 0.
pub fn ticks() -> u32 {
    // SAFETY: a register of this board; it counts down.
    unsafe { u32::MAX - TIMER_VALUE.read_volatile() }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    for &byte in b"\npanicked\n" {
        while !send(byte) {}
    }
    loop {}
}
