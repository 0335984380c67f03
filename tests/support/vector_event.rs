//! Expected events of vectors, as the lines that the player compares.
//!
//! The rule guarded here: each member of an event has its place in the line, so that none can be
//! expected and not compared.

use serde::Deserialize;

use super::vector::Text;
use crate::support::render;

/// One event, by its kind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Event {
    Request(Delivered),
    Notification(Delivered),
    Response(Settled),
    Cancelled(Cancelled),
    Malformed(Faulty),
    Refused(Refused),
    #[serde(rename = "stray")]
    UnmatchedResponse(UnmatchedResponse),
    Closed(Closed),
    LocalError(LocalError),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Delivered {
    method: Text,
    params: Option<Text>,
    id: Option<Text>,
    index: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settled {
    call: u64,
    outcome: String,
    result: Option<Text>,
    code: Option<i64>,
    message: Option<Text>,
    data: Option<Text>,
    reason: Option<String>,
    index: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancelled {
    id: Text,
    answer_owed: bool,
    reason: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Faulty {
    what: String,
    reason: String,
    at: Option<usize>,
    id: Option<Text>,
    answered: Option<i64>,
    index: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refused {
    reason: String,
    size: Option<u64>,
    method: Option<Text>,
    id: Option<Text>,
    answered: Option<i64>,
    index: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnmatchedResponse {
    kind: String,
    id: Option<Text>,
    outcome: Option<String>,
    result: Option<Text>,
    code: Option<i64>,
    message: Option<Text>,
    data: Option<Text>,
    reason: Option<String>,
    index: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Closed {
    reason: String,
    at: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalError {
    reason: String,
}

/// The line by which the player knows an event.
pub(crate) fn event_line(event: &Event) -> Result<String, String> {
    Ok(match event {
        Event::Request(request) => {
            let id = request.id.as_ref().ok_or("a request has an id")?.text()?;
            let place = place(request.index);
            format!("request {} id {id}{place}", delivered(request)?)
        }
        Event::Notification(notification) => {
            if notification.id.is_some() {
                return Err(String::from("a notification has no id"));
            }
            let place = place(notification.index);
            format!("notification {}{place}", delivered(notification)?)
        }
        Event::Response(settled) => {
            let outcome = Outcome {
                kind: &settled.outcome,
                result: &settled.result,
                code: settled.code,
                message: &settled.message,
                data: &settled.data,
                reason: &settled.reason,
            };
            let (call, place) = (settled.call, place(settled.index));
            format!("response {call} {}{place}", outcome.line()?)
        }
        Event::Cancelled(cancelled) => {
            let word = if cancelled.answer_owed {
                "owed"
            } else {
                "dead"
            };
            let reason = labelled("reason", &cancelled.reason)?;
            format!("cancelled {} {word}{reason}", cancelled.id.text()?)
        }
        Event::Malformed(faulty) => {
            let at = faulty.at.map_or(String::new(), |at| format!(" at {at}"));
            let id = labelled("id", &faulty.id)?;
            let answered = render::answered(faulty.answered);
            let (what, reason, place) = (&faulty.what, &faulty.reason, place(faulty.index));
            format!("malformed {what} {reason}{at}{id}{answered}{place}")
        }
        Event::Refused(refused) => {
            let size = refused
                .size
                .map_or(String::new(), |size| format!(" {size}"));
            let method = match &refused.method {
                Some(method) => format!(" {}", render::method(&method.text()?)),
                None => String::new(),
            };
            let id = labelled("id", &refused.id)?;
            let answered = render::answered(refused.answered);
            let (reason, place) = (&refused.reason, place(refused.index));
            format!("refused {reason}{size}{method}{id}{answered}{place}")
        }
        Event::UnmatchedResponse(stray) => {
            let id = labelled("id", &stray.id)?;
            let outcome = match &stray.outcome {
                Some(kind) => {
                    let outcome = Outcome {
                        kind,
                        result: &stray.result,
                        code: stray.code,
                        message: &stray.message,
                        data: &stray.data,
                        reason: &stray.reason,
                    };
                    format!(" {}", outcome.line()?)
                }
                None => String::new(),
            };
            format!("stray {}{id}{outcome}{}", stray.kind, place(stray.index))
        }
        Event::Closed(closed) => {
            let at = closed.at.map_or(String::new(), |at| format!(" at {at}"));
            format!("closed {}{at}", closed.reason)
        }
        Event::LocalError(error) => format!("error {}", error.reason),
    })
}

fn delivered(call: &Delivered) -> Result<String, String> {
    let method = render::method(&call.method.text()?);
    Ok(match &call.params {
        Some(params) => format!("{method} {}", params.text()?),
        None => method,
    })
}

/// ` @2` for the third item of a batch.
fn place(index: Option<usize>) -> String {
    index.map_or(String::new(), |index| format!(" @{index}"))
}

/// ` id 7`, or nothing.
fn labelled(label: &str, text: &Option<Text>) -> Result<String, String> {
    Ok(match text {
        Some(text) => format!(" {label} {}", text.text()?),
        None => String::new(),
    })
}

/// How a call ended, or what a response said that belongs to none.
struct Outcome<'v> {
    kind: &'v str,
    result: &'v Option<Text>,
    code: Option<i64>,
    message: &'v Option<Text>,
    data: &'v Option<Text>,
    reason: &'v Option<String>,
}

impl Outcome<'_> {
    fn line(&self) -> Result<String, String> {
        let members = (self.result, self.code, self.message, self.reason);
        Ok(match (self.kind, members) {
            ("ok", (Some(result), None, None, None)) => format!("ok {}", result.text()?),
            ("error", (None, Some(code), Some(message), None)) => {
                let message = render::quoted(&message.text()?);
                format!("err {code} {message}{}", labelled("data", self.data)?)
            }
            ("invalid", (None, None, None, Some(reason))) => format!("invalid {reason}"),
            ("timed-out" | "missing" | "unsent" | "aborted", (None, None, None, None)) => {
                self.kind.to_owned()
            }
            _ => return Err(format!("no outcome: {}", self.kind)),
        })
    }
}
