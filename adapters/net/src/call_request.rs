//! What a call says, before it is sent.

use std::borrow::Cow;
use std::time::Duration;

use antiphon::SendError;

use crate::text::Text;

/// How long a call waits for its answer, and a notification for room, if neither it nor the configuration
/// says otherwise.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// What a call says.
pub(crate) struct CallRequest<'c> {
    pub(crate) method: Cow<'c, str>,
    pub(crate) params: Result<Text, SendError>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_idempotent: bool,
    /// Sent beside it, over HTTP.
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
            timeout,
            is_idempotent: false,
            headers: Vec::new(),
        }
    }
}

/// Puts headers in place of those of their names, which are read in any case.
pub(crate) fn put_headers(all: &mut Vec<(String, String)>, headers: &[(String, String)]) {
    let is_put = |name: &str| {
        let mut names = headers.iter().map(|(put, _)| put);
        names.any(|put| put.eq_ignore_ascii_case(name))
    };
    all.retain(|(name, _)| !is_put(name));
    all.extend_from_slice(headers);
}
