//! A service for threads over HTTP: its methods run on a pool, and its connections need no threads.
//! The thread that reads and writes never runs a method of a service.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antiphon::{Closed, OwnedError};
use antiphon_net::{Answer, Context, Job, Notification, Peer, Report, Request};

use crate::serve::Service;

/// Makes a service for every method that is called, and runs it on the pool in the server's options.
pub(crate) struct OnPool<F> {
    make: Arc<F>,
}

/// What happened in an exchange before its first message, until the first job on the pool calls the
/// service's methods for it. The exchange's session holds it.
#[derive(Clone)]
struct Prelude(Arc<PreludeState>);

struct PreludeState {
    events: Mutex<VecDeque<Early>>,
    /// Held while methods are called for `events`, so that no other method overtakes them.
    turn: Mutex<()>,
    /// Whether a method was called for one of the events.
    has_begun: AtomicBool,
}

enum Early {
    Opened,
    Batch(usize),
}

impl Prelude {
    fn of(peer: &Peer) -> Option<Self> {
        peer.session().adapter_value::<Self>().cloned()
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Early>> {
        lock(&self.0.events)
    }

    /// Whether a job of the exchange waits, runs or has run on the pool. A refused job has dropped its
    /// clone of the prelude.
    fn has_job(&self) -> bool {
        const OWN: usize = 2;
        // The clones that are not a job's are this one and the session's.
        Arc::strong_count(&self.0) > OWN || self.0.has_begun.load(Ordering::SeqCst)
    }

    /// Calls the methods for the events that wait.
    fn play<S: Service>(&self, make: impl Fn(&Context) -> S, peer: &Peer) {
        let _turn = lock(&self.0.turn);
        loop {
            let Some(event) = self.events().pop_front() else {
                return;
            };
            self.0.has_begun.store(true, Ordering::SeqCst);
            guarded(&make, peer, |service| match event {
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
    pub(crate) fn new(make: F) -> Self {
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
            guarded(&*make, &peer, |service| method(service, &peer));
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
            has_begun: AtomicBool::new(false),
        }));
        peer.session().set_adapter_value(prelude);
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
        let told = peer.session().options().pool.run_for(
            peer.session().jobs(),
            self.job(peer, |service, peer| {
                let _done = done;
                service.notification(peer, notification);
            }),
        );
        peer.session().note_notification(told.is_ok());
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
            true => pool.run_always(peer.session().jobs(), job),
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

/// Makes a service and calls a method of it. A panic is reported to this service directly: by then the
/// HTTP exchange may have ended, and could report nothing. If there is no service, because making it
/// has panicked, nothing is reported.
fn guarded<S: Service>(make: impl Fn(&Context) -> S, peer: &Peer, method: impl FnOnce(&mut S)) {
    let mut made = None;
    let call = || method(made.insert(make(peer.context())));
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        let request = peer.session().take_panicked();
        let report = || made.map(|mut service| service.report(peer, Report::Panicked(request)));
        // If the report panics too, that is not reported.
        let _ = catch_unwind(AssertUnwindSafe(report));
    }
}
