//! The calls of one HTTP client: their requests, their ids, and their outcomes.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::Poll;

use antiphon::http::{ClientExchange, ReplyError, SseReader, redirect};
use antiphon::{CallId, Collector, Config, OwnedId, OwnedOutcome, Payload, SendError};

use crate::call::batch::Entries;
use crate::call::call_error::CallError;
use crate::call::call_request::{CallRequest, put_headers};
use crate::client::config::{ClientConfig, OnReply};
use crate::client::listening::Listening;
use crate::context::Headers;
use crate::http::error::HttpError;
use crate::http::reply::Advice;
use crate::http::request::{HttpRequest, HttpResponse};
use crate::http::url::HttpUrl;
use crate::lock::Lock;
use crate::options::ConnectionConfig;
use crate::runtime::SharedRuntime;
use crate::session::Session;

/// Returns a content coding other than `identity`: the client does not accept any, and cannot read
/// JSON in it (RFC 9110 clause 8.4).
fn coding_of(headers: &Headers) -> Option<&str> {
    let codings = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-encoding"))
        .map(|(_, value)| std::str::from_utf8(value).unwrap_or("unreadable"));
    codings
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
}

/// A request that is to be sent, and the exchange of the core that reads its reply.
pub(crate) struct Started {
    on_reply: Option<Arc<OnReply>>,
    /// The request to be sent next.
    pub(crate) request: HttpRequest,
    /// A call of a batch has its name in the batch as its tag.
    exchange: Option<Box<Sent>>,
    /// Gets what the reply says about sending the call again.
    pub(crate) advice: Option<Arc<Lock<Advice>>>,
    /// The call, if its events are read; `exchange` then only says what a reply is that is no stream of events.
    listening: Option<Listening>,
    redirects: u32,
}

/// What was sent.
type Sent = ClientExchange<Option<CallId>>;

/// The media types of replies, that of answers first.
const ACCEPT: &str = "application/json, text/event-stream";

/// How many events of a stream, and how many bytes of them, are taken without a pause. Less than a reader may
/// leave waiting.
const MAX_EVENTS: usize = 16;
const MAX_EVENT_BYTES: usize = 64 << 10;

/// Lets the reader of a call's events run.
async fn pause() {
    let mut has_paused = false;
    poll_fn(|cx| match mem::replace(&mut has_paused, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// How many characters of a coding's name are kept for an error.
const MAX_CODING_CHARS: usize = 64;

impl Started {
    /// Adds headers, and replaces those of the same name.
    pub(crate) fn add_headers(&mut self, headers: &[(String, String)]) {
        if !headers.is_empty() {
            put_headers(Arc::make_mut(&mut self.request.headers), headers);
        }
    }

    /// Whether the request waits for a connection, and was never sent before.
    pub(crate) fn is_unsent(&self) -> bool {
        self.redirects == 0 && self.request.progress.is_unsent()
    }

    /// The session of a call whose events are read.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.listening
            .as_ref()
            .map(|call| Arc::clone(call.session()))
    }

    /// The outcome of a call whose events are read.
    pub(crate) async fn end(self) -> Result<OwnedOutcome, CallError> {
        match self.listening {
            Some(listening) => listening.end().await,
            None => Err(CallError::Missing),
        }
    }

    /// Takes the response, and returns the outcomes. Returns `None` after a redirect:
    /// [`request`](Self::request) then has the new URL, and must be sent again.
    ///
    /// # Errors
    /// The response is not a valid answer.
    pub(crate) async fn receive(
        &mut self,
        response: HttpResponse,
    ) -> Result<Option<Collector>, HttpError> {
        if let Some(advice) = &self.advice {
            *advice.lock() = Advice::of(response.status, &response.headers);
        }
        if let Some(on_reply) = &self.on_reply {
            on_reply(&response.head());
        }
        if let Some(coding) = coding_of(&response.headers) {
            // The name is chosen by the peer, and may have any length.
            let coding = coding.chars().take(MAX_CODING_CHARS).collect();
            return Err(HttpError::Coding(coding, response.head()));
        }
        if response.has_events() {
            return self.read_events(response).await.map(Some);
        }
        let response = response.collect(self.request.max_reply_bytes).await?;
        self.read(&response)
            .map_err(|error| response.refused(error))
    }

    /// Reads events until the calls have been answered. It pauses now and then: the reader of the call's events
    /// takes them meanwhile, and one that does not poll stops the reading of the stream.
    async fn read_events(&mut self, mut response: HttpResponse) -> Result<Collector, HttpError> {
        let mut outcomes = Collector::new();
        let mut reader = SseReader::new(self.request.max_reply_bytes);
        let mut piece = mem::take(&mut response.body);
        let exchange = self.exchange.as_ref();
        let is_asked = self.listening.is_some() || exchange.is_some_and(|sent| sent.is_asked());
        loop {
            let (mut input, mut events, mut bytes) = (&piece[..], 0, 0);
            while let Some(event) = reader.read(&mut input).map_err(|e| response.refused(e))? {
                if is_asked && event.is_message() && self.take_event(&event.data, &mut outcomes) {
                    response.take_end().await;
                    return Ok(outcomes);
                }
                (events, bytes) = (events + 1, bytes + event.data.len());
                if events >= MAX_EVENTS || bytes >= MAX_EVENT_BYTES {
                    (events, bytes) = (0, 0);
                    pause().await;
                }
            }
            if events > 0 {
                pause().await;
            }
            let why = "the stream of events ended without an answer";
            let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, why);
            piece = match response.next_piece().await? {
                Some(piece) => piece,
                None if !is_asked => return Ok(outcomes),
                None => return Err(HttpError::Lost(ended())),
            };
        }
    }

    /// Takes one message of a stream of events. Returns whether all calls have ended.
    fn take_event(&mut self, data: &[u8], outcomes: &mut Collector) -> bool {
        if let Some(listening) = &self.listening {
            return listening.receive(data);
        }
        self.exchange.as_mut().is_none_or(|exchange| {
            exchange.receive_event(data, |response| {
                let name = response.tag.unwrap_or(response.call);
                outcomes.put_copy(name, response.outcome);
            })
        })
    }

    fn read(&mut self, response: &HttpResponse) -> Result<Option<Collector>, ReplyError> {
        if let Some(location) = response.location.as_deref() {
            let (from, followed) = (self.request.url.to_string(), self.redirects);
            if let Some(url) = redirect(response.status, &from, Some(location), followed)? {
                // The URL was resolved relative to a valid one, and has the same origin.
                let refused = |_| ReplyError::Redirect {
                    status: response.status,
                    location: location.into(),
                };
                self.request.url = url.parse().map_err(refused)?;
                self.redirects += 1;
                return Ok(None);
            }
        }
        let mut outcomes = Collector::new();
        let Some(exchange) = &mut self.exchange else {
            return Ok(Some(outcomes));
        };
        let is_success = (200..300).contains(&response.status);
        if let Some(listening) = &self.listening {
            if listening.receive(&response.body) && is_success {
                return Ok(Some(outcomes));
            }
        }
        exchange.receive(response.status, &response.body, |response| {
            let name = response.tag.unwrap_or(response.call);
            outcomes.put_copy(name, response.outcome);
        })?;
        Ok(Some(outcomes))
    }
}

/// The state of one client: the server, the headers and the ids it has used. It sends nothing
/// itself.
pub(crate) struct HttpCaller {
    url: HttpUrl,
    options: ConnectionConfig,
    headers: Arc<Vec<(String, String)>>,
    on_reply: Option<Arc<OnReply>>,
    used: Lock<Used>,
    /// Of how many exchanges the memory is kept.
    max_over: usize,
}

struct Used {
    next_call: u64,
    /// Exchanges that are over, whose memory is used again.
    #[expect(
        clippy::vec_box,
        reason = "an exchange is large, and its box is used again too"
    )]
    over: Vec<Box<Sent>>,
}

impl HttpCaller {
    /// The host and the port of the server.
    pub(crate) fn server(&self) -> (&str, u16) {
        (self.url.host(), self.url.port())
    }

    /// Makes a client of the server at `url`.
    pub(crate) fn new(url: HttpUrl, options: &ClientConfig) -> Self {
        Self {
            url,
            options: options.connection.clone(),
            headers: Arc::new(options.headers.clone()),
            on_reply: options.on_reply.clone(),
            used: Lock::new(Used {
                next_call: options.connection.config.first_call,
                over: Vec::new(),
            }),
            max_over: options.max_http_connections,
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.options.config
    }

    /// Begins a call, whose id is `id` if the caller chose one.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) fn call(
        &self,
        id: Option<&OwnedId>,
        method: &str,
        params: impl Payload,
    ) -> Result<(CallId, Started), CallError> {
        self.start(|exchange| match id {
            None => exchange.call(method, params, None),
            Some(id) => exchange.call_with_id(id.as_id(), method, params, None),
        })
    }

    /// Begins a call whose events are read.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) async fn listen(
        &self,
        call: CallRequest<'_>,
        runtime: &SharedRuntime,
    ) -> Result<Started, CallError> {
        // Both are the only call of an exchange, with one id.
        let (number, mut started) = self.call(call.id.as_ref(), &call.method, ())?;
        let mut options = self.options.clone();
        options.config = options.config.for_client_exchange();
        options.config.first_call = number.number();
        let (listening, body) = Listening::begin(options, call, runtime).await?;
        (started.request.body, started.listening) = (Arc::new(body), Some(listening));
        Ok(started)
    }

    /// Begins a notification.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) fn notify(&self, method: &str, params: impl Payload) -> Result<Started, CallError> {
        let started = self.start(|exchange| exchange.notify(method, params));
        started.map(|((), started)| started)
    }

    /// Begins a batch.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) fn batch(&self, built: &Entries) -> Result<Started, CallError> {
        let started = self.start(|exchange| {
            let mut batch = exchange.batch();
            for item in built.items() {
                match item.name {
                    Some(_) => {
                        let name = item.name;
                        item.add_to(&mut batch, name)?;
                    }
                    None => batch.notify(item.method, item.params)?,
                }
            }
            batch.send().map(drop)
        });
        started.map(|((), started)| started)
    }

    /// Keeps the memory of an exchange that is over for the next one.
    pub(crate) fn keep(&self, started: Started) {
        let mut used = self.used.lock();
        if used.over.len() < self.max_over {
            used.over.extend(started.exchange);
        }
    }

    fn start<R>(
        &self,
        fill: impl FnOnce(&mut Sent) -> Result<R, SendError>,
    ) -> Result<(R, Started), CallError> {
        // If a `Serialize` panics, `next_call` has not changed.
        let mut used = self.used.lock();
        let mut config = self.options.config;
        config.first_call = used.next_call;
        let mut exchange = match used.over.pop() {
            Some(mut over) => {
                over.renew(config);
                over
            }
            // An exchange is large, so it is boxed before it is moved.
            None => Box::new(ClientExchange::new(config)),
        };
        let filled = fill(&mut exchange)?;
        used.next_call = exchange.next_call();
        drop(used);
        let request = HttpRequest {
            url: self.url.clone(),
            content_type: antiphon::http::MEDIA_TYPE,
            accept: ACCEPT,
            headers: Arc::clone(&self.headers),
            body: Arc::new(exchange.take_body()),
            max_reply_bytes: self.options.config.limits.max_message_bytes,
            timeout: None,
            progress: Arc::default(),
        };
        let started = Started {
            on_reply: self.on_reply.clone(),
            request,
            exchange: Some(exchange),
            advice: None,
            listening: None,
            redirects: 0,
        };
        Ok((filled, started))
    }
}
