//! A service over HTTP: what answers requests.
//!
//! What a request is answered is decided by the rules of [`antiphon::http`]; here it is only read,
//! in a stated time and up to a stated size.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
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

use super::exchange::{exchange, peer};
use super::options::HttpConfig;
use super::phases::Phases;
use crate::context::Context;
use crate::options::ConnectionConfig;
use crate::runtime::{SharedRuntime, within};
use crate::service::Service;

/// A service over HTTP. Clones are the same.
///
/// A server of this crate speaks it as its protocol:
/// [`Server::start_protocol`](crate::Server::start_protocol). In a web framework, which reads
/// requests by itself, [`answer_request`](Self::answer_request) is the body of a route.
pub struct Endpoint<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    options: HttpConfig,
    service: Arc<S>,
    runtime: SharedRuntime,
    /// The options of an exchange.
    exchange: ConnectionConfig,
}

impl<S: Service> Endpoint<S> {
    /// Serves `service` over HTTP. To it every request is a connection of its own, on which it can
    /// answer but not call: [`SendError::NoPush`](antiphon::SendError::NoPush). Its handlers run
    /// until all that the request asked is answered, and are dropped if the client is gone before,
    /// or has ended its direction and the configuration's `drain_timeout` is over. `service` may
    /// be an `Arc` of one that others share.
    pub fn new(options: impl Into<HttpConfig>, service: S, runtime: SharedRuntime) -> Self {
        let options = options.into();
        let mut exchange = options.options.clone();
        exchange.config = exchange.config.for_server_exchange();
        // What wrote the request takes the reply, and has a time of its own for that.
        exchange.config.timeouts.write_timeout = None;
        Self {
            shared: Arc::new(Shared {
                exchange,
                options,
                service: Arc::new(service),
                runtime,
            }),
        }
    }

    /// The options it was made with.
    pub fn options(&self) -> &HttpConfig {
        &self.shared.options
    }

    pub(super) fn runtime(&self) -> &SharedRuntime {
        &self.shared.runtime
    }

    /// Answers a POST that another server has read: see [`answer_request`](Self::answer_request).
    pub async fn answer(&self, context: Context, body: &[u8]) -> HttpAnswer {
        self.answer_request("POST", context, body).await
    }

    /// Answers a request that another server has read, if the rules let it in. `context` is what is
    /// known of it, for the rules to judge and for the handlers to see: give it the target and
    /// **every** header. What is not in it the rules take for absent, so a page of another origin
    /// would pass for a program; without a target, the paths of the rules are not asked. Route
    /// every method here: a browser sends OPTIONS before it sends what a page of an allowed origin
    /// wants to say. Dropping the future cancels the handlers.
    pub async fn answer_request(&self, method: &str, context: Context, body: &[u8]) -> HttpAnswer {
        let seen = context.clone();
        let mut fields = Fields::new();
        for (name, value) in seen.headers.iter() {
            fields.line(name, value);
        }
        let target = seen.target.as_deref();
        let head = fields.head(method, target.unwrap_or_default());
        let HttpConfig { options, rules } = self.options();
        let verdict = match target {
            Some(_) => rules.judge(&options.config, &head),
            None => rules.judge_routed(&options.config, &head),
        };
        if let Verdict::Answer(answer) = verdict {
            return answer;
        }
        let body = match body.len() > options.config.limits.max_message_bytes {
            true => Body::TooLarge(body.len() as u64),
            false => Body::Whole(body),
        };
        self.answer_body(&head, context, body).await
    }

    /// Passes the service a report that belongs to no exchange.
    pub(super) fn report(&self, context: &Context, report: Report) {
        let Shared { service, .. } = &*self.shared;
        let peer = peer(&self.shared.exchange, context.clone(), self.runtime());
        // A panic in it has been printed; the server goes on.
        let _ = catch_unwind(AssertUnwindSafe(|| service.report(&peer, report)));
    }

    async fn answer_body<B: AsRef<[u8]>>(
        &self,
        head: &RequestHead<'_>,
        context: Context,
        body: Body<B>,
    ) -> HttpAnswer {
        let rules = &self.options().rules;
        let input = match &body {
            Body::Whole(body) => Input::message(body.as_ref()),
            Body::TooLarge(bytes) => Input::oversize(*bytes),
            Body::Late => return rules.timed_out(head),
            Body::Broken => return rules.broken(head),
        };
        let Shared {
            service, runtime, ..
        } = &*self.shared;
        let peer = peer(&self.shared.exchange, context, runtime);
        let reply = exchange(peer, service, input, runtime.timer()).await;
        match body {
            Body::Whole(_) => rules.reply(head, reply),
            _ => rules.too_large(head, reply),
        }
    }

    /// Answers a request that hyper has read the head of. `context` is what the transport knows;
    /// `lengths`, how many lines of the head named a length.
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
        let HttpConfig { options, rules } = self.options();
        let body = match rules.judge(&options.config, &head) {
            Verdict::Answer(answer) => return response(answer),
            Verdict::TooLarge(bytes) => Body::TooLarge(bytes),
            Verdict::Serve => {
                let mut body = pin!(read(incoming, options.config.limits.max_message_bytes));
                let body = poll_fn(|cx| match body.as_mut().poll(cx) {
                    // What had come in before the end has been read.
                    Poll::Pending if phases.has_ended() => Poll::Ready(Body::Broken),
                    polled => polled,
                });
                let body = within(&**self.runtime(), rules.body_timeout, body).await;
                body.unwrap_or(Body::Late)
            }
        };
        let is_whole = matches!(body, Body::Whole(_));
        let mut answer = self.answer_body(&head, context, body).await;
        if !is_whole {
            // There is no telling where the next request would begin.
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

/// What became of a body.
enum Body<B> {
    Whole(B),
    /// It has more than the limit; at least so many bytes.
    TooLarge(u64),
    /// It did not come in time.
    Late,
    /// The client is gone, or did not keep to the encoding it announced.
    Broken,
}

/// Reads a body whole, and never holds more of it than has come in.
async fn read(mut body: Incoming, max_bytes: usize) -> Body<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Body::Broken;
        };
        // Trailers say nothing that is asked for.
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
            // Rules that cannot be said in HTTP are this side's mistake.
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    response
}
