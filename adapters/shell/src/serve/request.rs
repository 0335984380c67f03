//! A request, as a handler gets it.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, OnceLock};

use antiphon::service::{AnyRequest, Attributes, Cx, Failure, conventions};
use antiphon::session::{Report, RequestDetails, Ticket};
use antiphon::{
    DecodeError, ErrorObject, ErrorProfile, Failures, Instant, Json, Origin, OwnedError, OwnedId,
    OwnedNotification, RequestKey, SendError, Style,
};
use serde::Deserialize;

use crate::guard::Contained;
use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::cancellation::Cancellation;
use crate::serve::finish::WorkToEnd;
use crate::serve::later_answer::LaterAnswer;
use crate::serve::responder::{Answered, Responder, Unbegun};
use crate::session::{PeerFlow, PeerStream, Session};
use crate::work::on_pool::on_pool;

/// A request of the peer. A handler returns the answer, or [defers](Self::defer) it.
///
/// If it is dropped without an answer, the peer is answered *internal error*, or, if it has
/// cancelled the request, that the request was cancelled.
#[derive(Debug)]
pub struct Request {
    pub(crate) message: OwnedNotification,
    pub(crate) responder: Responder,
    /// The attributes of interceptors; empty without interceptors.
    pub(crate) cx: OnceLock<Arc<Contained<Cx, Session>>>,
    /// The answer that comes later, for interceptors to observe; empty before
    /// [`defer`](Self::defer), and without interceptors.
    pub(crate) later: OnceLock<Arc<LaterAnswer>>,
    /// The subscription that it begins, if it begins one.
    pub(crate) sink: OnceLock<Arc<PeerStream>>,
    /// The flow that is its answer, if its answer is one.
    pub(crate) flow: OnceLock<Arc<PeerFlow>>,
}

impl Request {
    /// Makes a request from a session's work.
    pub(crate) fn new(session: &Arc<Session>, message: OwnedNotification, ticket: Ticket) -> Self {
        Self::of(message, Responder::new(session, ticket))
    }

    /// Makes a request of a notification, for code that handles both alike. It is never answered.
    pub(crate) fn of_notification(session: &Arc<Session>, message: OwnedNotification) -> Self {
        Self::of(message, Responder::none(session))
    }

    pub(crate) fn of(message: OwnedNotification, responder: Responder) -> Self {
        Self {
            message,
            responder,
            cx: OnceLock::new(),
            later: OnceLock::new(),
            sink: OnceLock::new(),
            flow: OnceLock::new(),
        }
    }

    /// Whether it is a notification, so that no answer is awaited.
    pub fn is_notification(&self) -> bool {
        self.key() == RequestKey::NONE
    }

    /// The time by the connection's clock.
    pub(crate) fn now(&self) -> Instant {
        self.responder.session().now()
    }

    /// The method.
    pub fn method(&self) -> &str {
        self.message.method()
    }

    /// The params, read into a type: an array by position, an object by name, `null` if there are
    /// none.
    ///
    /// # Errors
    /// *Invalid params* (−32602), to be returned by the handler. The reason is reported to the
    /// service; the peer gets it only if [`failures`](antiphon::Dialect::failures) say so.
    pub fn params<'r, P: Deserialize<'r>>(&'r self) -> Result<P, OwnedError> {
        let params = self.raw_params().unwrap_or(Json::NULL);
        params.decode().map_err(|error| self.invalid_params(error))
    }

    /// Reports that the params do not fit, and returns the error that the peer is told.
    pub(crate) fn invalid_params(&self, error: DecodeError) -> OwnedError {
        let told = Failure::Params(error.clone()).told(self.responder.failures());
        self.responder.report_invalid_params(self.method(), error);
        told
    }

    /// Decides what the peer is told if serving this request fails: with which code, and whether it gets
    /// the cause. Without this the configuration decides, by
    /// [`failures`](antiphon::Dialect::failures). To be called before the right to answer is
    /// [taken](Self::defer).
    ///
    /// ```
    /// use antiphon::Failures;
    /// use antiphon_shell::Router;
    ///
    /// let router = Router::new().check(|_, request| {
    ///     let from = request.peer().context().peer_addr;
    ///     if from.is_some_and(|from| from.ip().is_loopback()) {
    ///         request.set_failures(Failures::new().expose_error_detail(true));
    ///     }
    ///     Ok(())
    /// });
    /// # let _: Router = router;
    /// ```
    pub fn set_failures(&self, failures: Failures) {
        self.responder.set_failures(failures);
    }

    /// Runs code of a handler. If it panics, answers for it and returns `None`.
    pub fn guard<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        let ran = catch_unwind(AssertUnwindSafe(run));
        let later = || self.later.get().cloned();
        let panicked = |payload| self.responder.split_off(later()).panicked(payload);
        ran.map_err(panicked).ok()
    }

    /// Serves the request as [`run_on_thread`](Self::run_on_thread), by a service whose methods run one after
    /// another: the messages after it wait.
    pub fn run_in_turn(self, serve: impl FnOnce(&Self) -> Result<Answer, OwnedError>) {
        let session = self.responder.session();
        session.note_held(self.method(), self.key());
        self.run_on_thread(serve);
    }

    /// Serves the request on this thread, and answers it. It holds a permit of the server, which is given back
    /// while `serve` waits for its own peer.
    pub fn run_on_thread(self, serve: impl FnOnce(&Self) -> Result<Answer, OwnedError>) {
        let session = Arc::clone(self.responder.session());
        session.run_with_permit(|| {
            if let Some(answer) = self.guard(|| serve(&self)) {
                // If the connection has closed meanwhile, no answer is awaited.
                let _ = self.answer(answer);
            }
        });
    }

    /// The params as the peer wrote them, or as an interceptor has changed them: an array or an
    /// object, if there are any.
    pub fn raw_params(&self) -> Option<Json<'_>> {
        let set = self.cx.get().and_then(|cx| cx.params());
        set.or_else(|| self.message.params())
    }

    /// The value of type `T` that an interceptor has added to the attributes of the request, or else that with which
    /// a web server has [let it in](crate::Context::extension).
    pub fn attribute<T: 'static>(&self) -> Option<&T> {
        let own = self.cx.get().and_then(|cx| cx.attributes().get());
        own.or_else(|| self.responder.session().context().extension())
    }

    /// The attributes of the connection, which all its requests share. They are locked until the guard is
    /// dropped.
    pub fn connection_attributes(&self) -> MutexGuard<'_, Attributes> {
        self.responder.session().attributes()
    }

    /// Waits for `future`, which decides when, or whether, the request begins. Meanwhile no notification
    /// after the request is served.
    pub(crate) async fn postponed<T>(&self, mut future: impl Future<Output = T> + Unpin) -> T {
        let mut unbegun = None;
        poll_fn(|cx| {
            let polled = Pin::new(&mut future).poll(cx);
            if polled.is_pending() {
                unbegun.get_or_insert_with(|| Unbegun::new(self.responder.session()));
            }
            polled
        })
        .await
    }

    /// How the connection's dialect reports progress.
    pub(crate) fn progress_style(&self) -> Option<Style> {
        self.responder.session().dialect().progress.style()
    }

    /// Whether the connection is an HTTP request.
    pub(crate) fn is_exchange(&self) -> bool {
        self.responder.session().options().config.exchange
    }

    /// The errors of the connection's dialect.
    pub(crate) fn error_profile(&self) -> ErrorProfile {
        self.responder.session().dialect().error_profile
    }

    /// The id as the peer wrote it. `None` if no answer is awaited.
    pub fn id(&self) -> Option<OwnedId> {
        let state = self.responder.session().lock();
        state.conn.request_id(self.key())
    }

    /// The position of the request: alone or in a batch.
    pub fn origin(&self) -> Origin {
        self.message.origin()
    }

    /// The other side, to notify or call it before the answer. It does not keep the connection
    /// open.
    pub fn peer(&self) -> Peer {
        Peer::of(&self.responder)
    }

    /// Identifies the request, to be compared with the key in
    /// [`cancelled`](crate::Service::cancelled).
    pub fn key(&self) -> RequestKey {
        self.responder.key()
    }

    /// A future that is ready when the peer cancels the request, or the connection ends.
    pub fn cancellation(&self) -> Cancellation {
        self.responder.cancellation()
    }

    /// Whether the peer has cancelled the request, or the connection has ended.
    pub fn is_cancelled(&self) -> bool {
        self.responder.is_cancelled()
    }

    /// Returns the error for an unknown method (−32601), to be returned by the handler, and
    /// [reports](Report::Unserved) the method.
    pub fn unknown_method(&self) -> OwnedError {
        self.responder.report_unserved(self.method());
        let error = ErrorObject::method_not_found().into_owned();
        if !self.responder.session().dialect().echo_method_names {
            return error;
        }
        // Text always has a JSON form.
        error.clone().with_data(self.method()).unwrap_or(error)
    }

    /// Takes the right to answer, for use later and in any thread or task. The handler then returns
    /// [`Answer::deferred`]. If this is called again, the second responder answers nothing.
    pub fn defer(&self) -> Responder {
        let is_seen = self.cx.get().is_some();
        let later = is_seen.then(|| Arc::clone(self.later.get_or_init(Arc::default)));
        self.responder.split_off(later)
    }

    /// Returns a future of the result of `work`, which runs to its end even if the handler is dropped, because the
    /// request is cancelled or its connection ends: see [`RunToEnd`](crate::RunToEnd).
    pub fn run_to_end<T, W>(&self, work: W) -> impl Future<Output = T> + Send + use<T, W>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        WorkToEnd::new(self.responder.session(), work)
    }

    /// Runs `work` on a thread of the connection's [`Pool`](crate::Pool), where it may compute for long
    /// or block, and returns its result. On the connection's task it would stop the whole connection.
    /// A cancel drops the handler's future, but cannot stop a thread: `work` asks the [`Cancellation`]
    /// from time to time whether to go on. If no thread has begun `work` by then, it is dropped.
    ///
    /// ```
    /// # use antiphon_shell::{Answer, Peer, Request, Service};
    /// # use antiphon::OwnedError;
    /// struct Slow;
    ///
    /// impl Service for Slow {
    ///     async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
    ///         let most: u64 = request.params()?;
    ///         let sum = request.on_pool(move |_| (0..most).sum::<u64>()).await?;
    ///         Ok(sum.into())
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The dialect's error *busy*, if too much work waits for a thread.
    pub async fn on_pool<T: Send + 'static>(
        &self,
        work: impl FnOnce(Cancellation) -> T + Send + 'static,
    ) -> Result<T, OwnedError> {
        let (session, cancellation) = (self.responder.session(), self.cancellation());
        match on_pool(&session.options().pool, move || work(cancellation)) {
            Some(done) => Ok(done.await),
            None => {
                let mut about = RequestDetails::of_notification(self.method());
                about.id = self.id();
                session.report(Report::NoCapacity(about));
                Err(self.error_profile().busy().into_owned())
            }
        }
    }

    /// Answers the request, if it was received from an inbox.
    ///
    /// # Errors
    /// Why the answer could not be sent: the peer then gets *internal error*, and the service a
    /// report. [`SendError::Closed`] or [`SendError::NotOpen`] if no answer is awaited any more.
    pub fn answer(self, answer: Result<Answer, OwnedError>) -> Result<(), SendError> {
        self.responder.answer_with(answer)
    }

    /// Returns the handler's answer, to be sent with the connection's next turn.
    pub(crate) fn answered(self, answer: Result<Answer, OwnedError>) -> Answered {
        Answered {
            answer: self.responder.told(answer),
            responder: self.responder,
        }
    }
}

/// A clone can be read for as long as it is kept, but not answered.
impl Clone for Request {
    fn clone(&self) -> Self {
        Self {
            message: self.message.clone(),
            responder: self.responder.without_ticket(),
            cx: self.cx.clone(),
            later: OnceLock::new(),
            sink: self.sink.clone(),
            flow: self.flow.clone(),
        }
    }
}

/// Gives a clone of a request the right to answer it: for adapters that call another handler later. Programs
/// keep the [`Responder`].
pub fn answerable(request: Request, reply: Responder) -> Request {
    Request {
        // It may be deferred again.
        later: reply.later().map_or_else(OnceLock::new, OnceLock::from),
        responder: reply,
        ..request
    }
}

impl AnyRequest for Request {
    fn method(&self) -> &str {
        self.message.method()
    }

    fn params(&self) -> Option<Json<'_>> {
        self.message.params()
    }

    fn id(&self) -> Option<OwnedId> {
        self.id()
    }

    fn is_notification(&self) -> bool {
        self.is_notification()
    }

    fn connection(&self) -> u32 {
        self.responder.session().context().connection
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.responder.session().context().peer_addr
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.responder.session().context().local_addr
    }

    fn is_panicking(&self) -> bool {
        std::thread::panicking()
    }

    fn version(&self) -> Option<&'static str> {
        conventions::protocol_version(self.responder.session().dialect().version)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.responder.session().context().header(name)
    }

    fn now(&self) -> Instant {
        self.now()
    }
}
