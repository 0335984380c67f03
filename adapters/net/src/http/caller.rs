//! One client: what it calls, under which ids, and what came of it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use antiphon::http::{ClientExchange, ReplyError, redirect};
use antiphon::service::{Chain, Interceptor};
use antiphon::{CallId, Collector, Config, Payload, Retry, SendError};

use super::error::HttpError;
use super::reply::HttpReply;
use super::url::HttpUrl;
use super::words::first_bytes;
use crate::batch::Entries;
use crate::call_error::CallError;
use crate::call_request::DEFAULT_CALL_TIMEOUT;
use crate::call_request::put_headers;
use crate::context::Headers;
use crate::outgoing::OutgoingCall;

/// Options of an HTTP client. Made from a [`Config`] alone where the defaults
/// will do.
///
/// ```
/// use antiphon::Config;
/// use antiphon_net::http::HttpClientConfig;
/// let mut options = HttpClientConfig::from(Config::new());
/// options.headers.push(("authorization".into(), "Bearer …".into()));
/// assert!(!format!("{options:?}").contains("Bearer"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpClientConfig {
    /// The protocol. Its `max_message_bytes` is also the largest reply that is read, and its
    /// `write_timeout` how long the server may take nothing of a request.
    pub config: Config,
    /// Headers to send with every request, names in any case. One of the client's own that is
    /// named here is replaced. Default none.
    pub headers: Vec<(String, String)>,
    /// The most connections there are at once, at least one; calls beyond wait for one of them.
    /// Default 2, as RFC 2616 clause 8.1.4 had it. (Not for a sender that was handed in.)
    pub max_connections: usize,
    /// How long one attempt to connect may take. Default 10 s. (Not for a sender that was handed
    /// in.)
    pub connect_timeout: Duration,
    /// How long a connection is kept for the next request. Shorter than common servers keep
    /// theirs, so that a request rarely meets a connection that is just being closed. Default
    /// 4 s, and less where the server says `Keep-Alive: timeout=4` or less: 1 s before that time.
    /// (Not for a sender that was handed in.)
    pub idle_timeout: Duration,
    /// The longest head of a reply, in bytes. Default 16 KiB. (Not for a sender that was handed
    /// in.)
    pub max_header_bytes: usize,
    /// Called with the status and the headers of every reply, before the call ends, on the task or
    /// thread that waits for it: session ids, cookies and rate limits are found there. It must not
    /// block. Default none.
    pub on_reply: Option<OnReply>,
    /// Which calls are sent again, and after how long: those that no connection could be made for,
    /// [idempotent](crate::Call::idempotent) ones that were lost, and those whose error has one of the
    /// codes. Notifications and batches are not. Default none.
    pub retry: Option<Retry>,
    /// How long a call waits for its reply, and a notification until it is accepted, from its beginning
    /// on, unless it [says](crate::Call::timeout) otherwise. `None` waits for ever. Default 30 s.
    pub call_timeout: Option<Duration>,
    /// What sees the calls: see [`intercept`](Self::intercept).
    pub(crate) interceptors: Option<Chain<OutgoingCall>>,
}

/// Takes the head of a reply: see [`HttpClientConfig::on_reply`].
#[derive(Clone)]
pub struct OnReply(Arc<dyn Fn(&HttpReply) + Send + Sync>);

impl OnReply {
    /// Calls `take` with the head of every reply.
    pub fn new(take: impl Fn(&HttpReply) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for OnReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnReply").finish_non_exhaustive()
    }
}

impl HttpClientConfig {
    /// Takes the defaults around `config`.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            headers: Vec::new(),
            max_connections: 2,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(4),
            max_header_bytes: 16 << 10,
            on_reply: None,
            retry: None,
            call_timeout: Some(DEFAULT_CALL_TIMEOUT),
            interceptors: None,
        }
    }

    /// Has `interceptor` see every call, notification and entry of a batch that the client sends, behind
    /// those that do already, and what came of it. The attributes
    /// [`Authorization`](antiphon::service::Authorization) and [`Headers`] that it leaves are sent as
    /// headers with the request of that call, in place of the client's of these names.
    ///
    /// ```
    /// use antiphon::Config;
    /// use antiphon::service::BearerAuth;
    /// use antiphon_net::http::HttpClientConfig;
    /// let auth = BearerAuth::new(|| Ok(std::env::var("API_TOKEN").ok()));
    /// let options = HttpClientConfig::new(Config::new()).intercept(auth);
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor<OutgoingCall>) -> Self {
        self.interceptors.get_or_insert_default().push(interceptor);
        self
    }

    /// Calls `take` with the status and the headers of every reply: see
    /// [`on_reply`](Self::on_reply).
    #[must_use]
    pub fn with_on_reply(mut self, take: impl Fn(&HttpReply) + Send + Sync + 'static) -> Self {
        self.on_reply = Some(OnReply::new(take));
        self
    }
}

impl From<Config> for HttpClientConfig {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}

/// Shows the names of the headers only: their values may be secrets.
impl fmt::Debug for HttpClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpClientConfig")
            .field("headers", &headers)
            .field("max_connections", &self.max_connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// A request to be sent: always a POST.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The URL that it goes to.
    pub url: HttpUrl,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Arc<Vec<(String, String)>>,
    /// The body.
    pub body: Arc<Vec<u8>>,
    /// The largest reply that is wanted, in bytes. A larger one is refused if it comes.
    pub max_reply_bytes: usize,
    /// How much longer the call may take; `None` is for ever.
    pub timeout: Option<Duration>,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("url", &self.url)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A response that came back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The header `Location`: where a redirect leads to.
    pub location: Option<String>,
    /// The headers, as far as the sender tells them. A sender that decodes a
    /// body leaves its `Content-Encoding` out.
    pub headers: Headers,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Makes a reply that is no redirect.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            location: None,
            headers: Headers::new(),
            body: body.into(),
        }
    }
}

impl HttpResponse {
    /// Makes the error of a sender that has read this much of a reply and finds that it is larger
    /// than `max_bytes`.
    pub fn too_large(self, max_bytes: usize) -> HttpError {
        let reply = HttpReply {
            text: first_bytes(&self.body),
            status: self.status,
            headers: self.headers,
        };
        HttpError::Reply(ReplyError::TooLarge { max_bytes }, reply)
    }
}

/// Finds a content coding other than `identity`: it was not asked for, and no JSON can be read in
/// it (RFC 9110 clause 8.4).
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

/// A request on its way, and the exchange that it belongs to.
#[derive(Debug)]
pub struct Started {
    on_reply: Option<OnReply>,
    /// The request to be sent next.
    pub request: HttpRequest,
    /// `None` once the exchange is over. A call of a batch is tagged with its name in it.
    exchange: Option<Box<ClientExchange<Option<CallId>>>>,
    redirects: u32,
}

/// How many characters of a coding's name are told.
const MAX_CODING_CHARS: usize = 64;

impl Started {
    /// Has further headers sent, in place of those of the same name.
    pub(crate) fn add_headers(&mut self, headers: &[(String, String)]) {
        if !headers.is_empty() {
            put_headers(Arc::make_mut(&mut self.request.headers), headers);
        }
    }

    /// Takes the response. Gives `None` if the request must be sent again, as it stands now.
    ///
    /// # Errors
    /// The response is no answer.
    pub fn receive(&mut self, response: &HttpResponse) -> Result<Option<Collector>, HttpError> {
        let reply = || HttpReply {
            status: response.status,
            headers: response.headers.clone(),
            text: String::new(),
        };
        if let Some(OnReply(take)) = &self.on_reply {
            take(&reply());
        }
        if let Some(coding) = coding_of(&response.headers) {
            // The name comes from the peer, and may have any length.
            let coding = coding.chars().take(MAX_CODING_CHARS).collect();
            return Err(HttpError::Coding(coding, reply()));
        }
        self.read(response).map_err(|error| {
            let text = first_bytes(&response.body);
            HttpError::Reply(error, HttpReply { text, ..reply() })
        })
    }

    fn read(&mut self, response: &HttpResponse) -> Result<Option<Collector>, ReplyError> {
        if let Some(location) = response.location.as_deref() {
            let (from, followed) = (self.request.url.to_string(), self.redirects);
            if let Some(url) = redirect(response.status, &from, Some(location), followed)? {
                // It was resolved against a URL that can be asked for, and has its origin.
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
        let Some(mut exchange) = self.exchange.take() else {
            return Ok(Some(outcomes));
        };
        exchange.receive(response.status, &response.body, |response| {
            let name = response.tag.unwrap_or(response.call);
            outcomes.put_copy(name, response.outcome);
        })?;
        Ok(Some(outcomes))
    }
}

/// One client: the requests it makes, and the ids it has used. It sends nothing itself.
pub struct HttpCaller {
    url: HttpUrl,
    config: Config,
    headers: Arc<Vec<(String, String)>>,
    on_reply: Option<OnReply>,
    next_call: Mutex<u64>,
}

impl HttpCaller {
    /// The host and the port of the server.
    pub(crate) fn server(&self) -> (&str, u16) {
        (self.url.host(), self.url.port())
    }

    /// Makes a client of the server at `url`.
    pub fn new(url: HttpUrl, options: &HttpClientConfig) -> Self {
        Self {
            url,
            config: options.config,
            headers: Arc::new(options.headers.clone()),
            on_reply: options.on_reply.clone(),
            next_call: Mutex::new(options.config.first_call),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Begins a call.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn call(&self, method: &str, params: impl Payload) -> Result<(CallId, Started), CallError> {
        self.start(|exchange| exchange.call(method, params, None))
    }

    /// Begins a notification.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn notify(&self, method: &str, params: impl Payload) -> Result<Started, CallError> {
        let started = self.start(|exchange| exchange.notify(method, params));
        started.map(|((), started)| started)
    }

    /// Begins a batch.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn batch(&self, built: &Entries) -> Result<Started, CallError> {
        let started = self.start(|exchange| {
            let mut batch = exchange.batch();
            for item in built.items() {
                match item.name {
                    Some(_) => {
                        let call = batch.call::<()>(item.method, item.params, item.name);
                        call.map_err(|rejected| rejected.error)?;
                    }
                    None => batch.notify(item.method, item.params)?,
                }
            }
            batch.send().map(drop)
        });
        started.map(|((), started)| started)
    }

    fn start<R>(
        &self,
        fill: impl FnOnce(&mut ClientExchange<Option<CallId>>) -> Result<R, SendError>,
    ) -> Result<(R, Started), CallError> {
        // A `Serialize` that panics has used no number.
        let mut next_call = self
            .next_call
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut config = self.config;
        config.first_call = *next_call;
        // It is large, and handed on as it is.
        let mut exchange = Box::new(ClientExchange::new(config));
        let filled = fill(&mut exchange)?;
        *next_call = exchange.next_call();
        drop(next_call);
        let request = HttpRequest {
            url: self.url.clone(),
            content_type: antiphon::http::MEDIA_TYPE,
            headers: Arc::clone(&self.headers),
            body: Arc::new(exchange.take_body()),
            max_reply_bytes: self.config.limits.max_message_bytes,
            timeout: None,
        };
        let started = Started {
            on_reply: self.on_reply.clone(),
            request,
            exchange: Some(exchange),
            redirects: 0,
        };
        Ok((filled, started))
    }
}

impl fmt::Debug for HttpCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCaller")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
