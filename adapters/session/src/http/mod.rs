//! A client's side of JSON-RPC over HTTP, without the HTTP: what a request holds, what its reply
//! does, and how either can fail. An adapter sends it, or any HTTP client that a program has
//! already. Ids do not repeat within a client, and a failure of the transport is never taken for the
//! peer's word.

mod caller;
mod error;
mod mock;
mod reply;
mod url;

pub use caller::{HttpCaller, HttpClientOptions, HttpRequest, HttpResponse};
pub use caller::{OnReply, Started, result_of};
pub use error::{HttpCallError, HttpError};
pub use mock::HttpMock;
pub use reply::HttpReply;
pub use url::{HttpScheme, HttpUrl};
