//! The checks: their ids, which never change, what each rests on, and what is right.

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// No text says so, but what follows from it is bad for others.
    Should,
    /// The text says so.
    Must,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
        }
    }
}

/// A check.
pub(crate) struct Check {
    pub(crate) id: &'static str,
    pub(crate) clause: &'static str,
    /// What is right.
    pub(crate) right: &'static str,
    /// Where it applies.
    pub(crate) on: On,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    All,
    /// Where one message stands behind another: TCP, Unix sockets, pipes.
    Stream,
    Http,
    WebSocket,
    Lsp,
    Mcp,
    /// What a client does with the messages of a server: `--client`.
    Client,
    /// Many requests at once: `--stress`.
    Stress,
    /// Messages that are made up: `--fuzz`.
    Fuzz,
    /// Made-up conversations, where a connection has more than one message.
    Talk,
}

const fn check(id: &'static str, on: On, clause: &'static str, right: &'static str) -> Check {
    Check {
        id,
        clause,
        right,
        on,
    }
}

const JR4: &str = "JSON-RPC 2.0 §4";
const JR41: &str = "JSON-RPC 2.0 §4.1";
const JR42: &str = "JSON-RPC 2.0 §4.2";
const JR5: &str = "JSON-RPC 2.0 §5";
const JR51: &str = "JSON-RPC 2.0 §5.1";
const JR6: &str = "JSON-RPC 2.0 §6";
const JSON: &str = "RFC 8259";

/// All checks, in the order in which they are reported.
#[rustfmt::skip]
pub(crate) const CHECKS: &[Check] = &[
    check("version.absent", On::All, JR4, "a request without jsonrpc is answered with -32600"),
    check("version.wrong", On::All, JR4, "a request whose jsonrpc is not \"2.0\" is answered with -32600"),
    check("id.string", On::All, JR5, "a request is answered with its own id, which is a string"),
    check("id.negative", On::All, JR5, "a request is answered with its own id, which is negative"),
    check("id.fraction", On::All, JR5, "a request is answered with its own id, which has a fraction"),
    check("id.big", On::All, JR5, "a request is answered with its own id, which is a big number, unchanged"),
    check("id.exact-text", On::All, JR5, "an id comes back as it was written, or at least with its value"),
    check("id.null", On::All, JR41, "a request whose id is null is no notification: it is answered"),
    check("id.bool", On::All, JR4, "a request whose id is true or false is answered with -32600"),
    check("id.object", On::All, JR4, "a request whose id is an object or an array is answered with -32600"),
    check("params.scalar", On::All, JR42, "a request whose params are no array or object is answered with an error"),
    check("params.null", On::All, JR42, "a request whose params are null is answered"),
    check("params.absent", On::All, JR4, "a request without params is answered"),
    check("method.unknown", On::All, JR51, "a request for an unknown method is answered with -32601"),
    check("method.missing", On::All, JR51, "a request without method is answered with -32600"),
    check("method.not-string", On::All, JR51, "a request whose method is no string is answered with -32600"),
    check("method.reserved", On::All, JR51, "a request for an unknown method that begins with rpc. is answered with -32601"),
    check("member.unknown", On::All, JR4, "a member that the specification does not know changes nothing"),
    check("member.duplicate", On::All, "RFC 8259 §4", "a message with a member twice is answered, and the server goes on"),
    check("notification.silent", On::All, JR41, "a notification is not answered"),
    check("notification.unknown-silent", On::All, JR41, "a notification for an unknown method is not answered"),
    check("notification.error-silent", On::All, JR41, "a notification that fails is not answered"),
    check("parse.syntax", On::All, JR51, "what is no JSON is answered with -32700 and the id null; what is JSON and no request, with -32600"),
    check("parse.empty", On::All, JR51, "an empty message does not end the server"),
    check("parse.utf8", On::All, "RFC 8259 §8.1", "text that is no UTF-8 is answered with an error"),
    check("parse.trailing", On::All, JSON, "text behind the message is answered with an error and the id null"),
    check("parse.depth", On::All, "RFC 8259 §9", "very deep nesting does not end the server"),
    check("parse.surrogate", On::All, "RFC 8259 §8.2", "half a surrogate pair is answered, and the server goes on"),
    check("batch.empty", On::All, JR6, "an empty batch is answered with one object: -32600, id null"),
    check("batch.invalid-element", On::All, JR6, "a batch with one invalid element is answered with an array of one -32600"),
    check("batch.all-invalid", On::All, JR6, "each invalid element of a batch has its own -32600"),
    check("batch.null-element", On::All, JR6, "null in a batch is answered with an array of one -32600"),
    check("batch.mixed", On::All, JR6, "in a batch the good requests are answered, and the bad elements each with -32600"),
    check("batch.notifications", On::All, JR6, "a batch of notifications is not answered at all"),
    check("batch.nested", On::All, JR6, "an array in a batch is an invalid element: an array of one -32600"),
    check("batch.same-id", On::All, JR6, "two requests with one id in a batch have two answers"),
    check("batch.long", On::All, JR6, "a batch of 200 requests has 200 answers, or is refused with one error"),
    check("answer.shape", On::All, JR5, "an answer has jsonrpc \"2.0\", an id, and an error with a whole code and a text"),
    check("answer.one-outcome", On::All, JR5, "an answer has either result or error"),
    check("answer.own-id", On::All, JR5, "an answer has the id of its request"),
    check("answer.once", On::All, JR5, "a request is answered once"),
    check("response.not-answered", On::All, JR5, "an answer is not answered"),
    check("recover.garbage", On::All, JR51, "after text that is no JSON the next request is answered"),
    check("recover.oversize", On::All, JR51, "after 4 MB of text that is no JSON a request is answered, over a new connection at least"),
    check("frame.split", On::Stream, "RFC 9293 §3.8", "a message that arrives in pieces is one message"),
    check("frame.case", On::Stream, "RFC 9110 §5.1", "the name of a header field has no case"),
    check("frame.no-blank", On::Stream, "RFC 9110 §5.5", "a header field needs no blank behind its colon"),
    check("frame.bytes", On::Stream, "LSP 3.17, Header Part", "the length counts bytes, not characters"),
    check("frame.twice", On::Stream, "RFC 9293 §3.8", "two messages that arrive at once are two messages"),
    check("frame.crlf", On::Stream, "RFC 8259 §2", "a carriage return before the line feed is a blank"),
    check("frame.eof-owed", On::Stream, JR5, "a request is answered although nothing comes after it"),
    check("http.get", On::Http, "RFC 9110 §15.5.6", "GET is answered with an HTTP status that says what is wrong, not with 5xx"),
    check("http.type", On::Http, "RFC 9110 §15.5.16", "application/json with a charset, in any case, is taken"),
    check("http.no-reply", On::Http, JR41, "a notification has a status of success and no body"),
    check("http.simple-post", On::Http, "Fetch, CORS-safelisted request-header", "a POST that any web page may send, text/plain, is refused"),
    check("http.rebinding", On::Http, "RFC 9110 §7.2", "on a loopback address a request with another Host and its Origin is refused"),
    check("http.two-lengths", On::Http, "RFC 9112 §6.3", "two Content-Length fields that differ are answered with 400"),
    check("http.length-and-chunked", On::Http, "RFC 9112 §6.1", "after Content-Length and chunked together the connection is closed, and chunked counts"),
    check("http.keep-alive", On::Http, "RFC 9112 §9.3", "a second request over one connection is answered"),
    check("http.closed-cancels", On::Http, "RFC 9112 §9.5", "a client that goes away does not disturb the next"),
    check("ws.binary", On::WebSocket, "RFC 6455 §5.6", "a binary message is answered or refused with a close frame"),
    check("ws.fragments", On::WebSocket, "RFC 6455 §5.4", "a message in fragments is one message"),
    check("ws.ping", On::WebSocket, "RFC 6455 §5.5.2", "a ping is answered with a pong that has its payload"),
    check("ws.utf8", On::WebSocket, "RFC 6455 §8.1", "a text message that is no UTF-8 ends the connection"),
    check("ws.close", On::WebSocket, "RFC 6455 §5.5.1", "a close frame is answered with one"),
    check("limit.depth", On::All, "RFC 8259 §9", "params nested 10,000 deep are answered, and the server goes on"),
    check("limit.size", On::All, JR5, "a request of 1 MB is answered"),
    check("limit.slow", On::All, JR5, "half a message keeps nobody else waiting"),
    check("lsp.cancelled", On::Lsp, "LSP 3.17, Cancellation Support", "a request that is cancelled is answered"),
    check("lsp.early", On::Lsp, "LSP 3.17, Initialize Request", "a request before initialize is answered with -32002"),
    check("lsp.dollar", On::Lsp, "LSP 3.17, $ Notifications and Requests", "an unknown $/ request is answered with -32601, an unknown $/ notification with nothing"),
    check("mcp.batch-refused", On::Mcp, "MCP 2025-06-18, Key Changes", "a batch is not answered with results"),
    check("mcp.cancelled", On::Mcp, "MCP 2025-06-18, Cancellation", "a cancel for no request is not answered"),
    check("stress.answered", On::Stress, JR5, "each of many requests at once is answered"),
    check("stress.once", On::Stress, JR5, "each of many requests at once is answered once"),
    check("stress.own-answer", On::Stress, JR5, "each of many requests at once is answered with its own id and with its own result"),
    check("client.late", On::Client, JR5, "a late answer is that of its own call, and later calls go on"),
    check("client.unknown", On::Client, JR5, "an answer to no call is no result, and later calls go on"),
    check("client.twice", On::Client, JR5, "a second answer changes nothing, and later calls go on"),
    check("client.out-of-order", On::Client, JR5, "each of two answers in another order than their calls goes to its own call"),
    check("client.null-id", On::Client, JR5, "an error whose id is null fails no later call"),
    check("client.both-members", On::Client, JR5, "what has result and error is no result, and later calls go on"),
    check("client.garbage", On::Client, "RFC 8259", "after text that is no JSON later calls go on, over a new connection at least"),
    check("client.split", On::Client, "RFC 9293 §3.8", "an answer that arrives in pieces is one answer"),
    check("client.called-back", On::Client, JR5, "a request of the server is answered with its own id or not at all, and later calls go on"),
    check("client.wrong-version", On::Client, JR5, "an answer whose jsonrpc is not \"2.0\" is no result, and later calls go on"),
    check("client.precision", On::Client, "RFC 8259 §6", "big integers in results and in ids of the server's requests stay as they are"),
    check("fuzz.request", On::Fuzz, JR5, "a made-up request is answered as antiphon answers it"),
    check("fuzz.notification", On::Fuzz, JR41, "a made-up notification is not answered"),
    check("fuzz.batch", On::Fuzz, JR6, "a made-up batch is answered as antiphon answers it"),
    check("fuzz.response", On::Fuzz, JR5, "a made-up answer is not answered"),
    check("fuzz.invalid", On::Fuzz, JR51, "what is no request is answered as antiphon answers it"),
    check("fuzz.conversation", On::Talk, "RFC 9293 §3.8", "messages that are answered rightly one by one are so in one stream, wherever its pieces end"),
    check("fuzz.syntax", On::Fuzz, JR51, "what is no JSON is answered with an error and the id null"),
];

/// Checks of JSON-RPC 2.0 that a dialect takes back: LSP has no batches, and ids are integers of 32 bits or
/// strings; MCP has no batches, and ids are integers or strings.
pub(crate) fn is_of(id: &str, preset: crate::args::Preset) -> bool {
    use crate::args::Preset;
    let narrow = [
        "id.fraction",
        "id.big",
        "id.null",
        "id.exact-text",
        "params.null",
    ];
    match preset {
        Preset::Strict => true,
        Preset::Lsp | Preset::Mcp => !id.starts_with("batch.") && !narrow.contains(&id),
    }
}

pub(crate) fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
