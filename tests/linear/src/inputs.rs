//! The worst inputs: each a text of about so many bytes, and the configuration under which it is
//! accepted.
//!
//! The limits grow with the input, so that none of them ends the work early.

use antiphon::{CancelMatch, Config, DuplicateIds, Framing, NullIdError, VersionPolicy};

/// One input.
pub(crate) struct Worst {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// The configuration under which it is worst.
    pub(crate) config: Config,
    /// How many calls of ours are open when it comes.
    pub(crate) calls: usize,
    /// The calls are one batch.
    pub(crate) in_batch: bool,
    /// How long each answer to a request is; none for requests that stay open.
    pub(crate) answer: Option<usize>,
    /// How many messages, batch items or members the input has, where it has many small ones; else 1.
    pub(crate) items: usize,
}

/// The names of all inputs.
pub(crate) const NAMES: &[&str] = &[
    "depth",
    "too_deep",
    "brackets",
    "duplicate_keys",
    "members",
    "members_of_error",
    "elements",
    "ids",
    "ids_rejected",
    "same_id_cancelled",
    "cancelled",
    "cancelled_by_text",
    "cancelled_in_batch",
    "batch_of_junk",
    "batch_of_calls",
    "batch_answered_backwards",
    "tiny_batches",
    "empty_batches",
    "short_asks_long_answers",
    "escapes",
    "escaped_method",
    "surrogates",
    "multibyte",
    "huge_number",
    "huge_id",
    "blanks_between_tokens",
    "blanks_between_messages",
    "headers",
    "header_lines",
    "unterminated_string",
    "concatenated_escapes",
    "concatenated_noise",
    "concatenated_tiny",
    "concatenated_unterminated",
    "garbage_lines",
    "oversize",
    "replies",
    "replies_backwards",
    "replies_repeated",
    "replies_unknown",
    "reply_to_batch",
    "null_errors",
    "null_error_for_all",
    "named_replies",
    "long_result",
];

/// A message: `head`, as much of `middle` as fits into `bytes`, `tail`.
fn filled(bytes: usize, head: &str, middle: &str, tail: &str) -> Vec<u8> {
    let room = bytes.saturating_sub(head.len() + tail.len() + 1);
    let times = (room / middle.len()).max(1);
    let mut text = Vec::with_capacity(bytes + 64);
    text.extend_from_slice(head.as_bytes());
    for _ in 0..times {
        text.extend_from_slice(middle.as_bytes());
    }
    text.extend_from_slice(tail.as_bytes());
    text
}

/// Texts that `one` makes of the numbers from 1, until there are `bytes` bytes: how many, and the text.
fn numbered(bytes: usize, between: &str, mut one: impl FnMut(usize) -> String) -> (usize, Vec<u8>) {
    let (mut n, mut text) = (0, Vec::with_capacity(bytes + 128));
    while text.len() < bytes {
        if n > 0 {
            text.extend_from_slice(between.as_bytes());
        }
        n += 1;
        text.extend_from_slice(one(n).as_bytes());
    }
    (n, text)
}

fn ask(id: impl core::fmt::Display) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":{id}}}")
}

fn cancel(id: impl core::fmt::Display) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{{\"id\":{id}}}}}")
}

fn reply(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":{id}}}")
}

/// Makes the input of this name with about `bytes` bytes.
///
/// # Panics
/// If there is none of that name.
pub(crate) fn worst(name: &str, bytes: usize) -> Worst {
    let mut config = Config::new();
    // Nothing but the input itself is to be a limit.
    config.limits.max_message_bytes = 2 * bytes + 1024;
    config.limits.max_header_bytes = 2 * bytes + 1024;
    config.limits.max_method_bytes = 2 * bytes + 1024;
    config.limits.max_id_bytes = 64;
    let mut made = Worst {
        bytes: Vec::new(),
        config,
        calls: 0,
        in_batch: false,
        answer: None,
        items: 1,
    };
    let params = "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[";
    let end = "],\"id\":1}\n";
    let head = "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1,\"params\":{";
    let lines = |made: &mut Worst, (n, text): (usize, Vec<u8>)| {
        made.items = n;
        made.bytes = text;
        made.bytes.push(b'\n');
    };
    let repeat = |bytes: usize, one: &str| numbered(bytes, "", |_| one.to_string());
    match name {
        "depth" => {
            // Nearly as deep as is allowed: 128.
            let deep = format!("{}{},", "[".repeat(120), "]".repeat(120));
            made.bytes = filled(bytes, params, &deep, "0],\"id\":1}\n");
        }
        "too_deep" => made.bytes = filled(bytes, params, "[", end),
        "brackets" => {
            made.config.framing = Framing::Concatenated;
            made.bytes = filled(bytes, "", "[", "");
        }
        "duplicate_keys" => made.bytes = filled(bytes, "{", "\"id\":1,", "\"id\":1}\n"),
        "members" => {
            let (n, text) = numbered(bytes, ",", |n| format!("\"k{n}\":{n}"));
            made.items = n;
            made.bytes = [head.as_bytes(), &text, b"}}\n"].concat();
        }
        "members_of_error" => {
            let (n, text) = numbered(bytes, ",", |n| format!("\"k{n}\":{n}"));
            made.items = n;
            made.calls = 1;
            let head = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{";
            made.bytes = [&head[..], &text, b",\"code\":1,\"message\":\"\"}}\n"].concat();
        }
        "elements" => made.bytes = filled(bytes, params, "1,", "1],\"id\":1}\n"),
        "ids" => lines(&mut made, numbered(bytes, "\n", ask)),
        "ids_rejected" => {
            made.config.dialect.duplicate_ids = DuplicateIds::Reject;
            lines(&mut made, numbered(bytes, "\n", ask));
        }
        "same_id_cancelled" => {
            let mut all = numbered(bytes / 2, "\n", |_| ask(1));
            let more = numbered(bytes / 2, "\n", |_| cancel(1));
            all.1.push(b'\n');
            all.1.extend(more.1);
            lines(&mut made, (all.0 + more.0, all.1));
        }
        "cancelled" | "cancelled_by_text" => {
            let by_text = name == "cancelled_by_text";
            made.config.dialect.cancel_match = match by_text {
                true => CancelMatch::ExactThenText,
                false => CancelMatch::Exact,
            };
            let mut all = numbered(bytes / 2, "\n", ask);
            let n = all.0 + 1;
            let more = numbered(bytes / 2, "\n", |at| match by_text {
                true => cancel(format!("\"{}\"", n.saturating_sub(at).max(1))),
                false => cancel(n.saturating_sub(at).max(1)),
            });
            all.1.push(b'\n');
            all.1.extend(more.1);
            lines(&mut made, (all.0 + more.0, all.1));
        }
        "cancelled_in_batch" => {
            let (n, mut text) = numbered(bytes / 2, ",", ask);
            let (more, cancels) = numbered(bytes / 2, ",", |at| {
                cancel((n + 1).saturating_sub(at).max(1))
            });
            text.push(b',');
            text.extend(cancels);
            made.items = n + more;
            made.bytes = [b"[", &text[..], b"]\n"].concat();
        }
        "batch_of_junk" => {
            made.bytes = filled(bytes, "[", "1,", "1]\n");
            made.items = bytes / 2;
        }
        "batch_of_calls" | "batch_answered_backwards" => {
            made.answer = (name == "batch_answered_backwards").then_some(1);
            let (n, text) = numbered(bytes, ",", ask);
            made.items = n;
            made.bytes = [b"[", &text[..], b"]\n"].concat();
        }
        "tiny_batches" => lines(&mut made, repeat(bytes, "[1]\n")),
        "empty_batches" => lines(&mut made, repeat(bytes, "[]\n")),
        "short_asks_long_answers" => {
            made.answer = Some(2000);
            lines(&mut made, numbered(bytes, "\n", ask));
        }
        "escapes" => {
            made.bytes = filled(
                bytes,
                &format!("{params}\""),
                "\\u0041\\n",
                "\"],\"id\":1}\n",
            )
        }
        "escaped_method" => {
            made.bytes = filled(
                bytes,
                "{\"jsonrpc\":\"2.0\",\"method\":\"",
                "\\u0041",
                "\",\"id\":1}\n",
            );
        }
        "surrogates" => {
            made.bytes = filled(
                bytes,
                "{\"jsonrpc\":\"2.0\",\"method\":\"",
                "\\ud83d\\ude00",
                "\",\"id\":1}\n",
            );
        }
        "multibyte" => made.bytes = filled(bytes, &format!("{params}\""), "é😀", "\"],\"id\":1}\n"),
        "huge_number" => made.bytes = filled(bytes, params, "7", "e9],\"id\":1}\n"),
        "huge_id" => {
            made.bytes = filled(
                bytes,
                "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":",
                "7",
                "}\n",
            );
            made.answer = Some(1);
        }
        "blanks_between_tokens" => made.bytes = filled(bytes, params, " \t ", "1],\"id\":1}\n"),
        "blanks_between_messages" => made.bytes = filled(bytes, "", " \r\n", "{}\n"),
        "headers" => {
            made.config.framing = Framing::ContentLength;
            made.bytes = filled(bytes, "", "X-A: b\r\n", "Content-Length: 2\r\n\r\n{}");
        }
        "header_lines" => {
            made.config.framing = Framing::ContentLength;
            lines(
                &mut made,
                repeat(bytes, "X-A: b\r\nContent-Length: 2\r\nX-B: c\r\n\r\n{}"),
            );
        }
        "unterminated_string" => made.bytes = filled(bytes, params, "\"a", ""),
        "concatenated_escapes" | "concatenated_unterminated" => {
            made.config.framing = Framing::Concatenated;
            let tail = if name == "concatenated_escapes" {
                "\"]"
            } else {
                ""
            };
            made.bytes = filled(bytes, "[\"", "\\\\\\\"{[", tail);
        }
        "concatenated_noise" => {
            made.config.framing = Framing::Concatenated;
            lines(&mut made, repeat(bytes, "x{x["));
        }
        "concatenated_tiny" => {
            made.config.framing = Framing::Concatenated;
            lines(&mut made, repeat(bytes, "{}1 "));
        }
        "garbage_lines" => lines(&mut made, repeat(bytes, "x\n")),
        "oversize" => {
            made.config.limits.max_message_bytes = 1000;
            made.bytes = filled(bytes, params, "1,", "1],\"id\":1}\n");
        }
        "replies" | "replies_backwards" | "replies_repeated" | "replies_unknown" => {
            // A reply has some 40 bytes, so there are a few more replies than open calls.
            let open = bytes / 45;
            made.calls = if name == "replies_unknown" { 1 } else { open };
            lines(
                &mut made,
                numbered(bytes, "\n", |n| match name {
                    "replies_backwards" => reply((open + 1).saturating_sub(n)),
                    "replies_repeated" => reply(1),
                    "replies_unknown" => reply(n + 1000),
                    _ => reply(n),
                }),
            );
        }
        "reply_to_batch" => {
            made.in_batch = true;
            let (n, text) = numbered(bytes, ",", reply);
            (made.items, made.calls) = (n, n);
            made.bytes = [b"[", &text[..], b"]\n"].concat();
        }
        "null_errors" => {
            // A batch and a single call are open, so each error has to find out that it fits neither alone.
            made.config.dialect.null_id_error = NullIdError::FailSole;
            (made.calls, made.in_batch) = (bytes / 100, true);
            let error =
                "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"\"},\"id\":null}\n";
            lines(&mut made, repeat(bytes, error));
        }
        "null_error_for_all" => {
            made.config.dialect.null_id_error = NullIdError::FailAll;
            made.calls = bytes / 50;
            made.bytes = filled(
                bytes,
                "",
                " ",
                "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"\"},\"id\":null}\n",
            );
        }
        "named_replies" => {
            made.config.dialect.version = VersionPolicy::V1AndV2;
            made.calls = bytes / 50;
            lines(
                &mut made,
                numbered(bytes, "\n", |n| {
                    format!("{{\"result\":1,\"error\":null,\"id\":\"c{n}\"}}")
                }),
            );
        }
        "long_result" => {
            made.calls = 1;
            made.bytes = filled(
                bytes,
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[",
                "[1],",
                "1]}\n",
            );
        }
        _ => panic!("there is no input {name}"),
    }
    // A few more than the input has.
    let items = made.items + 16;
    let batches = made.bytes.first() == Some(&b'[');
    made.config.limits.max_open_requests = items;
    made.config.limits.max_open_calls = made.calls + 16;
    made.config.limits.max_batch_calls = made.calls + 16;
    if batches {
        made.config.limits.max_batch_items = items;
        // No answer to an item has more than 100 bytes.
        made.config.limits.max_batch_reply_bytes = 100 * items;
    }
    // A call has fewer than 60 bytes.
    made.config.limits.soft_max_outbox_bytes = 60 * made.calls + (1 << 20);
    made.config.limits.max_outbox_bytes =
        made.config.limits.soft_max_outbox_bytes + made.config.limits.max_batch_reply_bytes;
    if name == "huge_id" {
        made.config.limits.max_id_bytes = 2 * bytes;
        made.config.limits.max_outbox_bytes = 4 * bytes + (1 << 20);
    }
    made
}
