//! A service for threads over HTTP: its methods run on a pool, and its connections need no threads.
//! The thread that reads and writes never runs a method of a service.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use antiphon::OwnedError;
use antiphon_net::{Answer, Context, Notification, Peer, Report, Request};

use crate::serve::Service;

/// Makes a service for every message, and runs it on the pool in the server's options.
pub(super) struct OnPool<F> {
    make: Arc<F>,
}

impl<F> OnPool<F> {
    pub(super) fn new(make: F) -> Self {
        Self {
            make: Arc::new(make),
        }
    }
}

impl<S, F> antiphon_net::Service for OnPool<F>
where
    S: Service,
    F: Fn(&Context) -> S + Send + Sync + 'static,
{
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let make = Arc::clone(&self.make);
        // The channel closes with the job, even if a panic ends it or it is never begun.
        let (done, is_done) = async_channel::bounded::<()>(1);
        let answer = request.spawn(move |request| {
            let _done = done;
            let peer = request.peer();
            make(peer.context()).request(&peer, request)
        });
        // Until the job has ended, it counts as a running request of the server.
        let _ = is_done.recv().await;
        Ok(answer)
    }

    async fn notification(&self, peer: &Peer, notification: Notification) {
        let (make, inside) = (Arc::clone(&self.make), peer.clone());
        // The channel closes with the job, even if a panic ends it or it is never begun.
        let (done, is_done) = async_channel::bounded::<()>(1);
        let pool = peer.session().options().pool.clone();
        let told = pool.run(Box::new(move || {
            let _done = done;
            let peer = inside.to_unowned();
            let mut service = make(peer.context());
            guarded(&mut service, &peer, |service| {
                service.notification(&peer, notification);
            });
        }));
        match told {
            // The messages after this notification wait until it has been served.
            Ok(()) => drop(is_done.recv().await),
            Err(_) => self.report(peer, Report::Dropped { messages: 1 }),
        }
    }

    fn report(&self, peer: &Peer, report: Report) {
        let (make, inside) = (Arc::clone(&self.make), peer.to_unowned());
        let job = move || {
            let peer = inside;
            make(peer.context()).report(&peer, report);
        };
        // If the pool refuses the job, because too many wait, the report is dropped.
        drop(peer.session().options().pool.run(Box::new(job)));
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
