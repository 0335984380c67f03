//! One message in, one reply out, with handlers that may wait in between.
//!
//! The rules guarded here: an exchange that is given up takes its handlers with it; and the reply
//! is given when all that the message asked for has been served, so that a client that sends one
//! message after the other is never served by two at once.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use antiphon::{Closed, Input, Instant};
use antiphon_session::{Clock, Context, Handle, Machine, Options, Session, Turn};

use crate::dispatch::Dispatch;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, Timer};
use crate::service::Service;

/// An exchange under way: a future of the reply, none if none is owed. Dropped before, it ends the
/// exchange, and its handlers see that they are cancelled.
#[must_use = "nothing happens before it is awaited"]
pub(crate) struct Exchange {
    session: Arc<Session>,
    dispatch: Dispatch,
    runtime: SharedRuntime,
    timer: Option<Box<dyn Timer>>,
    reply: Option<Vec<u8>>,
    is_over: bool,
}

impl Exchange {
    /// Takes a message in, or its size where nobody wanted to assemble it. The handlers run once
    /// the exchange is polled.
    pub(crate) fn new<S: Service>(
        options: &Options,
        context: Context,
        service: Arc<S>,
        runtime: &SharedRuntime,
        clock: Arc<dyn Clock>,
        input: &mut Input<'_>,
    ) -> Self {
        let mut options = options.clone();
        options.config = options.config.for_server_exchange();
        options.config.connection = context.connection;
        let session = Arc::new(Session::new(options, context, clock));
        session.act(|state| session.pump(state, input));
        let peer = Peer::new(Handle::unowned(Arc::clone(&session)), Arc::clone(runtime));
        Self {
            dispatch: Dispatch::new(Arc::clone(&session), peer, service),
            session,
            runtime: Arc::clone(runtime),
            timer: None,
            reply: None,
            is_over: false,
        }
    }

    /// Takes the reply out once it is complete. Says whether nothing more is owed.
    fn is_answered(&mut self) -> bool {
        let mut state = self.session.lock();
        let mut reply = Vec::new();
        if state.conn.take_transmit(&mut reply) {
            self.reply = Some(reply);
        }
        state.conn.requests_open() == 0
    }

    /// Says the last word to the service, and lets go of what still waits for it.
    fn finish(&mut self) {
        self.is_over = true;
        self.session.act(|state| {
            state.conn.handle_eof();
            self.session.pump(state, &mut Input::none());
        });
        self.session.finished();
        let why = self.session.lock().finished();
        self.dispatch.finish(why.unwrap_or(Closed::EndOfInput));
        // What is left may hold the session and so keep itself alive.
        loop {
            let work = self.session.lock().queue.pop();
            if work.is_none() {
                return;
            }
        }
    }
}

impl Future for Exchange {
    type Output = Option<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.is_over {
            // Polled after its end: it has said everything.
            return Poll::Pending;
        }
        loop {
            let progress = this.dispatch.poll(cx);
            if this.is_answered() && this.dispatch.is_through() {
                this.finish();
                return Poll::Ready(this.reply.take());
            }
            let wake_at = match this.session.turn(cx.waker()) {
                Turn::Busy => continue,
                Turn::Open { wake_at } => wake_at,
                Turn::Over => {
                    this.finish();
                    return Poll::Ready(this.reply.take());
                }
            };
            if progress {
                continue;
            }
            if wake_at == Instant::FAR_FUTURE {
                return Poll::Pending;
            }
            let timer = this.timer.get_or_insert_with(|| this.runtime.timer());
            if timer.poll_until(wake_at, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            self.session.abort(None);
            self.finish();
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("session", &self.session)
            .field("dispatch", &self.dispatch)
            .finish_non_exhaustive()
    }
}
