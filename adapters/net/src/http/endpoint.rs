//! One request of a web server: judged, and answered by a page or a service.
//!
//! The rules for requests and answers are in [`antiphon::http`]; this module only reads a request,
//! within a time limit and a size limit.

use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use antiphon::http::{Fields, HttpAnswer, Refusal, RequestHead, SessionUse, Verdict, is_result};
#[cfg(feature = "websocket")]
use antiphon::session::Handshake;
use antiphon::session::Report;
use antiphon::{Config, Input};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use hyper::http::request::Parts;
use hyper::{Request, Response, Version};

use super::body::{Carried, Carrier, WebBody, response};
use super::options::HttpConfig;
use super::phases::OnConnection;
use super::web::{Door, Sessions, Web, contained};
use crate::server::Ending;
#[cfg(feature = "websocket")]
use crate::server::serve_until;
#[cfg(feature = "websocket")]
use antiphon_shell::drive_accepted;
use antiphon_shell::{
    ConnectionConfig, Context, Exchange, Headers, Io, Lost, Output, ReplyHeaders, Service,
    SharedRuntime, Task, caught, exchange_peer, until,
};
#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocketConfig;

/// A service over HTTP. Clones are the same endpoint.
///
/// A server of this crate uses it as its protocol:
/// [`Server::start_protocol`](crate::Server::start_protocol). In a web framework, which reads
/// requests itself, [`answer_whole`](Self::answer_whole) is the body of a route.
pub struct Endpoint<S> {
    shared: Arc<SharedEndpoint<S>>,
}

struct SharedEndpoint<S> {
    options: HttpConfig,
    /// Makes the service of an exchange.
    make: Box<Make<S>>,
    runtime: SharedRuntime,
    /// The options of an exchange, and of one whose reply may be a stream of events.
    exchange: Arc<ConnectionConfig>,
    streaming: Arc<ConnectionConfig>,
    door: Door,
    /// `None` where only HTTP is served.
    #[cfg(feature = "websocket")]
    upgrades: Option<Upgrades>,
}

type Make<S> = dyn Fn(&Context) -> Arc<S> + Send + Sync;

/// What serves WebSockets.
#[cfg(feature = "websocket")]
struct Upgrades {
    websocket: WebSocketConfig,
    serve: Box<Serve>,
}

#[cfg(feature = "websocket")]
type Serve = dyn Fn(Box<dyn Io>, Context, Ending) -> Task + Send + Sync;

/// What is to be done with a request whose head was judged.
enum Entry {
    Answer(HttpAnswer),
    /// Its body is read, if it is not larger than the limit.
    Message(Option<u64>),
    /// A WebSocket begins after this answer.
    #[cfg(feature = "websocket")]
    Upgrade(HttpAnswer),
}

/// The answer to a request.
struct Answered {
    /// The whole answer, or the head of one whose body is a stream.
    head: HttpAnswer,
    events: Option<WebBody>,
    /// What handlers have added.
    headers: Headers,
    /// What is known of the WebSocket that follows, if one does.
    opened: Option<Context>,
}

impl Answered {
    fn response<B: From<Vec<u8>>>(self) -> (Response<B>, Option<WebBody>, Option<Context>) {
        let mut response = response(self.head);
        self.headers.append_to(response.headers_mut());
        (response, self.events, self.opened)
    }
}

impl From<HttpAnswer> for Answered {
    fn from(head: HttpAnswer) -> Self {
        Self {
            head,
            events: None,
            headers: Headers::new(),
            opened: None,
        }
    }
}

impl<S: Service> Endpoint<S> {
    /// Makes an endpoint that serves `service` over HTTP. The service sees every request as a
    /// connection of its own, on which it can answer but not call:
    /// [`SendError::NoPush`](antiphon::SendError::NoPush). If the client accepts `text/event-stream`, it can
    /// also notify before it answers, and then the reply is a stream of events; if it does neither, the reply
    /// is JSON as ever. Its handlers run until everything in the request is answered. They are dropped
    /// earlier if the connection is reset, or if the client ends its stream: at once after the head of a
    /// stream of events, otherwise when the rules' `half_close_timeout` has passed. `service` may be a shared
    /// `Arc`.
    pub fn new(
        options: impl Into<HttpConfig>,
        service: S,
        runtime: impl Into<SharedRuntime>,
    ) -> Self {
        let (options, service) = (options.into(), Arc::new(service));
        let shared = SharedEndpoint {
            exchange: exchange_options(&options.connection, Config::for_server_exchange),
            streaming: exchange_options(&options.connection, Config::for_streaming_exchange),
            options,
            make: Box::new(move |_| Arc::clone(&service)),
            runtime: runtime.into(),
            door: Door::default(),
            #[cfg(feature = "websocket")]
            upgrades: None,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Makes the endpoint of `web`.
    pub fn of(web: Web<S>, runtime: impl Into<SharedRuntime>) -> Self {
        let (exchange, connection) = (web.make(), web.make());
        let exchange = move |context: &Context| Arc::new(exchange(context));
        let connection = move |context: Arc<Context>| Box::pin(ready(connection(&context))) as _;
        Self::of_web(web, runtime, exchange, connection, |config| config)
    }

    /// Makes the endpoint of `web`, whose services are of another kind: for adapters. `exchange` makes the service of one
    /// message over HTTP, `connection` that of a WebSocket, whose options `adapt` may change.
    pub fn of_web<W, C: Service>(
        web: Web<W>,
        runtime: impl Into<SharedRuntime>,
        exchange: impl Fn(&Context) -> Arc<S> + Send + Sync + 'static,
        connection: impl Fn(Arc<Context>) -> BoxFuture<'static, C> + Send + Sync + 'static,
        adapt: impl FnOnce(ConnectionConfig) -> ConnectionConfig,
    ) -> Self {
        let runtime = runtime.into();
        #[cfg(feature = "websocket")]
        let upgrades = {
            let mut websocket = WebSocketConfig::server();
            (websocket.rules, websocket.web) = (web.websocket, web.rules.clone());
            let options = adapt(web.config.clone()).with_websocket(websocket.clone());
            let (options, runtime) = (Arc::new(options), runtime.clone());
            let connection = Arc::new(connection);
            let serve = move |io, context: Context, ending| -> Task {
                let (options, runtime) = (Arc::clone(&options), runtime.clone());
                let connection = Arc::clone(&connection);
                Box::pin(async move {
                    let context = Arc::new(context);
                    let seen = Arc::clone(&context);
                    let Some(service) = contained(|| connection(seen)).await else {
                        return;
                    };
                    let mut context = Arc::unwrap_or_clone(context);
                    let handshake = handshake_of(&mut context);
                    let service = Arc::new(service);
                    let (peer, driver) =
                        drive_accepted(io, context, options, handshake, service, &runtime);
                    serve_until(peer, driver, ending).await;
                })
            };
            let serve = Box::new(serve);
            Some(Upgrades { websocket, serve })
        };
        #[cfg(not(feature = "websocket"))]
        let _ = (connection, adapt);
        let shared = SharedEndpoint {
            exchange: exchange_options(&web.config, Config::for_server_exchange),
            streaming: exchange_options(&web.config, Config::for_streaming_exchange),
            options: HttpConfig::new(web.config).with_rules(web.rules),
            make: Box::new(exchange),
            runtime,
            door: web.door,
            #[cfg(feature = "websocket")]
            upgrades,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The endpoint's options.
    pub(super) fn options(&self) -> &HttpConfig {
        &self.shared.options
    }

    pub(super) fn runtime(&self) -> &SharedRuntime {
        &self.shared.runtime
    }

    /// Answers a request whose body a web framework, or a serverless host, has read, as a server of this crate does,
    /// but opens no WebSocket. Route every HTTP method to this function, and every header: for the rules a missing
    /// header is absent, so the request of a web page would look like that of a program. Addresses of clients come
    /// from [`Web::context_from`]. Dropping the future cancels the handlers.
    pub async fn answer_whole(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (mut parts, whole) = request.into_parts();
        let limits = &self.options().connection.config.limits;
        let body = match whole.len() > limits.max_message_bytes {
            true => Body::TooLarge(whole.len() as u64),
            false => Body::Whole(whole),
        };
        let (context, headers) = self.complete(&Context::new(), &mut parts);
        let (request, carrier) = ((&parts, &headers), None::<OnConnection>);
        let answered = self.answer_parts(context, request, 0, carrier, ready(body));
        answered.await.response().0
    }

    /// Judges a request by its head, and asks the program whether it may come in. It may only open a WebSocket if
    /// the connection `can_upgrade`.
    async fn enter(
        &self,
        head: &RequestHead<'_>,
        context: &mut Context,
        can_upgrade: bool,
    ) -> Entry {
        let (HttpConfig { connection, rules }, door) = (self.options(), &self.shared.door);
        if let Some(page) = door.page(head) {
            let failed = || HttpAnswer::text(500, "the page has failed\n");
            return Entry::Answer(match rules.judge_page(head) {
                Ok(()) => contained(|| page()).await.unwrap_or_else(failed),
                Err(refused) => refused,
            });
        }
        let refused = |refusal| Entry::Answer(rules.refused(head, refusal));
        #[cfg(feature = "websocket")]
        if let Some(upgrades) = self
            .shared
            .upgrades
            .as_ref()
            .filter(|_| can_upgrade && head.method == "GET" && head.upgrade.is_some())
        {
            let (answer, subprotocol) = match upgrades.websocket.answer(head) {
                Ok(opened) => opened,
                Err(refused) => return Entry::Answer(refused),
            };
            context.subprotocol = subprotocol.map(Into::into);
            return match self.authorize(context).await {
                Ok(()) => Entry::Upgrade(answer),
                Err(refusal) => refused(refusal),
            };
        }
        let _ = can_upgrade;
        // The end of a session, or the rest of one of its streams, in the revisions that have them.
        let resumes = head.method == "GET" && context.header("last-event-id").is_some();
        let of_session = (resumes || head.method == "DELETE")
            && door.sessions.is_some()
            && rules.may_have_session(head);
        let too_large = match rules.judge(&connection.config, head) {
            Verdict::Answer(answer) if of_session && answer.status == 405 => None,
            Verdict::Answer(answer) => return Entry::Answer(answer),
            Verdict::TooLarge(bytes) => Some(bytes),
            Verdict::Serve => None,
        };
        match self.authorize(context).await {
            Ok(()) if of_session => Entry::Answer(match self.session(context) {
                // Events have no ids yet, so what is named is no stream of this session.
                Ok(_) if resumes => rules.refused(head, Refusal::new(404, "no such stream")),
                Ok((sessions, id)) => {
                    caught(|| sessions.end(id, context));
                    rules.reply(head, None)
                }
                Err(refusal) => rules.refused(head, refusal),
            }),
            Ok(()) => Entry::Message(too_large),
            Err(refusal) => refused(refusal),
        }
    }

    async fn authorize(&self, context: &mut Context) -> Result<(), Refusal> {
        let timeout = self.options().rules.check_timeout;
        let judged = self.shared.door.authorize(context, self.runtime(), timeout);
        judged.await
    }

    /// The session of the request.
    fn session<'a>(&'a self, context: &'a Context) -> Result<(&'a dyn Sessions, &'a str), Refusal> {
        let sessions = self.shared.door.sessions.as_deref();
        let named = sessions.zip(context.header("mcp-session-id"));
        let (sessions, id) = named.ok_or_else(|| Refusal::new(400, "no session is named"))?;
        match caught(|| sessions.is_open(id, context)) {
            Some(true) => Ok((sessions, id)),
            _ => Err(Refusal::new(404, "there is no such session")),
        }
    }

    /// Checks what the headers say about a message. Returns whether it begins a session.
    fn judge_message(
        &self,
        head: &RequestHead<'_>,
        context: &Context,
        body: &[u8],
    ) -> Result<bool, HttpAnswer> {
        let (rules, has_sessions) = (&self.options().rules, self.shared.door.sessions.is_some());
        if rules.mcp.is_none() {
            return Ok(false);
        }
        let headers: Vec<_> = context.headers.iter().collect();
        let needed = rules.judge_message(head, &headers, body)?;
        if needed == SessionUse::Needed && has_sessions {
            let named = self.session(context);
            named.map_err(|refusal| rules.refused(head, refusal))?;
        }
        Ok(needed == SessionUse::Begins && has_sessions)
    }

    /// Passes the service a report that belongs to no exchange.
    pub(super) fn report(&self, context: &Context, report: Report) {
        let peer = exchange_peer(&self.shared.exchange, context.clone(), self.runtime());
        caught(|| (self.shared.make)(context).report(&peer, report));
    }

    async fn answer_body<B: AsRef<[u8]>>(
        &self,
        head: &RequestHead<'_>,
        context: Context,
        carrier: Option<impl Carrier>,
        body: Body<B>,
    ) -> Answered {
        let HttpConfig { connection, rules } = self.options();
        let is_whole = matches!(body, Body::Whole(_));
        let (input, judged) = match &body {
            Body::Whole(body) => {
                let body = body.as_ref();
                let judged = self.judge_message(head, &context, body);
                (Input::message(body), judged)
            }
            Body::TooLarge(bytes) => (Input::oversize(*bytes), Ok(false)),
            Body::Late => return rules.timed_out(head).into(),
            Body::Broken => return rules.broken(head).into(),
        };
        let begins_session = match judged {
            Ok(begins) => begins,
            Err(refused) => return refused.into(),
        };
        let SharedEndpoint { make, runtime, .. } = &*self.shared;
        let Some(service) = caught(|| make(&context)) else {
            return rules.unanswered(&connection.config, head).into();
        };
        // The header of a session that begins needs the result, which comes after the head of a stream.
        let streams = head.accepts_events && carrier.is_some() && is_whole && !begins_session;
        let options = match streams {
            true => &self.shared.streaming,
            false => &self.shared.exchange,
        };
        let peer = exchange_peer(options, context, runtime);
        let replied = peer.clone();
        let exchange = Exchange::begin(peer, service, input, runtime.timer());
        drop(body);
        let silence = rules.silence.filter(|_| streams && exchange.is_asked());
        let on_close = rules.on_close_of(head);
        let mut carried = Carried::new(exchange, carrier, runtime, silence, on_close);
        let mut answered = match poll_fn(|cx| carried.poll_output(cx)).await {
            Output::Reply(Ok(reply)) if is_whole => rules.reply(head, reply).into(),
            Output::Reply(Ok(reply)) => rules.too_large(head, reply).into(),
            Output::Reply(Err(Lost::NoCapacity)) => rules.no_capacity(head).into(),
            Output::Reply(Err(Lost::Unanswered)) => {
                rules.unanswered(&connection.config, head).into()
            }
            first => {
                let unanswered = rules.unanswered(&connection.config, head).body;
                Answered {
                    events: Some(WebBody::stream(carried, unanswered, first)),
                    ..rules.stream(head).into()
                }
            }
        };
        answered.headers = ReplyHeaders::take(&replied);
        let sessions = self.shared.door.sessions.as_ref();
        let sessions = sessions.filter(|_| begins_session && is_result(&answered.head.body));
        let begun = sessions.and_then(|sessions| caught(|| sessions.begin(replied.context())));
        if let Some(Some(id)) = begun {
            answered.headers.push("mcp-session-id", id.as_bytes());
        }
        answered
    }

    /// Adds to what the transport knows what a request and the program know. Also returns the headers, which need not
    /// stay in the parts.
    pub(super) fn complete(&self, context: &Context, parts: &mut Parts) -> (Context, Headers) {
        let (target, mut context) = (target_of(parts), context.clone());
        context.target = Some(target.into());
        let headers = match self.shared.door.sees_parts() {
            true => parts.headers.clone(),
            false => take(&mut parts.headers),
        };
        let headers = Headers::from(headers);
        context.headers = headers.clone();
        self.shared.door.complete(parts, &mut context);
        (context, headers)
    }

    /// Answers a request whose head has been read, and whose context is complete. `lengths` is the number of
    /// `Content-Length` lines in the head. If a WebSocket follows the answer, also returns what is known of it.
    pub(super) async fn serve<B: HttpBody<Data = Bytes>>(
        &self,
        context: Context,
        request: (&Parts, &Headers),
        incoming: B,
        lengths: u32,
        carrier: impl Carrier + Clone,
    ) -> (Response<WebBody>, Option<Context>) {
        let HttpConfig { connection, rules } = self.options();
        let reading = carrier.clone();
        let body = async {
            let mut body = pin!(read(incoming, connection.config.limits.max_message_bytes));
            let body = poll_fn(|cx| match body.as_mut().poll(cx) {
                // All input was read up to its end, so the rest of the body never comes.
                Poll::Pending if reading.has_ended() => Poll::Ready(Body::Broken),
                polled => polled,
            });
            let (runtime, timeout) = (&**self.runtime(), rules.body_timeout);
            let body = until(runtime, runtime.now() + timeout, body).await;
            body.unwrap_or(Body::Late)
        };
        let answered = self.answer_parts(context, request, lengths, Some(carrier), body);
        let (whole, events, opened) = answered.await.response::<WebBody>();
        (whole.map(|whole| events.unwrap_or(whole)), opened)
    }

    /// Answers a request; the body is only read if it is let in. It may open a WebSocket, and its answer may be a
    /// stream of events, if there is a `carrier`.
    async fn answer_parts<B: AsRef<[u8]>>(
        &self,
        mut context: Context,
        (parts, headers): (&Parts, &Headers),
        lengths: u32,
        carrier: Option<impl Carrier>,
        body: impl Future<Output = Body<B>>,
    ) -> Answered {
        let is_ours = carrier.is_some();
        let (target, mut fields) = (target_of(parts), Fields::new());
        for (name, value) in headers.iter() {
            fields.line(name, value);
        }
        fields.compare_lengths(lengths);
        match parts.version {
            Version::HTTP_11 => fields.require_host(),
            // RFC 9113 clause 8.3.1: the authority stands for the host.
            _ if headers.get("host").is_some() => {}
            _ => {
                if let Some(authority) = parts.uri.authority() {
                    fields.line("host", authority.as_str().as_bytes());
                }
            }
        }
        let head = fields.head(parts.method.as_str(), target);
        let too_large = match self.enter(&head, &mut context, is_ours).await {
            Entry::Message(too_large) => too_large,
            Entry::Answer(answer) => return answer.into(),
            #[cfg(feature = "websocket")]
            Entry::Upgrade(head) => {
                return Answered {
                    opened: Some(context),
                    ..head.into()
                };
            }
        };
        let body = match too_large {
            Some(bytes) => Body::TooLarge(bytes),
            None => body.await,
        };
        let is_whole = matches!(body, Body::Whole(_));
        let mut answered = self.answer_body(&head, context, carrier, body).await;
        if is_ours && !is_whole {
            // The end of this request, where the next one begins, was not found.
            let close = ("connection", "close".into());
            answered.head.headers.push(close);
        }
        answered
    }

    /// Returns the task of a connection whose WebSocket has been opened.
    pub(super) fn upgraded(
        &self,
        io: Box<dyn Io>,
        context: Context,
        ending: Ending,
    ) -> Option<Task> {
        #[cfg(feature = "websocket")]
        if let Some(upgrades) = &self.shared.upgrades {
            return Some((upgrades.serve)(io, context, ending));
        }
        let _ = (io, context, ending);
        None
    }
}

/// The path and query asked for.
fn target_of(parts: &Parts) -> &str {
    let target = parts.uri.path_and_query();
    target.map_or("", |target| target.as_str())
}

/// Takes the data of the handshake out of the context. The session puts them back when it opens.
#[cfg(feature = "websocket")]
fn handshake_of(context: &mut Context) -> Handshake {
    let mut handshake = Handshake::new();
    handshake.target = context.target.take();
    handshake.subprotocol = context.subprotocol.take();
    let headers = std::mem::take(&mut context.headers);
    let headers = headers.iter();
    handshake.headers = headers
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    handshake
}

/// The options of an exchange.
fn exchange_options(
    connection: &ConnectionConfig,
    exchange_of: impl FnOnce(Config) -> Config,
) -> Arc<ConnectionConfig> {
    let mut exchange = connection.clone();
    exchange.config = exchange_of(exchange.config);
    // The code that writes the reply has its own time limit.
    exchange.config.timeouts.write_timeout = None;
    Arc::new(exchange)
}

impl<S> Clone for Endpoint<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S> fmt::Debug for Endpoint<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

/// The result of reading a body.
enum Body<B> {
    Whole(B),
    /// The body is over the limit; it has at least this many bytes.
    TooLarge(u64),
    /// The body did not arrive in time.
    Late,
    /// The client disconnected, or broke the announced encoding.
    Broken,
}

/// Reads a whole body, and never holds more of it than has arrived. Most come in one piece, which is not copied.
async fn read<B: HttpBody<Data = Bytes>>(body: B, max_bytes: usize) -> Body<Bytes> {
    let (mut body, mut first, mut whole) = (pin!(body), Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Body::Broken;
        };
        // Trailers are not used.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let bytes = first.len() + whole.len() + data.len();
        if bytes > max_bytes {
            return Body::TooLarge(bytes as u64);
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            whole.extend_from_slice(&take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    match whole.is_empty() {
        true => Body::Whole(first),
        false => Body::Whole(whole.into()),
    }
}
