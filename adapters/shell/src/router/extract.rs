//! Arguments of handlers that are made from the request and not from its params.

use antiphon::{ErrorObject, FromCall, Internal, OwnedError, OwnedId};

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
