//! The status and headers of an HTTP reply, apart from the JSON-RPC answer.

use std::time::Duration;

use httpdate::parse_http_date;

use crate::context::Headers;

/// The head of a reply, as plain data.
///
/// ```
/// use antiphon_shell::http::HttpReply;
/// let mut reply = HttpReply::default();
/// reply.status = 429;
/// reply.headers.push("Retry-After", b"7");
/// assert_eq!(reply.headers.get("retry-after"), Some("7"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HttpReply {
    /// The status; 0 if there was none.
    pub status: u16,
    /// The headers.
    pub headers: Headers,
    /// In [`HttpError::Reply`](super::HttpError::Reply) the first 512 bytes of the body as text, with
    /// control characters escaped; otherwise empty.
    pub text: String,
}

impl HttpReply {
    /// How long the server asks to wait before the call is sent again: the header `Retry-After`. If it is a date,
    /// it is counted from the reply's own `Date`, so that no clock here has to be right; without one it says
    /// nothing.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers)
    }
}

fn retry_after(headers: &Headers) -> Option<Duration> {
    let asked = headers.get("retry-after")?.trim();
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that is too large is for ever.
        return Some(Duration::from_secs(asked.parse().unwrap_or(u64::MAX)));
    }
    let date = |text| parse_http_date(text).ok();
    let (until, now) = (date(asked)?, date(headers.get("date")?.trim())?);
    Some(until.duration_since(now).unwrap_or_default())
}

/// What a reply says about sending the call again.
#[derive(Clone, Copy, Default)]
pub(crate) struct Advice {
    /// 0 if there was no reply.
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
}

impl Advice {
    pub(crate) fn of(status: u16, headers: &Headers) -> Self {
        let retry_after = retry_after(headers);
        Self {
            status,
            retry_after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HttpReply;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date_from_that_of_the_reply() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (asked, date, seconds) in [
            ("7", None, Some(7)),
            (" 0 ", None, Some(0)),
            ("99999999999999999999999", None, Some(u64::MAX)),
            ("-1", None, None),
            ("1.5", None, None),
            ("", None, None),
            ("soon", Some(date), None),
            ("Sun, 06 Nov 1994 08:50:00 GMT", Some(date), Some(23)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(date), Some(0)),
            ("Sun, 06 Nov 1994 08:50:00 GMT", None, None),
            ("Sun, 06 Nov 1994 08:50:00 GMT", Some("x"), None),
        ] {
            let mut reply = HttpReply::default();
            reply.headers.push("Retry-After", asked.as_bytes());
            if let Some(date) = date {
                reply.headers.push("Date", date.as_bytes());
            }
            let waits = reply.retry_after().map(|span| span.as_secs());
            assert_eq!(waits, seconds, "{asked}");
        }
    }
}
