//! One message in, one reply out, with handlers that may wait in between.
//!
//! An exchange that is given up takes its handlers with it. The reply is given when all that the
//! message asked for has been served, so that a client that sends one message after the other is
//! never served by two at once.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use antiphon::{Closed, Input, Instant};
use antiphon_session::{
    Brought, Clock, Context, Handle, Moved, Next, Options, Report, Sent, Session, Work,
};

use crate::driver::RuntimeClock;
use crate::handlers::Handlers;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, Timer};
use crate::service::Service;

/// An exchange under way: a future of the reply, none if none is owed. Dropped before, it ends the
/// exchange, and its handlers see that they are cancelled.
#[must_use = "nothing happens before it is awaited"]
pub(crate) struct Exchange<'a> {
    session: Arc<Session>,
    handlers: Handlers,
    /// What was taken from the session together. Empty between two polls.
    work: VecDeque<Work>,
    is_over: bool,
    of: &'a Exchanges,
    timer: Option<Box<dyn Timer>>,
    /// Empty before there is one.
    reply: Vec<u8>,
}

/// What the exchanges of a service have in common.
pub(crate) struct Exchanges {
    /// With the protocol's side of an exchange.
    options: Options,
    runtime: SharedRuntime,
    clock: Arc<dyn Clock>,
}

impl Exchanges {
    pub(crate) fn new(options: &Options, runtime: &SharedRuntime) -> Self {
        let mut options = options.clone();
        options.config = options.config.for_server_exchange();
        // Whoever wrote the request takes the reply, and has a time of its own for that.
        options.config.write_time_max = None;
        Self {
            options,
            runtime: Arc::clone(runtime),
            clock: Arc::new(RuntimeClock(Arc::clone(runtime))),
        }
    }

    /// Takes a message in, or its size where nobody wanted to assemble it. `know` says what is known
    /// of the transport. The handlers run once the exchange is polled.
    pub(crate) fn begin<S: Service>(
        &self,
        service: &Arc<S>,
        input: Input<'_>,
        know: impl FnOnce(&mut Context),
    ) -> Exchange<'_> {
        let mut context = Context::new();
        know(&mut context);
        let peer = self.peer(context);
        let session = Arc::clone(peer.handle().session());
        session.receive_message(input);
        Exchange {
            session,
            handlers: Handlers::new(peer, Arc::clone(service)),
            work: VecDeque::new(),
            is_over: false,
            of: self,
            timer: None,
            reply: Vec::new(),
        }
    }

    /// The peer of a new exchange.
    fn peer(&self, context: Context) -> Peer {
        let mut options = self.options.clone();
        options.config.connection = context.connection;
        let session = Session::new(options, context, Arc::clone(&self.clock));
        let handle = Handle::unowned(Arc::new(session));
        Peer::new(handle, Arc::clone(&self.runtime))
    }

    /// Tells the service of something that has to do with no exchange.
    pub(crate) fn report<S: Service>(&self, service: &Arc<S>, context: &Context, report: Report) {
        let peer = self.peer(context.clone());
        // A panic in it has been printed; the server goes on.
        let _ = catch_unwind(AssertUnwindSafe(|| service.report(&peer, report)));
    }
}

impl Exchange<'_> {
    /// Says the last word to the service, and gives the reply.
    fn finish(&mut self, why: Closed) -> Option<Vec<u8>> {
        self.is_over = true;
        self.handlers.finish(why);
        let reply = mem::take(&mut self.reply);
        (!reply.is_empty()).then_some(reply)
    }
}

impl Future for Exchange<'_> {
    type Output = Option<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // Polled after its end it has said everything.
        while !this.is_over {
            this.handlers.poll(cx);
            let moved = Moved {
                now: this.session.now(),
                input: Brought::Nothing,
                is_drained: true,
                // The reply is kept until the exchange ends.
                sent: Sent::Nothing,
                requests: this.handlers.requests(this.of.options.handlers_max),
            };
            let (work, reply) = (&mut this.work, &mut this.reply);
            let next = this.session.turn(moved, work, reply, cx.waker());
            this.handlers.begin(cx, &this.session, &mut this.work);
            match next {
                Next::Busy { .. } => {}
                Next::Sleep { wake_at, .. } => {
                    let is_through = this.handlers.is_through();
                    let ended = is_through.then(|| this.session.end_if_answered(&mut this.reply));
                    if let Some(why) = ended.flatten() {
                        return Poll::Ready(this.finish(why));
                    }
                    let timer = this.timer.get_or_insert_with(|| this.of.runtime.timer());
                    if wake_at == Instant::FAR_FUTURE || timer.poll_until(wake_at, cx).is_pending()
                    {
                        return Poll::Pending;
                    }
                }
                Next::Over => {
                    let why = this.session.end_exchange();
                    return Poll::Ready(this.finish(why));
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.session.abort(None);
            let why = self.session.end_exchange();
            self.finish(why);
        }
    }
}

impl fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("session", &self.session)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}
