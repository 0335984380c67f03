//! What is refused, and how: each by one short conversation.

use std::ffi::{CStr, c_char};
use std::ptr;

use antiphon_c::*;

const REQUEST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[1.0],\"id\":\"a\"}\n";

/// A connection that frees itself.
struct Conn(*mut antiphon_connection);

impl Conn {
    fn new(setting: &CStr, value: u64) -> Self {
        let (mut config, mut conn) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the pointers lead to values of this function.
        unsafe {
            let codes = [
                antiphon_config_new(c"strict".as_ptr(), &mut config),
                antiphon_config_set(config, setting.as_ptr(), value),
                antiphon_new(config, &mut conn),
                antiphon_config_free(config),
            ];
            assert_eq!(codes, [antiphon_code::ANTIPHON_OK; 4]);
        }
        Self(conn)
    }

    fn plain() -> Self {
        Self::new(c"framing", ANTIPHON_NEWLINE)
    }

    fn input(&self, input: &[u8]) -> antiphon_event {
        let mut taken = 0;
        // SAFETY: the connection was not freed, and the pointers lead to what their lengths say.
        let code =
            unsafe { antiphon_input(self.0, input.as_ptr().cast(), input.len(), &mut taken) };
        assert_eq!((code, taken), (antiphon_code::ANTIPHON_OK, input.len()));
        self.next()
    }

    fn next(&self) -> antiphon_event {
        // SAFETY: an event is numbers and pointers; the connection was not freed.
        unsafe {
            let mut event = std::mem::zeroed();
            assert_eq!(
                antiphon_next_event(self.0, &mut event),
                antiphon_code::ANTIPHON_OK
            );
            event
        }
    }

    fn respond(&self, request: u64, json: &CStr) -> antiphon_code {
        // SAFETY: the connection was not freed, and the text has this length.
        unsafe { antiphon_respond(self.0, request, json.as_ptr(), json.count_bytes()) }
    }

    fn output(&self) -> String {
        let (mut output, mut len) = (ptr::null(), 0);
        // SAFETY: the connection was not freed, and nothing is called with it while the bytes are read.
        unsafe {
            antiphon_output(self.0, &mut output, &mut len);
            read(antiphon_text { bytes: output, len })
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // SAFETY: it was not freed.
        unsafe { antiphon_free(self.0) };
    }
}

fn read(text: antiphon_text) -> String {
    if text.bytes.is_null() {
        return String::new();
    }
    // SAFETY: the text is one of the library's, with this length.
    let bytes = unsafe { std::slice::from_raw_parts(text.bytes.cast::<u8>(), text.len) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

// USE-48
#[test]
fn a_request_is_shown_with_its_texts_and_answered_to_the_byte() {
    let conn = Conn::plain();
    let event = conn.input(REQUEST);
    assert_eq!(event.kind, antiphon_kind::ANTIPHON_REQUEST);
    assert_eq!(read(event.method), "m");
    assert_eq!(read(event.value), "[1.0]");
    assert_eq!(read(event.id), "\"a\"");
    // The texts of an event may be passed on to any function.
    // SAFETY: the texts stay until the next event.
    let code =
        unsafe { antiphon_respond(conn.0, event.request, event.value.bytes, event.value.len) };
    assert_eq!(code, antiphon_code::ANTIPHON_OK);
    assert_eq!(
        conn.output(),
        "{\"jsonrpc\":\"2.0\",\"result\":[1.0],\"id\":\"a\"}\n"
    );
}

// USE-48
#[test]
fn a_number_is_good_once_and_on_its_own_connection() {
    let (conn, other) = (Conn::plain(), Conn::plain());
    let request = conn.input(REQUEST).request;
    assert_eq!(
        other.respond(request, c"1"),
        antiphon_code::ANTIPHON_OTHER_CONNECTION
    );
    assert_eq!(
        conn.respond(request + 1, c"1"),
        antiphon_code::ANTIPHON_NOT_OPEN
    );
    assert_eq!(conn.respond(0, c"1"), antiphon_code::ANTIPHON_NOT_OPEN);
    // A refused answer leaves the request open.
    assert_eq!(
        conn.respond(request, c"[1"),
        antiphon_code::ANTIPHON_NOT_JSON
    );
    assert_eq!(conn.output(), "");
    assert_eq!(conn.respond(request, c"1"), antiphon_code::ANTIPHON_OK);
    assert_eq!(
        conn.respond(request, c"1"),
        antiphon_code::ANTIPHON_NOT_OPEN
    );
}

// USE-48
#[test]
fn an_answer_over_a_limit_leaves_the_request_open() {
    let conn = Conn::new(c"max_outbox_bytes", 200);
    let request = conn.input(REQUEST).request;
    let long = std::ffi::CString::new(format!("\"{}\"", "x".repeat(300))).unwrap();
    assert_eq!(
        conn.respond(request, &long),
        antiphon_code::ANTIPHON_TOO_LARGE
    );
    assert_eq!(conn.respond(request, c"1"), antiphon_code::ANTIPHON_OK);
}

// USE-48
#[test]
fn null_and_texts_that_are_none_are_codes() {
    let conn = Conn::plain();
    let mut call = 0;
    let not_utf8: *const c_char = c"\xff".as_ptr();
    // SAFETY: the connection was not freed; all other pointers are NULL or lead to texts that end in NUL.
    unsafe {
        let null = ptr::null_mut();
        assert_eq!(antiphon_close(null), antiphon_code::ANTIPHON_NULL);
        assert_eq!(
            antiphon_new(ptr::null(), ptr::null_mut()),
            antiphon_code::ANTIPHON_NULL
        );
        assert_eq!(antiphon_free(null), antiphon_code::ANTIPHON_OK);
        assert_eq!(
            antiphon_config_free(ptr::null_mut()),
            antiphon_code::ANTIPHON_OK
        );
        let mut with = |method, params, len| {
            antiphon_call(conn.0, method, params, len, ANTIPHON_NEVER, 0, &mut call)
        };
        let (m, none) = (c"m".as_ptr(), ptr::null());
        assert_eq!(with(none, none, 0), antiphon_code::ANTIPHON_NULL);
        assert_eq!(with(not_utf8, none, 0), antiphon_code::ANTIPHON_NOT_UTF8);
        assert_eq!(
            with(c" ".as_ptr(), none, 0),
            antiphon_code::ANTIPHON_BLANK_METHOD
        );
        assert_eq!(with(m, none, 3), antiphon_code::ANTIPHON_NULL);
        assert_eq!(with(m, m, usize::MAX), antiphon_code::ANTIPHON_BAD_LENGTH);
        assert_eq!(with(m, m, 1), antiphon_code::ANTIPHON_NOT_JSON);
        assert_eq!(
            with(m, c"1".as_ptr(), 1),
            antiphon_code::ANTIPHON_PARAMS_SCALAR
        );
        assert_eq!(with(m, none, 0), antiphon_code::ANTIPHON_OK);
    }
    assert_eq!(
        conn.output(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}\n"
    );
}

// USE-48
#[test]
fn a_batch_of_calls_ends_by_tags_and_a_refused_one_stays() {
    let conn = Conn::plain();
    let mut calls = [0; 2];
    // SAFETY: the connection was not freed, and the pointers lead to what their lengths say.
    unsafe {
        assert_eq!(
            antiphon_batch_send(conn.0, calls.as_mut_ptr(), 2),
            antiphon_code::ANTIPHON_NO_BATCH
        );
        antiphon_batch(conn.0, 5_000);
        antiphon_batch_call(conn.0, c"a".as_ptr(), c"[]".as_ptr(), 2, 11);
        antiphon_batch_notify(conn.0, c"n".as_ptr(), ptr::null(), 0);
        antiphon_batch_call(conn.0, c"b".as_ptr(), ptr::null(), 0, 12);
        assert_eq!(
            antiphon_batch_send(conn.0, calls.as_mut_ptr(), 1),
            antiphon_code::ANTIPHON_NO_SPACE
        );
        assert_eq!(
            antiphon_batch_send(conn.0, calls.as_mut_ptr(), 2),
            antiphon_code::ANTIPHON_OK
        );
    }
    assert_eq!(
        conn.output(),
        "[{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[],\"id\":1},{\"jsonrpc\":\"2.0\",\"method\":\"n\"},\
         {\"jsonrpc\":\"2.0\",\"method\":\"b\",\"id\":2}]\n"
    );
    let event = conn.input(b"[{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-7,\"message\":\"no\",\"data\":[1e2]},\"id\":2}]\n");
    assert_eq!(
        (event.kind, event.call, event.tag, event.code),
        (antiphon_kind::ANTIPHON_ERROR, calls[1], 12, -7)
    );
    assert_eq!(
        (read(event.text), read(event.value)),
        ("no".into(), "[1e2]".into())
    );
    let mut tag = 0;
    // SAFETY: the connection was not freed, and the pointer leads to a value of this function.
    unsafe {
        assert_eq!(
            antiphon_cancel(conn.0, calls[0], &mut tag),
            antiphon_code::ANTIPHON_OK
        );
    }
    assert_eq!(tag, 11);
}

// USE-48
#[test]
fn deadlines_are_numbers_and_a_call_times_out() {
    let conn = Conn::plain();
    let (mut call, mut due) = (0, 0);
    // SAFETY: the connection was not freed, and the pointers lead to values of this function.
    unsafe {
        assert_eq!(
            antiphon_timeout(conn.0, &mut due),
            antiphon_code::ANTIPHON_OK
        );
        assert_eq!(due, ANTIPHON_NEVER);
        antiphon_call(conn.0, c"m".as_ptr(), ptr::null(), 0, 5_000, 3, &mut call);
        antiphon_output_sent(conn.0, usize::MAX);
        antiphon_timeout(conn.0, &mut due);
        assert_eq!(due, 5_000);
        assert_eq!(
            antiphon_deadline(conn.0, call, 6_000),
            antiphon_code::ANTIPHON_OK
        );
        antiphon_time(conn.0, 5_000);
        assert_eq!(conn.next().kind, antiphon_kind::ANTIPHON_NOTHING);
        antiphon_time(conn.0, 6_000);
        let event = conn.next();
        assert_eq!(
            (event.kind, event.call, event.tag),
            (antiphon_kind::ANTIPHON_TIMED_OUT, call, 3)
        );
        assert_eq!(
            antiphon_cancel(conn.0, call, &mut due),
            antiphon_code::ANTIPHON_NOT_OPEN
        );
    }
}

// USE-48
#[test]
fn whole_messages_come_one_at_a_time() {
    let conn = Conn::new(c"framing", ANTIPHON_MESSAGES);
    let batch = b"[{\"jsonrpc\":\"2.0\",\"method\":\"a\"},{\"jsonrpc\":\"2.0\",\"method\":\"b\"}]";
    // SAFETY: the connection was not freed, and the pointers lead to what their lengths say.
    let message =
        |bytes: &[u8]| unsafe { antiphon_message(conn.0, bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(message(batch), antiphon_code::ANTIPHON_OK);
    assert_eq!(message(batch), antiphon_code::ANTIPHON_UNREAD_INPUT);
    for (method, place) in [("a", 0), ("b", 1)] {
        let event = conn.next();
        assert_eq!(
            (read(event.method).as_str(), event.batch_index),
            (method, place)
        );
        assert_eq!(message(batch), antiphon_code::ANTIPHON_UNREAD_INPUT);
    }
    assert_eq!(conn.next().kind, antiphon_kind::ANTIPHON_NOTHING);
    assert_eq!(message(b""), antiphon_code::ANTIPHON_OK);
    assert_eq!(conn.next().kind, antiphon_kind::ANTIPHON_MALFORMED);
    assert_eq!(conn.next().kind, antiphon_kind::ANTIPHON_NOTHING);
    // SAFETY: the connection was not freed.
    unsafe {
        assert_eq!(
            antiphon_too_large(conn.0, 1 << 40),
            antiphon_code::ANTIPHON_OK
        )
    };
    assert_eq!(conn.next().kind, antiphon_kind::ANTIPHON_REFUSED_MESSAGE);
}
