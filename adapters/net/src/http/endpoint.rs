//! A service over HTTP.
//!
//! The rules for requests and answers are in [`antiphon::http`]; this module only reads a request,
//! within a time limit and a size limit.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use antiphon::Input;
use antiphon::http::{Fields, HttpAnswer, RequestHead, Verdict};
use antiphon::session::Report;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode, Version};

use super::options::HttpConfig;
use super::phases::Phases;
use antiphon_shell::{
    ConnectionConfig, Context, Lost, Service, SharedRuntime, caught, exchange, exchange_peer, until,
};

/// A service over HTTP. Clones are the same endpoint.
///
/// A server of this crate uses it as its protocol:
/// [`Server::start_protocol`](crate::Server::start_protocol). In a web framework, which reads
/// requests itself, [`answer_request`](Self::answer_request) is the body of a route.
pub struct Endpoint<S> {
    shared: Arc<SharedEndpoint<S>>,
}

struct SharedEndpoint<S> {
    options: HttpConfig,
    service: Arc<S>,
    runtime: SharedRuntime,
    /// The options of an exchange.
    exchange: Arc<ConnectionConfig>,
}

impl<S: Service> Endpoint<S> {
    /// Makes an endpoint that serves `service` over HTTP. The service sees every request as a
    /// connection of its own, on which it can answer but not call:
    /// [`SendError::NoPush`](antiphon::SendError::NoPush). Its handlers run until everything in the
    /// request is answered. They are dropped earlier if the connection is reset, or if the client
    /// ends its stream and the rules' `half_close_timeout` passes. `service` may be a shared `Arc`.
    pub fn new(
        options: impl Into<HttpConfig>,
        service: S,
        runtime: impl Into<SharedRuntime>,
    ) -> Self {
        let options = options.into();
        let mut exchange = options.connection.clone();
        exchange.config = exchange.config.for_server_exchange();
        // The code that writes the reply has its own time limit.
        exchange.config.timeouts.write_timeout = None;
        Self {
            shared: Arc::new(SharedEndpoint {
                exchange: Arc::new(exchange),
                options,
                service: Arc::new(service),
                runtime: runtime.into(),
            }),
        }
    }

    /// The endpoint's options.
    pub(super) fn options(&self) -> &HttpConfig {
        &self.shared.options
    }

    pub(super) fn runtime(&self) -> &SharedRuntime {
        &self.shared.runtime
    }

    /// Answers a POST that a web framework has read: see [`answer_request`](Self::answer_request).
    pub async fn answer(&self, context: Context, body: &[u8]) -> HttpAnswer {
        self.answer_request("POST", context, body).await
    }

    /// Answers a request that a web framework has read, if the rules allow it. `context` has what
    /// is known of the request, for the rules and for the handlers: it must have the target and
    /// **every** header, `host` included (in HTTP/2 that is the authority of the URI). For the
    /// rules a missing header is absent, so the request of a web page of another origin would look
    /// like that of a program; without a target, no path of the rules is met. Set
    /// `peer_addr` too: handlers, checks and logs have no other address of the client. Route every
    /// HTTP method to this function: a browser sends OPTIONS before it sends a request of a page of
    /// an allowed origin. Dropping the future cancels the handlers.
    pub async fn answer_request(&self, method: &str, context: Context, body: &[u8]) -> HttpAnswer {
        let seen = context.clone();
        let mut fields = Fields::new();
        for (name, value) in seen.headers.iter() {
            fields.line(name, value);
        }
        let target = seen.target.as_deref();
        let head = fields.head(method, target.unwrap_or_default());
        let HttpConfig { connection, rules } = self.options();
        if let Verdict::Answer(answer) = rules.judge(&connection.config, &head) {
            return answer;
        }
        let body = match body.len() > connection.config.limits.max_message_bytes {
            true => Body::TooLarge(body.len() as u64),
            false => Body::Whole(body),
        };
        self.answer_body(&head, context, body).await
    }

    /// Passes the service a report that belongs to no exchange.
    pub(super) fn report(&self, context: &Context, report: Report) {
        let SharedEndpoint { service, .. } = &*self.shared;
        let peer = exchange_peer(&self.shared.exchange, context.clone(), self.runtime());
        caught(|| service.report(&peer, report));
    }

    async fn answer_body<B: AsRef<[u8]>>(
        &self,
        head: &RequestHead<'_>,
        context: Context,
        body: Body<B>,
    ) -> HttpAnswer {
        let HttpConfig { connection, rules } = self.options();
        let input = match &body {
            Body::Whole(body) => Input::message(body.as_ref()),
            Body::TooLarge(bytes) => Input::oversize(*bytes),
            Body::Late => return rules.timed_out(head),
            Body::Broken => return rules.broken(head),
        };
        let SharedEndpoint {
            service, runtime, ..
        } = &*self.shared;
        let peer = exchange_peer(&self.shared.exchange, context, runtime);
        match (exchange(peer, service, input, runtime.timer()).await, body) {
            (Ok(reply), Body::Whole(_)) => rules.reply(head, reply),
            (Ok(reply), _) => rules.too_large(head, reply),
            (Err(Lost::NoCapacity), _) => rules.no_capacity(head),
            (Err(Lost::Unanswered), _) => rules.unanswered(&connection.config, head),
        }
    }

    /// Answers a request whose head hyper has read. `context` is what the transport knows;
    /// `lengths` is the number of `Content-Length` lines in the head.
    pub(super) async fn serve(
        &self,
        context: &Context,
        request: Request<Incoming>,
        lengths: u32,
        phases: &Phases,
    ) -> Response<Full<Bytes>> {
        let (parts, incoming) = request.into_parts();
        let target = parts.uri.path_and_query();
        let target = target.map_or("", |target| target.as_str());
        let (mut fields, mut context) = (Fields::new(), context.clone());
        for (name, value) in &parts.headers {
            fields.line(name.as_str(), value.as_bytes());
        }
        context.target = Some(target.into());
        context.headers = parts.headers.clone().into();
        fields.compare_lengths(lengths);
        if parts.version == Version::HTTP_11 {
            fields.require_host();
        }
        let head = fields.head(parts.method.as_str(), target);
        let HttpConfig { connection, rules } = self.options();
        let body = match rules.judge(&connection.config, &head) {
            Verdict::Answer(answer) => return response(answer),
            Verdict::TooLarge(bytes) => Body::TooLarge(bytes),
            Verdict::Serve => {
                let mut body = pin!(read(incoming, connection.config.limits.max_message_bytes));
                let body = poll_fn(|cx| match body.as_mut().poll(cx) {
                    // All input was read up to its end, so the rest of the body never comes.
                    Poll::Pending if phases.has_ended() => Poll::Ready(Body::Broken),
                    polled => polled,
                });
                let (runtime, timeout) = (&**self.runtime(), rules.body_timeout);
                let body = until(runtime, runtime.now() + timeout, body).await;
                body.unwrap_or(Body::Late)
            }
        };
        let is_whole = matches!(body, Body::Whole(_));
        let mut answer = self.answer_body(&head, context, body).await;
        if !is_whole {
            // The end of this request, where the next one begins, was not found.
            answer.headers.push(("connection", "close".into()));
        }
        response(answer)
    }
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

/// Reads a whole body, and never holds more of it than has arrived.
async fn read(mut body: Incoming, max_bytes: usize) -> Body<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Body::Broken;
        };
        // Trailers are not used.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let bytes = whole.len() + data.len();
        if bytes > max_bytes {
            return Body::TooLarge(bytes as u64);
        }
        whole.extend_from_slice(&data);
    }
    Body::Whole(whole)
}

pub(super) fn response(answer: HttpAnswer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    let status = StatusCode::from_u16(answer.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        match HeaderValue::from_str(&value) {
            Ok(value) => {
                response.headers_mut().append(name, value);
            }
            // An answer that HTTP cannot express is a fault of this side.
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    response
}
