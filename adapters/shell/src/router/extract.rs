//! Arguments of handlers that are made from the request and not from its params.

use std::mem;

use antiphon::{ErrorObject, FromCall, Internal, OwnedError, OwnedId};

use crate::context::Headers;
use crate::peer::Peer;
use crate::serve::cancellation::Cancellation;
use crate::serve::request::Request;

/// The other side of the connection.
impl<S> FromCall<Request, S> for Peer {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        Ok(request.peer())
    }
}

/// A future that is ready when the peer has cancelled the request, or the connection has ended. A
/// notification cannot be cancelled.
impl<S> FromCall<Request, S> for Cancellation {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        Ok(request.cancellation())
    }
}

/// The id as the peer wrote it. A notification has none, so its handler is not called.
impl<S> FromCall<Request, S> for OwnedId {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        request
            .id()
            .ok_or_else(|| ErrorObject::invalid_request().into_owned())
    }
}

/// A value that an interceptor has added to the attributes, or with which a web server has let the request in, as an
/// argument of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<T>(pub T);

impl<S, T: Clone + 'static> FromCall<Request, S> for Extension<T> {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        let left = request.attribute::<T>().cloned().map(Self);
        let missing = || format!("no interceptor has left a {}", std::any::type_name::<T>());
        left.ok_or_else(missing).internal()
    }
}

/// The headers that the HTTP reply is to have, as an argument of a handler; interceptors and raw methods make it of a
/// request. Those that are added after the head of a streamed reply was sent are dropped, and so are all of them
/// where there is no HTTP reply.
///
/// ```
/// use antiphon::OwnedError;
/// use antiphon_shell::{ReplyHeaders, Router};
/// let router = Router::new().method("login", [], |headers: ReplyHeaders| {
///     headers.push("set-cookie", b"session=s3cret; HttpOnly");
///     Ok::<_, OwnedError>("welcome")
/// });
/// # let _: Router = router;
/// ```
#[derive(Clone, Debug)]
pub struct ReplyHeaders(Peer);

/// The headers that say where a reply ends and what its body is. They are not the program's.
const OF_BODY: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "keep-alive",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl ReplyHeaders {
    /// The headers of the reply to a request; requests of one batch share them.
    pub fn of(request: &Request) -> Self {
        Self(request.peer())
    }

    /// Adds a header, as [`Headers::push`] does. What describes the connection or the body is not added.
    pub fn push(&self, name: &str, value: &[u8]) {
        let session = self.0.session();
        let is_own = OF_BODY.iter().any(|own| own.eq_ignore_ascii_case(name));
        if session.options().config.exchange && !is_own {
            session.reply_headers().push(name, value);
        }
    }

    /// Takes the headers that handlers have added: for adapters.
    pub fn take(peer: &Peer) -> Headers {
        mem::take(&mut peer.session().reply_headers())
    }
}

impl<S> FromCall<Request, S> for ReplyHeaders {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        Ok(Self::of(request))
    }
}
