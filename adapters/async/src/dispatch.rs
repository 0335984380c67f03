//! Runs a service for one session: what waits is begun in order, and runs side by side.
//!
//! The rules guarded here: at most [`Options::handlers_max`](antiphon_session::Options) requests
//! run at once, and those beyond wait in the session's queue, where nothing but cancels and the ends
//! of our own calls goes past them; a handler whose request the peer gives up is dropped; a handler
//! that panics costs its own request; nothing is polled that was not woken.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use antiphon::{Closed, RequestKey};
use antiphon_session::{Report, Request, Responder, Session, Spare, Taken, Work};
use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, Stream};
use pin_project_lite::pin_project;

use crate::peer::Peer;
use crate::runtime::Task;
use crate::service::Service;

/// How many requests are taken from the session's queue at once.
const TAKEN_MAX: usize = 128;

/// The largest place of a handler that an idle connection keeps, in bytes: that of a handler that awaits nothing.
const SLOT_BYTES_KEPT: usize = 512;

/// The work of one session, on its way. Another session's can go on in its memory.
pub(crate) struct Dispatch {
    service: Box<dyn Serve>,
    /// The service has been told of the connection.
    is_begun: bool,
    /// What must be done with before anything else begins.
    ordered: Option<Task>,
    /// Those that are not through at once; none before there was one.
    running: Option<FuturesUnordered<Handler>>,
    /// Requests taken together, which begin one behind another. Empty between two polls.
    taken: Taken,
    /// What is next waits for a handler to end.
    is_blocked: bool,
}

/// A handler that waits for something.
struct Handler {
    request: RequestKey,
    /// None once its request was given up.
    task: Option<Task>,
    /// Has it polled, so that it is seen to be over.
    waker: Option<Waker>,
}

impl Future for Handler {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(task) = &mut this.task else {
            return Poll::Ready(());
        };
        let polled = task.as_mut().poll(cx);
        if polled.is_pending() && this.waker.is_none() {
            // It is the same one for as long as this is among the others.
            this.waker = Some(cx.waker().clone());
        }
        polled
    }
}

/// What begins next.
enum Next {
    /// What was taken.
    Requests,
    /// Anything but a request.
    Work(Work),
    Nothing,
}

/// A [`Service`] without its type, and the peer that it is shown.
trait Serve: Send {
    fn opened(&self) -> Task;
    /// Begins the first of the requests. What waits for something comes back.
    fn request(
        &mut self,
        cx: &mut Context<'_>,
        session: &Arc<Session>,
        taken: &mut Taken,
    ) -> Option<Task>;
    /// Does anything but a request. What is to be done with before anything else begins comes back.
    fn serve(&self, work: Work) -> Option<Task>;
    fn closed(&self, why: Closed);
    fn panicked(&self);
    /// Lets go of what was kept for the next request, but for a little.
    fn rest(&mut self);
    #[cfg(feature = "http")]
    fn peer(&self) -> &Peer;
    /// The session of the peer, if nobody else has a reference to either.
    #[cfg(feature = "http")]
    fn unshared(&mut self) -> Option<&mut Session>;
}

/// What handlers are made of.
struct Sides<S> {
    service: Arc<S>,
    peer: Peer,
}

pin_project! {
    /// Where a handler runs, and another can after it.
    struct Slot<S, F> {
        #[pin]
        handler: OptionFuture<F>,
        // What the last one was made of, for the next: a reference costs two locked operations.
        sides: Option<Arc<Sides<S>>>,
    }
}

impl<S, F: Future<Output = Arc<Sides<S>>>> Future for Slot<S, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        *this.sides = ready!(this.handler.poll(cx));
        Poll::Ready(())
    }
}

/// Begins handlers, of which `begin` makes the futures.
struct Serving<S, B, F> {
    sides: Arc<Sides<S>>,
    begin: B,
    /// Where a handler was that was through at once: the next one needs no memory of its own.
    spare: Option<Pin<Box<Slot<S, F>>>>,
}

impl<S, B, F> Serve for Serving<S, B, F>
where
    S: Service,
    B: Fn(Arc<Sides<S>>, Request, Responder) -> F + Send,
    F: Future<Output = Arc<Sides<S>>> + Send + 'static,
{
    fn opened(&self) -> Task {
        let sides = Arc::clone(&self.sides);
        Box::pin(async move { sides.service.opened(&sides.peer).await })
    }

    // It comes from where it waited into the future at once: to move it costs as much as to answer it.
    fn request(
        &mut self,
        cx: &mut Context<'_>,
        session: &Arc<Session>,
        taken: &mut Taken,
    ) -> Option<Task> {
        let request = taken.pop()?;
        let (request, reply) = Request::split(session, request);
        let spare = self.spare.take();
        let mut slot = spare.unwrap_or_else(|| {
            Box::pin(Slot {
                handler: OptionFuture::from(None),
                sides: Some(Arc::clone(&self.sides)),
            })
        });
        let mut place = slot.as_mut().project();
        let sides = place
            .sides
            .take()
            .unwrap_or_else(|| Arc::clone(&self.sides));
        let handler = (self.begin)(sides, request, reply);
        place.handler.set(OptionFuture::from(Some(handler)));
        // Most handlers are through at once and need no place among the others.
        if slot.as_mut().poll(cx).is_pending() {
            return Some(slot);
        }
        slot.as_mut()
            .project()
            .handler
            .set(OptionFuture::from(None));
        self.spare = Some(slot);
        None
    }

    fn serve(&self, work: Work) -> Option<Task> {
        let (service, peer) = (&self.sides.service, &self.sides.peer);
        match work {
            Work::Notification(notification) => {
                let sides = Arc::clone(&self.sides);
                return Some(Box::pin(async move {
                    let Sides { service, peer } = &*sides;
                    service.notification(peer, notification).await;
                }));
            }
            Work::Cancelled(key, reason) => service.cancelled(peer, key, reason),
            Work::Settled(then, outcome) => then(outcome),
            Work::Report(report) => service.report(peer, report),
            // Requests are begun by `request`; the queue tells what it dropped as a report.
            Work::Request(_) | Work::Dropped => {}
        }
        None
    }

    fn closed(&self, why: Closed) {
        self.sides.service.closed(&self.sides.peer, why);
    }

    fn panicked(&self) {
        let Sides { service, peer } = &*self.sides;
        let request = peer.handle().session().take_panicked();
        service.report(peer, Report::Panicked { request });
    }

    fn rest(&mut self) {
        if size_of::<Slot<S, F>>() > SLOT_BYTES_KEPT {
            self.spare = None;
        }
    }

    #[cfg(feature = "http")]
    fn peer(&self) -> &Peer {
        &self.sides.peer
    }

    #[cfg(feature = "http")]
    fn unshared(&mut self) -> Option<&mut Session> {
        if let Some(spare) = &mut self.spare {
            *spare.as_mut().project().sides = None;
        }
        Arc::get_mut(&mut self.sides)?.peer.unshared()
    }
}

/// Runs a handler, and gives back what it was made of.
async fn begin<S: Service>(
    sides: Arc<Sides<S>>,
    request: Request,
    reply: Responder,
) -> Arc<Sides<S>> {
    sides.service.request(&sides.peer, request, reply).await;
    sides
}

impl Dispatch {
    pub(crate) fn new<S: Service>(peer: Peer, service: Arc<S>) -> Self {
        let serving = Serving {
            sides: Arc::new(Sides { service, peer }),
            begin: begin::<S>,
            spare: None,
        };
        Self {
            ordered: None,
            service: Box::new(serving),
            is_begun: false,
            running: None,
            taken: Taken::default(),
            is_blocked: false,
        }
    }

    /// The session of the peer that the service is shown.
    #[cfg(feature = "http")]
    pub(crate) fn session(&self) -> &Arc<Session> {
        self.service.peer().handle().session()
    }

    /// The same, so that it can begin anew, if nobody else has a reference to it or to the peer.
    #[cfg(feature = "http")]
    pub(crate) fn unshared(&mut self) -> Option<&mut Session> {
        self.service.unshared()
    }

    /// Tells the service of a connection that is open from the start.
    pub(crate) fn open(&mut self) {
        self.is_begun = true;
        self.ordered = Some(self.service.opened());
    }

    /// How many handlers run.
    fn running(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.len())
    }

    /// Begins and continues what it can of the session's work. Says whether anything was done.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, session: &Arc<Session>) -> bool {
        if !self.may_begin(session) {
            return false;
        }
        let _spare = Spare::keep(session);
        let mut progress = self.poll_running(cx);
        loop {
            if let Some(task) = &mut self.ordered {
                if poll_guarded(task, cx, &*self.service).is_pending() {
                    return self.take_cancels(cx, session) || progress;
                }
                self.ordered = None;
                progress = true;
            }
            match self.next(session) {
                Next::Requests => {
                    while !self.taken.is_empty() {
                        self.begin_request(cx, session);
                    }
                }
                Next::Work(work) => self.begin(cx, work),
                Next::Nothing => return progress,
            }
            progress = true;
        }
    }

    /// Whether there is something to serve: not before a handshake is done, where there is one.
    fn may_begin(&mut self, session: &Session) -> bool {
        if !self.is_begun {
            let state = session.lock();
            let (is_open, is_over) = (state.is_open(), state.finished().is_some());
            drop(state);
            self.is_begun = is_open || is_over;
            if is_open {
                self.open();
            }
        }
        self.is_begun
    }

    /// Whether what had to be done with in order is. All that came in has begun if besides nothing
    /// waits in the session's queue.
    pub(crate) fn is_through(&self) -> bool {
        self.ordered.is_none()
    }

    /// Lets go of what was kept for the next request, but for a little: there may not be one for a while.
    pub(crate) fn rest(&mut self) {
        self.service.rest();
    }

    /// Sees to cancels while all else waits. Says whether there were any.
    fn take_cancels(&mut self, cx: &mut Context<'_>, session: &Session) -> bool {
        let mut is_any = false;
        while session.has_work() {
            let Some(work) = session.lock().queue.pop_cancelled() else {
                break;
            };
            self.begin(cx, work);
            is_any = true;
        }
        is_any
    }

    /// The next thing to begin.
    fn next(&mut self, session: &Session) -> Next {
        let places = session
            .options()
            .handlers_max
            .saturating_sub(self.running());
        let is_freed = self.is_blocked && places > 0;
        if !session.has_work() && !is_freed {
            return Next::Nothing;
        }
        let mut state = session.lock();
        if session.next_requests(&mut state, &mut self.taken, places.min(TAKEN_MAX)) {
            return Next::Requests;
        }
        match session.next_work(&mut state, places > 0) {
            Some(work) => Next::Work(work),
            None => {
                self.is_blocked = !state.queue.is_empty();
                state.queue.take_room(&mut self.taken);
                Next::Nothing
            }
        }
    }

    fn begin(&mut self, cx: &mut Context<'_>, work: Work) {
        let given_up = match work {
            Work::Cancelled(key, _) => Some(key),
            _ => None,
        };
        match catch_unwind(AssertUnwindSafe(|| self.service.serve(work))) {
            // Only a notification has more to be done, and it is begun when nothing else is.
            Ok(Some(task)) => self.ordered = Some(task),
            Ok(None) => {}
            Err(_) => tell_panic(&*self.service),
        }
        if let Some(key) = given_up {
            self.give_up(key);
            self.poll_running(cx);
        }
    }

    /// Begins the first of those that were taken, for which there is a place.
    fn begin_request(&mut self, cx: &mut Context<'_>, session: &Arc<Session>) {
        let Some(request) = self.taken.next_key() else {
            return;
        };
        if !session.may_begin(request) {
            if let Some(request) = self.taken.pop() {
                Request::give_up(session, request);
            }
            return;
        }
        let mut waits = None;
        let begin = || waits = self.service.request(cx, session, &mut self.taken);
        if catch_unwind(AssertUnwindSafe(begin)).is_err() {
            tell_panic(&*self.service);
        }
        if let Some(task) = waits {
            let handler = Handler {
                request,
                task: Some(task),
                waker: None,
            };
            self.running.get_or_insert_default().push(handler);
            self.poll_running(cx);
        }
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while let Some(running) = self.running.as_mut().filter(|running| !running.is_empty()) {
            match catch_unwind(AssertUnwindSafe(|| Pin::new(running).poll_next(cx))) {
                Ok(Poll::Pending) => break,
                Ok(Poll::Ready(_)) => {}
                Err(_) => tell_panic(&*self.service),
            }
            progress = true;
        }
        progress
    }

    /// Drops the handler of a request that was given up. What it has not answered is answered as the
    /// dialect says.
    #[cold]
    fn give_up(&mut self, request: RequestKey) {
        let handlers = self.running.iter_mut().flat_map(FuturesUnordered::iter_mut);
        let mut wanted = handlers.filter(|handler| handler.request == request);
        let Some(handler) = wanted.next() else {
            return;
        };
        let (task, waker) = (handler.task.take(), handler.waker.take());
        if catch_unwind(AssertUnwindSafe(|| drop(task))).is_err() {
            tell_panic(&*self.service);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drops what still runs, and says the last word to the service.
    pub(crate) fn finish(&mut self, why: Closed) {
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.ordered = None;
            self.running = None;
            self.taken.clear();
        }));
        let told = catch_unwind(AssertUnwindSafe(|| self.service.closed(why)));
        if dropped.is_err() || told.is_err() {
            tell_panic(&*self.service);
        }
    }
}

fn poll_guarded(task: &mut Task, cx: &mut Context<'_>, service: &dyn Serve) -> Poll<()> {
    match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
        Ok(polled) => polled,
        Err(_) => {
            tell_panic(service);
            Poll::Ready(())
        }
    }
}

#[cold]
fn tell_panic(service: &dyn Serve) {
    // A report that panics itself is not reported again.
    let _ = catch_unwind(AssertUnwindSafe(|| service.panicked()));
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("running", &self.running())
            .field("is_blocked", &self.is_blocked)
            .finish_non_exhaustive()
    }
}
