//! One message in, at most one message out: for hosts that only pass on a request and its reply,
//! such as HTTP handlers and serverless functions.

use alloc::vec::Vec;

use serde::Serialize;

use crate::config::{Config, UnknownId};
use crate::connection::{Connection, SendError};
use crate::encode::{self, Style};
use crate::error_object::OwnedError;
use crate::event::{Closed, Event};
use crate::id::Id;
use crate::input::Input;
use crate::json::Json;

/// A request or a notification, as [`answer`] passes it to the function.
#[derive(Debug)]
#[non_exhaustive]
pub struct Incoming<'a> {
    /// The method, unescaped.
    pub method: &'a str,
    /// The params, an array or an object, if there are any.
    pub params: Option<Json<'a>>,
    /// The request's id; `None` for a notification, whose result is dropped.
    pub id: Option<Id<'a>>,
}

/// Answers one message, which may be a batch, with a synchronous function. Returns the reply, or
/// `None` if there is none: an HTTP host then sends 204, or 202 under MCP.
///
/// All rules of a [`Connection`] on the server's side apply to the message and its reply: malformed
/// and refused messages are answered without calling the function. A result that cannot be written
/// is answered −32603, and so is a message whose answers are over `max_outbox_bytes` together.
///
/// HTTP is not handled here: [`http::handle`](crate::http::handle) checks origins and headers.
///
/// ```
/// use antiphon::{answer, Config, ErrorObject};
/// let reply = answer(Config::new(), br#"{"jsonrpc":"2.0","method":"double","params":[21],"id":1}"#, |call| {
///     match (call.method, call.params) {
///         ("double", Some(params)) => {
///             let [n]: [i64; 1] = params.decode().map_err(|_| ErrorObject::invalid_params())?;
///             Ok(2 * n)
///         }
///         _ => Err(ErrorObject::method_not_found()),
///     }
/// });
/// assert_eq!(reply.unwrap(), br#"{"jsonrpc":"2.0","result":42,"id":1}"#);
/// ```
pub fn answer<R, E, F>(config: Config, message: &[u8], handler: F) -> Option<Vec<u8>>
where
    R: Serialize,
    E: Into<OwnedError>,
    F: FnMut(Incoming<'_>) -> Result<R, E>,
{
    let replied = reply(config, message, handler);
    replied.unwrap_or_else(|Unanswered| Some(unanswered(&config)))
}

/// A message has asked, and there is no answer: the answers were larger than any output may be.
pub(crate) struct Unanswered;

/// Returns the reply to a message that asked and was not answered: an *internal error* without id.
pub(crate) fn unanswered(config: &Config) -> Vec<u8> {
    let id = match config.dialect.unknown_id {
        UnknownId::Null => Some(&b"null"[..]),
        UnknownId::Omit => None,
    };
    let mut reply = Vec::new();
    encode::failure(&mut reply, Style::V2, id, &config.dialect.failures.error());
    reply
}

/// Returns the reply to a message; `Ok(None)` if it asks nothing.
pub(crate) fn reply<R, E, F>(
    config: Config,
    message: &[u8],
    mut handler: F,
) -> Result<Option<Vec<u8>>, Unanswered>
where
    R: Serialize,
    E: Into<OwnedError>,
    F: FnMut(Incoming<'_>) -> Result<R, E>,
{
    let mut is_asked = false;
    let mut conn: Connection = Connection::new(config.for_server_exchange());
    let mut input = Input::message(message);
    while let Some(event) = conn.poll_event(&mut input) {
        match event {
            Event::Request(request) => {
                is_asked = true;
                let id = Some(request.id);
                let outcome = handler(Incoming {
                    method: &request.method,
                    params: request.params,
                    id,
                });
                let failures = conn.config().dialect.failures;
                let outcome = outcome.map_err(|error| failures.told(error.into()));
                let answered = match &outcome {
                    Ok(result) => conn.respond(request.token, result),
                    Err(error) => conn.respond_err(request.token, &error.as_error()),
                };
                if let Err(rejected) = answered {
                    // The answer is too large, has no JSON form, or is an error that the
                    // configuration refuses. The error that is sent instead only fails if
                    // the connection is closed, so that no reply is needed, or if
                    // `max_outbox_bytes` is too small for any reply.
                    debug_assert!(
                        rejected.error != SendError::NotOpen,
                        "the request was not open"
                    );
                    let instead = match &outcome {
                        // Its data are too large.
                        Err(error) if rejected.error == SendError::TooLarge => {
                            error.as_error().without_data()
                        }
                        _ => failures.error(),
                    };
                    let _ = conn.respond_err(rejected.value, &instead);
                }
            }
            Event::Notification(notification) => {
                let (method, params) = (&*notification.method, notification.params);
                let _ = handler(Incoming {
                    method,
                    params,
                    id: None,
                });
            }
            Event::Closed(Closed::Failed(_)) => is_asked = true,
            _ => {}
        }
    }
    let mut reply = Vec::new();
    match conn.take_transmit(&mut reply) {
        true => Ok(Some(reply)),
        false if is_asked => Err(Unanswered),
        false => Ok(None),
    }
}
