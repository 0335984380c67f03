//! One message in, and what its handlers send out, up to its reply: a session over whole messages, and its
//! handlers.
//!
//! ```text
//!   begin ──▶ Event* ──▶ Reply
//! ```
//!
//! Events are notifications before the reply; there are none unless the configuration streams. The reply is
//! given when all requests and notifications of the message have been served, so a client that waits for
//! each reply never has two of its messages served at the same time. If an exchange is dropped early, its
//! handlers are dropped too.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use crate::context::Context;
use crate::debug_fields;
use crate::options::ConnectionConfig;
use crate::session::{Brought, Carries, Moved, Next, Sent, Session, WorkBatch};
use antiphon::{Closed, Input, Instant};

use crate::peer::Peer;
use crate::runtime::{SharedRuntime, Timer};
use crate::serve::handlers::Handlers;
use crate::serve::service::Service;

/// Makes the peer that the handlers of an exchange get.
pub fn exchange_peer(
    options: &Arc<ConnectionConfig>,
    mut context: Context,
    runtime: &SharedRuntime,
) -> Peer {
    // The request came to a server.
    context.is_accepted = true;
    let session = Session::new(
        Arc::clone(options),
        Carries::Messages,
        context,
        Arc::clone(runtime),
    );
    Peer::unowned(session)
}

/// Why there is no reply.
#[derive(Debug)]
pub enum Lost {
    /// A request was not answered: a limit, or the service, has ended the exchange before.
    Unanswered,
    /// The message has only notifications, and there was no thread for any of them.
    NoCapacity,
}

/// What an exchange has brought.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// A notification, before the reply: only if the configuration [streams](antiphon::Config::streams).
    Event(Vec<u8>),
    /// Nothing until the time that was given.
    Silence,
    /// The reply, which is the end; `None` if the message asks nothing.
    Reply(Result<Option<Vec<u8>>, Lost>),
}

/// One message of a client and what its handlers send. Polling it runs the handlers, so nothing goes on while
/// it is not polled. Dropping it ends the exchange, and cancels its handlers.
pub struct Exchange {
    session: Arc<Session>,
    handlers: Handlers,
    /// The work that one turn of the session returned. Empty between two polls.
    batch: WorkBatch,
    timer: Box<dyn Timer>,
    /// Whether a request was asked.
    is_asked: bool,
    is_over: bool,
    /// Whether events may come before the reply.
    streams: bool,
    /// That the last output was handed out as an event, until the next turn tells the session.
    sent: Sent,
    /// The message that is handed out next; empty before there is one.
    output: Vec<u8>,
    /// How many events were handed out without a pause.
    in_a_row: u32,
}

/// After so many events other tasks may run.
const MAX_EVENTS: u32 = 32;

impl Exchange {
    /// Begins an exchange with a message. For one that was too large to be read `input` has only its size.
    pub fn begin<S: Service>(
        peer: Peer,
        service: Arc<S>,
        input: Input<'_>,
        timer: Box<dyn Timer>,
    ) -> Self {
        let session = Arc::clone(peer.session());
        session.receive_message(input);
        let is_asked = session.lock().conn.requests_open() > 0;
        Self {
            handlers: Handlers::new(peer, service),
            batch: WorkBatch::default(),
            timer,
            is_asked,
            is_over: false,
            streams: session.options().config.streams,
            session,
            sent: Sent::Nothing,
            output: Vec::new(),
            in_a_row: 0,
        }
    }

    /// Whether the message has requests, so that there is a reply.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Runs the handlers, and returns what comes next; [`Output::Silence`] at `until`. After the reply it must
    /// not be polled.
    pub fn poll_output(&mut self, cx: &mut TaskContext<'_>, until: Instant) -> Poll<Output> {
        if self.in_a_row >= MAX_EVENTS {
            self.in_a_row = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.poll_next(cx, until);
        self.in_a_row = match polled {
            Poll::Ready(Output::Event(_)) => self.in_a_row + 1,
            _ => 0,
        };
        polled
    }

    fn poll_next(&mut self, cx: &mut TaskContext<'_>, until: Instant) -> Poll<Output> {
        self.session.stay_awake();
        loop {
            self.handlers.poll(cx);
            let moved = Moved {
                now: self.session.now(),
                input: Brought::Nothing,
                is_drained: true,
                sent: mem::take(&mut self.sent),
                requests: self
                    .handlers
                    .requests(cx, self.session.max_running_requests()),
                is_serving: self.handlers.has_notified(),
            };
            let (batch, output) = (&mut self.batch, &mut self.output);
            let answer = |state: &mut _| self.handlers.send_answers(state);
            let next = self.session.turn(moved, answer, batch, output, cx.waker());
            self.handlers.begin(cx, &self.session, &mut self.batch);
            if let Some(event) = self.take_event() {
                return Poll::Ready(Output::Event(event));
            }
            let may_be_answered = match next {
                Next::Busy { .. } => !self.output.is_empty(),
                Next::Sleep { .. } => true,
                Next::Over => false,
            };
            if may_be_answered {
                // A request whose handler runs may have been answered all the same.
                let is_open = self.handlers.has_running() && self.output.is_empty();
                let may_end = !self.handlers.has_notified() && !is_open;
                let ended = may_end.then(|| self.session.end_if_answered(&mut self.output));
                if let Some(why) = ended.flatten() {
                    return Poll::Ready(self.reply(why));
                }
                if let Some(event) = self.take_event() {
                    return Poll::Ready(Output::Event(event));
                }
            }
            match next {
                Next::Busy { .. } => {}
                Next::Sleep { wake_at, .. } => {
                    ready!(self.timer.poll_until(wake_at.min(until), cx));
                    if self.session.now() >= until {
                        return Poll::Ready(Output::Silence);
                    }
                }
                Next::Over => {
                    let why = self.session.end_exchange();
                    return Poll::Ready(self.reply(why));
                }
            }
        }
    }

    /// Takes the output, if it is an event. The reply stays until the exchange ends.
    fn take_event(&mut self) -> Option<Vec<u8>> {
        if !self.streams || self.output.is_empty() {
            return None;
        }
        self.streams = !self.session.lock().conn.has_replied();
        if !self.streams {
            return None;
        }
        self.sent = Sent::All;
        Some(mem::take(&mut self.output))
    }

    fn reply(&mut self, why: Closed) -> Output {
        self.finish(why);
        let reply = mem::take(&mut self.output);
        Output::Reply(match reply.is_empty() {
            false => Ok(Some(reply)),
            true if self.is_asked || matches!(why, Closed::Failed(_)) => Err(Lost::Unanswered),
            true if self.session.has_refused_all() => Err(Lost::NoCapacity),
            true => Ok(None),
        })
    }

    /// Has handlers that are [parked](Peer::park) end their wait: nothing more is to begin.
    pub fn drain(&self) {
        self.session.end_parked();
    }

    /// Runs the handlers on as a task, for `at_most` so long, and until they `must_end`. What they send is dropped, and
    /// those that are parked end their wait.
    pub fn go_on(
        mut self,
        at_most: Duration,
        mut must_end: impl FnMut(&mut TaskContext<'_>) -> bool + Send + 'static,
    ) {
        self.drain();
        let runtime = Arc::clone(self.session.shared_runtime());
        let due = runtime.now() + at_most;
        runtime.spawn(Box::pin(poll_fn(move |cx| {
            loop {
                if must_end(cx) {
                    return Poll::Ready(());
                }
                match ready!(self.poll_output(cx, due)) {
                    Output::Event(_) if self.session.now() < due => {}
                    _ => return Poll::Ready(()),
                }
            }
        })));
    }

    /// Reports to the service that the exchange has ended.
    fn finish(&mut self, why: Closed) {
        self.is_over = true;
        self.handlers.finish(why);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            self.session.abort(None);
            let why = self.session.end_exchange();
            self.finish(why);
        }
    }
}

debug_fields!(impl[] Exchange as "Exchange" { session, handlers });
