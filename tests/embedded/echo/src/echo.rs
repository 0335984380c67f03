//! The loop of a peer, through a `Connection`, from a fixed input buffer; and what an echo peer answers: every request with its params.

use core::convert::Infallible;

use crate::board;
use crate::clock::Clock;
use antiphon::{Connection, ErrorObject, Event, Input, Instant, RequestRef, Settings};

/// The largest message. The input buffer is 64 bytes larger, which is more than `Config::max_input_bytes` adds
/// for lines.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// Answers a request with its params.
#[allow(dead_code, reason = "not every peer is an echo")]
pub fn echo<S: Settings>(conn: &mut Connection<Infallible, S>, request: RequestRef<'_>) {
    // A result that is too large for the output is answered with an internal error.
    if let Err(refused) = conn.respond(request.token, request.params) {
        let _ = conn.respond_err(refused.value, &ErrorObject::internal_error());
    }
}

/// Answers whatever comes in with `answer`, for ever.
pub fn serve<S: Settings>(
    mut conn: Connection<Infallible, S>,
    mut answer: impl FnMut(&mut Connection<Infallible, S>, RequestRef<'_>),
) -> ! {
    let mut buffer = [0; MAX_MESSAGE_BYTES + 64];
    let mut filled = 0;
    let mut clock = Clock::default();
    loop {
        // A buffer of `max_input_bytes` is never full without progress. While it is full no byte is taken.
        while let Some(slot) = buffer.get_mut(filled)
            && let Some(byte) = board::receive()
        {
            *slot = byte;
            filled += 1;
        }
        let now = clock.millis(board::ticks());
        conn.handle_timeout(Instant::from_millis(now));
        let mut input = Input::stream(&buffer[..filled]);
        while let Some(event) = conn.poll_event(&mut input) {
            if let Event::Request(request) = event {
                answer(&mut conn, request);
            }
        }
        let consumed = input.consumed();
        buffer.copy_within(consumed..filled, 0);
        filled -= consumed;
        while let Some(&byte) = conn.poll_transmit().and_then(<[u8]>::first) {
            board::send(byte);
            conn.consume_transmit(1);
        }
    }
}
