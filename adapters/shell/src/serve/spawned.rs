//! Handlers of requests that run as tasks of their own: see
//! [`ConnectionConfig::spawn_handlers`](crate::ConnectionConfig::spawn_handlers).
//!
//! The connection's task puts a handler into a queue, and spawns a task, which takes the first handler of the
//! queue. So handlers are taken in the order of their requests, whichever task the runtime runs first; on several
//! threads they are then polled at the same time. A notification waits until those before it were polled once. Both
//! tasks share the handler: its own polls it, and the connection's gets the answer, cancels it, or drops it.
//! No handler is polled, dropped or woken under a lock.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use antiphon::RequestKey;
use futures_util::task::AtomicWaker;

use crate::guard::contained;
use crate::lock::Lock;
use crate::serve::responder::{Answered, Unbegun};
use crate::session::Session;
use crate::work::seat::{Waits, is_away, seated_on_task};

/// The handler of a request.
pub(crate) type RunningRequest = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// The spawned handlers of a connection that have not begun, in the order of their requests.
#[derive(Default)]
pub(crate) struct Queue(Lock<VecDeque<Arc<SharedHandler>>>);

impl Queue {
    /// Has the runtime take a handler after those that were spawned before. Notifications wait until it has
    /// begun: until its first poll has returned.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        session: &Arc<Session>,
        request: RequestKey,
        handler: RunningRequest,
    ) -> Spawned {
        let shared = Arc::new(SharedHandler {
            request,
            session: Arc::clone(session),
            waits: Some(Arc::default()),
            state: Lock::new(HandlerState {
                handler: Some(handler),
                stage: HandlerStage::Running,
            }),
            task: AtomicWaker::new(),
            connection: AtomicWaker::new(),
        });
        let spawned = Spawned(Arc::clone(&shared));
        self.0.lock().push_back(shared);
        session.runtime().spawn(Box::pin(HandlerTask {
            queue: Some(Arc::clone(self)),
            unbegun: Some(Unbegun::new(session)),
            handler: None,
        }));
        spawned
    }

    /// Takes the first handler that has not been dropped.
    fn next(&self) -> Option<Arc<SharedHandler>> {
        loop {
            let next = self.0.lock().pop_front()?;
            if next.state.lock().handler.is_some() {
                return Some(next);
            }
        }
    }
}

/// A spawned handler, as the connection's task has it. Dropping it drops the handler: at once, or, if that is
/// being polled, at the end of the poll.
pub(crate) struct Spawned(Arc<SharedHandler>);

impl Spawned {
    /// What the handler waits for its own peer.
    pub(crate) fn waits(&self) -> Waits {
        self.0.waits.clone()
    }

    /// Returns the handler's answer; `None` if it has ended without one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answered>> {
        self.0.connection.register(cx.waker());
        match &mut self.0.state.lock().stage {
            HandlerStage::Ended(answered) => Poll::Ready(answered.take()),
            _ => Poll::Pending,
        }
    }

    /// Drops the handler after one more poll, in which it may still answer.
    pub(crate) fn cancel(&self) {
        let mut state = self.0.state.lock();
        if let HandlerStage::Running = state.stage {
            state.stage = HandlerStage::Cancelled;
        }
        drop(state);
        self.0.task.wake();
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let makes_way = self.0.session.makes_way();
        let mut state = self.0.state.lock();
        let _stage = mem::replace(&mut state.stage, HandlerStage::Dropped { makes_way });
        let _handler = state.handler.take();
        drop(state);
        self.0.task.wake();
    }
}

/// A spawned handler, as both tasks have it.
struct SharedHandler {
    request: RequestKey,
    session: Arc<Session>,
    waits: Waits,
    state: Lock<HandlerState>,
    /// Wakes the handler's task.
    task: AtomicWaker,
    /// Wakes the connection's task.
    connection: AtomicWaker,
}

struct HandlerState {
    /// `None` while it is polled, and after its end.
    handler: Option<RunningRequest>,
    stage: HandlerStage,
}

enum HandlerStage {
    Running,
    /// The peer has cancelled the request.
    Cancelled,
    /// The connection's task has dropped it, perhaps to [make way](Session::make_way).
    Dropped {
        makes_way: bool,
    },
    /// The answer is `None` if there was none, and after the connection's task has taken it.
    Ended(Option<Answered>),
}

impl SharedHandler {
    /// Polls the handler. `unbegun` is dropped as soon as it has begun.
    fn poll(&self, cx: &mut Context<'_>, unbegun: &mut Option<Unbegun>) -> Poll<()> {
        // A request that is cancelled, or whose connection closes, before its handler has begun never
        // reaches the service.
        let never_begins = unbegun.is_some() && self.session.lock().is_cancelled(self.request);
        self.task.register(cx.waker());
        let mut state = self.state.lock();
        let Some(mut handler) = state.handler.take() else {
            return Poll::Ready(());
        };
        let is_last = never_begins || matches!(state.stage, HandlerStage::Cancelled);
        drop(state);
        let (mut waits, was_away) = (self.waits.clone(), is_away(&self.waits));
        let poll = || {
            seated_on_task(self.session.address(), &mut waits, || {
                handler.as_mut().poll(cx)
            })
        };
        let polled = match never_begins {
            true => Some(Poll::Pending),
            false => contained(Some(&*self.session), poll),
        };
        let begins = unbegun.take().is_some();
        let mut state = self.state.lock();
        let is_dropped = matches!(state.stage, HandlerStage::Dropped { .. });
        if matches!(polled, Some(Poll::Pending)) && !is_last && !is_dropped {
            state.handler = Some(handler);
            drop(state);
            if begins || was_away != is_away(&self.waits) {
                // The connection's task can begin more.
                self.connection.wake();
            }
            return Poll::Pending;
        }
        let makes_way = matches!(state.stage, HandlerStage::Dropped { makes_way: true });
        drop(state);
        let drop_handler = || {
            contained(Some(&*self.session), || drop(handler));
        };
        match makes_way {
            true => self.session.make_way(drop_handler),
            false => drop_handler(),
        }
        self.end(match polled {
            Some(Poll::Ready(answered)) => Some(answered),
            _ => None,
        });
        Poll::Ready(())
    }

    /// Passes the answer of the handler, which was dropped, to the connection's task.
    fn end(&self, mut answered: Option<Answered>) {
        let mut state = self.state.lock();
        if !matches!(state.stage, HandlerStage::Dropped { .. }) {
            state.stage = HandlerStage::Ended(answered.take());
        }
        drop(state);
        // The connection's task does not await it any more.
        if let Some(late) = answered {
            self.session.act(|state| late.send(state));
        }
        self.connection.wake();
    }
}

/// The task of a handler.
struct HandlerTask {
    /// `None` after the handler was taken out of it.
    queue: Option<Arc<Queue>>,
    unbegun: Option<Unbegun>,
    handler: Option<Arc<SharedHandler>>,
}

impl Future for HandlerTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(queue) = this.queue.take() {
            this.handler = queue.next();
        }
        let Some(handler) = &this.handler else {
            return Poll::Ready(());
        };
        handler.poll(cx, &mut this.unbegun)
    }
}

/// A runtime that shuts down may drop the task before its end. Then the handler is dropped, too.
impl Drop for HandlerTask {
    fn drop(&mut self) {
        let unbegun = self.queue.take().and_then(|queue| queue.next());
        let Some(shared) = self.handler.take().or(unbegun) else {
            return;
        };
        let handler = shared.state.lock().handler.take();
        if handler.is_some() {
            contained(Some(&*shared.session), || drop(handler));
            shared.end(None);
        }
    }
}
