//! Reads messages without a connection: for gateways that route by method, for loggers, and for
//! tests of what other programs write.
//!
//! A reader does not know which calls wait for an answer, nor which requests are still to be
//! answered. [`Connection`](crate::Connection) knows both.
//!
//! A message is read as a connection with the same configuration would read it, except that a
//! cancel is a notification or a request like any other.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use crate::config::Config;
use crate::event::{InvalidReason, Outcome};
use crate::id::Id;
use crate::json::{self, Envelope, Json, Shape, SyntaxError};
use crate::message::{
    self, CallKind, PlainCall, Text, is_plain, plain_answer_id, plain_error, plain_result,
};

/// Reads texts, each a message or a batch. It keeps its buffer for the next text, and nothing else.
///
/// The whole text is validated before any message is returned. The reader uses these settings of
/// the configuration: the version policy, what is accepted (`null_params`, `lenient_responses`, …),
/// `max_depth` and `max_batch_items`. It does not limit the length of a text, a method or an id,
/// because the caller already has them in memory.
///
/// ```
/// use antiphon::{Config, Message, Reader};
///
/// let mut reader = Reader::new(Config::new());
/// let text = br#"[{"jsonrpc":"2.0","method":"log","params":["hi"]},{"jsonrpc":"2.0","method":"sum","id":1}]"#;
/// let messages = reader.read(text)?;
/// assert!(messages.is_batch());
/// let mut asked = Vec::new();
/// for message in messages {
///     match message {
///         Message::Request { method, id, .. } => asked.push(format!("{method} as {id}")),
///         Message::Notification { method, .. } => asked.push(format!("{method}, unanswered")),
///         _ => {}
///     }
/// }
/// assert_eq!(asked, ["log, unanswered", "sum as 1"]);
/// # Ok::<(), antiphon::ReadError>(())
/// ```
pub struct Reader {
    config: Config,
    envelopes: Vec<Envelope>,
}

/// One message that a [`Reader`] has read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Message<'a> {
    /// A request, which must be answered.
    Request {
        /// The method, unescaped.
        method: Cow<'a, str>,
        /// The params, an array or an object, if there are any.
        params: Option<Json<'a>>,
        /// The id, exactly as written.
        id: Id<'a>,
    },
    /// A notification, which is not answered.
    Notification {
        /// The method, unescaped.
        method: Cow<'a, str>,
        /// The params, an array or an object, if there are any.
        params: Option<Json<'a>>,
    },
    /// An answer.
    Response {
        /// The id, exactly as written; `None` if it is missing or not valid.
        id: Option<Id<'a>>,
        /// The result, the error, or the rule that the answer breaks.
        outcome: Outcome<'a>,
    },
    /// A value that is neither a response nor a valid request or notification.
    Invalid {
        /// The rule that it breaks.
        reason: InvalidReason,
        /// The id for the answer, if it was readable and of an allowed type.
        id: Option<Id<'a>>,
        /// The position of the fault in the text, in bytes.
        offset: usize,
    },
}

/// Why a text has no messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not JSON in UTF-8, or nested too deeply.
    Syntax(SyntaxError),
    /// It is a batch without items. JSON-RPC 2.0 §6.
    EmptyBatch,
    /// It is a batch, and the configuration has switched batches off.
    BatchesOff,
    /// It is a batch of more items than `max_batch_items`.
    BatchTooLong {
        /// The number of its items.
        items: usize,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Syntax(error) => error.fmt(f),
            ReadError::EmptyBatch => f.write_str("the batch is empty"),
            ReadError::BatchesOff => f.write_str("batches are switched off"),
            ReadError::BatchTooLong { items } => write!(f, "the batch has {items} items, too many"),
        }
    }
}

impl core::error::Error for ReadError {}

impl Reader {
    /// Makes a reader. It allocates nothing.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            envelopes: Vec::new(),
        }
    }

    /// Reads a text. It allocates memory only if the text has more messages than every text before.
    ///
    /// # Errors
    /// [`ReadError`] if the text is not JSON, or is a batch that is empty, too long or switched
    /// off.
    #[inline]
    pub fn read<'a>(&'a mut self, text: &'a [u8]) -> Result<Messages<'a>, ReadError> {
        let (max_depth, max_items) = (
            self.config.limits.max_depth,
            self.config.limits.max_batch_items.max(1),
        );
        let scanned = match json::scan(text, max_depth, &mut self.envelopes, max_items) {
            Ok(scanned) => scanned,
            Err(error) => return Err(ReadError::Syntax(error)),
        };
        let is_batch = match scanned.shape {
            Shape::Single => false,
            Shape::Batch { .. } if !self.config.dialect.batches => {
                return Err(ReadError::BatchesOff);
            }
            Shape::Batch { items: 0 } => return Err(ReadError::EmptyBatch),
            Shape::Batch { items } if items > self.envelopes.len() => {
                return Err(ReadError::BatchTooLong { items });
            }
            Shape::Batch { .. } => true,
        };
        Ok(Messages {
            text: Text::whole(scanned.text, scanned.flags),
            envelopes: self.envelopes.iter(),
            config: &self.config,
            is_batch,
        })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// The messages of a text, in order. Made by [`Reader::read`].
pub struct Messages<'a> {
    text: Text<'a>,
    envelopes: core::slice::Iter<'a, Envelope>,
    config: &'a Config,
    is_batch: bool,
}

impl Messages<'_> {
    /// Whether the text is a batch; if not, there is one message.
    pub fn is_batch(&self) -> bool {
        self.is_batch
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let envelope = self.envelopes.next()?;
        if is_plain(envelope, self.config) {
            if let Some(PlainCall { method, params, id }) = PlainCall::read(self.text, envelope) {
                let method = Cow::Borrowed(method);
                return Some(match id {
                    Some(id) => Message::Request { method, params, id },
                    None => Message::Notification { method, params },
                });
            }
            // Each form is returned at once, so that it is built directly in the caller's memory.
            if let id @ Some(_) = plain_answer_id(self.text, envelope) {
                if let Some(result) = plain_result(self.text, envelope) {
                    let outcome = Outcome::Ok(result);
                    return Some(Message::Response { id, outcome });
                }
                if let Some(error) = plain_error(self.text, envelope) {
                    let outcome = Outcome::Err(error);
                    return Some(Message::Response { id, outcome });
                }
            }
        }
        Some(self.read_any(envelope))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.envelopes.size_hint()
    }
}

impl ExactSizeIterator for Messages<'_> {}

impl<'a> Messages<'a> {
    /// Reads a message of any form.
    #[inline(never)]
    fn read_any(&self, envelope: &Envelope) -> Message<'a> {
        match message::classify(self.text, envelope, self.config, self.is_batch) {
            message::Message::Call(call) => {
                let (method, params) = (call.method_text(), call.params);
                match call.kind {
                    CallKind::Request(id) => Message::Request { method, params, id },
                    // A 1.0 notification that is to be acknowledged is a notification all the same.
                    CallKind::Notification | CallKind::Acknowledged => {
                        Message::Notification { method, params }
                    }
                }
            }
            message::Message::Response(response) => Message::Response {
                id: response.id,
                outcome: response.outcome,
            },
            message::Message::Invalid(invalid) => Message::Invalid {
                reason: invalid.reason,
                id: invalid.id,
                offset: invalid.offset,
            },
        }
    }
}

impl fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("is_batch", &self.is_batch)
            .field("left", &self.envelopes.len())
            .finish()
    }
}
