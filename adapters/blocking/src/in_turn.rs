//! A [`Service`] for threads as one for tasks: its methods run on the pool, one after another.
//!
//! ```text
//!   the connection's task ──a job for each message──▶ queue ──a thread of the pool──▶ the service
//! ```
//!
//! A connection has at most one thread, and only while there is a job. A few requests that came together wait
//! in the queue, so that the two threads need not take turns for each of them. Until it is empty the service is
//! not ready, and what comes next waits in the session, within its limits; only a cancel and the end are added.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use antiphon::session::Report;
use antiphon::{Closed, OwnedError, OwnedJson, OwnedOutcome, RequestKey};
use antiphon_net::{Answer, Notification, Peer, Request, Then, Turns, answerable, caught};
use async_channel::Receiver;

use crate::serve::Service;

/// How many jobs a thread does before other connections have their turn.
const MAX_JOBS: usize = 64;

/// How many requests are begun together at most. They share one of the server's permits.
pub(crate) const MAX_REQUESTS: usize = 8;

/// What is done with the service. It gets the peer of the connection.
type Job<S> = Box<dyn FnOnce(&mut S, &Peer) + Send>;

/// A job that waits.
struct Waiting<S> {
    /// The request that it begins, if it begins one.
    begins: Option<RequestKey>,
    job: Job<S>,
}

/// A service whose methods are called on the pool.
pub(crate) struct InTurn<S: Service>(Arc<Queue<S>>);

/// The jobs of one connection.
struct Queue<S>(Mutex<QueueState<S>>);

struct QueueState<S> {
    jobs: VecDeque<Waiting<S>>,
    /// The requests that the service never sees, because they were cancelled first; a cancel takes its own out.
    unseen: Vec<RequestKey>,
    /// Whether a thread of the pool does the jobs, or will.
    is_scheduled: bool,
    /// `None` while a thread has the service, and after the end.
    service: Option<S>,
    /// `None` before the first job.
    peer: Option<Peer>,
    /// Wakes the connection's task when no job is left.
    waker: Option<Waker>,
    /// Whether no more jobs will come.
    is_over: bool,
    /// Dropped after the service, for those that wait for its end.
    end: Option<async_channel::Sender<()>>,
}

impl<S: Service> InTurn<S> {
    /// Takes a service. The receiver is closed when the service was dropped, after its last method.
    pub(crate) fn new(service: S) -> (Self, Receiver<()>) {
        let (end, has_ended) = async_channel::bounded(1);
        let state = QueueState {
            jobs: VecDeque::new(),
            unseen: Vec::new(),
            is_scheduled: false,
            service: Some(service),
            peer: None,
            waker: None,
            is_over: false,
            end: Some(end),
        };
        (Self(Arc::new(Queue(Mutex::new(state)))), has_ended)
    }

    /// Has `job` done after those that wait.
    fn push(&self, peer: &Peer, job: impl FnOnce(&mut S, &Peer) + Send + 'static) {
        self.push_waiting(peer, None, Box::new(job));
    }

    fn push_waiting(&self, peer: &Peer, begins: Option<RequestKey>, job: Job<S>) {
        let mut state = self.0.lock();
        state.peer.get_or_insert_with(|| peer.to_unowned());
        state.jobs.push_back(Waiting { begins, job });
        Queue::schedule(&self.0, state);
    }

    /// Takes the job out of the queue that would begin a request.
    fn take_waiting(&self, request: RequestKey) -> Option<Waiting<S>> {
        let jobs = &mut self.0.lock().jobs;
        let at = jobs.iter().position(|one| one.begins == Some(request))?;
        jobs.remove(at)
    }

    /// Has `job` done after those that wait, and waits until it is done or dropped.
    async fn done(&self, peer: &Peer, job: impl FnOnce(&mut S, &Peer) + Send + 'static) {
        let (done, is_done) = async_channel::bounded::<()>(1);
        self.push(peer, move |service, peer| {
            let _done = done;
            job(service, peer);
        });
        // It is never sent anything.
        let _ = is_done.recv().await;
    }
}

impl<S> QueueState<S> {
    /// Whether the service has never seen this request. It is not asked again.
    fn is_unseen(&mut self, request: RequestKey) -> bool {
        let at = self.unseen.iter().position(|unseen| *unseen == request);
        at.map(|at| self.unseen.swap_remove(at)).is_some()
    }
}

impl<S: Service> Queue<S> {
    fn lock(&self) -> MutexGuard<'_, QueueState<S>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread of the pool do what waits, unless one does or will. A connection wants one thread at a
    /// time, so the pool takes its job however many wait there.
    fn schedule(this: &Arc<Self>, mut state: MutexGuard<'_, QueueState<S>>) {
        if mem::replace(&mut state.is_scheduled, true) {
            return;
        }
        let Some(peer) = state.peer.clone() else {
            return;
        };
        drop(state);
        let (queue, own) = (Arc::clone(this), peer.clone());
        peer.run_on_pool(move || queue.run(&own), true);
    }

    /// Does the jobs that wait, and at the end drops the service.
    fn run(self: &Arc<Self>, peer: &Peer) {
        let Some(mut service) = self.lock().service.take() else {
            return;
        };
        for _ in 0..MAX_JOBS {
            let mut state = self.lock();
            let Some(Waiting { job, .. }) = state.jobs.pop_front() else {
                if state.is_over {
                    let end = state.end.take();
                    drop(state);
                    caught(|| drop(service));
                    drop(end);
                } else {
                    state.service = Some(service);
                    state.is_scheduled = false;
                    let waker = state.waker.take();
                    drop(state);
                    waker.inspect(Waker::wake_by_ref);
                }
                return;
            };
            drop(state);
            guarded(&mut service, peer, |service| job(service, peer));
        }
        let mut state = self.lock();
        state.service = Some(service);
        state.is_scheduled = false;
        Self::schedule(self, state);
    }
}

/// No more jobs come: the service is dropped after those that wait.
impl<S: Service> Drop for InTurn<S> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_over = true;
        match state.peer {
            Some(_) => Queue::schedule(&self.0, state),
            None => {
                let unused = (state.service.take(), state.end.take());
                drop(state);
                caught(|| drop(unused.0));
            }
        }
    }
}

/// Calls a method of the service, and reports a panic to the service.
pub(crate) fn guarded<S: Service>(service: &mut S, peer: &Peer, method: impl FnOnce(&mut S)) {
    if caught(|| method(service)).is_none() {
        let request = peer.take_panicked();
        // If the report panics too, that is not reported.
        caught(|| service.report(peer, Report::Panicked(request)));
    }
}

impl<S: Service> Turns for InTurn<S> {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.0.lock();
        let is_busy = state.is_scheduled;
        // The waker that is not needed any more is dropped without the lock.
        let _before = mem::replace(&mut state.waker, is_busy.then_some(waker));
        drop(state);
        match is_busy {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    fn settled(&self, peer: &Peer, then: Then, outcome: OwnedOutcome) {
        self.push(peer, move |_, _| then(outcome));
    }
}

impl<S: Service> antiphon_net::Service for InTurn<S> {
    fn turns(&self) -> Option<&dyn Turns> {
        Some(self)
    }

    async fn opened(&self, peer: &Peer) {
        self.done(peer, |service, peer| service.opened(peer)).await;
    }

    fn batch(&self, peer: &Peer, items: usize) {
        self.push(peer, move |service, peer| service.batch(peer, items));
    }

    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let own = answerable(request.clone(), request.defer());
        let (key, queue) = (request.key(), Arc::downgrade(&self.0));
        let (done, is_done) = async_channel::bounded::<()>(1);
        let job = Box::new(move |service: &mut S, peer: &Peer| {
            let _done = done;
            if own.is_cancelled() {
                queue
                    .upgrade()
                    .inspect(|queue| queue.lock().unseen.push(key));
                // If the connection has ended meanwhile, no answer is awaited.
                let _ = own.defer().cancelled();
                return;
            }
            own.run_in_turn(|own| service.request(peer, own));
        });
        self.push_waiting(peer, Some(key), job);
        // If the request is cancelled, its method still counts as a request that runs.
        let is_done = request.run_to_end(async move { is_done.recv().await });
        let _ = is_done.await;
        Ok(Answer::deferred())
    }

    async fn notification(&self, peer: &Peer, notification: Notification) {
        self.done(peer, |service, peer| {
            service.notification(peer, notification)
        })
        .await;
    }

    fn cancelled(&self, peer: &Peer, request: RequestKey, reason: Option<OwnedJson>) {
        // A request that has not begun is answered by dropping it.
        if self.take_waiting(request).is_some() {
            return;
        }
        let queue = Arc::downgrade(&self.0);
        self.push(peer, move |service, peer| {
            // Its turn may have come before this was heard of.
            if queue
                .upgrade()
                .is_some_and(|queue| queue.lock().is_unseen(request))
            {
                return;
            }
            let reason = reason.as_ref().map(OwnedJson::as_json);
            service.cancelled(peer, request, reason);
        });
    }

    fn report(&self, peer: &Peer, report: Report) {
        self.push(peer, move |service, peer| service.report(peer, report));
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        self.push(peer, move |service, peer| service.closed(peer, why));
    }
}

impl<S: Service> fmt::Debug for InTurn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTurn").finish_non_exhaustive()
    }
}
