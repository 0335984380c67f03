//! Calls the C functions in any order, with any arguments that the header allows, as the bytes of a case say: two connections whose
//! output sometimes reaches the other, pointers that are NULL, numbers that are stale or of the other connection, texts that are no JSON.
//!
//! Invariant: every function returns a code; one that does not return OK has changed nothing; an event's texts are what the header says;
//! a request is answered once, and a call ends once.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::{ptr, slice, str};

use antiphon_c::*;

/// The texts that are passed as JSON, methods and messages.
const TEXTS: [&[u8]; 12] = [
    b"[1,2]\0",
    b"{\"a\":\"\\u00e9\\ud800\"}\0",
    b"null\0",
    b"\0",
    b"[\0",
    b"\xff\0",
    b"\"x\"\0",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\0",
    b"m\0",
    b"$/cancelRequest\0",
    b" \0",
    b"{\"id\":1}\0",
];

/// What arrives: whole messages, parts of some, and what is none.
const INPUT: [&str; 14] = [
    "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"a\\u0000b\",\"params\":[1.0],\"id\":\"x\"}\n",
    "[{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1},1,{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":2}]\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n",
    "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n",
    "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-1,\"message\":\"e\",\"data\":[]},\"id\":2}\n",
    "{\"jsonrpc\":\"2.0\",\"result\":1,\"error\":1,\"id\":3}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":1}}\n",
    "{\"jsonrpc\":",
    "\n",
    "{nope}\n",
    "Content-Length: 3\r\n\r\n[1]",
    "[]\n",
    "[{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1},{\"jsonrpc\":\"2.0\",\"result\":2,\"id\":2}]\n",
];

const PRESETS: [&CStr; 7] = [
    c"strict",
    c"mixed",
    c"lsp",
    c"mcp-2025-06-18",
    c"bitcoin",
    c"kodi",
    c"none",
];

const SETTINGS: [&CStr; 9] = [
    c"framing",
    c"batches",
    c"max_message_bytes",
    c"max_depth",
    c"max_open_calls",
    c"max_open_requests",
    c"soft_max_outbox_bytes",
    c"message_timeout",
    c"no_setting",
];

const OK: antiphon_code = antiphon_code::ANTIPHON_OK;

/// The bytes of a case, from the front to the back.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn one<'v, T>(&mut self, of: &'v [T]) -> &'v T {
        &of[usize::from(self.byte()) % of.len()]
    }

    /// A number that is small, at the end of its range, or between.
    fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => u64::MAX,
            1 => u64::from(self.byte()) << 32,
            _ => u64::from(self.byte()),
        }
    }

    /// A text and a length for it, which is right, or 0, or too large for any memory.
    fn text(&mut self) -> (*const c_char, usize) {
        let text = *self.one(&TEXTS);
        match self.byte() % 8 {
            0 => (ptr::null(), 0),
            1 => (ptr::null(), 5),
            2 => (text.as_ptr().cast(), usize::MAX),
            3 => (text.as_ptr().cast(), 0),
            _ => (text.as_ptr().cast(), text.len() - 1),
        }
    }

    /// A text that ends in NUL, or none.
    fn name(&mut self) -> *const c_char {
        match self.byte() % 8 {
            0 => ptr::null(),
            1 => TEXTS[5].as_ptr().cast(),
            _ => c"m".as_ptr(),
        }
    }
}

/// A connection, and what its program knows.
struct Side {
    conn: *mut antiphon_connection,
    /// All numbers that it has had, of requests and calls, and those that are open.
    numbers: Vec<u64>,
    requests: BTreeSet<u64>,
    calls: BTreeSet<u64>,
}

impl Side {
    fn new(choices: &mut Choices<'_>) -> Self {
        let (mut config, mut conn) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: all pointers lead to values of this function.
        unsafe {
            if antiphon_config_new(choices.one(&PRESETS).as_ptr(), &mut config) != OK {
                assert!(config.is_null());
                assert_eq!(antiphon_config_new(c"strict".as_ptr(), &mut config), OK);
            }
            for _ in 0..choices.byte() % 4 {
                let (setting, value) = (choices.one(&SETTINGS).as_ptr(), choices.number());
                known(antiphon_config_set(config, setting, value));
            }
            assert_eq!(antiphon_new(config, &mut conn), OK);
            assert_eq!(antiphon_config_free(config), OK);
        }
        Self {
            conn,
            numbers: Vec::new(),
            requests: BTreeSet::new(),
            calls: BTreeSet::new(),
        }
    }

    /// What can be seen of it from outside.
    fn seen(&self) -> (String, Vec<u8>, u64) {
        let mut state = antiphon_state {
            is_closed: 0,
            wants_input: 0,
            calls_open: 0,
            requests_open: 0,
        };
        let (mut output, mut len, mut due) = (ptr::null(), 0, 0);
        // SAFETY: the connection was not freed, and the other pointers lead to values of this function.
        let output = unsafe {
            assert_eq!(antiphon_state_of(self.conn, &mut state), OK);
            assert_eq!(antiphon_timeout(self.conn, &mut due), OK);
            assert_eq!(antiphon_output(self.conn, &mut output, &mut len), OK);
            bytes_at(output, len).to_vec()
        };
        (format!("{state:?}"), output, due)
    }

    fn next_event(&mut self) -> bool {
        // SAFETY: an event is numbers and pointers, for which zero is a value.
        let mut event: antiphon_event = unsafe { std::mem::zeroed() };
        // SAFETY: the connection was not freed, and the event is of this function.
        assert_eq!(unsafe { antiphon_next_event(self.conn, &mut event) }, OK);
        for text in [event.method, event.value, event.id, event.text] {
            if text.bytes.is_null() {
                assert_eq!(text.len, 0);
                continue;
            }
            // SAFETY: the header says that a NUL follows.
            let text = unsafe { bytes_at(text.bytes, text.len + 1) };
            assert_eq!(text.last(), Some(&0));
            assert!(str::from_utf8(text).is_ok());
        }
        match event.kind {
            antiphon_kind::ANTIPHON_REQUEST => {
                assert!(
                    !self.numbers.contains(&event.request),
                    "a number came twice"
                );
                self.requests.insert(event.request);
                self.numbers.push(event.request);
            }
            antiphon_kind::ANTIPHON_CANCELLED => {
                assert!(self.requests.contains(&event.request), "it was not open");
                if event.owed == 0 {
                    self.requests.remove(&event.request);
                }
            }
            antiphon_kind::ANTIPHON_RESULT
            | antiphon_kind::ANTIPHON_ERROR
            | antiphon_kind::ANTIPHON_INVALID
            | antiphon_kind::ANTIPHON_TIMED_OUT
            | antiphon_kind::ANTIPHON_MISSING
            | antiphon_kind::ANTIPHON_UNSENT
            | antiphon_kind::ANTIPHON_ABORTED => {
                assert!(self.calls.remove(&event.call), "a call ended twice");
                assert_eq!(event.tag, 7);
            }
            _ => {}
        }
        event.kind != antiphon_kind::ANTIPHON_NOTHING
    }

    fn begun(&mut self, call: u64) {
        assert!(!self.numbers.contains(&call), "a number came twice");
        self.calls.insert(call);
        self.numbers.push(call);
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // SAFETY: the connection was not freed, and is not used any more.
        assert_eq!(unsafe { antiphon_free(self.conn) }, OK);
    }
}

/// Plays a case, and returns how many steps it had. With `is_planted` a call that is refused for its params counts as made.
pub(crate) fn run(data: &[u8], is_planted: bool) -> usize {
    let choices = &mut Choices(data);
    let mut steps = 0;
    let mut sides = [Side::new(choices), Side::new(choices)];
    while !choices.0.is_empty() {
        steps += 1;
        let (at, other) = match choices.byte() & 1 {
            0 => (0, 1),
            _ => (1, 0),
        };
        let numbers = [
            &sides[at].numbers[..],
            &sides[other].numbers[..],
            &[0, u64::MAX],
        ]
        .concat();
        let is_null = choices.byte() % 16 == 0;
        let before = sides[at].seen();
        let wire = sides[other].seen().1;
        let mut code = step(choices, &mut sides[at], is_null, &numbers, &wire);
        if is_planted && code == antiphon_code::ANTIPHON_PARAMS_SCALAR {
            code = OK;
            sides[at].begun(1);
        }
        if code != OK || is_null {
            assert_ne!(code, OK, "it took NULL");
            let (state, output, due) = sides[at].seen();
            assert_eq!(
                (state, output),
                (before.0, before.1),
                "{code:?} changed something"
            );
            // When to wake up is a bound, which may become exact.
            assert!(due >= before.2, "{code:?}");
        }
        known(code);
    }
    // Both come to their end, whatever was left.
    for side in &mut sides {
        // SAFETY: the connection was not freed.
        unsafe {
            antiphon_close(side.conn);
            antiphon_output_sent(side.conn, usize::MAX);
        }
        while side.next_event() {}
        assert!(side.calls.is_empty(), "a call never ended");
        assert!(side.requests.is_empty(), "a request stayed open");
    }
    steps
}

/// Calls one function.
fn step(
    choices: &mut Choices<'_>,
    side: &mut Side,
    is_null: bool,
    numbers: &[u64],
    wire: &[u8],
) -> antiphon_code {
    let conn = if is_null { ptr::null_mut() } else { side.conn };
    let number = *choices.one(numbers);
    // SAFETY: the connection is NULL or was not freed, and all other pointers are NULL or lead to what their lengths say; a length
    // that is too large for any memory is refused before it is used.
    unsafe {
        match choices.byte() % 24 {
            0 => {
                let input = choices.one(&INPUT);
                let mut taken = 0;
                antiphon_input(conn, input.as_ptr().cast(), input.len(), &mut taken)
            }
            1 => {
                let mut taken = 0;
                antiphon_input(conn, wire.as_ptr().cast(), wire.len(), &mut taken)
            }
            2 => {
                let input = choices.one(&INPUT);
                antiphon_message(conn, input.as_ptr().cast::<c_void>(), input.len())
            }
            3 => antiphon_too_large(conn, choices.number()),
            4 if choices.byte() % 8 == 0 => antiphon_input_end(conn),
            5 => antiphon_time(conn, choices.number()),
            6 => {
                let (json, len) = choices.text();
                let code = antiphon_respond(conn, number, json, len);
                answered(side, number, code)
            }
            7 => {
                let (message, (data, len)) = (choices.name(), choices.text());
                let code = match choices.byte() % 3 {
                    0 => antiphon_respond_error(conn, number, -32601, ptr::null(), data, len),
                    _ => antiphon_respond_error(conn, number, -1, message, data, len),
                };
                answered(side, number, code)
            }
            8 => {
                let code = antiphon_respond_cancelled(conn, number);
                answered(side, number, code)
            }
            9 | 10 => {
                let (method, (params, len)) = (choices.name(), choices.text());
                let (deadline, mut call) = (choices.number(), 0);
                let code = antiphon_call(conn, method, params, len, deadline, 7, &mut call);
                if code == OK {
                    side.begun(call);
                }
                code
            }
            11 => {
                let (method, (params, len)) = (choices.name(), choices.text());
                antiphon_notify(conn, method, params, len)
            }
            12 => {
                let mut tag = 0;
                let code = antiphon_cancel(conn, number, &mut tag);
                if code == OK {
                    assert_eq!(tag, 7);
                    assert!(side.calls.remove(&number), "it was not open");
                }
                code
            }
            13 => antiphon_ask_cancel(conn, number),
            14 => antiphon_deadline(conn, number, choices.number()),
            15 => antiphon_batch(conn, choices.number()),
            16 => {
                let (method, (params, len)) = (choices.name(), choices.text());
                antiphon_batch_call(conn, method, params, len, 7)
            }
            17 => {
                let (method, (params, len)) = (choices.name(), choices.text());
                antiphon_batch_notify(conn, method, params, len)
            }
            18 => {
                let mut calls = [0; 4];
                let space = usize::from(choices.byte() % 5);
                let code = antiphon_batch_send(conn, calls.as_mut_ptr(), space);
                if code == OK {
                    calls
                        .into_iter()
                        .filter(|&call| call != 0)
                        .for_each(|call| side.begun(call));
                }
                code
            }
            19 => antiphon_batch_drop(conn),
            20 => antiphon_output_sent(conn, choices.byte().into()),
            21 if choices.byte() % 8 == 0 => match choices.byte() % 3 {
                0 => antiphon_drain(conn),
                1 => antiphon_close(conn),
                _ => antiphon_output_failed(conn),
            },
            22 => antiphon_output_sent(conn, usize::MAX),
            _ if is_null => antiphon_next_event(conn, ptr::null_mut()),
            _ => {
                side.next_event();
                OK
            }
        }
    }
}

fn answered(side: &mut Side, number: u64, code: antiphon_code) -> antiphon_code {
    let was_open = side.requests.contains(&number);
    assert!(was_open || code != OK, "what was not open was answered");
    if code == OK {
        side.requests.remove(&number);
    }
    code
}

fn known(code: antiphon_code) {
    // SAFETY: the text is static.
    let text = unsafe { CStr::from_ptr(antiphon_code_text(code as i32)) };
    assert_ne!(text, c"there is no such code", "{code:?}");
}

/// # Safety
/// There are so many bytes there.
unsafe fn bytes_at<'a>(from: *const c_char, len: usize) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: by this function's own rule.
        _ => unsafe { slice::from_raw_parts(from.cast(), len) },
    }
}
