//! One message in, one reply out, with handlers that may wait in between.
//!
//! The rules guarded here: an exchange that is given up takes its handlers with it; and the reply
//! is given when all that the message asked for has been served, so that a client that sends one
//! message after the other is never served by two at once.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};

use antiphon::{Input, Instant};
use antiphon_session::{Clock, Context, Handle, Machine, Options, Session, Turn};

use crate::dispatch::Dispatch;
use crate::driver::RuntimeClock;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, Timer};
use crate::service::Service;

/// An exchange under way: a future of the reply, none if none is owed. Dropped before, it ends the
/// exchange, and its handlers see that they are cancelled.
#[must_use = "nothing happens before it is awaited"]
pub(crate) struct Exchange<'a> {
    session: Arc<Session>,
    /// None once it is over.
    dispatch: Option<Dispatch>,
    of: &'a Exchanges,
    timer: Option<Box<dyn Timer>>,
    reply: Option<Vec<u8>>,
}

/// What the exchanges of a service have in common.
pub(crate) struct Exchanges {
    /// With the protocol's side of an exchange.
    options: Options,
    runtime: SharedRuntime,
    clock: Arc<dyn Clock>,
    /// Sessions that are over and that nobody holds any more: others go on in their memory.
    spare: Mutex<Vec<Arc<Session>>>,
}

/// How many sessions are kept for others at the most: mostly some 3 KiB each, and up to 10 more of
/// headers and lists.
const SPARE_MAX: usize = 64;

impl Exchanges {
    pub(crate) fn new(options: &Options, runtime: &SharedRuntime) -> Self {
        let mut options = options.clone();
        options.config = options.config.for_server_exchange();
        Self {
            options,
            runtime: Arc::clone(runtime),
            clock: Arc::new(RuntimeClock(Arc::clone(runtime))),
            spare: Mutex::default(),
        }
    }

    fn lock_spare(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        // Nothing that can panic runs under the lock.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message in, or its size where nobody wanted to assemble it. `know` says what is known
    /// of the transport. The handlers run once the exchange is polled.
    pub(crate) fn begin<S: Service>(
        &self,
        service: &Arc<S>,
        input: &mut Input<'_>,
        know: impl FnOnce(&mut Context),
    ) -> Exchange<'_> {
        let session = self.session(know);
        session.act(|state| session.pump(state, input));
        let handle = Handle::unowned(Arc::clone(&session));
        let peer = Peer::new(handle, Arc::clone(&self.runtime));
        let dispatch = Dispatch::new(Arc::clone(&session), peer, Arc::clone(service));
        Exchange {
            dispatch: Some(dispatch),
            session,
            of: self,
            timer: None,
            reply: None,
        }
    }

    fn session(&self, know: impl FnOnce(&mut Context)) -> Arc<Session> {
        let spare = self.lock_spare().pop();
        if let Some(mut session) = spare {
            if let Some(unshared) = Arc::get_mut(&mut session) {
                unshared.renew(know);
                return session;
            }
        }
        let mut context = Context::new();
        know(&mut context);
        let mut options = self.options.clone();
        options.config.connection = context.connection;
        Arc::new(Session::new(options, context, Arc::clone(&self.clock)))
    }

    /// Keeps a session that is over for another exchange, unless a handler still has it.
    fn keep(&self, session: &mut Arc<Session>) {
        if Arc::get_mut(session).is_some() {
            let mut spare = self.lock_spare();
            if spare.len() < SPARE_MAX {
                spare.push(Arc::clone(session));
            }
        }
    }
}

impl Exchange<'_> {
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
        let Some(mut dispatch) = self.dispatch.take() else {
            return;
        };
        let why = self.session.end_exchange();
        dispatch.finish(why);
        self.session.let_work_go();
    }
}

impl Future for Exchange<'_> {
    type Output = Option<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let Some(dispatch) = &mut this.dispatch else {
                // Polled after its end: it has said everything.
                return Poll::Pending;
            };
            let progress = dispatch.poll(cx);
            // In this order: who answers has said everything else before.
            let is_answered = this.is_answered();
            if is_answered && this.dispatch.as_ref().is_some_and(Dispatch::is_through) {
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
            let timer = this.timer.get_or_insert_with(|| this.of.runtime.timer());
            if timer.poll_until(wake_at, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if self.dispatch.is_some() {
            self.session.abort(None);
            self.finish();
        }
        self.of.keep(&mut self.session);
    }
}

impl fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("session", &self.session)
            .field("dispatch", &self.dispatch)
            .finish_non_exhaustive()
    }
}
