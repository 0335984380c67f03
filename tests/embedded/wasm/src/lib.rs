//! A peer for a host that can only call functions and read memory: bytes are put into `input`,
//! `feed` takes them, `output` shows what to send. It imports nothing, so no clock, no randomness
//! and no I/O can hide in it.
#![no_std]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32;
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr;

use antiphon::{Config, Connection, ErrorObject, Event, Input, Instant, Json, Outcome};

/// The bytes by which the memory of a module grows.
const PAGE: usize = 64 * 1024;
/// The largest blocks have 1 GiB.
const CLASSES: usize = 27;

/// Blocks of powers of two from 16 bytes on; what is given back is used again.
struct Blocks(UnsafeCell<Memory>);

struct Memory {
    /// Where the memory begins and ends that has not been made into blocks.
    at: usize,
    end: usize,
    /// The first free block of each size.
    free: [*mut u8; CLASSES],
}

// SAFETY: the module has one thread.
unsafe impl Sync for Blocks {}

/// The index of the smallest block size that is large enough.
fn class_of(layout: Layout) -> usize {
    let size = layout
        .size()
        .max(layout.align())
        .max(16)
        .next_power_of_two();
    size.trailing_zeros() as usize - 4
}

// SAFETY: a block is handed out once until it is given back; it is as large as its class and
// aligned to at least 16 bytes; greater alignments are refused.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = class_of(layout);
        if class >= CLASSES || layout.align() > 16 {
            return ptr::null_mut();
        }
        // SAFETY: nobody else holds a reference; there is one thread.
        let memory = unsafe { &mut *self.0.get() };
        let head = memory.free[class];
        if !head.is_null() {
            // SAFETY: a free block begins with the address of the next one.
            memory.free[class] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        let size = 16 << class;
        if memory.end - memory.at < size {
            let pages = size.div_ceil(PAGE);
            let before = wasm32::memory_grow(0, pages);
            if before == usize::MAX {
                return ptr::null_mut();
            }
            // What was left of the last pages is lost unless the new ones follow them.
            if before * PAGE != memory.end {
                memory.at = before * PAGE;
            }
            memory.end = (before + pages) * PAGE;
        }
        let block = memory.at;
        memory.at += size;
        block as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; a block has room for an address and is nobody's any more.
        unsafe {
            let memory = &mut *self.0.get();
            let class = class_of(layout);
            block.cast::<*mut u8>().write(memory.free[class]);
            memory.free[class] = block;
        }
    }
}

#[global_allocator]
static HEAP: Blocks = Blocks(UnsafeCell::new(Memory {
    at: 0,
    end: 0,
    free: [ptr::null_mut(); CLASSES],
}));

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    wasm32::unreachable()
}

const INPUT_BYTES: usize = 4096;

struct Peer {
    conn: Connection<u32>,
    input: [u8; INPUT_BYTES],
    filled: usize,
    /// How the last call ended: 1 result, 2 error, 3 timed out, 4 anything else; 0 while it is open.
    ended: u32,
    closed: bool,
    /// What the host asks for, and the result or error it gets.
    text: [u8; INPUT_BYTES],
    text_len: usize,
}

struct Cell(UnsafeCell<Peer>);

// SAFETY: the module has one thread, and no function of it is called from within another.
unsafe impl Sync for Cell {}

const fn config() -> Config {
    let mut config = Config::new();
    // The input buffer has to hold `max_input_bytes`, which is a little more.
    config.limits.max_message_bytes = INPUT_BYTES - 96;
    config
}

static PEER: Cell = Cell(UnsafeCell::new(Peer {
    conn: Connection::new(config()),
    input: [0; INPUT_BYTES],
    filled: 0,
    ended: 0,
    closed: false,
    text: [0; INPUT_BYTES],
    text_len: 0,
}));

fn peer() -> &'static mut Peer {
    // SAFETY: no export holds two of these references at once, or keeps one when it returns.
    unsafe { &mut *PEER.0.get() }
}

impl Peer {
    fn turn(&mut self) {
        let mut input = Input::stream(&self.input[..self.filled]);
        while let Some(event) = self.conn.poll_event(&mut input) {
            match event {
                Event::Request(request) if request.method == "echo" => {
                    let _ = self.conn.respond(request.token, request.params);
                }
                Event::Request(request) => {
                    let _ = self
                        .conn
                        .respond_err(request.token, &ErrorObject::method_not_found());
                }
                Event::Response(response) => {
                    let (ended, said) = match &response.outcome {
                        Outcome::Ok(result) => (1, result.as_str()),
                        Outcome::Err(error) => (2, error.message()),
                        Outcome::TimedOut => (3, ""),
                        _ => (4, ""),
                    };
                    // A message is shorter than the buffer.
                    self.text_len = said.len().min(INPUT_BYTES);
                    self.text[..self.text_len].copy_from_slice(&said.as_bytes()[..self.text_len]);
                    self.ended = ended;
                }
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
        }
        let consumed = input.consumed();
        self.input.copy_within(consumed..self.filled, 0);
        self.filled -= consumed;
    }
}

/// Where the next received byte goes.
#[unsafe(no_mangle)]
pub extern "C" fn input() -> *mut u8 {
    let peer = peer();
    peer.input[peer.filled..].as_mut_ptr()
}

/// How many bytes there is room for.
#[unsafe(no_mangle)]
pub extern "C" fn room() -> usize {
    INPUT_BYTES - peer().filled
}

/// Takes `n` bytes that were put into the input.
#[unsafe(no_mangle)]
pub extern "C" fn feed(n: usize) {
    let peer = peer();
    peer.filled += n.min(INPUT_BYTES - peer.filled);
    peer.turn();
}

/// Where the bytes to send are.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    peer()
        .conn
        .poll_transmit()
        .map_or(ptr::null(), <[u8]>::as_ptr)
}

/// How many bytes are to be sent.
#[unsafe(no_mangle)]
pub extern "C" fn output_len() -> usize {
    peer().conn.poll_transmit().map_or(0, <[u8]>::len)
}

/// Tells that `n` bytes were sent.
#[unsafe(no_mangle)]
pub extern "C" fn sent(n: usize) {
    peer().conn.consume_transmit(n);
}

/// Calls `ping` with a deadline `within` milliseconds after `now`. Returns the call's id, or 0 if it
/// was refused.
#[unsafe(no_mangle)]
pub extern "C" fn call(now: u32, within: u32) -> u32 {
    let deadline = Instant::from_millis(u64::from(now) + u64::from(within));
    peer().ended = 0;
    let call = peer().conn.call("ping", (), Some(deadline), 0);
    call.map_or(0, |call| call.number() as u32)
}

/// Where the text of a call is put, and where its result, or its error's message, is found.
#[unsafe(no_mangle)]
pub extern "C" fn text() -> *mut u8 {
    peer().text.as_mut_ptr()
}

/// How long the result or message of the last call is, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn text_len() -> usize {
    peer().text_len
}

/// Calls what the text says: the method's name in `method` bytes, then the params as JSON in
/// `params` bytes. The deadline and what is returned are as in `call`.
#[unsafe(no_mangle)]
pub extern "C" fn ask(method: usize, params: usize, now: u32, within: u32) -> u32 {
    let peer = peer();
    let deadline = Instant::from_millis(u64::from(now) + u64::from(within));
    let split = peer.text.split_at_checked(method);
    let Some((name, Some(params))) = split.map(|(name, rest)| (name, rest.get(..params))) else {
        return 0;
    };
    let (Ok(name), Ok(params)) = (core::str::from_utf8(name), Json::parse(params)) else {
        return 0;
    };
    peer.ended = 0;
    let call = peer.conn.call(name, params, Some(deadline), 0);
    call.map_or(0, |call| call.number() as u32)
}

/// How the last call ended; 0 while it is open.
#[unsafe(no_mangle)]
pub extern "C" fn ended() -> u32 {
    peer().ended
}

/// Tells the time, in milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn tick(now: u32) {
    let peer = peer();
    peer.conn
        .handle_timeout(Instant::from_millis(u64::from(now)));
    peer.turn();
}

/// Tells that nothing more will come; 1 once everything is over.
#[unsafe(no_mangle)]
pub extern "C" fn eof() -> u32 {
    let peer = peer();
    peer.conn.handle_eof();
    peer.turn();
    u32::from(peer.closed)
}
