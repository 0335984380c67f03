//! The functions that C calls. Each checks its pointers, does one thing, and returns a code. What their callers have to keep to is said
//! once, at the top of the header.

use alloc::boxed::Box;
use core::ffi::{c_char, c_void};

use antiphon::{CloseReason, Instant};

use crate::code::{self, antiphon_code};
use crate::config::antiphon_config;
use crate::connection::{antiphon_connection, antiphon_state, error_of};
use crate::events::antiphon_event;
use crate::memory::{bytes, give, handle, json_of, name};

/// The code of what was done.
fn code_of(done: impl FnOnce() -> Result<(), antiphon_code>) -> antiphon_code {
    match done() {
        Ok(()) => antiphon_code::ANTIPHON_OK,
        Err(code) => code,
    }
}

/// Does something with a connection.
///
/// # Safety
/// As for [`handle`].
unsafe fn on(
    connection: *mut antiphon_connection,
    act: impl FnOnce(&mut antiphon_connection) -> Result<(), antiphon_code>,
) -> antiphon_code {
    // SAFETY: by this function's own rule.
    code_of(|| act(unsafe { handle(connection) }?))
}

/// Does something with a connection that always works.
///
/// # Safety
/// As for [`handle`].
unsafe fn tell(
    connection: *mut antiphon_connection,
    act: impl FnOnce(&mut antiphon_connection),
) -> antiphon_code {
    // SAFETY: by this function's own rule.
    unsafe {
        on(connection, |it| {
            act(it);
            Ok(())
        })
    }
}

/// The text of a code, in English, for any number. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn antiphon_code_text(code: i32) -> *const c_char {
    code::text(code).as_ptr()
}

/// Makes a configuration. `preset` is `strict` (JSON-RPC 2.0 alone), `v1`, `mixed`, `lsp`, `mcp-2025-06-18` or another revision,
/// `acp`, `acp-v2`, `ethereum`, `bitcoin`, `bitcoin-legacy`, `electrum` or `kodi`.
/// Free it with `antiphon_config_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_config_new(
    preset: *const c_char,
    made: *mut *mut antiphon_config,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    code_of(|| unsafe {
        let config = antiphon_config::of(name(preset)?)?;
        give(made, core::ptr::null_mut())?;
        *made = Box::into_raw(Box::new(config));
        Ok(())
    })
}

/// Changes a setting: a limit or timeout by the name that it has in docs/limits.md, timeouts in nanoseconds with `ANTIPHON_NEVER` for
/// none; `batches` and `cancel_on_timeout`, 0 or 1; `framing`, one of `ANTIPHON_NEWLINE` and those after it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_config_set(
    config: *mut antiphon_config,
    setting: *const c_char,
    value: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    code_of(|| unsafe {
        handle(config)?.set(name(setting)?, value)?;
        Ok(())
    })
}

/// Frees a configuration. Connections that were made of it stay. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_config_free(config: *mut antiphon_config) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers; this one came from a box.
    code_of(|| unsafe {
        if !config.is_null() {
            drop(Box::from_raw(config));
        }
        Ok(())
    })
}

/// Makes a connection. Free it with `antiphon_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_new(
    config: *const antiphon_config,
    made: *mut *mut antiphon_connection,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    code_of(|| unsafe {
        let config = handle(config.cast_mut())?;
        give(made, core::ptr::null_mut())?;
        *made = Box::into_raw(Box::new(antiphon_connection::new(config)));
        Ok(())
    })
}

/// Frees a connection, and all that it has returned. It sends nothing: `antiphon_close` and the rest of the output come before. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_free(connection: *mut antiphon_connection) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers; this one came from a box.
    code_of(|| unsafe {
        if !connection.is_null() {
            drop(Box::from_raw(connection));
        }
        Ok(())
    })
}

/// Says what the connection is doing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_state_of(
    connection: *mut antiphon_connection,
    state: *mut antiphon_state,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { on(connection, |it| give(state, it.state())) }
}

/// Takes bytes of a stream, as they were read, and copies them. `taken` says how many: fewer than `len` if the buffer is full; take the
/// events then, and give the rest again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_input(
    connection: *mut antiphon_connection,
    input: *const c_void,
    len: usize,
    taken: *mut usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            let input = bytes(input, len)?;
            give(taken, 0)?;
            *taken = it.input(input)?;
            Ok(())
        })
    }
}

/// Takes one whole message, from a transport that delivers messages, and copies it. All events of earlier input have to be taken before:
/// until there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_message(
    connection: *mut antiphon_connection,
    message: *const c_void,
    len: usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { on(connection, |it| it.message(bytes(message, len)?)) }
}

/// Says that a message of this many bytes was too large for the transport, and was skipped. As for `antiphon_message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_too_large(
    connection: *mut antiphon_connection,
    size: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { on(connection, |it| it.too_large(size)) }
}

/// Says that no more input will come. Take the events that are left afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_input_end(connection: *mut antiphon_connection) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { tell(connection, |it| it.input_end()) }
}

/// Says what time it is, in nanoseconds of any clock that does not go back. Deadlines take effect in `antiphon_next_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_time(
    connection: *mut antiphon_connection,
    nanos: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        tell(connection, |it| {
            it.core.handle_timeout(Instant::from_nanos(nanos))
        })
    }
}

/// Says when `antiphon_time` has to be called next; `ANTIPHON_NEVER` if nothing waits for the time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_timeout(
    connection: *mut antiphon_connection,
    nanos: *mut u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { on(connection, |it| give(nanos, it.timeout())) }
}

/// Takes the next event. Its texts stay until this is called again or the connection is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_next_event(
    connection: *mut antiphon_connection,
    event: *mut antiphon_event,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            give(event, antiphon_event::NOTHING)?;
            *event = it.next_event();
            Ok(())
        })
    }
}

/// Answers a request with a result: a JSON value. If this fails, the request is still open, unless it says `ANTIPHON_NOT_OPEN`; answer it
/// with an error then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_respond(
    connection: *mut antiphon_connection,
    request: u64,
    json: *const c_char,
    len: usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            let result = json_of(json, len)?.ok_or(antiphon_code::ANTIPHON_NULL)?;
            it.answer(request, |core, token| core.respond(token, result))
        })
    }
}

/// Answers a request with an error. If `message` is NULL, the error has the standard message of its code; if `data` is NULL, it has no data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_respond_error(
    connection: *mut antiphon_connection,
    request: u64,
    code: i64,
    message: *const c_char,
    data: *const c_char,
    len: usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            let message = match message.is_null() {
                true => None,
                false => Some(name(message)?),
            };
            let error = error_of(code, message, json_of(data, len)?);
            it.answer(request, |core, token| core.respond_err(token, &error))
        })
    }
}

/// Answers a request that was cancelled, as the dialect says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_respond_cancelled(
    connection: *mut antiphon_connection,
    request: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            it.answer(request, |core, token| core.respond_cancelled(token))
        })
    }
}

/// Calls a method. `params` is a JSON array or object, or NULL for none. The call ends at `deadline`, or never on its own account if that is
/// `ANTIPHON_NEVER`. One event tells of its end, with `tag`. `call` is its number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_call(
    connection: *mut antiphon_connection,
    method: *const c_char,
    params: *const c_char,
    len: usize,
    deadline: u64,
    tag: u64,
    call: *mut u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            let (method, params) = (name(method)?, json_of(params, len)?);
            give(call, 0)?;
            *call = it.call(method, params, deadline, tag)?;
            Ok(())
        })
    }
}

/// Sends a notification. `params` as for `antiphon_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_notify(
    connection: *mut antiphon_connection,
    method: *const c_char,
    params: *const c_char,
    len: usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            Ok(it.core.notify(name(method)?, json_of(params, len)?)?)
        })
    }
}

/// Ends a call without waiting for its answer, asks the peer to cancel it if the dialect can, and gives its tag back. No event follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_cancel(
    connection: *mut antiphon_connection,
    call: u64,
    tag: *mut u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            give(tag, 0)?;
            *tag = it.cancel(call)?;
            Ok(())
        })
    }
}

/// Asks the peer to cancel a call. Its answer still comes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_ask_cancel(
    connection: *mut antiphon_connection,
    call: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { on(connection, |it| it.ask_cancel(call)) }
}

/// Changes the deadline of a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_deadline(
    connection: *mut antiphon_connection,
    call: u64,
    deadline: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { on(connection, |it| it.deadline(call, deadline)) }
}

/// Begins a batch, whose calls share a deadline. One that was begun before is dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_batch(
    connection: *mut antiphon_connection,
    deadline: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { tell(connection, |it| it.batch(deadline)) }
}

/// Adds a call to the batch. Its number comes from `antiphon_batch_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_batch_call(
    connection: *mut antiphon_connection,
    method: *const c_char,
    params: *const c_char,
    len: usize,
    tag: u64,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            it.add(name(method)?, json_of(params, len)?, Some(tag))
        })
    }
}

/// Adds a notification to the batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_batch_notify(
    connection: *mut antiphon_connection,
    method: *const c_char,
    params: *const c_char,
    len: usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            it.add(name(method)?, json_of(params, len)?, None)
        })
    }
}

/// Sends the batch, and writes the numbers of its calls to `calls`, in their order: an array of `space` entries, NULL if there are no
/// calls. If this fails, the batch stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_batch_send(
    connection: *mut antiphon_connection,
    calls: *mut u64,
    space: usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            let needed = it.batch_calls()?;
            if needed > space {
                return Err(antiphon_code::ANTIPHON_NO_SPACE);
            }
            if needed > 0 && calls.is_null() {
                return Err(antiphon_code::ANTIPHON_NULL);
            }
            for (place, call) in it.batch_send()?.into_iter().enumerate() {
                calls.add(place).write(call);
            }
            Ok(())
        })
    }
}

/// Drops the batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_batch_drop(
    connection: *mut antiphon_connection,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { on(connection, |it| it.batch_drop()) }
}

/// Shows the bytes to be sent next: all that wait, or one message under `ANTIPHON_MESSAGES`; `len` is 0 if there are none. They stay until
/// another function is called with this connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_output(
    connection: *mut antiphon_connection,
    output: *mut *const c_char,
    len: *mut usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe {
        on(connection, |it| {
            give(output, core::ptr::null())?;
            give(len, 0)?;
            let waiting = it.core.poll_transmit().unwrap_or_default();
            *len = waiting.len();
            if !waiting.is_empty() {
                *output = waiting.as_ptr().cast();
            }
            Ok(())
        })
    }
}

/// Says that the first bytes of the output were sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_output_sent(
    connection: *mut antiphon_connection,
    len: usize,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { tell(connection, |it| it.core.consume_transmit(len)) }
}

/// Under `ANTIPHON_MESSAGES`, says that the message of `antiphon_output` cannot be delivered: its calls end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_output_failed(
    connection: *mut antiphon_connection,
) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { tell(connection, |it| it.core.fail_transmit()) }
}

/// Ends in good order: what is open is still answered, and nothing new is begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_drain(connection: *mut antiphon_connection) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { tell(connection, |it| it.core.drain()) }
}

/// Ends at once. What waits in the output can still be sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphon_close(connection: *mut antiphon_connection) -> antiphon_code {
    // SAFETY: callers keep to what the header says of pointers.
    unsafe { tell(connection, |it| it.core.close(CloseReason::Done)) }
}
