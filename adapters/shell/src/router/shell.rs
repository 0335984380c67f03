//! What the router of the core needs of tasks and threads.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, RwLock};

use antiphon::SendError;
use antiphon::service::{
    Adapter, Answers, Attributes, Awaits, Failure, IntoResult, Served, Shared, Shell, marker,
    written,
};

use super::context::RequestContext;
use crate::guard::contained;
use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::finish::RunToEnd;
use crate::serve::notification::Notification;
use crate::serve::request::Request;
use crate::text::Text;

/// Handlers may wait: they run on tasks.
pub type Tasks = On<true>;

/// Handlers answer at once: they run on threads.
pub type OnThreads = On<false>;

/// The shell of this crate; `WAITS` says whether handlers may be futures.
#[derive(Debug)]
pub enum On<const WAITS: bool> {}

impl<const WAITS: bool> Shell for On<WAITS> {
    type Request = Request;
    type Call = Request;
    type Peer = Peer;
    type Text = Text;
    type Cell<T> = Locked<T>;
    type Own<S> = ();
}

impl<const WAITS: bool> Adapter for On<WAITS> {
    type Answer = Answer;
    type Notification = Notification;

    fn connection(peer: &Peer) -> u32 {
        peer.context().connection
    }

    fn attributes(peer: &Peer) -> impl DerefMut<Target = Attributes> {
        let session = peer.session();
        let shared = session.context().shared_attributes();
        shared.unwrap_or_else(|| session.attributes())
    }

    fn shares_connection(peer: &Peer) -> bool {
        peer.session().options().config.exchange && peer.context().shares_connection()
    }

    fn contained(peer: Option<&Peer>, run: impl FnOnce()) {
        contained(peer.map(|peer| &**peer.session()), run);
    }

    fn of_notification(notification: Notification) -> Request {
        let (session, message) = notification.into_parts();
        Request::of_notification(&session, message)
    }

    fn answer(text: Option<Text>) -> Answer {
        Answer(text.map(Ok))
    }

    fn outcome(answer: Answer) -> Option<Result<Text, Failure>> {
        answer.0.map(|outcome| {
            outcome.map_err(|error| match error {
                SendError::Encode(error) => Failure::Encode(error),
                error => Failure::Send(error),
            })
        })
    }
}

impl Awaits for Tasks {
    type Context<S> = RequestContext<S>;

    fn context<S>(request: Request, state: S) -> RequestContext<S> {
        RequestContext { request, state }
    }

    fn run_to_end<T: Send + 'static>(
        request: &Request,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        request.run_to_end(work)
    }
}

impl<F> Answers<Tasks, marker::ToEnd> for RunToEnd<F>
where
    F: Future<Output: IntoResult> + Send + 'static,
{
    fn answer(self, request: &Request, _: &mut Text) -> Served<'static, Tasks> {
        let work = request.run_to_end(async { written::<Tasks>(self.0.await) });
        Served::Later(Box::pin(work))
    }
}

/// A value behind a lock, which its clones share.
#[derive(Debug)]
pub struct Locked<T>(Arc<RwLock<T>>);

impl<T> Clone for Locked<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> for Locked<T> {
    fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }

    fn read(&self) -> impl Deref<Target = T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> impl DerefMut<Target = T> {
        // A change is made completely or not at all, even if code has panicked.
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
