//! The HTTP of clients, as values: requests, replies, URLs, errors, and what sends requests.
//!
//! | file | has |
//! |---|---|
//! | `request` | a request, and its response |
//! | `send` | sends requests, whatever the transport is |
//! | `reply` | the status and headers of a reply |
//! | `url` | the URL of requests |
//! | `error` | the ways in which HTTP fails |
//! | `words` | text of the other side, for logs |

pub(crate) mod body_text;
pub(crate) mod error;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod send;
pub(crate) mod url;

pub use error::HttpError;
pub use reply::HttpReply;
pub use request::{HttpRequest, HttpResponse, SendProgress};
pub use send::{HttpSend, HttpSending};
pub use url::HttpUrl;
