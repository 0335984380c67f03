//! Makes messages, batches, splits and whole conversations from a fuzzer's bytes, to fuzz your own
//! handlers and peers. With the feature `arbitrary`.
//!
//! Most generated messages are valid, and some have the faults of real peers: ids repeated and
//! written in unusual ways, members missing or of the wrong type, answers to no call, text cut
//! anywhere. Equal bytes make equal messages, and fewer bytes make smaller ones.
//!
//! ```
//! use antiphon::generate::Conversation;
//! use antiphon::{Config, Connection, Event};
//! use arbitrary::Unstructured;
//!
//! // A fuzz target gets these from the fuzzer.
//! let bytes = [7; 100];
//! let config = Config::new();
//! let conversation = Conversation::of(&mut Unstructured::new(&bytes), config.framing, &["add"])?;
//! let mut conn: Connection = Connection::new(config);
//! let written = conversation.play(&mut conn, |conn, event| {
//!     if let Event::Request(request) = event {
//!         conn.respond(request.token, request.params).unwrap(); // your handler
//!     }
//! });
//! assert!(conn.is_closed());
//! assert!(std::str::from_utf8(&written).is_ok()); // replace this by your own checks
//! # Ok::<(), arbitrary::Error>(())
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use arbitrary::{Arbitrary, Result, Unstructured};

use crate::connection::Connection;
use crate::event::Event;
use crate::frame::Framing;
use crate::input::Input;

/// The most messages of a conversation.
const MAX_MESSAGES: usize = 64;
/// The most items of a generated batch.
const MAX_ITEMS: usize = 8;
/// How deep generated params and results nest.
const MAX_DEPTH: usize = 4;

/// The methods of messages for which the caller names none.
const METHODS: [&str; 3] = ["ask", "tell", "$/cancelRequest"];
/// The ids of messages: few, so that they repeat. Some are one id in several spellings, some are
/// not valid.
const IDS: [&str; 14] = [
    "1",
    "2",
    "3",
    "\"a\"",
    "1.0",
    "\"\\u0061\"",
    "null",
    "1e0",
    "-7",
    "\"\"",
    "true",
    "[1]",
    "18446744073709551616",
    "0.5",
];
/// The scalars of params and results. Those from index 8 on are strings.
const SCALARS: [&str; 12] = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1.50",
    "1e2",
    "18446744073709551616",
    "\"\"",
    "\"a\"",
    "\"\\u00e9\\n\"",
    "\"\u{e9}\u{1F600}\"",
];
/// The names of members, inside the quotes. `a` has two spellings.
const NAMES: [&str; 5] = ["a", "id", "value", "\\u0061", ""];

/// A message of a peer: a request, a notification, an answer, or an invalid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyMessage {
    text: String,
}

impl AnyMessage {
    /// Makes a message. Its method, if it has one, is one of `methods`, except that a few messages
    /// are cancels, whose method is that of LSP or MCP. If the list is empty, the message is made
    /// as [`Arbitrary`] makes it.
    ///
    /// # Errors
    /// None at present; running out of bytes makes small messages.
    pub fn of(u: &mut Unstructured<'_>, methods: &[&str]) -> Result<Self> {
        let text = match u.int_in_range(0..=15)? {
            0..=6 => request(u, methods)?,
            7..=8 => call(u, methods, "")?,
            9..=11 => response(u)?,
            12 => cancel(u)?,
            13 => wrong(u, methods)?,
            14 => value(u, 0)?,
            _ => return Self::of_broken(u, methods),
        };
        Ok(Self { text })
    }

    /// Makes a message that is cut short, so that it is not JSON.
    fn of_broken(u: &mut Unstructured<'_>, methods: &[&str]) -> Result<Self> {
        let mut text = request(u, methods)?;
        let mut at = u.int_in_range(1..=text.len() - 1)?;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        Ok(Self { text })
    }

    /// The message, without framing.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<'a> Arbitrary<'a> for AnyMessage {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Self::of(u, &METHODS)
    }
}

/// Several messages in one: an array, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyBatch {
    text: String,
}

impl AnyBatch {
    /// Makes a batch whose items have methods of `methods`, as in [`AnyMessage::of`].
    ///
    /// # Errors
    /// As [`AnyMessage::of`].
    pub fn of(u: &mut Unstructured<'_>, methods: &[&str]) -> Result<Self> {
        let n = u.int_in_range(0..=MAX_ITEMS)?;
        let mut items = Vec::new();
        for _ in 0..n {
            // Text that is not JSON would make the whole batch invalid.
            items.push(match u.int_in_range(0..=7)? {
                0..=4 => request(u, methods)?,
                5 => call(u, methods, "")?,
                6 => response(u)?,
                _ => wrong(u, methods)?,
            });
        }
        Ok(Self {
            text: format!("[{}]", items.join(",")),
        })
    }

    /// The array, without framing.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<'a> Arbitrary<'a> for AnyBatch {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Self::of(u, &METHODS)
    }
}

/// The sizes of the pieces in which a stream arrives. After the last size follows the first again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    sizes: Vec<usize>,
}

impl Splits {
    /// Splits `bytes` into pieces, in order and without gaps. No piece is empty.
    pub fn pieces<'b>(&self, bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        let mut sizes = self.sizes.iter().cycle();
        while !rest.is_empty() {
            let n = sizes.next().map_or(rest.len(), |n| rest.len().min(*n));
            let (piece, more) = rest.split_at(n);
            pieces.push(piece);
            rest = more;
        }
        pieces
    }
}

impl<'a> Arbitrary<'a> for Splits {
    /// Makes pieces of 1 to 64 bytes in up to six sizes, or sometimes one piece of everything.
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let n = u.int_in_range(0..=6)?;
        let sizes = (0..n).map(|_| u.int_in_range(1..=64));
        Ok(Self {
            sizes: sizes.collect::<Result<_>>()?,
        })
    }
}

/// All messages of a peer, and how they arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    framing: Framing,
    messages: Vec<String>,
    splits: Splits,
}

impl Conversation {
    /// Makes a conversation under `framing`, whose messages have methods of `methods`, as in
    /// [`AnyMessage::of`]. Under [`Framing::Detect`] each message is a line.
    ///
    /// # Errors
    /// As [`AnyMessage::of`].
    pub fn of(u: &mut Unstructured<'_>, framing: Framing, methods: &[&str]) -> Result<Self> {
        let splits = Splits::arbitrary(u)?;
        let mut messages = Vec::new();
        while !u.is_empty() && messages.len() < MAX_MESSAGES {
            messages.push(match u.ratio(1, 4)? {
                true => AnyBatch::of(u, methods)?.text,
                false => AnyMessage::of(u, methods)?.text,
            });
        }
        Ok(Self {
            framing,
            messages,
            splits,
        })
    }

    /// The messages, without framing.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(String::as_str)
    }

    /// The framed messages, one after another; under [`Framing::Messages`] unchanged.
    pub fn stream(&self) -> Vec<u8> {
        let framed = self.messages.iter().map(|text| match self.framing {
            Framing::ContentLength => format!("Content-Length: {}\r\n\r\n{text}", text.len()),
            Framing::Messages => text.to_string(),
            _ => format!("{text}\n"),
        });
        framed.collect::<String>().into_bytes()
    }

    /// The pieces of the stream in the order in which they arrive; whole messages under
    /// [`Framing::Messages`].
    pub fn arrivals(&self) -> Vec<Vec<u8>> {
        if self.framing == Framing::Messages {
            return self
                .messages()
                .map(|text| text.as_bytes().to_vec())
                .collect();
        }
        let stream = self.stream();
        let pieces = self.splits.pieces(&stream);
        pieces.into_iter().map(<[u8]>::to_vec).collect()
    }

    /// Passes the conversation to `conn` piece by piece, and then ends the input. The output is
    /// taken after each piece and at the end. Every event is passed to `handle`, which may use the
    /// connection. Returns the output. The connection is closed then, unless a request that
    /// `handle` was given is still open.
    pub fn play<T>(
        &self,
        conn: &mut Connection<T>,
        mut handle: impl FnMut(&mut Connection<T>, Event<'_, T>),
    ) -> Vec<u8> {
        let mut written = Vec::new();
        let mut buffer = Vec::new();
        let is_whole = self.framing == Framing::Messages;
        for arrival in self.arrivals() {
            buffer.extend_from_slice(&arrival);
            let mut input = match is_whole {
                true => Input::message(&buffer),
                false => Input::stream(&buffer),
            };
            while let Some(event) = conn.poll_event(&mut input) {
                handle(conn, event);
            }
            let consumed = if is_whole {
                buffer.len()
            } else {
                input.consumed()
            };
            buffer.drain(..consumed);
            while conn.take_transmit(&mut written) {}
        }
        conn.handle_eof();
        let mut input = Input::stream(&buffer);
        while let Some(event) = conn.poll_event(&mut input) {
            handle(conn, event);
        }
        while conn.take_transmit(&mut written) {}
        written
    }
}

impl<'a> Arbitrary<'a> for Conversation {
    /// Makes a conversation under any framing except [`Framing::Detect`].
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let framings = [
            Framing::Newline,
            Framing::ContentLength,
            Framing::Concatenated,
            Framing::Messages,
        ];
        let framing = *u.choose(&framings)?;
        Self::of(u, framing, &METHODS)
    }
}

fn method<'m>(u: &mut Unstructured<'_>, methods: &[&'m str]) -> Result<&'m str> {
    match methods {
        [] => Ok(u.choose(&METHODS)?),
        some => Ok(u.choose(some)?),
    }
}

/// Chooses an id. The first four of the list are frequent, so that ids repeat, and so that answers
/// often have the ids of the first calls of the connection under test: 1, 2 and 3.
fn id(u: &mut Unstructured<'_>) -> Result<&'static str> {
    match u.ratio(2, 3)? {
        true => Ok(u.choose(&IDS[..4])?),
        false => Ok(u.choose(&IDS)?),
    }
}

fn request(u: &mut Unstructured<'_>, methods: &[&str]) -> Result<String> {
    let id = id(u)?;
    call(u, methods, &format!(r#","id":{id}"#))
}

fn call(u: &mut Unstructured<'_>, methods: &[&str], id: &str) -> Result<String> {
    let method = escaped(method(u, methods)?);
    let params = match u.int_in_range(0..=3)? {
        0 => String::new(),
        1 => format!(r#","params":{}"#, object(u, 1)?),
        _ => format!(r#","params":{}"#, array(u, 1)?),
    };
    Ok(format!(
        r#"{{"jsonrpc":"2.0","method":"{method}"{params}{id}}}"#
    ))
}

/// Makes an answer: a result, or an error with a code from −33000 to 100, reserved or not.
fn response(u: &mut Unstructured<'_>) -> Result<String> {
    let id = id(u)?;
    let outcome = match u.ratio(2, 3)? {
        true => format!(r#""result":{}"#, value(u, 1)?),
        false => format!(
            r#""error":{{"code":{},"message":{}}}"#,
            u.int_in_range(-33_000..=100)?,
            u.choose(&SCALARS[8..])?
        ),
    };
    Ok(format!(r#"{{"jsonrpc":"2.0",{outcome},"id":{id}}}"#))
}

fn cancel(u: &mut Unstructured<'_>) -> Result<String> {
    let (method, member) = *u.choose(&[
        ("$/cancelRequest", "id"),
        ("notifications/cancelled", "requestId"),
    ])?;
    let id = id(u)?;
    Ok(format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":{id}}}}}"#
    ))
}

/// Makes a request with one fault, or with a member of an answer, which changes nothing. Some
/// dialects accept some of these faults.
fn wrong(u: &mut Unstructured<'_>, methods: &[&str]) -> Result<String> {
    let right = request(u, methods)?;
    Ok(match u.int_in_range(0..=6)? {
        0 => right.replacen(r#""jsonrpc":"2.0","#, "", 1),
        1 => right.replacen(r#""2.0""#, u.choose(&[r#""1.0""#, "2.0", "null"])?, 1),
        2 => right.replacen(r#""method":"#, r#""method":1,"x":"#, 1),
        3 => right.replacen('{', r#"{"id":1,"#, 1),
        // What has a method is a call, whatever else it has, and must not be taken for an answer.
        4 => right.replacen('{', r#"{"result":1,"#, 1),
        5 => format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, id(u)?),
        _ => u.choose(&SCALARS)?.to_string(),
    })
}

fn value(u: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    match u.int_in_range(0..=7)? {
        0 if depth < MAX_DEPTH => array(u, depth + 1),
        1 if depth < MAX_DEPTH => object(u, depth + 1),
        2 => Ok(u.arbitrary::<i64>()?.to_string()),
        _ => Ok(u.choose(&SCALARS)?.to_string()),
    }
}

fn array(u: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    let n = u.int_in_range(0..=4)?;
    let items = (0..n).map(|_| value(u, depth));
    Ok(format!(
        "[{}]",
        items.collect::<Result<Vec<_>>>()?.join(",")
    ))
}

fn object(u: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    let n = u.int_in_range(0..=3)?;
    let members = (0..n).map(|_| Ok(format!(r#""{}":{}"#, u.choose(&NAMES)?, value(u, depth)?)));
    Ok(format!(
        "{{{}}}",
        members.collect::<Result<Vec<_>>>()?.join(",")
    ))
}

/// Escapes a method, which may be any text.
fn escaped(method: &str) -> String {
    let mut text = Vec::new();
    crate::json::write_str(&mut text, method);
    let inside = text.get(1..text.len().saturating_sub(1));
    String::from_utf8_lossy(inside.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{AnyMessage, Conversation, Splits};
    use crate::{Config, Connection, Event, Framing, Json};
    use alloc::vec::Vec;
    use arbitrary::{Arbitrary, Unstructured};

    /// Makes random-looking bytes, the same ones each time.
    fn noise(seed: u64, n: usize) -> Vec<u8> {
        let mut random = antiphon_test_support::random::Random::new(seed);
        (0..n).map(|_| random.byte()).collect()
    }

    #[test]
    fn most_messages_are_json_and_some_are_not() {
        let mut good = 0;
        for seed in 0..500 {
            let bytes = noise(seed, 200);
            let message = AnyMessage::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
            good += usize::from(Json::parse_str(message.as_str()).is_ok());
        }
        // On average one message of 16 is not JSON, about 31 of 500.
        assert!((350..500).contains(&good), "{good} of 500");
    }

    #[test]
    fn pieces_are_the_whole() {
        for seed in 0..200 {
            let bytes = noise(seed, 120);
            let mut u = Unstructured::new(&bytes);
            let splits = Splits::arbitrary(&mut u).unwrap();
            assert_eq!(splits.pieces(&bytes).concat(), bytes);
            let conversation = Conversation::arbitrary(&mut u).unwrap();
            assert_eq!(conversation.arrivals().concat(), conversation.stream());
        }
    }

    #[test]
    fn every_kind_of_event_is_met() {
        let mut seen = [0usize; 6];
        for seed in 0..300 {
            let bytes = noise(seed, 800);
            let mut u = Unstructured::new(&bytes);
            let conversation = Conversation::of(&mut u, Framing::Newline, &["m"]).unwrap();
            let mut config = Config::new();
            config.limits.max_open_requests = 2;
            let mut conn: Connection = Connection::new(config);
            conn.call("ask", (), None, ()).unwrap();
            // No request is answered, so with two open all others are refused.
            let mut held = Vec::new();
            conversation.play(&mut conn, |_, event| {
                seen[match event {
                    Event::Request(request) => {
                        held.push(request.token);
                        0
                    }
                    Event::Notification(_) => 1,
                    Event::Response(_) => 2,
                    Event::Malformed(_) => 3,
                    Event::UnmatchedResponse(_) => 4,
                    // Refused, cancelled, or closed, which ends each of the 300 conversations.
                    _ => 5,
                }] += 1;
            });
        }
        assert!(seen.iter().all(|&n| n > 50), "{seen:?}");
    }
}
