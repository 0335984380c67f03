//! Options of one side of a WebSocket.

use std::io;

use antiphon::http::WebRules;
use antiphon::service::{Authorization, BearerAuth};
use antiphon::websocket::WebSocketRules;
use tungstenite::http::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE,
};

use crate::url::WebSocketUrl;

/// The side of a WebSocket, and its rules. Debug output shows neither headers nor the URL's query,
/// because they may be secrets.
///
/// ```
/// use antiphon_websocket::WebSocketConfig;
///
/// let mut server = WebSocketConfig::server();
/// server.web.paths.push("/rpc".into());
/// server.web.origins.push("https://app.example".into());
///
/// let client = WebSocketConfig::client("ws://localhost:8080/rpc?token=s3cret")?
///     .with_header("authorization", "Bearer s3cret")?
///     .with_header("origin", "https://app.example")?;
/// assert_eq!(client.url().map(|url| url.port()), Some(8080));
/// assert!(!format!("{client:?}").contains("s3cret"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WebSocketConfig {
    /// The subprotocol, limits and timeouts.
    pub rules: WebSocketRules,
    /// Which clients a server accepts: its paths, origins and hosts.
    pub web: WebRules,
    /// The client's request; `None` for a server.
    pub(crate) request: Option<Request>,
}

/// The request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) url: WebSocketUrl,
    pub(crate) headers: HeaderMap,
    /// The source of a token for each handshake.
    pub(crate) auth: Option<BearerAuth>,
}

impl Request {
    /// Returns the headers for a handshake.
    pub(crate) fn headers(&self) -> io::Result<HeaderMap> {
        let mut headers = self.headers.clone();
        if let Some(auth) = &self.auth {
            let authorization = auth.authorization().map_err(io::Error::other)?;
            put(&mut headers, authorization)?;
        }
        Ok(headers)
    }
}

/// Replaces the `authorization` among `headers`; `None` changes nothing.
fn put(headers: &mut HeaderMap, authorization: Option<Authorization>) -> io::Result<()> {
    if let Some(authorization) = authorization {
        let value = HeaderValue::from_str(authorization.as_str());
        // An `Authorization` has only characters that HTTP allows, so this does not fail.
        let mut value = value.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(())
}

impl WebSocketConfig {
    /// Makes the options of a server, with the default rules.
    pub const fn server() -> Self {
        Self {
            rules: WebSocketRules::new(),
            web: WebRules::new(),
            request: None,
        }
    }

    /// Makes the options of a client for `url`, with the scheme `ws` or `wss`, and the default
    /// rules. It does not connect: the transport does, to the URL's host and port, over TLS for
    /// `wss`.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is not the URL of a WebSocket.
    pub fn client(url: &str) -> io::Result<Self> {
        let (url, headers) = (url.parse()?, HeaderMap::new());
        let mut client = Self::server();
        client.request = Some(Request {
            url,
            headers,
            auth: None,
        });
        Ok(client)
    }

    /// Adds a header to the client's request; others of the same name stay. A `Host` replaces that
    /// of the URL. It has no effect for a server.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if HTTP does not allow the name or value, or
    /// if the handshake itself sets this header.
    pub fn with_header(mut self, name: &str, value: impl AsRef<[u8]>) -> io::Result<Self> {
        let invalid = |what: &str| {
            let text = format!("the header {name:?} cannot be sent: {what}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("no name of a header"))?;
        let is_reserved = name.as_str().starts_with("sec-websocket-");
        if is_reserved || [CONNECTION, UPGRADE].contains(&name) {
            return Err(invalid("the handshake has its own"));
        }
        let mut value = HeaderValue::from_bytes(value.as_ref())
            .map_err(|_| invalid("a line break or control character in it"))?;
        value.set_sensitive(true);
        if name == HOST && value.to_str().is_err() {
            return Err(invalid("no host's name"));
        }
        match &mut self.request {
            Some(request) if name == HOST => drop(request.headers.insert(name, value)),
            Some(request) => drop(request.headers.append(name, value)),
            None => {}
        }
        Ok(self)
    }

    /// Gets a token from `auth` for each handshake, also after a reconnect, and sends it as
    /// `authorization`, in place of headers of that name. If there is no token, no header is added;
    /// if the source fails, the attempt to connect fails. It has no effect for a server.
    ///
    /// ```
    /// use antiphon::service::BearerAuth;
    /// use antiphon_websocket::WebSocketConfig;
    /// let auth = BearerAuth::new(|| Ok(std::env::var("API_TOKEN").ok()));
    /// let client = WebSocketConfig::client("ws://localhost:8080/rpc")?.with_auth(auth);
    /// # drop(client);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with_auth(mut self, auth: BearerAuth) -> Self {
        if let Some(request) = &mut self.request {
            request.auth = Some(auth);
        }
        self
    }

    /// Fetches the token for one handshake, and puts it into the request. A source that [has to be
    /// awaited](BearerAuth::from_async) needs this before each handshake; adapters that connect do it.
    ///
    /// # Errors
    /// Why the source has failed.
    pub async fn with_token(mut self) -> io::Result<Self> {
        if let Some(request) = &mut self.request {
            if let Some(auth) = request.auth.take() {
                let authorization = auth.fetch().await.map_err(io::Error::other)?;
                put(&mut request.headers, authorization)?;
            }
        }
        Ok(self)
    }

    /// Where a client connects to; `None` as a server.
    pub fn url(&self) -> Option<&WebSocketUrl> {
        self.request.as_ref().map(|request| &request.url)
    }

    /// The URL of a client without TLS.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the URL needs TLS;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if these are the options of a server.
    pub fn plain_url(&self) -> io::Result<&WebSocketUrl> {
        self.url_of(false, "wss needs a link over TLS")
    }

    /// The URL of a client with TLS.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the URL is without TLS;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if these are the options of a server.
    pub fn tls_url(&self) -> io::Result<&WebSocketUrl> {
        self.url_of(true, "ws is not spoken over TLS")
    }

    /// Whether it is the server's side.
    pub fn is_server(&self) -> bool {
        self.request.is_none()
    }

    /// Returns the URL of a client if it has the wanted scheme; `otherwise` is the error's text.
    fn url_of(&self, is_tls: bool, otherwise: &str) -> io::Result<&WebSocketUrl> {
        let (kind, what) = match self.url() {
            Some(url) if url.is_tls() == is_tls => return Ok(url),
            Some(_) => (io::ErrorKind::Unsupported, otherwise),
            None => (io::ErrorKind::InvalidInput, "a server does not connect"),
        };
        Err(io::Error::new(kind, what))
    }
}
