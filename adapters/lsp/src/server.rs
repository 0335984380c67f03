//! The life cycle of a language server, around a router. The numbers are exit codes; an end of input counts
//! as `exit`.
//!
//! ```text
//!   New ── initialize ──▶ Running ── shutdown ──▶ Stopped ── exit ──▶ the end, with 0
//!    └────────── exit ──────┴─────────────────────────────────────▶ the end, with 1
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antiphon::session::Report;
use antiphon::{CloseReason, Closed, ErrorObject, Json, OwnedError};
use antiphon_net::{
    Answer, MethodHandler, Notification, Peer, Request, Router, Service, Tasks, answerable,
};
use gen_lsp_types::{
    ExitNotification, InitializeRequest, Notification as _, Request as _, SetTraceNotification,
    ShutdownRequest,
};

use crate::changes::are_valid;
use crate::client::{Client, Phase};
use crate::process::is_there;
use crate::typed::{LspNotification, LspRequest};

/// How often to check whether the editor's process still exists.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// A language server: a service that enforces the life cycle of the protocol, and passes everything
/// else to its router. Clones are the same server; it may serve any number of editors.
///
/// * Before `initialize` a request is answered with the error −32002, after `shutdown` with −32600.
///   In both cases notifications other than `exit` are ignored, and reported as
///   [unserved](Report::Unserved).
/// * An `initialize` that has begun runs to its end, even if it is cancelled. If it fails, the
///   editor may send it again.
/// * `shutdown` is answered here, unless the router serves it.
/// * `shutdown` waits for the handler of a notification before it for 1 s at most, and `exit` for
///   none: see [`EndStyle::Lsp`](antiphon::EndStyle::Lsp). Requests that came before `exit` are answered
///   if they are done within `drain_timeout`, 1.5 s under [`Config::lsp`](antiphon::Config::lsp).
/// * A change of a document with an invalid range is refused and reported. By the types of the protocol
///   it would replace the whole text. [`apply_changes`](crate::apply_changes) applies valid ones.
/// * The connection also ends when the editor's process ends: its process id is in the params of
///   `initialize`, and whether it exists is checked every three seconds. On Windows it is not
///   checked: there only the end of its input ends a server.
/// * `$/setTrace` sets the level of [`Trace`](crate::Trace).
pub struct LanguageServer<S = ()> {
    router: Router<S>,
    /// Whether `shutdown` was received since the last `initialize`.
    was_shut_down: Arc<AtomicBool>,
}

impl<S> Clone for LanguageServer<S> {
    fn clone(&self) -> Self {
        Self {
            router: self.router.clone(),
            was_shut_down: Arc::clone(&self.was_shut_down),
        }
    }
}

impl LanguageServer {
    /// Makes a server without methods; not even `initialize` is served.
    pub fn new() -> Self {
        Router::new().into()
    }
}

impl Default for LanguageServer {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes a server of a router.
impl<S> From<Router<S>> for LanguageServer<S> {
    fn from(router: Router<S>) -> Self {
        Self {
            router,
            was_shut_down: Arc::default(),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> LanguageServer<S> {
    /// Makes a server without methods, whose handlers find `state` in their context: an `Arc`, or
    /// another value that is cheap to clone.
    pub fn with_state(state: S) -> Self {
        Router::with_state(state).into()
    }

    /// Serves a request.
    ///
    /// # Panics
    /// The method has a handler already.
    #[track_caller]
    pub fn on<R: gen_lsp_types::Request + 'static>(
        mut self,
        handler: impl MethodHandler<LspRequest<R>, S, Tasks>,
    ) -> Self {
        self.router = self.router.on::<LspRequest<R>>(handler);
        self
    }

    /// Serves a notification. A handler of `exit` or `$/setTrace` is never called, because the
    /// server handles these itself.
    ///
    /// # Panics
    /// The method has a handler already.
    #[track_caller]
    pub fn on_notification<N: gen_lsp_types::Notification + 'static>(
        mut self,
        handler: impl MethodHandler<LspNotification<N>, S, Tasks>,
    ) -> Self {
        self.router = self.router.on_notification::<LspNotification<N>>(handler);
        self
    }
}

impl<S: Send + Sync + 'static> LanguageServer<S> {
    /// The router with the methods. More can be registered with it.
    pub fn router(&self) -> &Router<S> {
        &self.router
    }

    /// The exit code of a program that serves one editor, after its connection has ended: 0 if the
    /// editor has sent `shutdown` after `initialize`, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.was_shut_down.load(Ordering::Relaxed))
    }

    /// Serves `initialize`, in a task of its own that a cancel does not end.
    fn initialize(&self, peer: &Peer, request: &Request) -> Answer {
        let params = request.raw_params().unwrap_or(Json::NULL);
        // The server counts as running before it has answered, because the protocol lets the editor
        // send nothing more until it has the answer.
        Client::with(peer, |client| client.begin(params));
        self.was_shut_down.store(false, Ordering::Relaxed);
        let process = params.get("processId").and_then(|id| id.decode().ok());
        let (router, own) = (self.router.clone(), peer.to_unowned());
        let request = answerable(request.clone(), request.defer());
        peer.runtime().spawn(Box::pin(async move {
            let mut beginning = Beginning(&own, false);
            let answer = router.serve(&request).await;
            beginning.1 = answer.is_ok();
            drop(beginning);
            if let (Ok(_), Some(process)) = (&answer, process) {
                end_with(process, &own);
            }
            // If the connection has closed meanwhile, no answer is awaited.
            let _ = request.answer(answer);
        }));
        Answer::deferred()
    }
}

/// A running `initialize`, and whether it has succeeded. If it is dropped without success, after an
/// error or a panic, the connection is [`New`](Phase::New) again.
struct Beginning<'p>(&'p Peer, bool);

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if !self.1 {
            Client::with(self.0, |client| client.phase = Phase::New);
        }
    }
}

/// Returns the dialect's error for a request before `initialize`.
fn not_initialized(peer: &Peer) -> OwnedError {
    let profile = peer.dialect().error_profile;
    profile.not_initialized().into_owned()
}

/// Ends the connection when the editor's process has ended. If there is no such process now, the
/// editor runs on another machine, and nothing is checked.
fn end_with(process: i32, peer: &Peer) {
    if !is_there(process) {
        return;
    }
    let own = peer.clone();
    peer.runtime().spawn(Box::pin(async move {
        while own.wait_closed(LOOK_EVERY).await.is_none() {
            if !is_there(process) {
                own.close(CloseReason::Other("the editor's process has ended"));
            }
        }
    }));
}

impl<S: Send + Sync + 'static> Service for LanguageServer<S> {
    async fn opened(&self, peer: &Peer) {
        self.router.opened(peer);
    }

    fn batch(&self, peer: &Peer, items: usize) {
        self.router.batch(peer, items);
    }

    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        const INITIALIZE: &str = InitializeRequest::METHOD.as_str();
        const SHUTDOWN: &str = ShutdownRequest::METHOD.as_str();
        let phase = Client::with(peer, |client| client.phase);
        match (phase, request.method()) {
            (Phase::New, INITIALIZE) => Ok(self.initialize(peer, request)),
            (Phase::New, _) => Err(not_initialized(peer)),
            (Phase::Stopped, _) | (_, INITIALIZE) => Err(ErrorObject::invalid_request().into()),
            (Phase::Running, SHUTDOWN) => {
                Client::with(peer, |client| client.phase = Phase::Stopped);
                self.was_shut_down.store(true, Ordering::Relaxed);
                match self.router.serves(SHUTDOWN) {
                    true => self.router.serve(request).await,
                    false => Ok(().into()),
                }
            }
            (Phase::Running, _) => self.router.serve(request).await,
        }
    }

    async fn notification(&self, peer: &Peer, notification: Notification) {
        const EXIT: &str = ExitNotification::METHOD.as_str();
        const SET_TRACE: &str = SetTraceNotification::METHOD.as_str();
        match notification.method() {
            EXIT => peer.drain(),
            _ if Client::with(peer, |client| client.phase) != Phase::Running => {
                notification.unserved();
            }
            SET_TRACE => {
                let params = notification.raw_params().unwrap_or(Json::NULL);
                Client::with(peer, |client| client.set_trace(params.get("value")));
            }
            _ if are_valid(&notification) => self.router.handle(notification).await,
            _ => {}
        }
    }

    fn report(&self, peer: &Peer, report: Report) {
        self.router.report(peer, report);
    }

    fn closed(&self, peer: &Peer, why: Closed) {
        self.router.closed(peer, why);
    }
}

impl<S: Send + Sync + 'static> fmt::Debug for LanguageServer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LanguageServer").field(&self.router).finish()
    }
}
