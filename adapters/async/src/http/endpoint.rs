//! A service behind HTTP: what answers requests, whoever reads them.
//!
//! The rule guarded here: what a request is answered is decided by the rules of
//! [`antiphon::http`]; here it is only read, in a stated time and up to a stated size.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use antiphon::Input;
use antiphon::http::{Answer, MEDIA_TYPE, RequestHead, Verdict};
use antiphon_session::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::JSON;
use super::exchange::{Exchange, Exchanges};
use super::options::HttpOptions;
use crate::runtime::{SharedRuntime, within};
use crate::service::Service;

/// A service behind HTTP. Clones are the same.
///
/// A server of this crate speaks it as its protocol:
/// [`Server::start_protocol`](crate::Server::start_protocol). In a web framework, which reads
/// requests by itself, [`answer`](Self::answer) is the body of a route.
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
    /// until all that the request asked is answered, and are dropped if the client is gone before.
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

    /// Answers the body of a POST that somebody else has read, with what is known of the request
    /// for the handlers to see. Dropping the future cancels the handlers.
    pub async fn answer(&self, context: Context, body: &[u8]) -> Answer {
        let head = RequestHead::new("POST", "");
        let know = |known: &mut Context| *known = context;
        if body.len() > self.options().options.config.message_bytes_max {
            return self.too_large(&head, body.len() as u64, know).await;
        }
        self.reply(&head, body, know).await
    }

    async fn reply(
        &self,
        head: &RequestHead<'_>,
        body: &[u8],
        know: impl FnOnce(&mut Context),
    ) -> Answer {
        let reply = self.exchange(&mut Input::message(body), know).await;
        self.options().rules.reply(head, reply)
    }

    async fn too_large(
        &self,
        head: &RequestHead<'_>,
        bytes: u64,
        know: impl FnOnce(&mut Context),
    ) -> Answer {
        let reply = self.exchange(&mut Input::oversize(bytes), know).await;
        self.options().rules.too_large(head, reply)
    }

    fn exchange(&self, input: &mut Input<'_>, know: impl FnOnce(&mut Context)) -> Exchange<'_> {
        let Shared {
            service, exchanges, ..
        } = &*self.shared;
        exchanges.begin(service, input, know)
    }

    /// Answers a request that hyper has read the head of. `context` is what the transport knows.
    pub(super) async fn serve(
        &self,
        context: &Context,
        parts: &Parts,
        body: &mut Incoming,
    ) -> Response<Full<Bytes>> {
        let target = parts
            .uri
            .path_and_query()
            .map_or("", |target| target.as_str());
        let mut head = RequestHead::new(parts.method.as_str(), target);
        let (mut origins, mut content_length) = (Vec::new(), None);
        // All in one go: there are few headers, and looking for one by its name costs more.
        for (name, value) in &parts.headers {
            if name == CONTENT_TYPE {
                head.content_type = sole(head.content_type, value);
            } else if name == CONTENT_LENGTH {
                content_length = sole(content_length, value);
            } else if name == ORIGIN {
                origins.push(text(value));
            }
        }
        head.content_length = content_length.and_then(|n| n.parse().ok());
        head.origins = &origins;

        let know = |known: &mut Context| {
            known.renew(context);
            let known_target = known.target.get_or_insert_default();
            known_target.push_str(target);
            for (name, value) in &parts.headers {
                known.headers.push(name.as_str(), value.as_bytes());
            }
        };
        let answer = self.answer_request(&head, body, know).await;
        response(answer)
    }

    async fn answer_request(
        &self,
        head: &RequestHead<'_>,
        body: &mut Incoming,
        know: impl FnOnce(&mut Context),
    ) -> Answer {
        let HttpOptions { options, rules } = self.options();
        match rules.judge(&options.config, head) {
            Verdict::Answer(answer) => return answer,
            Verdict::TooLarge(bytes) => {
                return last(self.too_large(head, bytes, know).await);
            }
            Verdict::Serve => {}
        }
        let body = read(body, options.config.message_bytes_max);
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

/// A header as text; empty, which means nothing in any of ours, if it is none.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// What a header that may occur once says with this occurrence of it. Two that differ are as good as no text.
fn sole<'a>(before: Option<&'a str>, value: &'a HeaderValue) -> Option<&'a str> {
    let value = text(value);
    Some(before.map_or(value, |before| if before == value { before } else { "" }))
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

fn response(answer: Answer) -> Response<Full<Bytes>> {
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
