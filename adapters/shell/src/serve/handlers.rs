//! The handlers of one session: begun in order, and run concurrently on the connection's task, or each as a
//! [task of its own](crate::ConnectionConfig::spawn_handlers).
//!
//! At most [`ConnectionConfig::max_running_requests`](crate::ConnectionConfig) requests run at the same time. When
//! that many run, the next request waits in the session, and so does every message after it; only
//! cancels and the answers to our own calls overtake it. The connection's [`Order`] says which messages
//! wait for the end of others even when fewer requests run. When the peer cancels a request, its handler
//! is dropped and the dialect's answer to a cancelled request is sent. When a handler panics, its request
//! is answered *internal error*, and the connection goes on.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use antiphon::session::{Order, Report};
use antiphon::{Closed, RequestKey};
use futures_util::stream::{FuturesUnordered, Stream};

use crate::guard::{Contained, Reports, caught, contained};
use crate::peer::Peer;
use crate::runtime::Task;
use crate::serve::answer::Answer;
use crate::serve::notification::Notification;
use crate::serve::request::Request;
use crate::serve::responder::Answered;
use crate::serve::service::Service;
use crate::serve::spawned::{Queue, RunningRequest, Spawned};
use crate::session::{Session, State, Tag, Work, WorkBatch};
use crate::work::dispatcher::Permits;
use crate::work::seat::{Waits, is_away, seated_on_task};

/// How many results and pieces of work space is kept for when there are none.
const KEPT: usize = 16;

/// The service of one session, and its running handlers.
pub(crate) struct Handlers {
    service: Contained<Box<dyn ErasedService>, Session>,
    session: Arc<Session>,
    /// The handler that must end before anything else begins.
    ordered: Option<Task>,
    /// The handlers of notifications under [`Order::Free`], where no message waits for their end; `None`
    /// before the first one.
    notified: Option<FuturesUnordered<Task>>,
    /// Whether the order is [`Order::Free`].
    is_free: bool,
    /// Whether the requests of the service run one after another: those that have begun share a permit.
    pub(crate) is_in_turn: bool,
    /// The handlers of requests that did not end in their first poll, and those that were spawned; `None`
    /// before the first one.
    running: Option<FuturesUnordered<Handler>>,
    /// The spawned handlers that have not begun; `None` before the first one.
    unbegun: Option<Arc<Queue>>,
    /// Whether one of them has waited for its peer.
    has_waited: bool,
    /// The permits of the server's dispatcher with which the handlers run.
    permits: Permits,
    /// The results of handlers, until the next turn sends them.
    answers: Vec<Answered>,
}

/// A handler that waits for something, or was spawned.
struct Handler {
    request: RequestKey,
    /// `None` after its request was cancelled.
    run: Option<Run>,
    /// The address of its session.
    session: usize,
    /// What it waits for its own peer.
    waits: Waits,
    /// Makes the set of handlers poll this one. It is woken after a cancel, so that the set removes
    /// the handler.
    waker: Option<Waker>,
}

enum Run {
    /// On the connection's task.
    Here(RunningRequest),
    Spawned(Spawned),
}

/// Returns the handler's result; nothing if its request was cancelled.
impl Future for Handler {
    type Output = Option<Answered>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let task = match &mut this.run {
            Some(Run::Here(task)) => task,
            Some(Run::Spawned(spawned)) => return spawned.poll(cx),
            None => return Poll::Ready(None),
        };
        let poll = || task.as_mut().poll(cx).map(Some);
        let polled = seated_on_task(this.session, &mut this.waits, poll);
        if polled.is_pending() && this.waker.is_none() {
            // The waker stays valid as long as this handler is in the set.
            this.waker = Some(cx.waker().clone());
        }
        polled
    }
}

/// A [`Service`] with its type erased, and the peer that it gets.
trait ErasedService: Send + Reports {
    fn request(&self, request: Request) -> RunningRequest;
    /// Does any work except a request. Returns the handler that must be polled for it, if there is one:
    /// that of a notification or of [`Service::opened`].
    fn serve(&self, work: Work) -> Option<Task>;
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()>;
    fn closed(&self, why: Closed);
}

/// The service, and the peer with which handlers are called.
struct Sides<S> {
    service: Arc<S>,
    peer: Peer,
}

struct Serving<S>(Arc<Sides<S>>);

impl<S: Service> ErasedService for Serving<S> {
    fn request(&self, request: Request) -> RunningRequest {
        let sides = Arc::clone(&self.0);
        Box::pin(async move {
            let answer = {
                let mut handler = pin!(sides.service.request(&sides.peer, &request));
                poll_fn(|cx| {
                    let polled = request.guard(|| handler.as_mut().poll(cx));
                    polled.unwrap_or(Poll::Ready(Ok(Answer::deferred())))
                })
                .await
            };
            request.answered(answer)
        })
    }

    fn serve(&self, work: Work) -> Option<Task> {
        let sides = Arc::clone(&self.0);
        let Sides { service, peer } = &*self.0;
        match work {
            Work::Opened => {
                return Some(Box::pin(async move {
                    sides.service.opened(&sides.peer).await;
                }));
            }
            Work::Notification(notification) => {
                return Some(Box::pin(async move {
                    let Sides { service, peer } = &*sides;
                    let notification = Notification::new(peer.session(), notification);
                    service.notification(peer, notification).await;
                }));
            }
            Work::Batch(items) => service.batch(peer, items),
            Work::Cancelled(key, reason) => service.cancelled(peer, key, reason),
            Work::Settled(settled) => {
                if let Tag::Then(then) = settled.waiter {
                    match service.turns() {
                        Some(turns) => turns.settled(peer, then, settled.outcome),
                        None => then(settled.outcome),
                    }
                }
            }
            Work::Report(report) => service.report(peer, report),
            // Requests are begun by `request`. A later version of the core may add other kinds of
            // work; they are ignored here.
            _ => {}
        }
        None
    }

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let turns = self.0.service.turns();
        turns.map_or(Poll::Ready(()), |turns| turns.poll_ready(cx))
    }

    fn closed(&self, why: Closed) {
        self.0.service.closed(&self.0.peer, why);
    }
}

impl<S: Service> Reports for Serving<S> {
    fn report_panic(&self) {
        let Sides { service, peer } = &*self.0;
        let request = peer.session().take_panicked();
        // If the service panics on this report too, the second panic is not reported.
        caught(|| service.report(peer, Report::Panicked(request)));
    }
}

impl Handlers {
    pub(crate) fn new<S: Service>(peer: Peer, service: Arc<S>) -> Self {
        Self {
            permits: Permits::new(peer.session().dispatcher()),
            is_free: peer.session().options().order == Order::Free,
            is_in_turn: service.turns().is_some(),
            session: Arc::clone(peer.session()),
            service: Contained::new(Box::new(Serving(Arc::new(Sides { service, peer }))), None),
            ordered: None,
            notified: None,
            running: None,
            unbegun: None,
            has_waited: false,
            answers: Vec::new(),
        }
    }

    /// Sends the results of handlers. It runs under the session's lock, where no code of the program may
    /// run, not even the `drop` of one of its values: results are JSON text by now.
    pub(crate) fn send_answers(&mut self, state: &mut State) {
        for answer in self.answers.drain(..) {
            answer.send(state);
        }
        self.answers.shrink_to(KEPT);
    }

    /// How many more requests may begin; `None` while nothing at all may begin, because a handler must end
    /// first, or because as many handlers of notifications run as may.
    pub(crate) fn requests(
        &self,
        cx: &mut Context<'_>,
        max_running_requests: usize,
    ) -> Option<usize> {
        let capacity = max_running_requests.saturating_sub(self.seated());
        let is_full =
            |notified: &FuturesUnordered<Task>| notified.len() >= max_running_requests.max(1);
        let is_held = self.ordered.is_some()
            || self.notified.as_ref().is_some_and(is_full)
            || self.service.poll_ready(cx).is_pending();
        (!is_held).then_some(capacity)
    }

    /// Whether a handler of a notification, or of [`Service::opened`], runs. If none does and no message
    /// waits in the session, every notification that arrived has been served.
    pub(crate) fn has_notified(&self) -> bool {
        let notified = self.notified.as_ref();
        self.ordered.is_some() || notified.is_some_and(|notified| !notified.is_empty())
    }

    /// Whether handlers of requests run.
    pub(crate) fn has_running(&self) -> bool {
        self.running.as_ref().is_some_and(|all| !all.is_empty())
    }

    /// Polls the running handlers.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        self.poll_running(cx);
        if self.notified.is_some() {
            self.poll_notified(cx);
        }
        self.poll_ordered(cx);
        self.release_permits();
    }

    /// Begins the work that was taken from the session, in order.
    pub(crate) fn begin(
        &mut self,
        cx: &mut Context<'_>,
        session: &Arc<Session>,
        batch: &mut WorkBatch,
    ) {
        if batch.is_gone {
            self.go();
        }
        self.permits.add(std::mem::take(&mut batch.permits));
        while let Some(work) = batch.work.pop_front() {
            self.begin_one(cx, session, work);
        }
        if batch.work.capacity() > KEPT {
            batch.work.shrink_to(KEPT);
        }
        self.release_permits();
    }

    /// How many handlers run and do not wait for their own peer.
    fn seated(&self) -> usize {
        let Some(running) = &self.running else {
            return 0;
        };
        match self.has_waited {
            false => running.len(),
            true => running
                .iter()
                .filter(|handler| !is_away(&handler.waits))
                .count(),
        }
    }

    /// Returns the permits of handlers that have ended or wait for their own peer, and takes those of
    /// handlers that go on.
    fn release_permits(&mut self) {
        let has_waited =
            |all: &FuturesUnordered<Handler>| all.iter().any(|one| one.waits.is_some());
        self.has_waited = self.has_waited || self.running.as_ref().is_some_and(has_waited);
        let seated = self.seated();
        self.permits.hold(match self.is_in_turn {
            true => seated.min(1),
            false => seated,
        });
        if self.session.is_gone() {
            self.go();
        }
    }

    /// Notes that the peer has ended its direction, or is gone. If there are too many such handlers on the
    /// server already, these are dropped.
    fn go(&mut self) {
        let session = Arc::clone(&self.session);
        let (running, service) = (&mut self.running, &self.service);
        self.permits
            .go(|| session.make_way(|| drop_all(running, &***service)));
        session.note_gone_permits();
    }

    fn begin_one(&mut self, cx: &mut Context<'_>, session: &Arc<Session>, work: Work) {
        let is_free = self.is_free && matches!(work, Work::Notification(_));
        let given_up = match work {
            Work::Request(message, ticket) => {
                let Err(ticket) = session.give_back(ticket) else {
                    return;
                };
                return self.begin_request(cx, Request::new(session, message, ticket));
            }
            Work::Cancelled(key, _) => Some(key),
            _ => None,
        };
        if given_up.is_some() {
            // A handler that awaits the cancel is polled first, so that it can answer.
            self.poll_running(cx);
        }
        match contained(Some(&**self.service), || self.service.serve(work)).flatten() {
            Some(task) if is_free => {
                self.notified.get_or_insert_default().push(task);
                self.poll_notified(cx);
            }
            Some(task) => {
                // Only the last work that was taken can have a handler that must end first.
                self.ordered = Some(task);
                self.poll_ordered(cx);
            }
            None => {}
        }
        if let Some(key) = given_up {
            self.give_up(key);
            self.poll_running(cx);
        }
    }

    #[inline(never)]
    fn poll_notified(&mut self, cx: &mut Context<'_>) {
        poll_all(&mut self.notified, &**self.service, cx, drop);
    }

    fn poll_ordered(&mut self, cx: &mut Context<'_>) {
        let Some(task) = &mut self.ordered else {
            return;
        };
        let polled = contained(Some(&**self.service), || task.as_mut().poll(cx));
        if polled.is_none_or(|polled| polled.is_ready()) {
            // The values in the handler may use the peer when they are dropped, or panic.
            let done = self.ordered.take();
            contained(Some(&**self.service), || drop(done));
        }
    }

    fn begin_request(&mut self, cx: &mut Context<'_>, request: Request) {
        let key = request.key();
        let service = &self.service;
        let (session, mut waits) = (self.session.address(), None);
        let begin = || {
            let mut task = service.request(request);
            if self.session.options().spawn_handlers {
                let unbegun = self.unbegun.get_or_insert_default();
                let spawned = unbegun.spawn(&self.session, key, task);
                waits = spawned.waits();
                return Err(Run::Spawned(spawned));
            }
            // Most handlers end in their first poll and need not be stored.
            match seated_on_task(session, &mut waits, || task.as_mut().poll(cx)) {
                Poll::Ready(answered) => Ok(answered),
                Poll::Pending => Err(Run::Here(task)),
            }
        };
        match contained(Some(&***service), begin) {
            Some(Ok(answered)) => {
                if self.answers.capacity() == 0 {
                    self.answers.reserve_exact(1);
                }
                self.answers.push(answered);
            }
            Some(Err(run)) => {
                self.running.get_or_insert_default().push(Handler {
                    request: key,
                    run: Some(run),
                    session,
                    waits,
                    waker: None,
                });
                self.poll_running(cx);
            }
            None => {}
        }
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) {
        poll_all(&mut self.running, &**self.service, cx, |answered| {
            self.answers.extend(answered);
        });
    }

    /// Drops the handler of a request that was cancelled. If the handler has not answered, dropping
    /// its request sends the dialect's answer to a cancelled request.
    fn give_up(&mut self, request: RequestKey) {
        let handlers = self.running.iter_mut().flat_map(FuturesUnordered::iter_mut);
        let mut wanted = handlers.filter(|handler| handler.request == request);
        let Some(handler) = wanted.next() else {
            return;
        };
        if let Some(Run::Spawned(spawned)) = &handler.run {
            return spawned.cancel();
        }
        let (run, waker) = (handler.run.take(), handler.waker.take());
        contained(Some(&**self.service), || drop(run));
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drops the handlers of notifications, and that of [`Service::opened`].
    pub(crate) fn drop_notified(&mut self) {
        // Each is dropped by itself: a panic in one would leave the others in a set that cannot be dropped
        // any more.
        let ordered = self.ordered.take().into_iter();
        let notified = self.notified.take().into_iter().flatten();
        for task in ordered.chain(notified) {
            contained(Some(&**self.service), || drop(task));
        }
    }

    /// Drops the handlers that still run, and reports to the service that the connection has ended.
    pub(crate) fn finish(&mut self, why: Closed) {
        self.drop_notified();
        drop_all(&mut self.running, &**self.service);
        self.answers.clear();
        self.permits.retain(0);
        contained(Some(&**self.service), || self.service.closed(why));
    }
}

/// Drops the handlers one by one.
fn drop_all<F: Unpin>(all: &mut Option<FuturesUnordered<F>>, service: &dyn ErasedService) {
    for handler in all.take().into_iter().flatten() {
        contained(Some(service), || drop(handler));
    }
}

/// Polls the handlers that have something to do, and passes the output of each that ends to `end`.
fn poll_all<F: Future>(
    all: &mut Option<FuturesUnordered<F>>,
    service: &dyn ErasedService,
    cx: &mut Context<'_>,
    mut end: impl FnMut(F::Output),
) {
    while let Some(some) = all.as_mut().filter(|all| !all.is_empty()) {
        match contained(Some(service), || Pin::new(some).poll_next(cx)) {
            Some(Poll::Pending) => break,
            Some(Poll::Ready(output)) => output.into_iter().for_each(&mut end),
            // The handler that has panicked is no longer among them.
            None => {}
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field(
                "running",
                &self.running.as_ref().map_or(0, FuturesUnordered::len),
            )
            .finish_non_exhaustive()
    }
}
