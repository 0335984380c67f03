//! The content of a call, before it is sent.

use std::borrow::Cow;
use std::time::Duration;

use antiphon::{OwnedId, SendError};

use crate::text::Text;

/// The default time that a call waits for its answer, and a notification for space in the output.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The content of a call.
pub(crate) struct CallRequest<'c> {
    pub(crate) method: Cow<'c, str>,
    pub(crate) params: Result<Text, SendError>,
    /// The id, if the caller chose one.
    pub(crate) id: Option<OwnedId>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_idempotent: bool,
    /// Headers for the call's request, over HTTP.
    pub(crate) headers: Vec<(String, String)>,
}

impl<'c> CallRequest<'c> {
    pub(crate) fn new(
        method: impl Into<Cow<'c, str>>,
        params: Result<Text, SendError>,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            method: method.into(),
            params,
            id: None,
            timeout,
            is_idempotent: false,
            headers: Vec::new(),
        }
    }
}

/// Adds headers, and replaces those of the same names. The case of names does not matter.
pub(crate) fn put_headers(all: &mut Vec<(String, String)>, headers: &[(String, String)]) {
    let is_put = |name: &str| {
        let mut names = headers.iter().map(|(put, _)| put);
        names.any(|put| put.eq_ignore_ascii_case(name))
    };
    all.retain(|(name, _)| !is_put(name));
    all.extend_from_slice(headers);
}
