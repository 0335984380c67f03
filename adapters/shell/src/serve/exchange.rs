//! One message in, one reply out, with handlers that may wait in between: a session over whole
//! messages, and its handlers.
//!
//! If an exchange is dropped early, its handlers are dropped too. The reply is given when all
//! requests and notifications of the message have been served, so a client that waits for each
//! reply never has two of its messages served at the same time.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use crate::context::Context;
use crate::options::ConnectionConfig;
use crate::session::{Brought, Carries, Moved, Next, Sent, Session, WorkBatch};
use antiphon::{Closed, Input};

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

/// Handles one message and returns the reply; `None` if the message asks nothing. For a message that
/// was too large to be read `input` has only its size. If the future is dropped early, the exchange
/// ends, and its handlers are cancelled.
pub async fn exchange<S: Service>(
    peer: Peer,
    service: &Arc<S>,
    input: Input<'_>,
    mut timer: Box<dyn Timer>,
) -> Result<Option<Vec<u8>>, Lost> {
    let session = Arc::clone(peer.session());
    session.receive_message(input);
    let is_asked = session.lock().conn.requests_open() > 0;
    let mut exchange = Exchange {
        handlers: Handlers::new(peer, Arc::clone(service)),
        batch: WorkBatch::default(),
        session: Arc::clone(&session),
        is_over: false,
        reply: Vec::new(),
    };
    let why = poll_fn(|cx| exchange.poll(cx, &mut *timer)).await;
    exchange.finish(why);
    let reply = mem::take(&mut exchange.reply);
    match reply.is_empty() {
        false => Ok(Some(reply)),
        true if is_asked || matches!(why, Closed::Failed(_)) => Err(Lost::Unanswered),
        true if session.has_refused_all() => Err(Lost::NoCapacity),
        true => Ok(None),
    }
}

struct Exchange {
    session: Arc<Session>,
    handlers: Handlers,
    /// The work that one turn of the session returned. Empty between two polls.
    batch: WorkBatch,
    is_over: bool,
    /// The reply; empty before there is one.
    reply: Vec<u8>,
}

impl Exchange {
    fn poll(&mut self, cx: &mut TaskContext<'_>, timer: &mut dyn Timer) -> Poll<Closed> {
        loop {
            self.handlers.poll(cx);
            let moved = Moved {
                now: self.session.now(),
                input: Brought::Nothing,
                is_drained: true,
                // The reply is kept until the exchange ends.
                sent: Sent::Nothing,
                requests: self
                    .handlers
                    .requests(cx, self.session.max_running_requests()),
                is_serving: self.handlers.has_notified(),
            };
            let (batch, reply) = (&mut self.batch, &mut self.reply);
            let answer = |state: &mut _| self.handlers.send_answers(state);
            let next = self.session.turn(moved, answer, batch, reply, cx.waker());
            self.handlers.begin(cx, &self.session, &mut self.batch);
            match next {
                Next::Busy { .. } => {}
                Next::Sleep { wake_at, .. } => {
                    let may_end = !self.handlers.has_notified();
                    let ended = may_end.then(|| self.session.end_if_answered(&mut self.reply));
                    if let Some(why) = ended.flatten() {
                        return Poll::Ready(why);
                    }
                    ready!(timer.poll_until(wake_at, cx));
                }
                Next::Over => return Poll::Ready(self.session.end_exchange()),
            }
        }
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
