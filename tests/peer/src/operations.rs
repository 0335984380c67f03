//! The operations of the client: one line in, one answer out.
//!
//! Rule: the answers stand in the order of the operations, a line that makes no
//! sense costs one answer and nothing else, and what the peer wrote is shown as it stood.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use antiphon::{Json, OwnedError, OwnedJson, OwnedOutcome, SendError};
use antiphon_net::{CallError, DEFAULT_CALL_TIMEOUT};

use crate::caller::{Called, Caller, Refusal, Sides};
use crate::desk::{Desk, Waited};
use crate::items::{Item, items_of, params_of};
use crate::over_http::called;
use crate::streams::{Next, Streams, style_of};

/// The answer to an operation on a stream that was not opened, or has ended.
const NO_STREAM: &str = "no such subscription";

/// A client that does what it is told.
pub struct Client<'a> {
    /// The way to the peer.
    pub caller: &'a dyn Caller,
    /// What the connection's service keeps.
    pub desk: &'a Desk,
    /// Whether the dialect answers a cancelled call with nothing at all.
    pub is_silent: bool,
    /// What it has subscribed to.
    pub streams: Streams,
    /// Says how the peer ended, if it is a process that we started; else `None`.
    pub ended: &'a dyn Fn() -> Option<String>,
}

impl fmt::Debug for Client<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// What stands in the line of an answer.
enum Answer {
    Called(Called),
    Notification(Option<OwnedJson>),
    Asked(u64),
    Batch(Vec<OwnedOutcome>),
    Calls(Sides),
    /// The id of a stream.
    Subscribed(String),
    Next(Next),
    Ok,
    Timeout,
    Refused(SendError),
    /// An exchange failed.
    Failed(String),
    Closed,
    /// The line is no operation: why.
    Line(&'static str),
}

impl Client<'_> {
    /// Does what the lines say, until they end.
    ///
    /// # Errors
    /// The lines could not be read, or the answers not be written.
    pub fn work(&self, lines: &mut impl BufRead, out: &mut impl Write) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut text = self.answer(&line);
            text.push('\n');
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }

    /// Does what one line says, and gives the line that answers it, without its end.
    pub fn answer(&self, line: &[u8]) -> String {
        let answer = match Json::parse(line) {
            Ok(operation) => self.operate(operation),
            Err(_) => Answer::Line("the line is not JSON"),
        };
        self.write(answer)
    }

    fn operate(&self, operation: Json<'_>) -> Answer {
        let name = operation.get("op").and_then(Json::as_string);
        let Some(name) = name.map(|name| name.to_cow_lossy()) else {
            return Answer::Line("op is missing");
        };
        let method = operation.get("method").and_then(Json::as_string);
        let method = method.map(|method| method.to_cow_lossy());
        let timeout = millis(operation, "timeout_ms").unwrap_or(DEFAULT_CALL_TIMEOUT);
        match (&*name, operation.get("items").map(items_of)) {
            ("batch" | "calls", Some(Err(why))) => return Answer::Line(why),
            ("batch", Some(Ok(items))) => return self.batch(&items, timeout),
            ("calls", Some(Ok(items))) => return self.calls(&items, timeout),
            _ => {}
        }
        if let ("event" | "unsubscribe", Some(id)) = (&*name, operation.get("subscription")) {
            return match &*name {
                "event" => Answer::Next(self.streams.next(id, timeout)),
                _ if self.streams.drop(id) => Answer::Ok,
                _ => Answer::Line(NO_STREAM),
            };
        }
        let Some(method) = method else {
            return Answer::Line(match &*name {
                "call" | "notify" | "wait" | "asked" | "answer" | "subscribe" => {
                    "method is missing"
                }
                "event" | "unsubscribe" => "subscription is missing",
                "batch" | "calls" => "items is missing",
                _ => "no such op",
            });
        };
        match &*name {
            "call" => self.call(operation, &method, timeout),
            "subscribe" => self.subscribe(operation, &method, timeout),
            "notify" => match self.caller.notify(&method, params_of(operation)) {
                Ok(()) => Answer::Ok,
                Err(refusal) => refused(refusal),
            },
            "wait" => waited(self.desk.take(&method, timeout), Answer::Notification),
            "asked" => waited(self.desk.asked(&method, timeout), Answer::Asked),
            "answer" => {
                let result = operation.get("result").unwrap_or(Json::NULL);
                match self.desk.will_answer(&method, result.to_owned_json()) {
                    true => Answer::Ok,
                    false => Answer::Closed,
                }
            }
            _ => Answer::Line("no such op"),
        }
    }

    fn call(&self, operation: Json<'_>, method: &str, timeout: Duration) -> Answer {
        let cancel_after = millis(operation, "cancel_after_ms");
        let params = params_of(operation);
        let called = self
            .caller
            .call(method, params, timeout, cancel_after, self.is_silent);
        match called {
            Ok(called) => Answer::Called(called),
            Err(refusal) => refused(refusal),
        }
    }

    fn subscribe(&self, operation: Json<'_>, method: &str, timeout: Duration) -> Answer {
        let Some(style) = style_of(method) else {
            return Answer::Line(NO_STREAM);
        };
        let params = params_of(operation);
        match self.caller.subscribe(style, params, timeout) {
            Ok(stream) => Answer::Subscribed(self.streams.keep(stream)),
            Err(CallError::Closed | CallError::Unsent) => Answer::Closed,
            Err(error) => called(Err(error)).map_or_else(refused, Answer::Called),
        }
    }

    fn batch(&self, items: &[Item<'_>], timeout: Duration) -> Answer {
        match self.caller.batch(items, timeout) {
            Ok(outcomes) => Answer::Batch(outcomes),
            Err(refusal) => refused(refusal),
        }
    }

    fn calls(&self, items: &[Item<'_>], timeout: Duration) -> Answer {
        if items.iter().any(|item| item.is_notification) {
            return Answer::Line("calls takes no notifications");
        }
        match self.caller.calls(items, timeout) {
            Ok(sides) => Answer::Calls(sides),
            Err(refusal) => refused(refusal),
        }
    }

    fn write(&self, answer: Answer) -> String {
        match answer {
            Answer::Called(called) => self.write_called(&called),
            Answer::Notification(params) => {
                let params = params.as_ref().map_or("null", OwnedJson::as_str);
                format!(r#"{{"notification":{}}}"#, in_one_line(params))
            }
            Answer::Asked(count) => format!(r#"{{"asked":{count}}}"#),
            Answer::Batch(outcomes) => {
                if !outcomes.is_empty() && outcomes.iter().all(is_dead) {
                    return self.write(Answer::Closed);
                }
                let ends: Vec<String> =
                    outcomes.iter().map(|end| self.write_outcome(end)).collect();
                format!(r#"{{"batch":[{}]}}"#, ends.join(","))
            }
            Answer::Calls(Sides { ends, order }) => {
                let is_dead =
                    |called: &Called| matches!(called, Called::Ended(end) if is_dead(end));
                if !ends.is_empty() && ends.iter().all(is_dead) {
                    return self.write(Answer::Closed);
                }
                let ends: Vec<String> = ends.iter().map(|end| self.write_called(end)).collect();
                format!(r#"{{"calls":[{}],"order":{order:?}}}"#, ends.join(","))
            }
            Answer::Subscribed(id) => format!(r#"{{"subscription":{id}}}"#),
            Answer::Next(Next::Event(event)) => {
                format!(r#"{{"event":{}}}"#, in_one_line(event.as_str()))
            }
            Answer::Next(Next::Lagged(events)) => format!(r#"{{"lagged":{events}}}"#),
            Answer::Next(Next::Ended(why)) => format!(r#"{{"ended":{}}}"#, quoted(&why)),
            Answer::Next(Next::TimedOut) => self.write(Answer::Timeout),
            Answer::Next(Next::Unknown) => self.write(Answer::Line(NO_STREAM)),
            Answer::Ok => r#"{"ok":true}"#.to_owned(),
            Answer::Timeout => r#"{"timeout":true}"#.to_owned(),
            Answer::Failed(why) => format!(r#"{{"failed":{}}}"#, quoted(&why)),
            Answer::Refused(error) => format!(r#"{{"refused":{}}}"#, quoted(&error.to_string())),
            Answer::Closed => format!(r#"{{"closed":{}}}"#, quoted(&self.why_closed())),
            Answer::Line(why) => format!(r#"{{"error_line":{}}}"#, quoted(why)),
        }
    }

    fn write_called(&self, called: &Called) -> String {
        match called {
            Called::Ended(outcome) => self.write_outcome(outcome),
            Called::GivenUp => r#"{"cancelled":true}"#.to_owned(),
            Called::Failed(why) => self.write(Answer::Failed(why.clone())),
        }
    }

    fn write_outcome(&self, outcome: &OwnedOutcome) -> String {
        match outcome {
            OwnedOutcome::Ok(result) => {
                format!(r#"{{"result":{}}}"#, in_one_line(result.as_str()))
            }
            OwnedOutcome::Err(error) => format!(r#"{{"error":{}}}"#, error_text(error)),
            OwnedOutcome::Invalid(invalid) => {
                format!(r#"{{"invalid":{}}}"#, quoted(&invalid.to_string()))
            }
            OwnedOutcome::TimedOut => self.write(Answer::Timeout),
            OwnedOutcome::Missing => r#"{"missing":true}"#.to_owned(),
            _ => self.write(Answer::Closed),
        }
    }

    fn why_closed(&self) -> String {
        (self.ended)().unwrap_or_else(|| self.caller.why_closed())
    }
}

fn waited<T>(waited: Waited<T>, found: impl FnOnce(T) -> Answer) -> Answer {
    match waited {
        Waited::Found(what) => found(what),
        Waited::TimedOut => Answer::Timeout,
        Waited::Closed => Answer::Closed,
    }
}

/// Whether a call ended because the connection is gone.
fn is_dead(end: &OwnedOutcome) -> bool {
    matches!(end, OwnedOutcome::Aborted | OwnedOutcome::Unsent)
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Unsent(SendError::Closed) => Answer::Closed,
        Refusal::Unsent(error) => Answer::Refused(error),
        Refusal::Failed(why) => Answer::Failed(why),
    }
}

fn millis(operation: Json<'_>, name: &str) -> Option<Duration> {
    let millis = operation.get(name)?.decode().ok()?;
    Some(Duration::from_millis(millis))
}

fn error_text(error: &OwnedError) -> String {
    let error = error.as_error();
    if let Some(text) = error.text() {
        return in_one_line(text.as_str());
    }
    let data = error.data().map_or(String::new(), |data| {
        format!(r#","data":{}"#, in_one_line(data.as_str()))
    });
    let (code, message) = (error.code(), quoted(error.message()));
    format!(r#"{{"code":{code},"message":{message}{data}}}"#)
}

/// Puts JSON into one line. A raw line break in valid JSON stands between tokens, so a blank can
/// replace it.
fn in_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

fn quoted(text: &str) -> String {
    // A string always has a JSON form.
    OwnedJson::from_value(text).map_or_else(|_| "\"\"".to_owned(), OwnedJson::into_string)
}
