//! The rules of a WebSocket with JSON-RPC: its subprotocol, how to close, and how to check that the connection is
//! alive. Which clients a server accepts is set by [`WebRules`](crate::http::WebRules). An adapter reads and
//! writes frames and handshakes. Every ending has the close code of RFC 6455 clause 7.4 that reports the reason
//! to the other side.

use core::fmt;
use core::time::Duration;

use crate::event::{CloseReason, Closed, ConnectionError};
use crate::http::HttpAnswer;
use crate::keepalive::KeepAliveConfig;

/// The subprotocol that is offered and accepted.
pub const SUBPROTOCOL: &str = "jsonrpc";

/// The method of the application heartbeat that a client sends.
const HEARTBEAT_PING: &str = "ping";

/// The method of the application heartbeat that a server sends back.
const HEARTBEAT_PONG: &str = "pong";

/// Options of a WebSocket. The protocol itself is in [`Config`](crate::Config), best made by
/// [`for_websocket`](crate::Config::for_websocket). Its `max_message_bytes` limits messages, in one
/// frame or many; its `message_timeout` limits unfinished messages; its `binary` sets what happens
/// to binary messages.
///
/// ```
/// use antiphon::websocket::{Subprotocol, WebSocketRules};
/// let mut rules = WebSocketRules::new();
/// assert_eq!(rules.select(&["mqtt", "jsonrpc"]), Ok(Some("jsonrpc")));
/// rules.subprotocol = Subprotocol::Require;
/// assert_eq!(rules.select(&["mqtt"]).unwrap_err().status, 400);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebSocketRules {
    /// How the handshake treats the subprotocol `jsonrpc`. Default [`Subprotocol::Accept`].
    pub subprotocol: Subprotocol,
    /// The longest head of the handshake's request or answer, in bytes. A longer request is
    /// answered 431; a longer answer fails. Needs that much during the handshake. Default 8 KiB, as
    /// in common HTTP servers.
    pub max_header_bytes: usize,
    /// How long the handshake may take (`connect_timeout`, default 10 s), after how much silence a
    /// ping is sent (`ping_interval`, default 30 s), and how long after a ping the peer may stay
    /// silent (`pong_timeout`, default 10 s).
    pub keep_alive: KeepAliveConfig,
    /// How long to wait for the peer's close after ours. Default 5 s.
    pub close_timeout: Duration,
    /// The application heartbeat: how often a client sends the notification `ping`, which a server
    /// answers with the notification `pong`. The service sees neither of them; it sees requests
    /// named `ping`. For peers behind a proxy that does not pass on control frames. Default none:
    /// off.
    pub heartbeat: Option<Duration>,
}

/// How the handshake treats the subprotocol `jsonrpc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subprotocol {
    /// A client does not offer it, a server does not select it.
    Ignore,
    /// A client does not offer it; a server selects it if it is offered.
    Accept,
    /// A client offers it, a server selects it if it is offered; both go on without it.
    Offer,
    /// A client offers it and fails if it is not selected; a server answers 400 to a request that
    /// does not offer it.
    Require,
}

/// The kind of a notification: an application heartbeat or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// It is no heartbeat: pass it to the service.
    Deliver,
    /// It is a heartbeat, and needs no answer.
    Heard,
    /// It is a heartbeat, and is answered by this notification without params.
    Answer(&'static str),
}

impl WebSocketRules {
    /// Returns the default rules.
    pub const fn new() -> Self {
        Self {
            subprotocol: Subprotocol::Accept,
            max_header_bytes: 8 << 10,
            keep_alive: KeepAliveConfig::new(),
            close_timeout: Duration::from_secs(5),
            heartbeat: None,
        }
    }

    /// Returns the subprotocol that a server selects of those that are offered, each one entry; `None` for none.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub fn select(&self, offered: &[&str]) -> Result<Option<&'static str>, HttpAnswer> {
        let refused = |text| Err(HttpAnswer::text(400, text));
        let mut offers = offered.iter().enumerate();
        if offers.any(|(n, offer)| offered[..n].contains(offer)) {
            // RFC 6455 clause 4.1: they must all be different.
            return refused("a subprotocol is offered twice\n");
        }
        let is_offered = offered.contains(&SUBPROTOCOL);
        match self.subprotocol {
            Subprotocol::Ignore => Ok(None),
            Subprotocol::Accept | Subprotocol::Offer => Ok(is_offered.then_some(SUBPROTOCOL)),
            Subprotocol::Require if is_offered => Ok(Some(SUBPROTOCOL)),
            Subprotocol::Require => refused("the subprotocol jsonrpc must be offered\n"),
        }
    }

    /// Returns the subprotocol that a client offers.
    pub fn offered(&self) -> Option<&'static str> {
        match self.subprotocol {
            Subprotocol::Ignore | Subprotocol::Accept => None,
            Subprotocol::Offer | Subprotocol::Require => Some(SUBPROTOCOL),
        }
    }

    /// Checks the server's choice as a client. Returns the subprotocol in use.
    ///
    /// # Errors
    /// The server chose a subprotocol that was not offered, or none although it is required.
    pub fn judge_selected(
        &self,
        selected: Option<&str>,
    ) -> Result<Option<&'static str>, &'static str> {
        match (selected, self.offered()) {
            (None, _) if self.subprotocol == Subprotocol::Require => {
                Err("the server did not select the subprotocol jsonrpc")
            }
            (None, _) => Ok(None),
            (Some(selected), Some(offered)) if selected == offered => Ok(Some(offered)),
            (Some(_), _) => Err("the server selected a subprotocol that was not offered"),
        }
    }

    /// Returns what to do with a notification, which may be an application heartbeat.
    pub fn hear(&self, is_server: bool, method: &str) -> Heartbeat {
        match (self.heartbeat, is_server, method) {
            (Some(_), true, HEARTBEAT_PING) => Heartbeat::Answer(HEARTBEAT_PONG),
            (Some(_), false, HEARTBEAT_PONG) => Heartbeat::Heard,
            _ => Heartbeat::Deliver,
        }
    }

    /// Returns the notification without params that this side sends regularly, and how often.
    /// `None` for a server, and if heartbeats are off.
    pub fn own_heartbeat(&self, is_server: bool) -> Option<(&'static str, Duration)> {
        let span = self.heartbeat.filter(|_| !is_server)?;
        Some((HEARTBEAT_PING, span))
    }
}

impl Default for WebSocketRules {
    fn default() -> Self {
        Self::new()
    }
}

/// The code of a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The connection is not needed any more.
    pub const NORMAL: Self = Self(1000);
    /// The code for a side that is shutting down.
    pub const GOING_AWAY: Self = Self(1001);
    /// The other side broke a rule of WebSocket.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// A binary message.
    pub const UNSUPPORTED: Self = Self(1003);
    /// Text that is not UTF-8.
    pub const BAD_TEXT: Self = Self(1007);
    /// The other side broke a rule of JSON-RPC, or a limit that has no code of its own.
    pub const POLICY: Self = Self(1008);
    /// A message is over the limit.
    pub const TOO_BIG: Self = Self(1009);
    /// A failure of this side.
    pub const INTERNAL: Self = Self(1011);

    /// Returns the code, and a short reason, for the close frame when the connection has ended as
    /// `closed`.
    ///
    /// A server that drains or leaves is going away: 1001. A client that does so is done with the
    /// connection: 1000. Each of them is going away if its drain has timed out, because something was
    /// still open then. RFC 6455 clause 7.4.1 has both codes for both sides.
    pub const fn of(closed: Closed, is_server: bool) -> (Self, &'static str) {
        match closed {
            Closed::EndOfInput => (Self::NORMAL, ""),
            Closed::Drained => Self::of(Closed::Local(CloseReason::GoingAway), is_server),
            Closed::Local(reason) => match reason {
                CloseReason::Done => (Self::NORMAL, ""),
                CloseReason::GoingAway if is_server => (Self::GOING_AWAY, "shutting down"),
                CloseReason::GoingAway => (Self::NORMAL, ""),
                CloseReason::PeerMisbehaved => (Self::POLICY, "the rules were broken"),
                CloseReason::TransportFailed => (Self::INTERNAL, "the transport failed"),
                CloseReason::Other(_) => (Self::NORMAL, ""),
            },
            Closed::Failed(error) => match error {
                ConnectionError::Truncated | ConnectionError::Framing(_) => {
                    (Self::PROTOCOL_ERROR, "a message was cut short")
                }
                ConnectionError::MessageTimedOut => (Self::POLICY, "a message took too long"),
                ConnectionError::WriteTimedOut => (Self::POLICY, "no output was taken"),
                ConnectionError::DrainTimedOut => (Self::GOING_AWAY, "shutting down"),
                ConnectionError::OutboxFull => (Self::POLICY, "too much output waits"),
                ConnectionError::TooManyUnmatched => (Self::POLICY, "too many unknown answers"),
                ConnectionError::TooManyMalformed => (Self::POLICY, "too many invalid messages"),
            },
        }
    }

    /// Returns the code, and a short reason, for the close frame after a message over the limit.
    pub const fn after_oversize() -> (Self, &'static str) {
        (Self::TOO_BIG, "a message over the limit")
    }

    /// Returns the code, and a short reason, for the close frame when a ping was not answered.
    pub const fn after_silence() -> (Self, &'static str) {
        (Self::INTERNAL, "no answer to a ping")
    }

    /// Whether a received code means a failure, and not that the other side has finished.
    pub const fn is_failure(self) -> bool {
        // 1005 means a close frame without a code, which is no failure.
        !matches!(self.0, 1000 | 1001 | 1005)
    }

    /// Returns the meaning of a received code, for a log: the registry of RFC 6455 clause 7.4 and
    /// its ranges.
    pub const fn meaning(self) -> &'static str {
        match self.0 {
            1000 => "normal closure",
            1001 => "going away",
            1002 => "protocol error",
            1003 => "unsupported data",
            1005 => "no code was given",
            1006 => "ended without a close",
            1007 => "invalid data in a message",
            1008 => "policy violation",
            1009 => "message too big",
            1010 => "an extension is missing",
            1011 => "internal error",
            1012 => "service restart",
            1013 => "try again later",
            1014 => "bad gateway",
            1015 => "TLS failed",
            3000..=3999 => "a registered code",
            4000..=4999 => "the application's own code",
            _ => "no code of the standard",
        }
    }

    /// Whether the code is allowed in a close frame. 1004, 1005, 1006 and 1015 never are; a frame
    /// with such a code is a [`PROTOCOL_ERROR`](Self::PROTOCOL_ERROR).
    pub const fn is_sendable(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{CloseCode, Heartbeat, Subprotocol, WebSocketRules};
    use crate::event::{CloseReason, Closed, ConnectionError};
    use core::time::Duration;

    // WSK-06
    #[test]
    fn the_subprotocol_is_selected_only_if_it_was_offered() {
        let offers: [&[&str]; 3] = [&[], &["mqtt"], &["mqtt", "jsonrpc"]];
        for (subprotocol, wanted) in [
            (Subprotocol::Ignore, [Ok(None), Ok(None), Ok(None)]),
            (
                Subprotocol::Accept,
                [Ok(None), Ok(None), Ok(Some("jsonrpc"))],
            ),
            (
                Subprotocol::Offer,
                [Ok(None), Ok(None), Ok(Some("jsonrpc"))],
            ),
            (
                Subprotocol::Require,
                [Err(400), Err(400), Ok(Some("jsonrpc"))],
            ),
        ] {
            let mut rules = WebSocketRules::new();
            rules.subprotocol = subprotocol;
            for (subprotocols, wanted) in offers.into_iter().zip(wanted) {
                let selected = rules.select(subprotocols).map_err(|answer| answer.status);
                assert_eq!(selected, wanted, "{subprotocol:?} {subprotocols:?}");
            }
        }
    }

    // USE-08 WSK-06
    #[test]
    fn a_subprotocol_that_is_offered_twice_is_refused() {
        let selected = WebSocketRules::new().select(&["jsonrpc", "mqtt", "mqtt"]);
        assert_eq!(selected.map_err(|answer| answer.status), Err(400));
    }

    // WSK-06
    #[test]
    fn a_client_takes_no_subprotocol_that_it_did_not_offer() {
        for (subprotocol, none, ours) in [
            (Subprotocol::Ignore, true, false),
            (Subprotocol::Accept, true, false),
            (Subprotocol::Offer, true, true),
            (Subprotocol::Require, false, true),
        ] {
            let mut rules = WebSocketRules::new();
            rules.subprotocol = subprotocol;
            assert_eq!(rules.offered().is_some(), ours);
            assert_eq!(rules.judge_selected(None).is_ok(), none, "{subprotocol:?}");
            assert_eq!(rules.judge_selected(Some("jsonrpc")).is_ok(), ours);
            assert!(rules.judge_selected(Some("mqtt")).is_err());
        }
    }

    // WSK-11
    #[test]
    fn heartbeats_are_heard_only_where_they_are_on_and_from_the_right_side() {
        let mut rules = WebSocketRules::new();
        assert_eq!(rules.hear(true, "ping"), Heartbeat::Deliver);
        assert_eq!(rules.own_heartbeat(false), None);
        rules.heartbeat = Some(Duration::from_secs(20));
        assert_eq!(rules.hear(true, "ping"), Heartbeat::Answer("pong"));
        assert_eq!(rules.hear(false, "pong"), Heartbeat::Heard);
        for (is_server, method) in [(true, "pong"), (false, "ping"), (true, "pings")] {
            assert_eq!(rules.hear(is_server, method), Heartbeat::Deliver);
        }
        assert_eq!(rules.own_heartbeat(true), None);
        assert_eq!(
            rules.own_heartbeat(false),
            Some(("ping", Duration::from_secs(20)))
        );
    }

    // WSK-09 WSK-12 CON-09
    #[test]
    fn every_ending_has_its_code() {
        let cases = [
            (Closed::EndOfInput, 1000, 1000),
            (Closed::Drained, 1001, 1000),
            (Closed::Local(CloseReason::Done), 1000, 1000),
            (Closed::Local(CloseReason::GoingAway), 1001, 1000),
            (Closed::Local(CloseReason::PeerMisbehaved), 1008, 1008),
            (Closed::Local(CloseReason::TransportFailed), 1011, 1011),
            (Closed::Local(CloseReason::Other("x")), 1000, 1000),
            (Closed::Failed(ConnectionError::Truncated), 1002, 1002),
            (Closed::Failed(ConnectionError::MessageTimedOut), 1008, 1008),
            (Closed::Failed(ConnectionError::WriteTimedOut), 1008, 1008),
            (Closed::Failed(ConnectionError::DrainTimedOut), 1001, 1001),
            (Closed::Failed(ConnectionError::OutboxFull), 1008, 1008),
            (
                Closed::Failed(ConnectionError::TooManyUnmatched),
                1008,
                1008,
            ),
            (
                Closed::Failed(ConnectionError::TooManyMalformed),
                1008,
                1008,
            ),
        ];
        for (closed, server, client) in cases {
            assert_eq!(
                CloseCode::of(closed, true).0,
                CloseCode(server),
                "{closed:?}"
            );
            assert_eq!(
                CloseCode::of(closed, false).0,
                CloseCode(client),
                "{closed:?}"
            );
            // A control frame has room for 123 bytes after the code.
            assert!(CloseCode::of(closed, true).1.len() <= 123);
        }
        assert_eq!(CloseCode::after_oversize().0, CloseCode(1009));
        assert_eq!(CloseCode::after_silence().0, CloseCode(1011));
        assert!(!CloseCode(1001).is_failure() && CloseCode(1011).is_failure());
    }
    // WSK-09
    #[test]
    fn the_codes_are_those_of_the_standard() {
        let ours = [
            (CloseCode::NORMAL, 1000, "normal closure"),
            (CloseCode::GOING_AWAY, 1001, "going away"),
            (CloseCode::PROTOCOL_ERROR, 1002, "protocol error"),
            (CloseCode::UNSUPPORTED, 1003, "unsupported data"),
            (CloseCode::BAD_TEXT, 1007, "invalid data in a message"),
            (CloseCode::POLICY, 1008, "policy violation"),
            (CloseCode::TOO_BIG, 1009, "message too big"),
            (CloseCode::INTERNAL, 1011, "internal error"),
        ];
        for (code, number, meaning) in ours {
            assert_eq!((code.0, code.meaning()), (number, meaning));
            assert!(code.is_sendable());
        }
        // 1000 to 1003, 1007 to 1014, and 3000 to 4999.
        let sendable = (0..=u16::MAX).filter(|code| CloseCode(*code).is_sendable());
        assert_eq!(sendable.count(), 4 + 8 + 2000);
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, u16::MAX] {
            assert!(!CloseCode(code).is_sendable(), "{code}");
        }
        assert_eq!(CloseCode(4001).meaning(), "the application's own code");
        assert_eq!(CloseCode(2000).meaning(), "no code of the standard");
        for code in [0, 1002, 1003, 1006, 1009, 1011, 4001] {
            assert!(CloseCode(code).is_failure(), "{code}");
        }
        for code in [1000, 1001, 1005] {
            assert!(!CloseCode(code).is_failure(), "{code}");
        }
    }
}
