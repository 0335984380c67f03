//! A service for threads over HTTP: its methods run on a pool, and its connections need no threads.
//! The thread that reads and writes never runs a method of a service.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antiphon::session::Report;
use antiphon::{Closed, OwnedError};
use antiphon_net::{Answer, Context, Notification, Peer, Request, answerable, caught};

use crate::in_turn;
use crate::serve::Service;

/// Makes a service for every method that is called, and runs it on the pool in the server's options.
pub(crate) struct OnPool<S> {
    make: Make<S>,
}

type Make<S> = Arc<dyn Fn(&Context) -> S + Send + Sync>;

/// What happened in an exchange before its first message, until the first job on the pool calls the
/// service's methods for it. The exchange's session holds it.
struct Prelude {
    events: Mutex<VecDeque<Early>>,
    /// Held while methods are called for `events`, so that no other method overtakes them.
    turn: Mutex<()>,
    /// Whether the pool has accepted a job of the exchange.
    has_job: AtomicBool,
}

enum Early {
    Opened,
    Batch(usize),
}

impl Prelude {
    fn of(peer: &Peer) -> Option<&Self> {
        peer.adapter_value()
    }

    /// Notes that the pool has accepted a job of the exchange.
    fn note_job(peer: &Peer) {
        if let Some(prelude) = Self::of(peer) {
            prelude.has_job.store(true, Ordering::SeqCst);
        }
    }

    /// Calls the methods for the events that wait.
    fn play<S: Service>(make: &Make<S>, peer: &Peer) {
        let Some(prelude) = Self::of(peer) else {
            return;
        };
        let _turn = lock(&prelude.turn);
        loop {
            let Some(event) = lock(&prelude.events).pop_front() else {
                return;
            };
            guarded(make, peer, |service| match event {
                Early::Opened => service.opened(peer),
                Early::Batch(items) => service.batch(peer, items),
            });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic of a service leaves what it protects half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Service> OnPool<S> {
    pub(crate) fn new(make: impl Fn(&Context) -> S + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(make),
        }
    }

    /// Makes a job that calls `method` of a service of its own, after the prelude.
    fn job(
        &self,
        peer: &Peer,
        method: impl FnOnce(&mut S, &Peer) + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let (make, peer) = (Arc::clone(&self.make), peer.to_unowned());
        move || {
            Prelude::play(&make, &peer);
            guarded(&make, &peer, |service| method(service, &peer));
        }
    }

    /// Runs such a job on the pool. Returns whether the pool accepts it.
    fn run(&self, peer: &Peer, method: impl FnOnce(&mut S, &Peer) + Send + 'static) -> bool {
        let is_accepted = peer.run_on_pool(self.job(peer, method), false);
        if is_accepted {
            Prelude::note_job(peer);
        }
        is_accepted
    }
}

impl<S: Service> antiphon_net::Service for OnPool<S> {
    // `cancelled` is never called over HTTP: an exchange has one message, and a cancel in a batch is
    // applied before a request of the batch begins.

    async fn opened(&self, peer: &Peer) {
        peer.set_adapter_value(Prelude {
            events: Mutex::new([Early::Opened].into()),
            turn: Mutex::default(),
            has_job: AtomicBool::new(false),
        });
    }

    fn batch(&self, peer: &Peer, items: usize) {
        if let Some(prelude) = Prelude::of(peer) {
            lock(&prelude.events).push_back(Early::Batch(items));
        }
    }

    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let (make, own, unowned) = (Arc::clone(&self.make), request.clone(), request.peer());
        // The channel closes with the job, even if a panic ends it or it is never begun.
        let (done, is_done) = async_channel::bounded::<()>(1);
        request.defer().spawn(move |reply| {
            let (_done, own, peer) = (done, answerable(own, reply), unowned);
            Prelude::note_job(&peer);
            Prelude::play(&make, &peer);
            own.run_on_thread(|own| make(peer.context()).request(&peer, own));
        });
        if !is_done.is_closed() {
            Prelude::note_job(peer);
        }
        // Until the job has ended, it counts as a running request of the server, but while it waits for its peer.
        let is_done = request.run_to_end(async move { is_done.recv().await });
        let _ = is_done.await;
        Ok(Answer::deferred())
    }

    async fn notification(&self, peer: &Peer, notification: Notification) {
        // The channel closes with the job, even if a panic ends it or it is never begun.
        let (done, is_done) = async_channel::bounded::<()>(1);
        let is_accepted = self.run(peer, |service, peer| {
            let _done = done;
            service.notification(peer, notification);
        });
        peer.note_notification(is_accepted);
        match is_accepted {
            // The messages after this notification wait until it has been served.
            true => drop(is_done.recv().await),
            false => self.report(peer, Report::Dropped { messages: 1 }),
        }
    }

    fn report(&self, peer: &Peer, report: Report) {
        // If the pool refuses the job, because too many wait, the report is dropped.
        self.run(peer, |service, peer| service.report(peer, report));
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        // A job that the pool has accepted calls `opened`, and then `closed` must be called too.
        let prelude = Prelude::of(peer);
        let is_opened = prelude.is_some_and(|prelude| prelude.has_job.load(Ordering::SeqCst));
        let job = self.job(peer, move |service, peer| service.closed(peer, why));
        // There are no more of these that run always than exchanges of which the pool has accepted a job. If the
        // pool refuses another one, because too many wait, no method is called for this exchange.
        peer.run_on_pool(job, is_opened);
    }
}

impl<S> fmt::Debug for OnPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnPool").finish_non_exhaustive()
    }
}

/// Makes a service and calls a method of it. A panic is reported to this service directly: by then the
/// HTTP exchange may have ended, and could report nothing. If there is no service, because making it
/// has panicked, nothing is reported.
fn guarded<S: Service>(make: &Make<S>, peer: &Peer, method: impl FnOnce(&mut S)) {
    if let Some(mut service) = caught(|| make(peer.context())) {
        in_turn::guarded(&mut service, peer, method);
    }
}
