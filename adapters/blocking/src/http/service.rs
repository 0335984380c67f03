//! A service for threads over HTTP: its methods run on a pool, and its connections need no threads.
//! The thread that reads and writes never runs a method of a service.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antiphon::{Closed, OwnedError};
use antiphon_net::{Answer, Context, Job, Notification, Peer, Report, Request};

use crate::serve::Service;

/// Makes a service for every method that is called, and runs it on the pool in the server's options.
pub(super) struct OnPool<F> {
    make: Arc<F>,
}

/// What happened in an exchange before its first message, until the first job on the pool calls the
/// service's methods for it. It is an attribute of the exchange's session.
#[derive(Clone)]
struct Prelude(Arc<PreludeState>);

struct PreludeState {
    events: Mutex<VecDeque<Early>>,
    /// Held while methods are called for `events`, so that no other method overtakes them.
    turn: Mutex<()>,
}

enum Early {
    Opened,
    Batch(usize),
}

impl Prelude {
    fn of(peer: &Peer) -> Option<Self> {
        peer.session().attributes().get::<Self>().cloned()
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Early>> {
        lock(&self.0.events)
    }

    /// Whether a job of the exchange waits, runs or has run on the pool. A refused job has dropped its
    /// clone of the prelude.
    fn has_job(&self) -> bool {
        const OWN: usize = 2;
        // The clones that are not a job's are this one and the attribute.
        Arc::strong_count(&self.0) > OWN || self.events().is_empty()
    }

    /// Calls the methods for the events that wait.
    fn play<S: Service>(&self, make: impl Fn(&Context) -> S, peer: &Peer) {
        let _turn = lock(&self.0.turn);
        loop {
            let Some(event) = self.events().pop_front() else {
                return;
            };
            guarded(&mut make(peer.context()), peer, |service| match event {
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

impl<F> OnPool<F> {
    pub(super) fn new(make: F) -> Self {
        Self {
            make: Arc::new(make),
        }
    }

    /// Makes a job that calls `method` of a service of its own, after the prelude.
    fn job<S: Service>(
        &self,
        peer: &Peer,
        method: impl FnOnce(&mut S, &Peer) + Send + 'static,
    ) -> Job
    where
        F: Fn(&Context) -> S + Send + Sync + 'static,
    {
        let (make, prelude, peer) = (Arc::clone(&self.make), Prelude::of(peer), peer.to_unowned());
        Box::new(move || {
            if let Some(prelude) = &prelude {
                prelude.play(&*make, &peer);
            }
            guarded(&mut make(peer.context()), &peer, |service| {
                method(service, &peer);
            });
        })
    }
}

impl<S, F> antiphon_net::Service for OnPool<F>
where
    S: Service,
    F: Fn(&Context) -> S + Send + Sync + 'static,
{
    // `cancelled` is never called over HTTP: an exchange has one message, and a cancel in a batch is
    // applied before a request of the batch begins.

    async fn opened(&self, peer: &Peer) {
        let prelude = Prelude(Arc::new(PreludeState {
            events: Mutex::new([Early::Opened].into()),
            turn: Mutex::default(),
        }));
        peer.session().attributes().insert(prelude);
    }

    fn batch(&self, peer: &Peer, items: usize) {
        if let Some(prelude) = Prelude::of(peer) {
            prelude.events().push_back(Early::Batch(items));
        }
    }

    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let (make, prelude) = (Arc::clone(&self.make), Prelude::of(&request.peer()));
        // The channel closes with the job, even if a panic ends it or it is never begun.
        let (done, is_done) = async_channel::bounded::<()>(1);
        let answer = request.spawn(move |request| {
            let _done = done;
            let peer = request.peer();
            if let Some(prelude) = &prelude {
                prelude.play(&*make, &peer);
            }
            make(peer.context()).request(&peer, request)
        });
        // Until the job has ended, it counts as a running request of the server.
        let _ = is_done.recv().await;
        Ok(answer)
    }

    async fn notification(&self, peer: &Peer, notification: Notification) {
        // The channel closes with the job, even if a panic ends it or it is never begun.
        let (done, is_done) = async_channel::bounded::<()>(1);
        let told = peer
            .session()
            .options()
            .pool
            .run(self.job(peer, |service, peer| {
                let _done = done;
                service.notification(peer, notification);
            }));
        match told {
            // The messages after this notification wait until it has been served.
            Ok(()) => drop(is_done.recv().await),
            Err(_) => self.report(peer, Report::Dropped { messages: 1 }),
        }
    }

    fn report(&self, peer: &Peer, report: Report) {
        let job = self.job(peer, |service, peer| service.report(peer, report));
        // If the pool refuses the job, because too many wait, the report is dropped.
        drop(peer.session().options().pool.run(job));
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        // A job that the pool has accepted calls `opened`, and then `closed` must be called too.
        let is_opened = Prelude::of(peer).is_some_and(|prelude| prelude.has_job());
        let job = self.job(peer, move |service, peer| service.closed(peer, why));
        let pool = &peer.session().options().pool;
        match is_opened {
            // There are no more of these than exchanges of which the pool has accepted a job.
            true => pool.run_always(job),
            // If the pool refuses the job, because too many wait, no method is called for this exchange.
            false => drop(pool.run(job)),
        }
    }
}

impl<F> fmt::Debug for OnPool<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnPool").finish_non_exhaustive()
    }
}

/// Runs a method of a service, and reports a panic to this service directly: by then the HTTP
/// exchange may have ended, and could report nothing.
fn guarded<S: Service>(service: &mut S, peer: &Peer, method: impl FnOnce(&mut S)) {
    if catch_unwind(AssertUnwindSafe(|| method(service))).is_err() {
        let request = peer.session().take_panicked();
        service.report(peer, Report::Panicked(request));
    }
}
