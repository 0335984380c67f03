//! Stands between an editor or agent and a real stdio server, and relays everything through the
//! core: two connections, one towards each side.
//!
//! The tag of a call towards one side is the token of the request it came from on the other side,
//! so an answer finds its request without a table of ids. Params, results and error objects are
//! copied byte for byte. What lives here: which event of one side becomes which command on the
//! other, and when each side is closed. The threads are in `pipes`.
//!
//! ```text
//!   editor ──▶ unread ──▶ editor.conn ──▶ relay ──▶ server.conn ──▶ server's stdin
//!          ◀── outbox ◀── editor.conn ◀── relay ◀── server.conn ◀── unread ◀── its stdout
//! ```

use std::collections::HashMap;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant as StdInstant};

use antiphon::{
    CallId, Cancelled, Closed, Config, Connection, DuplicateIds, ErrorObject, Event, Framing,
    Input, Instant, McpRevision, Outcome, ReplyToken, RequestKey, ResponseRef, SendError,
};

use antiphon_net::{stdin, stdout_unbuffered};

use crate::log::{say, write_line};
use crate::pipes::{Pipe, Side, Signal};
use crate::usage::Failure;

/// How often we look whether the child has exited, once one side has ended.
const TICK: Duration = Duration::from_millis(20);
/// How often before that. Its exit also ends its output, unless a grandchild holds that open.
const IDLE_TICK: Duration = Duration::from_millis(500);
/// How long the editor may take after the server's exit to read the rest of the output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server's output may stay open after its exit: a grandchild may hold it.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);
/// Messages larger than this are refused on either side.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// What a proxy is asked to do.
#[derive(Debug)]
pub(crate) struct ConnectionConfig {
    /// The server's command and its arguments.
    pub(crate) command: Vec<String>,
    /// The dialect of both sides.
    pub(crate) config: Config,
    /// How long the server may go on after the editor or the connection to the server has ended, before
    /// it is killed.
    pub(crate) grace: Duration,
    /// Whether to say on stderr what passes.
    pub(crate) trace: bool,
}

/// Relays until the server has exited, and gives its exit code.
///
/// # Errors
/// The command cannot be started.
pub(crate) fn run(options: ConnectionConfig) -> Result<u8, Failure> {
    let (name, arguments) = options.command.split_first().ok_or(Failure::usage())?;
    let child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start {name}: {error}")))?;
    Ok(Proxy::new(child, &options)?.run())
}

struct Proxy {
    editor: End,
    server: End,
    child: Child,
    signals: mpsc::Receiver<Signal>,
    began: StdInstant,
    grace: Duration,
    /// When the server is killed if it has not exited by then.
    kill_at: Option<StdInstant>,
    exited: Option<(StdInstant, ExitStatus)>,
}

/// One side: its connection, and the bytes that came from it and are not yet taken.
struct End {
    name: &'static str,
    conn: Connection<ReplyToken>,
    pipe: Pipe,
    unread: Vec<u8>,
    /// Which call on the other side stands for a request of this side that is still open.
    forwarded: HashMap<RequestKey, CallId>,
    input_ended: bool,
    /// Why its connection has closed.
    over: Option<Closed>,
    trace: bool,
}

impl Proxy {
    fn new(mut child: Child, options: &ConnectionConfig) -> Result<Self, Failure> {
        // It also works in non-blocking mode, which editors set on their own ends of these pipes.
        let output = stdout_unbuffered();
        let output = output.map_err(|error| Failure::new(format!("stdout: {error}")))?;
        let (out, signals) = mpsc::channel();
        let gone = || Failure::new("the server has no stdin or stdout");
        let input = child.stdin.take().ok_or_else(gone)?;
        let stdout = child.stdout.take().ok_or_else(gone)?;
        let editor = Pipe::spawn(Side::Editor, stdin(), output, &out);
        let server = Pipe::spawn(Side::Server, stdout, input, &out);
        Ok(Self {
            editor: End::new(
                "editor",
                transparent(options.config, 1),
                editor,
                options.trace,
            ),
            server: End::new(
                "server",
                transparent(options.config, 2),
                server,
                options.trace,
            ),
            child,
            signals,
            began: StdInstant::now(),
            grace: options.grace,
            kill_at: None,
            exited: None,
        })
    }

    fn run(mut self) -> u8 {
        loop {
            self.turn();
            if let Some(code) = self.exit_code() {
                return code;
            }
            match self.signals.recv_timeout(self.patience()) {
                Ok(signal) => self.take(signal),
                // Both readers and both writers are gone; the child's exit is still waited for.
                Err(mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Does everything that can be done without waiting.
    fn turn(&mut self) {
        while let Ok(signal) = self.signals.try_recv() {
            self.take(signal);
        }
        let now = self.now();
        self.editor.conn.handle_timeout(now);
        self.server.conn.handle_timeout(now);
        while relay(&mut self.editor, &mut self.server) | relay(&mut self.server, &mut self.editor)
        {
        }
        self.editor.pump();
        self.server.pump();
        self.watch_child();
    }

    fn take(&mut self, signal: Signal) {
        let end = match signal.side() {
            Side::Editor => &mut self.editor,
            Side::Server => &mut self.server,
        };
        match signal {
            Signal::Read(_, bytes) => {
                end.unread.extend_from_slice(&bytes);
                end.pipe.put_back(bytes);
            }
            // The editor's connection is not told of its end, so that what the server still says
            // is relayed to an editor that closed one direction only. Instead a last line that
            // lacks its line feed gets one.
            Signal::Ended(Side::Editor) => {
                end.input_ended = true;
                if end.conn.config().framing == Framing::Newline {
                    end.unread.push(b'\n');
                }
            }
            Signal::Ended(Side::Server) => end.conn.handle_eof(),
            Signal::Written(_, buf) => end.pipe.written(buf),
            Signal::WriteFailed(_) => end.pipe.close(),
        }
    }

    /// Ends the server's input when the editor's has ended and is written, and looks whether the
    /// server has exited.
    fn watch_child(&mut self) {
        let editor_is_gone =
            self.editor.input_ended || self.editor.over.is_some() || !self.editor.pipe.is_open();
        if editor_is_gone && self.server.is_written() {
            self.server.pipe.close();
        }
        if editor_is_gone {
            self.kill_by(self.grace);
        }
        if self.server.over.is_some() {
            self.server.pipe.close();
            self.kill_by(self.grace);
        }
        if self.exited.is_some() {
            return;
        }
        if self.kill_at.is_some_and(|at| at <= StdInstant::now()) {
            // It may have exited in between; then there is nothing to kill.
            let _ = self.child.kill();
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            self.exited = Some((StdInstant::now(), status));
        }
    }

    fn kill_by(&mut self, span: Duration) {
        // `None` if the span is too long for the clock: then the server is never killed.
        self.kill_at = self.kill_at.or(StdInstant::now().checked_add(span));
    }

    /// The code to exit with, once the server has exited and all it said is passed on.
    fn exit_code(&mut self) -> Option<u8> {
        let (at, status) = self.exited?;
        if self.server.over.is_none() {
            if at.elapsed() < OUTPUT_TIMEOUT {
                return None;
            }
            self.server.conn.handle_eof();
            self.turn_once_more();
        }
        let flushed = self.editor.is_written() || !self.editor.pipe.is_open();
        if !flushed && at.elapsed() < FLUSH_TIMEOUT {
            return None;
        }
        let broken = [&self.editor, &self.server]
            .into_iter()
            .any(|end| matches!(end.over, Some(Closed::Failed(_))));
        let code = code_of(status);
        Some(if code == 0 && broken { 1 } else { code })
    }

    fn turn_once_more(&mut self) {
        while relay(&mut self.server, &mut self.editor) {}
        self.editor.pump();
    }

    fn now(&self) -> Instant {
        let nanos = self.began.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn patience(&self) -> Duration {
        let now = self.now();
        let deadlines = [&self.editor, &self.server].map(|end| end.conn.poll_timeout());
        let next = deadlines.into_iter().flatten().min();
        let is_ending = self.kill_at.is_some() || self.exited.is_some();
        let tick = if is_ending { TICK } else { IDLE_TICK };
        next.map_or(tick, |next| next.saturating_since(now).min(tick))
    }
}

impl End {
    fn new(name: &'static str, config: Config, pipe: Pipe, trace: bool) -> Self {
        Self {
            name,
            conn: Connection::new(config),
            pipe,
            unread: Vec::new(),
            forwarded: HashMap::new(),
            input_ended: false,
            over: None,
            trace,
        }
    }

    /// Whether more may be said to this side. Above the soft limit the other side is not listened
    /// to: a pipe without us between would have stopped it long before.
    fn has_room(&self) -> bool {
        let waiting = self.conn.transmit_queued() - self.conn.transmit_done();
        waiting <= self.conn.config().limits.soft_max_outbox_bytes as u64
    }

    fn is_written(&self) -> bool {
        self.conn.poll_transmit().is_none() && self.pipe.is_idle()
    }

    /// Hands waiting output to the writer, or drops it if the pipe is closed. Reads on if there is room.
    fn pump(&mut self) {
        if !self.pipe.is_open() {
            self.conn.consume_transmit(usize::MAX);
        } else if let Some(mut buf) = self.pipe.take_spare() {
            if self.conn.take_transmit(&mut buf) {
                self.pipe.write(buf);
            } else {
                self.pipe.written(buf);
            }
        }
        if self.unread.len() <= self.conn.config().max_input_bytes() {
            self.pipe.read_on();
        }
    }
}

/// Passes on what `from` has said, as long as `to` has room. Gives whether anything was passed.
fn relay(from: &mut End, to: &mut End) -> bool {
    let End {
        conn,
        unread,
        forwarded,
        over,
        name,
        trace,
        ..
    } = from;
    let mut taken = 0;
    let mut progress = false;
    while to.has_room() {
        let mut input = Input::stream(&unread[taken..]);
        let event = conn.poll_event(&mut input);
        let Some(event) = event else {
            taken += input.consumed();
            break;
        };
        progress = true;
        if *trace {
            write_line(format_args!("antiphon-peer: {name}: {}", describe(&event)));
        }
        match event {
            Event::Request(request) => {
                let key = request.token.key();
                match to
                    .conn
                    .call(&request.method, request.params, None, request.token)
                {
                    Ok(call) => {
                        forwarded.insert(key, call);
                    }
                    Err(rejected) => refuse(conn, rejected.value, &rejected.error),
                }
            }
            Event::Notification(notification) => {
                if let Err(error) = to.conn.notify(&notification.method, notification.params) {
                    say(format_args!(
                        "a notification of the {name} is lost: {error}"
                    ));
                }
            }
            Event::Response(response) => {
                to.forwarded.remove(&response.tag.key());
                pass_back(response, &mut to.conn);
            }
            Event::Cancelled(cancelled) => pass_cancel(&cancelled, forwarded, &mut to.conn),
            Event::Malformed(malformed) => {
                let (cause, offset) = (malformed.cause, malformed.offset);
                say(format_args!("{name}: malformed at byte {offset}: {cause}"));
            }
            Event::Refused(refused) => {
                say(format_args!("{name}: refused: {}", refused.cause));
            }
            Event::UnmatchedResponse(unmatched) => {
                say(format_args!("{name}: fits nothing: {}", unmatched.kind));
            }
            Event::Closed(why) => {
                if let Closed::Failed(error) = why {
                    say(format_args!("{name}: {error}"));
                }
                *over = Some(why);
            }
            _ => {}
        }
        taken += input.consumed();
    }
    unread.drain(..taken);
    progress
}

/// Answers a request whose forwarding was refused.
fn refuse(conn: &mut Connection<ReplyToken>, token: ReplyToken, why: &SendError) {
    let error = match why {
        SendError::BlankMethod => ErrorObject::method_not_found(),
        SendError::TooManyCalls | SendError::Full => conn.config().dialect.error_profile.busy(),
        _ => ErrorObject::internal_error(),
    };
    give(conn, token, &error);
}

/// Answers the request that a call was made for.
fn pass_back(response: ResponseRef<'_, ReplyToken>, to: &mut Connection<ReplyToken>) {
    let token = response.tag;
    let error = match response.outcome {
        Outcome::Ok(result) => match to.respond(token, result) {
            Ok(()) => return,
            Err(rejected) => return refuse(to, rejected.value, &rejected.error),
        },
        Outcome::Err(error) => error,
        Outcome::Invalid(invalid) => {
            say(format_args!("an invalid answer: {}", invalid.reason));
            ErrorObject::new(antiphon::codes::INTERNAL_ERROR, "The answer was invalid")
        }
        // By the deadline of `pass_cancel`: the request is over, and its token with it.
        Outcome::TimedOut => return,
        _ => ErrorObject::new(antiphon::codes::INTERNAL_ERROR, "The server has ended"),
    };
    give(to, token, &error);
}

fn give(conn: &mut Connection<ReplyToken>, token: ReplyToken, error: &ErrorObject<'_>) {
    // Not open: it was cancelled silently, and an answer is no longer wanted.
    if let Err(rejected) = conn.respond_err(token, error) {
        if rejected.error == SendError::TooLarge {
            // The core's own errors always fit.
            let _ = conn.respond_err(rejected.value, &ErrorObject::internal_error());
        }
    }
}

/// Tells the other side that the request is no longer wanted, under the id it knows.
fn pass_cancel(
    cancelled: &Cancelled<'_>,
    forwarded: &mut HashMap<RequestKey, CallId>,
    to: &mut Connection<ReplyToken>,
) {
    let Some(&call) = forwarded.get(&cancelled.key) else {
        return;
    };
    let reason = cancelled.reason.and_then(|reason| reason.decode().ok());
    let reason: Option<String> = reason;
    // Refused only when the other side is gone, and then nobody works on the request.
    let _ = to.ask_cancel_because(call, reason.as_deref());
    if !cancelled.answer_owed {
        // No answer may come (MCP): the call is settled at the next turn, without a second notice.
        forwarded.remove(&cancelled.key);
        let _ = to.set_deadline(call, Some(Instant::ZERO));
    }
}

/// The dialect of an editor that speaks in this framing, unless `--preset` names one.
pub(crate) fn dialect(framing: Framing) -> Config {
    match framing {
        // The only revision with batches, so that messages of every revision are understood.
        Framing::Newline => Config::mcp(McpRevision::V2025_03_26),
        _ => Config::lsp(),
    }
}

/// The dialect with limits and rules that a proxy needs not to be in the way: what the far side
/// refuses is for the far side to say.
fn transparent(mut config: Config, connection: u32) -> Config {
    config.connection = connection;
    config.limits.max_message_bytes = MAX_MESSAGE_BYTES;
    config.limits.soft_max_outbox_bytes = MAX_MESSAGE_BYTES;
    config.limits.max_outbox_bytes = 3 * MAX_MESSAGE_BYTES;
    config.limits.max_error_data_bytes = MAX_MESSAGE_BYTES;
    config.limits.max_batch_items = 2000;
    config.limits.max_batch_reply_bytes = MAX_MESSAGE_BYTES;
    config.dialect.null_ids = true;
    config.dialect.boolean_ids = true;
    config.dialect.duplicate_ids = DuplicateIds::Allow;
    // Each open request of one side is an open call on the other: some more than those may be open.
    config.limits.max_open_requests = 65_536;
    config.limits.max_open_calls = 65_536 + 1024;
    // A server may compute for minutes before it reads on, and that is not ours to judge.
    config.timeouts.write_timeout = Some(Duration::from_secs(600));
    config
}

fn describe(event: &Event<'_, ReplyToken>) -> String {
    match event {
        Event::Request(request) => format!("request {} id {}", request.method, request.id),
        Event::Notification(notification) => format!("notification {}", notification.method),
        Event::Response(response) => {
            let kind = match &response.outcome {
                Outcome::Ok(_) => "result".to_owned(),
                Outcome::Err(error) => format!("error {}", error.code()),
                outcome => outcome.to_string(),
            };
            format!("answer to call {}: {kind}", response.call.number())
        }
        Event::Cancelled(cancelled) => {
            format!("cancel, answer owed: {}", cancelled.answer_owed)
        }
        Event::Closed(why) => format!("closed: {why}"),
        _ => "a message out of place".to_owned(),
    }
}

#[cfg(unix)]
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    // As shells have it: 128 and the number of the signal.
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.map_or(1, |code| code.to_le_bytes()[0])
}

#[cfg(not(unix))]
fn code_of(status: ExitStatus) -> u8 {
    status.code().map_or(1, |code| code.to_le_bytes()[0])
}
