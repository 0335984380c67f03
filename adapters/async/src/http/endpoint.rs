//! A service behind HTTP: what answers requests, whoever reads them.
//!
//! The rule guarded here: what a request is answered is decided by the rules of
//! [`antiphon::http`]; here it is only read, in a stated time and up to a stated size.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use antiphon::Input;
use antiphon::http::{Answer, Fields, MEDIA_TYPE, RequestHead, Verdict};
use antiphon_session::{Context, Report};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode, Version};

use super::JSON;
use super::exchange::{Exchange, Exchanges};
use super::options::HttpOptions;
use super::stream::Phases;
use crate::runtime::{SharedRuntime, within};
use crate::service::Service;

/// A service behind HTTP. Clones are the same.
///
/// A server of this crate speaks it as its protocol:
/// [`Server::start_protocol`](crate::Server::start_protocol). In a web framework, which reads
/// requests by itself, [`answer_request`](Self::answer_request) is the body of a route.
pub struct Endpoint<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    options: HttpOptions,
    service: Arc<S>,
    runtime: SharedRuntime,
    exchanges: Exchanges,
}

impl<S: Service> Endpoint<S> {
    /// Puts `service` behind HTTP. To it every request is a connection of its own, on which it can
    /// answer but not call: [`SendError::NoPush`](antiphon::SendError::NoPush). Its handlers run
    /// until all that the request asked is answered, and are dropped if the client is gone before, or has ended its direction and the configuration's `drain_time_max` is
    /// over.
    /// `service` may be an `Arc` of one that others share.
    pub fn new(options: impl Into<HttpOptions>, service: S, runtime: SharedRuntime) -> Self {
        let options = options.into();
        Self {
            shared: Arc::new(Shared {
                exchanges: Exchanges::new(&options.options, &runtime),
                options,
                service: Arc::new(service),
                runtime,
            }),
        }
    }

    /// What it was told.
    pub fn options(&self) -> &HttpOptions {
        &self.shared.options
    }

    pub(super) fn runtime(&self) -> &SharedRuntime {
        &self.shared.runtime
    }

    /// Answers a POST that somebody else has read: see [`answer_request`](Self::answer_request).
    pub async fn answer(&self, context: Context, body: &[u8]) -> Answer {
        self.answer_request("POST", context, body).await
    }

    /// Answers a request that somebody else has read, if the rules let it in. `context` is what is
    /// known of it, for the rules to judge and for the handlers to see: give it the target and
    /// **every** header. What is not in it the rules take for absent, so a page of another origin
    /// would pass for a program; without a target, the paths of the rules are not asked. Route
    /// every method here: a browser sends OPTIONS before it sends what a page of an allowed origin
    /// wants to say. Dropping the future cancels the handlers.
    pub async fn answer_request(&self, method: &str, context: Context, body: &[u8]) -> Answer {
        let seen = context.clone();
        let mut fields = Fields::new();
        for (name, value) in seen.headers.iter() {
            fields.line(name, value);
        }
        let target = seen.target.as_deref();
        let head = fields.head(method, target.unwrap_or_default());
        let know = |known: &mut Context| *known = context;
        let HttpOptions { options, rules } = self.options();
        let verdict = match target {
            Some(_) => rules.judge(&options.config, &head),
            None => rules.judge_routed(&options.config, &head),
        };
        if let Verdict::Answer(answer) = verdict {
            return answer;
        }
        if body.len() > options.config.message_bytes_max {
            return self.too_large(&head, body.len() as u64, know).await;
        }
        self.reply(&head, body, know).await
    }

    /// Tells the service of something that has to do with no exchange.
    pub(super) fn report(&self, context: &Context, report: Report) {
        let Shared {
            service, exchanges, ..
        } = &*self.shared;
        exchanges.report(service, context, report);
    }

    async fn reply(
        &self,
        head: &RequestHead<'_>,
        body: &[u8],
        know: impl FnOnce(&mut Context),
    ) -> Answer {
        let reply = self.exchange(Input::message(body), know).await;
        self.options().rules.reply(head, reply)
    }

    async fn too_large(
        &self,
        head: &RequestHead<'_>,
        bytes: u64,
        know: impl FnOnce(&mut Context),
    ) -> Answer {
        let reply = self.exchange(Input::oversize(bytes), know).await;
        self.options().rules.too_large(head, reply)
    }

    fn exchange(&self, input: Input<'_>, know: impl FnOnce(&mut Context)) -> Exchange<'_> {
        let Shared {
            service, exchanges, ..
        } = &*self.shared;
        exchanges.begin(service, input, know)
    }

    /// Answers a request that hyper has read the head of. `context` is what the transport knows;
    /// `lengths`, how many lines of the head named a length.
    pub(super) async fn serve(
        &self,
        context: &Context,
        parts: &Parts,
        lengths: u32,
        body: &mut Incoming,
        phases: &Phases,
    ) -> Response<Full<Bytes>> {
        let target = parts
            .uri
            .path_and_query()
            .map_or("", |target| target.as_str());
        let mut fields = Fields::new();
        for (name, value) in &parts.headers {
            fields.line(name.as_str(), value.as_bytes());
        }
        fields.compare_lengths(lengths);
        if parts.version == Version::HTTP_11 {
            fields.require_host();
        }
        let head = fields.head(parts.method.as_str(), target);

        let know = |known: &mut Context| {
            known.renew(context);
            let known_target = known.target.get_or_insert_default();
            known_target.push_str(target);
            for (name, value) in &parts.headers {
                known.headers.push(name.as_str(), value.as_bytes());
            }
        };
        let answer = self.answer_head(&head, body, know, phases).await;
        response(answer)
    }

    async fn answer_head(
        &self,
        head: &RequestHead<'_>,
        body: &mut Incoming,
        know: impl FnOnce(&mut Context),
        phases: &Phases,
    ) -> Answer {
        let HttpOptions { options, rules } = self.options();
        match rules.judge(&options.config, head) {
            Verdict::Answer(answer) => return answer,
            Verdict::TooLarge(bytes) => {
                return last(self.too_large(head, bytes, know).await);
            }
            Verdict::Serve => {}
        }
        let mut body = pin!(read(body, options.config.message_bytes_max));
        let body = poll_fn(|cx| match body.as_mut().poll(cx) {
            // What had come in before the end has been read.
            Poll::Pending if phases.has_ended() => Poll::Ready(Body::Broken),
            polled => polled,
        });
        match within(&**self.runtime(), rules.body_time_max, body).await {
            None => last(rules.timed_out(head)),
            Some(Body::Broken) => last(rules.broken(head)),
            Some(Body::TooLarge(bytes)) => last(self.too_large(head, bytes, know).await),
            Some(Body::Whole(body)) => self.reply(head, &body, know).await,
        }
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

/// The answer to a body that is not read to its end: there is no telling where the next request
/// would begin.
fn last(mut answer: Answer) -> Answer {
    answer.headers.push(("connection", "close".into()));
    answer
}

/// What became of a body.
enum Body {
    Whole(Bytes),
    /// It has more than the limit; at least so many bytes.
    TooLarge(u64),
    /// The client is gone, or did not keep to the encoding it announced.
    Broken,
}

/// Reads a body whole, and never holds more of it than has come in.
async fn read(body: &mut Incoming, bytes_max: usize) -> Body {
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
        if bytes > bytes_max {
            return Body::TooLarge(bytes as u64);
        }
        if whole.is_empty() && hyper::body::Body::is_end_stream(body) {
            return Body::Whole(data);
        }
        whole.extend_from_slice(&data);
    }
    Body::Whole(whole.into())
}

pub(super) fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    let status = StatusCode::from_u16(answer.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        let value = match &value {
            Cow::Borrowed(MEDIA_TYPE) => Ok(JSON.clone()),
            Cow::Borrowed(text) => {
                HeaderValue::from_maybe_shared(Bytes::from_static(text.as_bytes()))
            }
            Cow::Owned(text) => HeaderValue::from_str(text),
        };
        match value {
            // The one that nearly every answer has need not be looked up by its name.
            Ok(value) if name == "content-type" => {
                response.headers_mut().append(CONTENT_TYPE, value);
            }
            Ok(value) => {
                response.headers_mut().append(name, value);
            }
            // Rules that cannot be said in HTTP are this side's mistake.
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    response
}
