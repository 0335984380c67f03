//! A device on a serial line: typed methods, one whose answer comes later, and a heap that suffices whatever the host sends.
//!
//! | method | params | result |
//! |---|---|---|
//! | `add` | `a`, `b` | their sum |
//! | `led` | `on` | `null` |
//! | `status` | | whether the light is on, and the use of the heap in bytes |
//! | `measure` | `millis` | after so many milliseconds, the time |
//!
//! With each connection it sends the notification `ready`: when it starts, and after a message that was begun and not finished
//! within three seconds. What had waited for its answer then is not answered any more.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod clock;
mod heap;

use core::convert::Infallible;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;

use antiphon::service::LocalRouter;
use antiphon::{
    CancelStyle, CloseReason, Config, Connection, ErrorObject, Event, FixedConfig, Input, Instant,
    OwnedError, ReplyToken, RequestRef,
};
use clock::Clock;
use heap::Heap;
use serde::{Deserialize, Serialize};

struct Line;

impl FixedConfig for Line {
    const CONFIG: Config = {
        let mut config = Config::new()
            .max_message_bytes(512)
            .batches(false)
            .cancel_receive(CancelStyle::None)
            .max_batch_items(0)
            .max_batch_reply_bytes(0)
            .max_open_requests(MAX_LATE)
            .max_open_calls(0)
            .max_id_bytes(32)
            .soft_max_outbox_bytes(512)
            .max_outbox_bytes(2048);
        config.timeouts.message_timeout = Some(Duration::from_secs(3));
        config
    };
}

const CONFIG: Config = Line::CONFIG;
/// How many measurements may be going on.
const MAX_LATE: usize = 4;
/// What the router's table, and results before they are sent, take of the heap.
const HANDLER_BYTES: usize = 2048;
/// What rounding and gaps between blocks take of the heap. `host.py` compares it with what they took.
const ALLOCATOR_BYTES: usize = 1024;

const NEEDED_BYTES: usize = CONFIG.max_memory_bytes() + HANDLER_BYTES + ALLOCATOR_BYTES;
const HEAP_BYTES: usize = NEEDED_BYTES - cfg!(feature = "too_small") as usize;
const _: () = assert!(NEEDED_BYTES <= HEAP_BYTES);

#[global_allocator]
static HEAP: Heap<HEAP_BYTES> = Heap::new();
static ROUTER_BYTES: AtomicUsize = AtomicUsize::new(0);
static IS_ON: AtomicBool = AtomicBool::new(false);

type Link = Connection<Infallible, Line>;

#[derive(Serialize)]
struct Status {
    on: bool,
    heap: usize,
    handler_budget: usize,
    allocator_budget: usize,
    router: usize,
    most_asked: usize,
    reached: usize,
}

fn add(a: i32, b: i32) -> Result<i32, OwnedError> {
    a.checked_add(b)
        .ok_or_else(|| OwnedError::new(1, "too large"))
}

fn led(on: bool) -> Result<(), OwnedError> {
    IS_ON.store(on, Relaxed);
    Ok(())
}

fn status() -> Result<Status, OwnedError> {
    let used = HEAP.used();
    Ok(Status {
        on: IS_ON.load(Relaxed),
        heap: HEAP_BYTES,
        handler_budget: HANDLER_BYTES,
        allocator_budget: ALLOCATOR_BYTES,
        router: ROUTER_BYTES.load(Relaxed),
        most_asked: used.most_asked,
        reached: used.reached,
    })
}

#[derive(Deserialize)]
struct Measure {
    millis: u16,
}

/// Requests that are answered later, and when.
#[derive(Default)]
struct Late([Option<(Instant, ReplyToken)>; MAX_LATE]);

impl Late {
    /// Begins a measurement. The limit on open requests is that of this table, so there is a place.
    fn begin(&mut self, conn: &mut Link, request: RequestRef<'_>) {
        let params = request.params.and_then(|params| params.decode().ok());
        match (params, self.0.iter_mut().find(|place| place.is_none())) {
            (Some(Measure { millis }), Some(place)) => {
                let due = conn.now() + Duration::from_millis(millis.into());
                *place = Some((due, request.token));
            }
            _ => drop(conn.respond_err(request.token, &ErrorObject::invalid_params())),
        }
    }

    fn answer_due(&mut self, conn: &mut Link, millis: u64) {
        for place in &mut self.0 {
            if let Some((_, token)) = place.take_if(|(due, _)| *due <= conn.now()) {
                drop(conn.respond(token, &millis));
            }
        }
    }
}

/// Serves one connection, until it has ended.
fn serve(router: &mut LocalRouter, clock: &mut Clock) {
    let mut conn = Link::fixed(Line);
    let mut late = Late::default();
    let mut buffer = [0; CONFIG.max_input_bytes()];
    let mut filled = 0;
    drop(conn.notify("ready", ()));
    while !conn.is_closed() {
        // A buffer of `max_input_bytes` is never full without progress. While it is full no byte is taken.
        while conn.wants_input()
            && let Some(slot) = buffer.get_mut(filled)
            && let Some(byte) = board::receive()
        {
            *slot = byte;
            filled += 1;
        }
        let millis = clock.millis(board::ticks());
        conn.handle_timeout(Instant::from_millis(millis));
        let mut input = Input::stream(&buffer[..filled]);
        while let Some(event) = conn.poll_event(&mut input) {
            match event {
                Event::Request(request) if request.method == "measure" => {
                    late.begin(&mut conn, request);
                }
                Event::Request(request) => drop(router.respond(&mut conn, request)),
                Event::Notification(notification) => drop(router.handle(&conn, &notification)),
                // Requests that wait would keep it open.
                Event::Closed(_) => conn.close(CloseReason::Done),
                _ => {}
            }
        }
        let consumed = input.consumed();
        buffer.copy_within(consumed..filled, 0);
        filled -= consumed;
        late.answer_due(&mut conn, millis);
        // One byte a turn: a loop that waited until all is sent would lose what is received meanwhile.
        if let Some(&byte) = conn.poll_transmit().and_then(<[u8]>::first)
            && board::send(byte)
        {
            conn.consume_transmit(1);
        }
    }
}

fn run() -> ! {
    let mut clock = Clock::default();
    let mut router = LocalRouter::new()
        .method("add", ["a", "b"], add)
        .method("led", ["on"], led)
        .method("status", [], status);
    ROUTER_BYTES.store(HEAP.used().asked, Relaxed);
    loop {
        serve(&mut router, &mut clock);
    }
}
