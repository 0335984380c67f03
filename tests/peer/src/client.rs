//! The client of the contract: one operation per line on stdin, one answer per line on stdout.
//!
//! The rules guarded here: the answers stand in the order of the operations, a line that makes no
//! sense costs one answer and nothing else, and what the peer wrote reaches stdout as it stood.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, Write};
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use antiphon::{
    CancelAnswer, CloseReason, Closed, Handle, Json, OwnedError, OwnedJson, OwnedNotification,
    OwnedOutcome, SendError,
};
use antiphon_blocking::{
    CALL_TIMEOUT_DEFAULT, CallError, Child, ChildOptions, Link, Options, Peer, Report, Request,
    Responder, Service, connect,
};

use crate::items::{items_of, params_of};
use crate::log::say;
use crate::server::options;
use crate::target::Place;
use crate::usage::{Endpoint, Failure};

/// Notifications kept for a later `wait`; the oldest go first.
const KEPT_MAX: usize = 10_000;
/// And their bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// `wait` looks this long at least: what came before an answer may still be under way from one
/// thread to another.
const WAIT_MIN: Duration = Duration::from_millis(20);
/// How long the last bytes may take to leave at the end.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a server may take from the end of its output to its exit, to be told how it ended.
const EXIT_TIME_MAX: Duration = Duration::from_millis(200);
/// So many bytes of a server's log are shown; a driver may not read stderr at all.
const LOG_BYTES_MAX: usize = 32 << 10;
/// How long the peer may take to end its direction after we have ended ours.
const LINGER: Duration = Duration::from_millis(250);
/// How long the connection may take to end after that.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Drives the peer until stdin ends.
///
/// # Errors
/// The peer cannot be reached.
pub(crate) fn run(endpoint: &Endpoint) -> Result<u8, Failure> {
    let target = &endpoint.target;
    let desk = Arc::new(Desk::default());
    let service = Answers(Arc::clone(&desk));
    let mut options = options(endpoint.config);
    options.linger = LINGER;
    let cannot = |error: io::Error| Failure::new(format!("cannot reach {target}: {error}"));
    let link = match target.place() {
        Place::Tcp(address) => Link::tcp(address.as_str()),
        #[cfg(unix)]
        Place::Unix(path) => Link::unix(path),
        Place::Child(words) => {
            let child = start(words, options, service)?;
            let peer = child.peer().clone();
            return drive(endpoint, peer, desk, Some(child));
        }
        _ => return Err(Failure::new(format!("{target}: cannot be driven"))),
    };
    let peer = link.and_then(|link| connect(link, options, service));
    drive(endpoint, peer.map_err(cannot)?, desk, None)
}

/// Starts the server to drive. What it logs goes to our stderr, up to a limit.
fn start(words: &[String], options: Options, service: Answers) -> Result<Child, Failure> {
    let (program, arguments) = words.split_first().ok_or(Failure::usage())?;
    let mut command = Command::new(program);
    command.args(arguments);
    let mut options = ChildOptions::from(options);
    let mut room = LOG_BYTES_MAX;
    options.on_stderr = Some(Box::new(move |bytes| {
        let shown = bytes.get(..room).unwrap_or(bytes);
        room -= shown.len();
        // A closed stderr is nobody's fault.
        let _ = io::stderr().write_all(shown);
    }));
    Child::spawn(command, options, service).map_err(|error| Failure::new(error.to_string()))
}

/// Works through stdin, and leaves in good order.
fn drive(
    endpoint: &Endpoint,
    peer: Peer,
    desk: Arc<Desk>,
    child: Option<Child>,
) -> Result<u8, Failure> {
    let is_silent = endpoint.config.cancel_answer == CancelAnswer::Silent;
    let client = Client {
        peer,
        desk,
        is_silent,
        child,
    };
    let ended = client.work(&mut io::stdin().lock(), &mut io::stdout().lock());
    // What was sent last is to arrive; a dead transport has nothing to wait for.
    let _ = client.peer.flush(FLUSH_TIME_MAX);
    client.peer.close(CloseReason::Done);
    client.peer.wait_closed(END_TIME_MAX);
    if let Some(child) = client.child {
        // A child that does not leave is killed, and how it ended is not ours to judge.
        let _ = child.close(END_TIME_MAX);
    }
    ended.map_err(|error| Failure::new(format!("stdin or stdout: {error}")))?;
    Ok(0)
}

/// What the connection's threads and the operations share.
#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<(String, Option<OwnedJson>)>,
    kept_bytes: usize,
    answers: HashMap<String, OwnedJson>,
    /// How often the peer has asked for each method.
    asked: HashMap<String, u64>,
    closed: Option<Closed>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What answers the peer: fixed results, by method.
struct Answers(Arc<Desk>);

impl Service for Answers {
    fn request(&mut self, _: &Peer, request: Request, reply: Responder) {
        let mut state = self.0.lock();
        let answer = state.answers.get(request.method()).cloned();
        if state.asked.len() < KEPT_MAX || state.asked.contains_key(request.method()) {
            *state.asked.entry(request.method().to_owned()).or_default() += 1;
        }
        drop(state);
        let answered = match answer {
            Some(result) => reply.ok(result.as_json()),
            None => reply.unknown_method(request.method()),
        };
        if let Err(error) = answered {
            say(format_args!(
                "{} was not answered: {error}",
                request.method()
            ));
        }
        self.0.changed.notify_all();
    }

    fn notification(&mut self, _: &Peer, notification: OwnedNotification) {
        let method = notification.method();
        let params = notification.params().map(Json::to_owned_json);
        let mut state = self.0.lock();
        state.kept_bytes += size_of_kept(method, params.as_ref());
        state.kept.push_back((method.to_owned(), params));
        while state.kept.len() > KEPT_MAX || state.kept_bytes > KEPT_BYTES_MAX {
            let Some((method, params)) = state.kept.pop_front() else {
                break;
            };
            state.kept_bytes -= size_of_kept(&method, params.as_ref());
            say(format_args!(
                "a notification that nobody waits for is dropped: {method}"
            ));
        }
        drop(state);
        self.0.changed.notify_all();
    }

    fn report(&mut self, _: &Peer, report: Report) {
        say(format_args!("{report}"));
    }

    fn closed(&mut self, _: &Peer, why: Closed) {
        self.0.lock().closed = Some(why);
        self.0.changed.notify_all();
    }
}

struct Client {
    peer: Peer,
    desk: Arc<Desk>,
    /// Whether the dialect answers a cancelled call with nothing at all.
    is_silent: bool,
    child: Option<Child>,
}

/// What stands in the line of an answer.
enum Answer {
    Outcome(OwnedOutcome),
    Notification(Option<OwnedJson>),
    Asked(u64),
    Batch(Vec<OwnedOutcome>),
    /// The ends of calls made side by side, and their places in the order in which they came.
    Calls(Vec<OwnedOutcome>, Vec<usize>),
    Ok,
    Timeout,
    Cancelled,
    Refused(SendError),
    Closed,
    /// The operation makes no sense.
    Line(&'static str),
}

impl Client {
    fn work(&self, lines: &mut impl BufRead, out: &mut impl Write) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let answer = match Json::parse(&line) {
                Ok(operation) => self.operate(operation),
                Err(_) => Answer::Line("the line is not JSON"),
            };
            let mut text = self.write(answer);
            text.push('\n');
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }

    fn operate(&self, operation: Json<'_>) -> Answer {
        let name = operation.get("op").and_then(Json::as_string);
        let Some(name) = name.map(|name| name.to_cow_lossy()) else {
            return Answer::Line("op is missing");
        };
        let method = operation.get("method").and_then(Json::as_string);
        let method = method.map(|method| method.to_cow_lossy());
        match (&*name, operation.get("items")) {
            ("batch", Some(items)) => return self.batch(items, millis(operation, "timeout_ms")),
            ("calls", Some(items)) => return self.calls(items, millis(operation, "timeout_ms")),
            _ => {}
        }
        let Some(method) = method else {
            return Answer::Line(match &*name {
                "call" | "notify" | "wait" | "asked" | "answer" => "method is missing",
                "batch" | "calls" => "items is missing",
                _ => "no such op",
            });
        };
        let timeout = millis(operation, "timeout_ms");
        match &*name {
            "call" => self.call(operation, &method, timeout),
            "notify" => match self.peer.notify(&method, params_of(operation)) {
                Ok(()) => Answer::Ok,
                Err(error) => refused(error),
            },
            "wait" => self.wait(&method, timeout, take_notification),
            "asked" => self.wait(&method, timeout, count_asked),
            "answer" => self.answer(&method, operation.get("result")),
            _ => Answer::Line("no such op"),
        }
    }

    fn call(&self, operation: Json<'_>, method: &str, timeout: Option<Duration>) -> Answer {
        let timeout = timeout.unwrap_or(CALL_TIMEOUT_DEFAULT);
        let (done, outcome) = mpsc::channel();
        // By the service's thread, so that notifications before the answer are kept before it.
        let called = self
            .peer
            .call_then(method, params_of(operation), Some(timeout), move |end| {
                // Received below, unless it was given up.
                drop(done.send(end));
            });
        let call = match called {
            Ok(call) => call,
            Err(error) => return refused(error.error),
        };
        if let Some(span) = millis(operation, "cancel_after_ms") {
            if let Ok(outcome) = outcome.recv_timeout(span) {
                return Answer::Outcome(outcome);
            }
            if self.is_silent {
                self.peer.cancel(call);
                return Answer::Cancelled;
            }
            // Answered in the meantime, or there is no way to say it: its answer comes below.
            let _ = self.peer.ask_cancel(call);
        }
        outcome.recv().map_or(Answer::Closed, Answer::Outcome)
    }

    fn batch(&self, items: Json<'_>, timeout: Option<Duration>) -> Answer {
        let wanted = match items_of(items) {
            Ok(wanted) => wanted,
            Err(why) => return Answer::Line(why),
        };
        let timeout = timeout.unwrap_or(CALL_TIMEOUT_DEFAULT);
        let sent = self.peer.batch_timeout(Some(timeout), |batch| {
            let mut handles: Vec<Handle<()>> = Vec::new();
            for item in &wanted {
                if item.is_notification {
                    batch.notify(&item.method, item.params)?;
                } else {
                    handles.push(batch.call(&item.method, item.params)?);
                }
            }
            Ok(handles)
        });
        match sent {
            Ok((handles, mut outcomes)) => {
                let take = |handle: Handle<()>| outcomes.take(handle.call());
                let outcomes = handles.into_iter().map(take);
                Answer::Batch(
                    outcomes
                        .map(|end| end.unwrap_or(OwnedOutcome::Aborted))
                        .collect(),
                )
            }
            Err(CallError::Rejected(error)) => refused(error),
            Err(_) => Answer::Closed,
        }
    }

    /// Sends each item as a message of its own, all of them before the first answer is awaited.
    fn calls(&self, items: Json<'_>, timeout: Option<Duration>) -> Answer {
        let wanted = match items_of(items) {
            Ok(wanted) if wanted.iter().all(|item| !item.is_notification) => wanted,
            Ok(_) => return Answer::Line("calls takes no notifications"),
            Err(why) => return Answer::Line(why),
        };
        let timeout = timeout.unwrap_or(CALL_TIMEOUT_DEFAULT);
        let (done, ends) = mpsc::channel();
        for (place, item) in wanted.iter().enumerate() {
            let done = done.clone();
            let called =
                self.peer
                    .call_then(&item.method, item.params, Some(timeout), move |end| {
                        // Received below, unless a later item was refused.
                        drop(done.send((place, end)));
                    });
            if let Err(error) = called {
                return refused(error.error);
            }
        }
        drop(done);
        let mut outcomes = vec![OwnedOutcome::Aborted; wanted.len()];
        let mut order = Vec::new();
        for (place, end) in ends {
            outcomes[place] = end;
            order.push(place);
        }
        Answer::Calls(outcomes, order)
    }

    /// Waits until `find` finds something on the desk.
    fn wait(
        &self,
        method: &str,
        timeout: Option<Duration>,
        find: impl Fn(&mut State, &str) -> Option<Answer>,
    ) -> Answer {
        let timeout = timeout.unwrap_or(CALL_TIMEOUT_DEFAULT);
        let deadline = Instant::now() + timeout.max(WAIT_MIN);
        let mut state = self.desk.lock();
        loop {
            if let Some(found) = find(&mut state, method) {
                return found;
            }
            if state.closed.is_some() {
                return Answer::Closed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Answer::Timeout;
            }
            let waited = self.desk.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn answer(&self, method: &str, result: Option<Json<'_>>) -> Answer {
        let result = result.unwrap_or(Json::NULL).to_owned_json();
        let mut state = self.desk.lock();
        if state.closed.is_some() {
            return Answer::Closed;
        }
        state.answers.insert(method.to_owned(), result);
        Answer::Ok
    }

    fn write(&self, answer: Answer) -> String {
        match answer {
            Answer::Outcome(outcome) => self.write_outcome(&outcome),
            Answer::Notification(params) => {
                let params = params.as_ref().map_or("null", OwnedJson::as_str);
                format!(r#"{{"notification":{}}}"#, in_one_line(params))
            }
            Answer::Asked(count) => format!(r#"{{"asked":{count}}}"#),
            Answer::Batch(outcomes) => {
                if are_dead(&outcomes) {
                    return self.write(Answer::Closed);
                }
                format!(r#"{{"batch":[{}]}}"#, self.write_outcomes(&outcomes))
            }
            Answer::Calls(outcomes, order) => {
                if are_dead(&outcomes) {
                    return self.write(Answer::Closed);
                }
                let outcomes = self.write_outcomes(&outcomes);
                format!(r#"{{"calls":[{outcomes}],"order":{order:?}}}"#)
            }
            Answer::Ok => r#"{"ok":true}"#.to_owned(),
            Answer::Timeout => r#"{"timeout":true}"#.to_owned(),
            Answer::Cancelled => r#"{"cancelled":true}"#.to_owned(),
            Answer::Refused(error) => format!(r#"{{"refused":{}}}"#, quoted(&error.to_string())),
            Answer::Closed => format!(r#"{{"closed":{}}}"#, quoted(&self.why_closed())),
            Answer::Line(why) => format!(r#"{{"error_line":{}}}"#, quoted(why)),
        }
    }

    fn write_outcomes(&self, outcomes: &[OwnedOutcome]) -> String {
        let texts: Vec<String> = outcomes.iter().map(|end| self.write_outcome(end)).collect();
        texts.join(",")
    }

    fn write_outcome(&self, outcome: &OwnedOutcome) -> String {
        match outcome {
            OwnedOutcome::Ok(result) => {
                format!(r#"{{"result":{}}}"#, in_one_line(result.as_str()))
            }
            OwnedOutcome::Err(error) => format!(r#"{{"error":{}}}"#, error_text(error)),
            OwnedOutcome::Invalid(reason) => {
                format!(r#"{{"invalid":{}}}"#, quoted(reason.as_str()))
            }
            OwnedOutcome::TimedOut => self.write(Answer::Timeout),
            OwnedOutcome::Missing => r#"{"missing":true}"#.to_owned(),
            _ => self.write(Answer::Closed),
        }
    }

    fn why_closed(&self) -> String {
        if let Some(error) = self.peer.transport_error() {
            return error.to_string();
        }
        let exited = self
            .child
            .as_ref()
            .and_then(|child| child.wait(EXIT_TIME_MAX).ok()?);
        if let Some(status) = exited {
            return format!("the server has ended: {status}");
        }
        match self.peer.closed() {
            Some(Closed::Failed(error)) => error.to_string(),
            Some(Closed::Local(reason)) => format!("{reason:?}"),
            _ => "the peer ended the connection".to_owned(),
        }
    }
}

/// Whether the transport ended every one of them.
fn are_dead(outcomes: &[OwnedOutcome]) -> bool {
    let is_dead = |end: &OwnedOutcome| matches!(end, OwnedOutcome::Aborted | OwnedOutcome::Unsent);
    !outcomes.is_empty() && outcomes.iter().all(is_dead)
}

/// Takes the oldest notification of a method.
fn take_notification(state: &mut State, method: &str) -> Option<Answer> {
    let position = state.kept.iter().position(|(name, _)| name == method)?;
    let (_, params) = state.kept.remove(position)?;
    state.kept_bytes = state
        .kept_bytes
        .saturating_sub(size_of_kept(method, params.as_ref()));
    Some(Answer::Notification(params))
}

fn count_asked(state: &mut State, method: &str) -> Option<Answer> {
    state.asked.get(method).map(|count| Answer::Asked(*count))
}

fn size_of_kept(method: &str, params: Option<&OwnedJson>) -> usize {
    method.len() + params.map_or(0, |params| params.as_str().len())
}

fn refused(error: SendError) -> Answer {
    match error {
        SendError::Closed => Answer::Closed,
        error => Answer::Refused(error),
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

/// In valid JSON a raw line break is one between tokens.
fn in_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

fn quoted(text: &str) -> String {
    // A string always has a JSON form.
    OwnedJson::from_value(text).map_or_else(|_| "\"\"".to_owned(), OwnedJson::into_string)
}
