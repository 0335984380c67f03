//! One web endpoint: what is served over HTTP and WebSocket on one port, and who may come in.
//!
//! Each request is judged by itself, also on a connection that is kept alive:
//!
//! ```text
//!   head ─▶ GET of a page? ─yes─▶ rules ─▶ the page
//!            │no
//!            ▼
//!           rules ─▶ authorize ─▶ POST: the body is read, an exchange ─▶ reply
//!                              └▶ WebSocket: 101, and the stream is a connection from now on
//! ```
//!
//! Up to `authorize` nothing but the head has been read, and no code of a service has run.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use antiphon::http::{HttpAnswer, Refusal, RequestHead, WebRules};
#[cfg(feature = "websocket")]
use antiphon::websocket::WebSocketRules;
use async_channel::{Receiver, bounded};
use blocking::unblock;
use futures_util::future::{BoxFuture, Either, select};
use hyper::http::request::Parts;

use antiphon_shell::{
    ConnectionConfig, Context, SharedRuntime, block_on, caught, debug_fields, until,
};

/// One web endpoint, for [`TcpServer::start_web`](crate::TcpServer::start_web): a POST is a message, a GET may
/// open a WebSocket, and pages for health and metrics are there, too.
///
/// ```
/// use antiphon::http::{Refusal, WebRules};
/// use antiphon::{Config, OwnedError};
/// use antiphon_net::http::Web;
/// use antiphon_net::{Extension, Router};
///
/// #[derive(Clone)]
/// struct User(String);
///
/// let router = Router::new()
///     .method("me", [], |Extension(User(name)): Extension<User>| Ok::<_, OwnedError>(name));
/// let mut rules = WebRules::new();
/// rules.paths.push("/rpc".into());
/// let web = Web::new(Config::new(), router.into_make_service())
///     .rules(rules)
///     .authorize(|context| match context.header("authorization") {
///         Some("Bearer s3cret") => Ok(User("Ada".into())),
///         _ => Err(Refusal::unauthorized("Bearer")),
///     })
///     .health("/health", || async { true });
/// # drop(web);
/// ```
pub struct Web<S> {
    pub(super) config: ConnectionConfig,
    pub(super) rules: WebRules,
    #[cfg(feature = "websocket")]
    pub(super) websocket: WebSocketRules,
    pub(super) door: Door,
    make: Make<S>,
}

/// The sessions of the Model Context Protocol, up to its revision 2025-11-25: a store for [`Web::sessions`]. The
/// endpoint reads and writes `Mcp-Session-Id`, and answers 400 if it is missing, and 404 if the session is unknown.
/// No stream can be resumed yet: a GET with `Last-Event-ID` is answered 404.
/// Each function is called after the check of [`Web::authorize`], whose value is in the context. None may block.
pub trait Sessions: Send + Sync + 'static {
    /// Begins a session, when `initialize` was answered with a result. The id has to be visible ASCII, and not to be
    /// guessed. Without an id, this client has no session.
    fn begin(&self, context: &Context) -> Option<String>;

    /// Whether there is such a session, and whether this client may use it.
    fn is_open(&self, id: &str, context: &Context) -> bool;

    /// Ends a session, because its client has asked for that by DELETE.
    fn end(&self, id: &str, context: &Context);
}

/// Makes services.
type Make<S> = Arc<dyn Fn(&Context) -> S + Send + Sync>;

/// What the program has added to the rules.
#[derive(Clone, Default)]
pub(super) struct Door {
    authorize: Option<Arc<Authorize>>,
    context_from: Option<Arc<Complete>>,
    pub(super) sessions: Option<Arc<dyn Sessions>>,
    pages: Vec<(String, Arc<Page>)>,
}

type Authorize = dyn Fn(Arc<Context>) -> BoxFuture<'static, Judged> + Send + Sync;

type Complete = dyn Fn(&Parts, &mut Context) + Send + Sync;

/// What the program has found out about a request that it lets in.
type Judged = Result<Arc<dyn Any + Send + Sync>, Refusal>;

type Page = dyn Fn() -> BoxFuture<'static, HttpAnswer> + Send + Sync;

impl<S> Web<S> {
    /// Makes an endpoint with the rules of the configuration's dialect: see [`WebRules::of`]. `make` returns the
    /// service of each WebSocket, and of each message over HTTP; it may be a clone of one router, or an `Arc` of one
    /// service for all. Make limits outside of `make`: one that is made for each message counts that message only.
    pub fn new(
        config: impl Into<ConnectionConfig>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Self {
        #[cfg_attr(not(feature = "websocket"), expect(unused_mut))]
        let mut config = config.into();
        Self {
            #[cfg(feature = "websocket")]
            websocket: match config.take_websocket() {
                Some(websocket) => websocket.rules.clone(),
                None => WebSocketRules::new(),
            },
            rules: WebRules::of(&config.config),
            config,
            door: Door::default(),
            make: Arc::new(make),
        }
    }

    /// Sets the rules.
    #[must_use]
    pub fn rules(mut self, rules: WebRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the subprotocol, the pings and the heartbeat of WebSockets.
    #[cfg(feature = "websocket")]
    #[must_use]
    pub fn websocket(mut self, rules: WebSocketRules) -> Self {
        self.websocket = rules;
        self
    }

    /// Has `check` decide who may come in, after the rules: before a WebSocket is opened, and before anything of a
    /// body is read, or asked for with `100 Continue`. Handlers get its value as an
    /// [`Extension`](crate::Extension), `make` and interceptors as [`Context::extension`]. Pages and preflights
    /// are not checked. On tasks it must not block; on threads it runs on a thread of its own. A check that takes
    /// longer than the rules' [`check_timeout`](WebRules::check_timeout) lets nobody in: 503.
    #[must_use]
    pub fn authorize<T: Send + Sync + 'static>(
        self,
        check: impl Fn(&Context) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Self {
        let check = Arc::new(check);
        self.authorize_async(move |context| {
            let check = Arc::clone(&check);
            async move { check(&context) }
        })
    }

    /// Has `check` decide who may come in, as [`authorize`](Self::authorize) does, by something that has to be
    /// awaited. If the client goes away, its future is dropped.
    #[must_use]
    pub fn authorize_async<T, F>(
        mut self,
        check: impl Fn(Arc<Context>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<T, Refusal>> + Send + 'static,
    {
        self.door.authorize = Some(Arc::new(move |context| {
            let judged = check(context);
            Box::pin(async { judged.await.map(|value| Arc::new(value) as _) })
        }));
        self
    }

    /// Answers GETs of `path`: 200 if `check` returns true, else 503. Its `Host` must be one that nobody can
    /// rebind: see [`WebRules::judge_page`].
    #[must_use]
    pub fn health<F: Future<Output = bool> + Send + 'static>(
        self,
        path: &str,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        self.page(path, move || {
            let checked = check();
            Box::pin(async {
                match checked.await {
                    true => HttpAnswer::text(200, "ok\n"),
                    false => HttpAnswer::text(503, "failing\n"),
                }
            })
        })
    }

    /// Answers GETs of `path` with the text of a metrics exporter, in the format of Prometheus. `Host` as for
    /// [`health`](Self::health).
    #[must_use]
    pub fn metrics(self, path: &str, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.page(path, move || {
            let answer = HttpAnswer::new(200).with_body("text/plain; version=0.0.4", render());
            Box::pin(async { answer })
        })
    }

    fn page(
        mut self,
        path: &str,
        page: impl Fn() -> BoxFuture<'static, HttpAnswer> + Send + Sync + 'static,
    ) -> Self {
        self.door.pages.push((path.into(), Arc::new(page)));
        self
    }

    /// Completes the context of each request before anything else is asked: with the client's address from a
    /// proxy's header, or with what a framework has added to the request.
    #[must_use]
    pub fn context_from(
        mut self,
        complete: impl Fn(&Parts, &mut Context) + Send + Sync + 'static,
    ) -> Self {
        self.door.context_from = Some(Arc::new(complete));
        self
    }

    /// Has `sessions` decide which sessions of the Model Context Protocol there are, up to its revision 2025-11-25.
    #[must_use]
    pub fn sessions(mut self, sessions: impl Sessions) -> Self {
        self.door.sessions = Some(Arc::new(sessions));
        self
    }

    /// What makes the services: for adapters whose services are of another kind.
    pub fn make(&self) -> impl Fn(&Context) -> S + Clone + Send + Sync + use<S> {
        let make = Arc::clone(&self.make);
        move |context: &Context| make(context)
    }

    /// Has the check of each request run on a thread of its own: for adapters whose programs may block.
    #[must_use]
    pub fn check_on_threads(mut self) -> Self {
        self.door.authorize = self.door.authorize.map(|check| -> Arc<Authorize> {
            Arc::new(move |context| {
                let judged = check(context);
                // The thread is given back when nobody waits for the verdict any more.
                let (waiting, gone) = bounded::<Infallible>(1);
                let judged = unblock(move || block_on(until_gone(judged, gone)));
                Box::pin(async {
                    let _waiting = waiting;
                    judged.await
                })
            })
        });
        self
    }
}

impl Door {
    /// The page that is asked for, if there is one.
    pub(super) fn page(&self, head: &RequestHead<'_>) -> Option<&Arc<Page>> {
        let mut pages = self.pages.iter();
        pages.find_map(|(path, page)| (path == head.path()).then_some(page))
    }

    /// Whether the program looks at the parts of each request.
    pub(super) fn sees_parts(&self) -> bool {
        self.context_from.is_some()
    }

    /// Adds to the context what the program knows.
    pub(super) fn complete(&self, parts: &Parts, context: &mut Context) {
        if let Some(complete) = &self.context_from {
            caught(|| complete(parts, context));
        }
    }

    /// Asks the program whether the request may come in. If its check panics, it may not.
    pub(super) async fn authorize(
        &self,
        context: &mut Context,
        runtime: &SharedRuntime,
        timeout: Duration,
    ) -> Result<(), Refusal> {
        let Some(authorize) = &self.authorize else {
            return Ok(());
        };
        let shared = Arc::new(take(context));
        let seen = Arc::clone(&shared);
        let judged = contained(|| authorize(seen));
        let judged = until(&**runtime, runtime.now() + timeout, judged).await;
        let judged = judged.ok_or_else(|| Refusal::new(503, "the check takes too long"))?;
        let value = judged.unwrap_or_else(|| Err(Refusal::new(500, "the check has failed")))?;
        *context = Arc::unwrap_or_clone(shared);
        context.set_extension(value);
        Ok(())
    }
}

/// Waits for a verdict as long as somebody else does.
async fn until_gone(judged: BoxFuture<'static, Judged>, gone: Receiver<Infallible>) -> Judged {
    match select(judged, pin!(gone.recv())).await {
        Either::Left((judged, _)) => judged,
        Either::Right(_) => Err(Refusal::new(503, "nobody waits for the check")),
    }
}

/// Runs a future of the program; `None` if it panics.
pub(super) async fn contained<T>(begin: impl FnOnce() -> BoxFuture<'static, T>) -> Option<T> {
    let mut running = caught(begin)?;
    poll_fn(|cx| match caught(|| running.as_mut().poll(cx)) {
        Some(polled) => polled.map(Some),
        None => Poll::Ready(None),
    })
    .await
}

impl<S> Clone for Web<S> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            rules: self.rules.clone(),
            #[cfg(feature = "websocket")]
            websocket: self.websocket.clone(),
            door: self.door.clone(),
            make: Arc::clone(&self.make),
        }
    }
}

debug_fields!(impl[S] Web<S> as "Web" { config, rules });
