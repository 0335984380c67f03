//! A conversation without the standard library: only a C library is linked. If anything of the core
//! needed more, this would not link.
#![no_std]
#![no_main]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};
use core::panic::PanicInfo;

use antiphon::{Config, Connection, Event, Input};

#[link(name = "c")]
unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn write(file: c_int, from: *const c_void, bytes: usize) -> isize;
    fn abort() -> !;
}

struct C;

// SAFETY: `malloc` gives memory aligned for any type up to 16 bytes; more is refused.
unsafe impl GlobalAlloc for C {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > 16 {
            return core::ptr::null_mut();
        }
        // SAFETY: any size may be asked for.
        unsafe { malloc(layout.size()).cast() }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the block came from `malloc`.
        unsafe { free(block.cast()) }
    }
}

#[global_allocator]
static HEAP: C = C;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: it takes nothing.
    unsafe { abort() }
}

/// Named by code that the toolchain has compiled for unwinding; nothing unwinds here.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// As above.
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_Resume() -> ! {
    // SAFETY: it takes nothing.
    unsafe { abort() }
}

fn say(file: c_int, text: &str) {
    // SAFETY: the bytes are those of a string.
    let _ = unsafe { write(file, text.as_ptr().cast(), text.len()) };
}

const SCRIPT: [(&[u8], &str); 3] = [
    (
        b"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[1.0],\"id\":1e2}\n",
        "{\"jsonrpc\":\"2.0\",\"result\":[1.0],\"id\":1e2}\n",
    ),
    (
        b"{nope}\n",
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"Parse error\"},\"id\":null}\n",
    ),
    (b"{\"jsonrpc\":\"2.0\",\"method\":\"tell\"}\n", ""),
];

#[unsafe(no_mangle)]
pub extern "C" fn main(_: c_int, _: *const *const u8) -> c_int {
    let mut conn: Connection = Connection::new(Config::new());
    for (line, wanted) in SCRIPT {
        let mut input = Input::stream(line);
        while let Some(event) = conn.poll_event(&mut input) {
            if let Event::Request(request) = event {
                let _ = conn.respond(request.token, request.params);
            }
        }
        let shown = conn.poll_transmit().unwrap_or_default();
        if shown != wanted.as_bytes() {
            say(2, "a reply differs from the script\n");
            return 1;
        }
        let n = shown.len();
        conn.consume_transmit(n);
    }
    say(1, "3 exchanges without the standard library\n");
    0
}
