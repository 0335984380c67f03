//! Runs a service for one session: what waits is begun in order, and runs side by side.
//!
//! The rules guarded here: at most [`Options::handlers_max`](antiphon_session::Options) requests
//! run at once, and those beyond wait without holding up what is not a request; a handler that
//! panics costs its own request; nothing is polled that was not woken.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use antiphon::{Closed, OwnedRequest, RequestKey};
use antiphon_session::{Report, Request, Session, Work};
use futures_util::stream::{FuturesUnordered, Stream};

use crate::peer::Peer;
use crate::runtime::Task;
use crate::service::Service;

/// The work of one session, on its way.
pub(crate) struct Dispatch {
    session: Arc<Session>,
    service: Box<dyn Serve>,
    peer: Peer,
    /// The service has been told of the connection.
    is_begun: bool,
    /// What must be done with before anything else begins.
    ordered: Option<Task>,
    running: FuturesUnordered<Task>,
    /// Requests that wait for others to end.
    waiting: VecDeque<OwnedRequest>,
}

/// A [`Service`] without its type.
trait Serve: Send {
    fn opened(&self, peer: &Peer) -> Task;
    fn serve(&self, session: &Arc<Session>, peer: &Peer, work: Work) -> Started;
    fn closed(&self, peer: &Peer, why: Closed);
    fn panicked(&self, peer: &Peer);
}

enum Started {
    Done,
    Request(Task),
    Ordered(Task),
}

/// The service, shared among its handlers.
struct Shared<S>(Arc<S>);

impl<S: Service> Serve for Shared<S> {
    fn opened(&self, peer: &Peer) -> Task {
        let (service, peer) = (Arc::clone(&self.0), peer.clone());
        Box::pin(async move { service.opened(&peer).await })
    }

    fn serve(&self, session: &Arc<Session>, peer: &Peer, work: Work) -> Started {
        let service = Arc::clone(&self.0);
        match work {
            Work::Request(request) => {
                let peer = peer.clone();
                let (request, reply) = Request::split(session, request);
                return Started::Request(Box::pin(async move {
                    service.request(&peer, request, reply).await;
                }));
            }
            Work::Notification(notification) => {
                let peer = peer.clone();
                return Started::Ordered(Box::pin(async move {
                    service.notification(&peer, notification).await;
                }));
            }
            Work::Cancelled(key, reason) => service.cancelled(peer, key, reason),
            Work::Settled(then, outcome) => then(outcome),
            Work::Report(report) => service.report(peer, report),
            // The queue tells it as a report.
            Work::Dropped => {}
        }
        Started::Done
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        self.0.closed(peer, why);
    }

    fn panicked(&self, peer: &Peer) {
        self.0.report(peer, Report::Panicked);
    }
}

impl Dispatch {
    pub(crate) fn new<S: Service>(session: Arc<Session>, peer: Peer, service: Arc<S>) -> Self {
        let service = Shared(service);
        Self {
            ordered: None,
            session,
            service: Box::new(service),
            peer,
            is_begun: false,
            running: FuturesUnordered::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Begins and continues what it can. Says whether anything was done.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.may_begin() {
            return false;
        }
        let mut progress = self.poll_running(cx);
        loop {
            if let Some(task) = &mut self.ordered {
                if poll_guarded(task, cx, &*self.service, &self.peer).is_pending() {
                    return progress;
                }
                self.ordered = None;
                progress = true;
            }
            let Some(work) = self.next() else {
                return progress;
            };
            progress = true;
            self.begin(cx, work);
        }
    }

    /// Whether there is something to serve: not before a handshake is done, where there is one.
    fn may_begin(&mut self) -> bool {
        if !self.is_begun {
            let state = self.session.lock();
            let (is_open, is_over) = (state.is_open(), state.finished().is_some());
            drop(state);
            self.is_begun = is_open || is_over;
            if is_open {
                self.ordered = Some(self.service.opened(&self.peer));
            }
        }
        self.is_begun
    }

    /// Whether all that came in has begun, and what had to be done with in order is.
    pub(crate) fn is_through(&self) -> bool {
        self.ordered.is_none() && self.session.lock().queue.is_empty()
    }

    /// The next thing to begin. Tells the session whether the service is at work.
    fn next(&mut self) -> Option<Work> {
        let mut state = self.session.lock();
        let is_serving = std::mem::replace(&mut state.is_serving, true);
        let work = state.queue.pop();
        if work.is_none() {
            state.is_serving = false;
            if is_serving {
                self.session.wake(&mut state);
            }
        }
        work
    }

    fn begin(&mut self, cx: &mut Context<'_>, work: Work) {
        let work = match work {
            Work::Request(request) if self.running.len() >= self.session.options().handlers_max => {
                self.waiting.push_back(request);
                return;
            }
            Work::Cancelled(key, _) if self.give_up(key) => return,
            work => work,
        };
        let (session, service, peer) = (&self.session, &self.service, &self.peer);
        let started = catch_unwind(AssertUnwindSafe(|| service.serve(session, peer, work)));
        match started {
            Ok(Started::Done) => {}
            Ok(Started::Ordered(task)) => self.ordered = Some(task),
            Ok(Started::Request(mut task)) => {
                // Most handlers are through at once and need no place among the others.
                if poll_guarded(&mut task, cx, &**service, peer).is_pending() {
                    self.running.push(task);
                    self.poll_running(cx);
                }
            }
            Err(_) => tell_panic(&**service, peer),
        }
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while !self.running.is_empty() {
            let running = Pin::new(&mut self.running);
            match catch_unwind(AssertUnwindSafe(|| running.poll_next(cx))) {
                Ok(Poll::Pending) => break,
                Ok(Poll::Ready(_)) => {}
                Err(_) => tell_panic(&*self.service, &self.peer),
            }
            progress = true;
            self.begin_waiting(cx);
        }
        progress
    }

    fn begin_waiting(&mut self, cx: &mut Context<'_>) {
        while self.running.len() < self.session.options().handlers_max {
            let Some(request) = self.waiting.pop_front() else {
                return;
            };
            self.begin(cx, Work::Request(request));
        }
    }

    /// Answers a request that was given up before it has begun. Says whether it was one.
    fn give_up(&mut self, key: RequestKey) -> bool {
        let is_it = |request: &OwnedRequest| request.key() == key;
        let Some(at) = self.waiting.iter().position(is_it) else {
            return false;
        };
        if let Some(request) = self.waiting.remove(at) {
            let (_, reply) = Request::split(&self.session, request);
            // A connection that has closed in the meantime awaits no answer.
            let _ = reply.cancelled();
        }
        true
    }

    /// Drops what still runs, and says the last word to the service.
    pub(crate) fn finish(&mut self, why: Closed) {
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.ordered = None;
            self.running.clear();
            self.waiting.clear();
        }));
        let told = catch_unwind(AssertUnwindSafe(|| self.service.closed(&self.peer, why)));
        if dropped.is_err() || told.is_err() {
            tell_panic(&*self.service, &self.peer);
        }
    }
}

fn poll_guarded(
    task: &mut Task,
    cx: &mut Context<'_>,
    service: &dyn Serve,
    peer: &Peer,
) -> Poll<()> {
    match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
        Ok(polled) => polled,
        Err(_) => {
            tell_panic(service, peer);
            Poll::Ready(())
        }
    }
}

fn tell_panic(service: &dyn Serve, peer: &Peer) {
    // A report that panics itself is not reported again.
    let _ = catch_unwind(AssertUnwindSafe(|| service.panicked(peer)));
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("running", &self.running.len())
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
